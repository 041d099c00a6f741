/* SPDX-License-Identifier: Apache-2.0 */
/* The combine kernel's parameters: plain C for the host, and CUDA for the kernel.
 *
 * A CTA takes tiles of rows, in the plan's order. A thread has one chunk of a row at a time: it weighs the terms by their
 * LSEs and adds the chunk of each, in their order: what O held, if that counts, and the parts. */
#ifndef WEFT_CUDA_COMBINE_PARAMS_H
#define WEFT_CUDA_COMBINE_PARAMS_H

#include <weft/weft.h>

enum {
    WEFT_COMBINE_THREADS = 128,
    WEFT_COMBINE_ROWS = 16, /* of a tile: with head dim 128 two chunks for each thread */
    WEFT_COMBINE_CHUNK = 8, /* elements of a chunk, where everything is aligned to 16 bytes; else 1 */
};

/* Passed by value; pointers are to device memory. A grid of any size. */
typedef struct weft_combine_params {
    const void *parts[WEFT_MOST_PARTS];
    const float *lses[WEFT_MOST_PARTS];
    void *o;
    float *lse; /* or null; in a sum null */
    weft_strides part_strides, o_strides;
    weft_order order; /* of tiles, which are its columns */
    int64_t rows;     /* batch by batch, head by head */
    int64_t lse_stride;
    weft_divisor by_seq, by_heads, by_chunks;
    int32_t count;          /* of parts */
    int32_t dtype, o_dtype; /* weft_dtype */
    int32_t chunk;          /* WEFT_COMBINE_CHUNK or 1 */
    int32_t into, sum;      /* as in a weft_combine */
} weft_combine_params;

#endif
