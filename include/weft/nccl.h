/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Ranks by NCCL: a weft_transport between GPUs over a communicator of NCCL.
 *
 * NCCL is looked for at run time: libnccl.so.2, or what the variable WEFT_NCCL_LIBRARY names; 2.14 or newer. libweft does
 * not need it, and without it these functions return WEFT_NOT_FOUND.
 */
#ifndef WEFT_NCCL_H
#define WEFT_NCCL_H

#include "dist.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A communicator that weft talks over. */
typedef struct weft_nccl weft_nccl;

/** What the ranks of a new communicator have in common: an ncclUniqueId. */
typedef struct weft_nccl_id {
    char bytes[128];
} weft_nccl_id;

typedef struct weft_nccl_options {
    size_t struct_size;        /**< set by WEFT_NCCL_OPTIONS_INIT */
    const weft_device *device; /**< the GPU: null is the first. Ranks have one each */
    void *comm; /**< an ncclComm_t of the program's, which is only borrowed: nobody else uses it while a weft_dist runs. A
                     blocking one may wait for a lost rank in a call, where no time limit counts */
    const weft_nccl_id *id; /**< or null, and this one, for a new communicator of these ranks */
    int32_t rank, size;     /**< with an id: this rank, of so many */
    const weft_transport
        *words;     /**< null, or a transport of the host's memory between the same ranks: see weft_transport */
    double seconds; /**< that a new communicator waits for all ranks; 0: 60 */
} weft_nccl_options;

#define WEFT_NCCL_OPTIONS_INIT                                                                                             \
    { sizeof(weft_nccl_options), NULL, NULL, NULL, 0, 1, NULL, 0.0 }

/** Makes an id, at one rank; the program brings it to the others. */
WEFT_API weft_status weft_nccl_id_make(weft_nccl_id *id, weft_message *message);

/** Makes the transport of this rank: with an id all ranks do so together, and one that does not come is waited for until
 * the time limit.
 *
 * @param nccl       what the transport points to: valid until weft_nccl_close()
 * @param options    a communicator, or an id
 * @param transport  what is filled: WEFT_TRANSPORT_INIT
 * @param message    null, or where to say what is wrong
 */
WEFT_API weft_status weft_nccl_open(weft_nccl **nccl, const weft_nccl_options *options, weft_transport *transport,
                                    weft_message *message);

/** Releases it, when whatever uses the transport has been destroyed. A communicator of its own ends with it. */
WEFT_API void weft_nccl_close(weft_nccl *nccl);

/** 1 when a run has failed and the communicator was aborted for it, since nothing else ends what waits on the GPU for a
 * rank that is lost. One that was borrowed must then neither be used nor destroyed. */
WEFT_API int32_t weft_nccl_is_aborted(const weft_nccl *nccl);

/** Which NCCL it is: 22105 is 2.21.5. */
WEFT_API weft_status weft_nccl_version(int32_t *version, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
