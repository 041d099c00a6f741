/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Ranks by MPI: a weft_transport over a program's communicator, for whatever MPI the program is compiled with.
 *
 * libweft knows no MPI, and this header is all that there is: it is compiled into the program. MPI must have been
 * initialised, at least with MPI_THREAD_FUNNELED, and is called by the thread that runs a weft_dist.
 */
#ifndef WEFT_DIST_MPI_H
#define WEFT_DIST_MPI_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "dist.h"

/* Open MPI says in a header of its own whether it takes the memory of CUDA devices. */
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Requests in blocks, which are reused. */
typedef struct weft_mpi_cell {
    MPI_Request request;
    int is_receive, bytes;
    struct weft_mpi_cell *next; /* of the free ones */
} weft_mpi_cell;

typedef struct weft_mpi_block {
    struct weft_mpi_block *next;
    weft_mpi_cell cells[64];
} weft_mpi_block;

typedef struct weft_mpi {
    MPI_Comm comm; /* a copy of the program's, so that its messages and its error handler are apart */
    weft_mpi_block *blocks;
    weft_mpi_cell *free;
} weft_mpi;

static inline weft_status weft_mpi_fail(weft_message *message, const char *what, int error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    if (message) {
        snprintf(message->text, sizeof message->text, "MPI: %s: %.180s", what, text);
    }
    return WEFT_FAILED;
}

static inline weft_mpi_cell *weft_mpi_cell_take(weft_mpi *mpi) {
    if (!mpi->free) {
        weft_mpi_block *block = (weft_mpi_block *)malloc(sizeof *block);
        if (!block) {
            return NULL;
        }
        block->next = mpi->blocks;
        mpi->blocks = block;
        for (size_t i = 0; i < sizeof block->cells / sizeof *block->cells; i++) {
            block->cells[i].next = mpi->free;
            mpi->free = &block->cells[i];
        }
    }
    weft_mpi_cell *cell = mpi->free;
    mpi->free = cell->next;
    return cell;
}

static inline void weft_mpi_cell_give(weft_mpi *mpi, weft_mpi_cell *cell) {
    cell->next = mpi->free;
    mpi->free = cell;
}

static inline weft_status weft_mpi_begin(weft_mpi *mpi, int is_receive, void *buffer, size_t bytes, int peer, int tag,
                                         void **request, weft_message *message) {
    *request = NULL;
    if (bytes == 0) {
        return WEFT_OK;
    }
    weft_mpi_cell *cell = weft_mpi_cell_take(mpi);
    if (!cell) {
        if (message) {
            snprintf(message->text, sizeof message->text, "no memory for a message by MPI");
        }
        return WEFT_NO_MEMORY;
    }
    cell->is_receive = is_receive;
    cell->bytes = (int)bytes;
    const int error = is_receive ? MPI_Irecv(buffer, (int)bytes, MPI_BYTE, peer, tag, mpi->comm, &cell->request)
                                 : MPI_Isend(buffer, (int)bytes, MPI_BYTE, peer, tag, mpi->comm, &cell->request);
    if (error != MPI_SUCCESS) {
        weft_mpi_cell_give(mpi, cell);
        return weft_mpi_fail(message, is_receive ? "a receive" : "a send", error);
    }
    *request = cell;
    return WEFT_OK;
}

static inline weft_status weft_mpi_send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag,
                                        void **request, weft_message *message) {
    return weft_mpi_begin((weft_mpi *)self, 0, (void *)(uintptr_t)buffer, bytes, to, tag, request, message);
}

static inline weft_status weft_mpi_receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag,
                                           void **request, weft_message *message) {
    return weft_mpi_begin((weft_mpi *)self, 1, buffer, bytes, from, tag, request, message);
}

