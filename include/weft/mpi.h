/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Ranks by MPI, for who is compiled without it: libweft_mpi, a small library that a program loads at run time.
 *
 * A program that is itself compiled with MPI needs only weft/dist_mpi.h. This is for what meets MPI at run time: the
 * command, Python (with mpi4py), plug-ins. libweft_mpi is there where weft was built beside an MPI, and is bound to that
 * one.
 */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include "dist.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A communicator that weft talks over. */
typedef struct weft_mpi_ranks weft_mpi_ranks;

/** Makes the transport of this process in a communicator. All its processes do so together.
 *
 * @param ranks      what the transport points to: valid until weft_mpi_ranks_close()
 * @param comm       where an MPI_Comm is: in C &comm, in Python MPI._addressof(comm). It is copied. Null: MPI_COMM_WORLD;
 * MPI is initialised if nobody has done so
 * @param transport  what is filled: WEFT_TRANSPORT_INIT
 * @param message    null, or where to say what is wrong
 */
WEFT_API weft_status weft_mpi_ranks_open(weft_mpi_ranks **ranks, const void *comm, weft_transport *transport,
                                         weft_message *message);

/** Releases it, when whatever uses the transport has been destroyed; with the other ranks, unless one has failed. */
WEFT_API void weft_mpi_ranks_close(weft_mpi_ranks *ranks);

/** Ends MPI if weft_mpi_ranks_open() has initialised it: before the program ends, together with the other ranks. */
WEFT_API void weft_mpi_finish(void);

/** Which MPI it is: what MPI_Get_library_version() says. Another MPI's communicators are of no use here. */
WEFT_API const char *weft_mpi_library_version(void);

#ifdef __cplusplus
}
#endif

#endif
