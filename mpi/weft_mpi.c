/* SPDX-License-Identifier: Apache-2.0 */
/* libweft_mpi: dist_mpi.h, compiled for programs that are not. */
#include <weft/dist_mpi.h>
#include <weft/mpi.h>

struct weft_mpi_ranks {
    weft_mpi mpi;
};

static int is_ours; /* 1: MPI was initialised here */

static weft_status fail(weft_message *message, weft_status status, const char *text) {
    if (message) {
        snprintf(message->text, sizeof message->text, "%s", text);
    }
    return status;
}

static weft_status initialise(weft_message *message) {
    int initialised = 0, finalised = 0, level = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (finalised) {
        return fail(message, WEFT_INVALID, "MPI has been finalised: no communicator is left");
    }
    if (!initialised) {
        const int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
        if (error != MPI_SUCCESS) {
            return weft_mpi_fail(message, "its initialisation", error);
        }
        is_ours = 1;
    }
    return WEFT_OK;
}

weft_status weft_mpi_ranks_open(weft_mpi_ranks **ranks, const void *comm, weft_transport *transport,
                                weft_message *message) {
    if (!ranks || !transport || transport->struct_size < sizeof *transport) {
        return fail(message, WEFT_INVALID, "ranks or transport is null, or transport is not WEFT_TRANSPORT_INIT");
    }
    *ranks = NULL;
    weft_status status = initialise(message);
    if (status) {
        return status;
    }
    weft_mpi_ranks *r = calloc(1, sizeof *r);
    if (!r) {
        return fail(message, WEFT_NO_MEMORY, "no memory for ranks by MPI");
    }
    status = weft_mpi_open(&r->mpi, comm ? *(const MPI_Comm *)comm : MPI_COMM_WORLD, transport, message);
    if (status) {
        free(r);
        return status;
    }
    *ranks = r;
    return WEFT_OK;
}

void weft_mpi_ranks_close(weft_mpi_ranks *ranks) {
    int finalised = 0;
    if (!ranks) {
        return;
    }
    MPI_Finalized(&finalised);
    if (finalised) {
        ranks->mpi.comm = MPI_COMM_NULL; /* it went with MPI */
    }
    weft_mpi_close(&ranks->mpi);
    free(ranks);
}

void weft_mpi_finish(void) {
    int finalised = 0;
    MPI_Finalized(&finalised);
    if (is_ours && !finalised) {
        MPI_Finalize();
    }
}

const char *weft_mpi_library_version(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    return text;
}