static inline weft_status weft_mpi_test(void *self, void *request, int32_t *done, weft_message *message) {
    weft_mpi *mpi = (weft_mpi *)self;
    weft_mpi_cell *cell = (weft_mpi_cell *)request;
    MPI_Status status;
    int flag = 0, got = cell->bytes;
    const int error = MPI_Test(&cell->request, &flag, &status);
    *done = flag || error != MPI_SUCCESS;
    if (!*done) {
        return WEFT_OK;
    }
    if (error == MPI_SUCCESS && cell->is_receive) {
        MPI_Get_count(&status, MPI_BYTE, &got);
    }
    weft_mpi_cell_give(mpi, cell);
    if (error != MPI_SUCCESS) {
        return weft_mpi_fail(message, cell->is_receive ? "a receive" : "a send", error);
    }
    if (got != cell->bytes && message) {
        snprintf(message->text, sizeof message->text, "a message from rank %d has %d bytes, not %d as was expected",
                 status.MPI_SOURCE, got, cell->bytes);
    }
    return got == cell->bytes ? WEFT_OK : WEFT_FAILED;
}

/** A receive that nobody has begun to send for ends when it is cancelled. MPI does not take back a send. */
static inline int32_t weft_mpi_cancel(void *self, void *request) {
    weft_mpi *mpi = (weft_mpi *)self;
    weft_mpi_cell *cell = (weft_mpi_cell *)request;
    int flag = 0;
    if (cell->is_receive) {
        MPI_Cancel(&cell->request);
    }
    for (const double until = MPI_Wtime() + 0.02; !flag && MPI_Wtime() < until;) {
        flag |= MPI_Test(&cell->request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    if (!flag) {
        MPI_Request_free(&cell->request);
    }
    weft_mpi_cell_give(mpi, cell);
    return flag;
}

/** Whether this MPI says that it takes pointers to the memory of CUDA devices. One that does so and does not say it: set
 * the transport's on_device to WEFT_ANY_MEMORY. */
static inline int weft_mpi_takes_cuda(void) {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() == 1;
#else
    return 0;
#endif
}

/** Makes the transport of this process in a communicator. All its processes do so together, as MPI_Comm_dup() does.
 *
 * @param mpi        what the transport points to: valid until weft_mpi_close()
 * @param comm       the program's communicator, which weft only copies
 * @param transport  what is filled
 * @param message    null, or where to say what is wrong
 */
static inline weft_status weft_mpi_open(weft_mpi *mpi, MPI_Comm comm, weft_transport *transport, weft_message *message) {
    const weft_transport fresh = WEFT_TRANSPORT_INIT;
    int initialised = 0, rank = 0, size = 0, error;
    mpi->comm = MPI_COMM_NULL;
    mpi->blocks = NULL;
    mpi->free = NULL;
    MPI_Initialized(&initialised);
    if (!initialised) {
        if (message) {
            snprintf(message->text, sizeof message->text, "MPI is not initialised: the program does that");
        }
        return WEFT_INVALID;
    }
    if ((error = MPI_Comm_dup(comm, &mpi->comm)) != MPI_SUCCESS ||
        (error = MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN)) != MPI_SUCCESS ||
        (error = MPI_Comm_rank(mpi->comm, &rank)) != MPI_SUCCESS ||
        (error = MPI_Comm_size(mpi->comm, &size)) != MPI_SUCCESS) {
        if (mpi->comm != MPI_COMM_NULL) {
            MPI_Comm_free(&mpi->comm);
        }
        return weft_mpi_fail(message, "a communicator", error);
    }
    *transport = fresh;
    transport->self = mpi;
    transport->rank = rank;
    transport->size = size;
    transport->on_device = weft_mpi_takes_cuda() ? WEFT_ANY_MEMORY : WEFT_HOST_MEMORY;
    transport->send = weft_mpi_send;
    transport->receive = weft_mpi_receive;
    transport->test = weft_mpi_test;
    transport->cancel = weft_mpi_cancel;
    return WEFT_OK;
}

/** Releases it, when whatever uses the transport has been destroyed. */
static inline void weft_mpi_close(weft_mpi *mpi) {
    if (mpi->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&mpi->comm);
    }
    while (mpi->blocks) {
        weft_mpi_block *next = mpi->blocks->next;
        free(mpi->blocks);
        mpi->blocks = next;
    }
    mpi->free = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
