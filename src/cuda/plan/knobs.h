/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a kernel, weft_device.kernel: a family, then options after a colon, separated by commas, as in
 * "study", "study:precise,ctas=2" or, of any family, ":ctas=1". Options are for studies; without them everything is as fast
 * as it can be. */
#ifndef WEFT_CUDA_PLAN_KNOBS_H
#define WEFT_CUDA_PLAN_KNOBS_H

#include <weft/weft.h>

typedef struct weft_cuda_knobs {
    int32_t precise;          /* 1: exponentials keep denormals and divisions are exact; 0: fast ones */
    int32_t mask_every_block; /* 1: the mask is tested in every block of keys; 0: only where it can matter */
    int32_t no_prefetch;      /* 1: a block of keys is loaded when it is needed; 0: ahead of that */
    int32_t keep_keys; /* 1: the L2 keeps keys that are read once as it keeps other data; 0: it gives them up first */
    int32_t ctas;      /* CTAs that share an SM, at most WEFT_CUDA_MAX_CTAS; 0: as many as fit */
} weft_cuda_knobs;

enum { WEFT_CUDA_MAX_CTAS = 32 };

/* Reads a specification; null is the empty one. The family is the first *family characters; 0: any. Whether there is such a
 * family is not asked. WEFT_INVALID, with what there is, when an option is unknown, given twice or has a bad number. */
weft_status weft_cuda_knobs_read(const char *text, weft_cuda_knobs *knobs, size_t *family, weft_message *message);

/* For families that have none of the options: WEFT_UNSUPPORTED where one is asked for. */
weft_status weft_cuda_knobs_refuse(const weft_cuda_knobs *knobs, weft_message *why);

/* Writes a specification in its normal form: the same text for all that mean the same, "" for the empty one. One that
 * cannot be read is written as it is. At most `size` bytes with the final null. */
void weft_cuda_knobs_normalize(const char *text, char *normal, size_t size);

#endif
