/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the kernel that measures which SMs share a side of the L2: plain C and CUDA. */
#ifndef WEFT_CUDA_L2_SIDES_PARAMS_H
#define WEFT_CUDA_L2_SIDES_PARAMS_H

#include <stdint.h>

/* Lines that are touched, and the bytes from one to the next. */
enum { WEFT_SIDES_LINES = 2048, WEFT_SIDES_STRIDE = 4096, WEFT_SIDES_MAX_SMS = 1024 };

/* What a launch counts in device memory: all 0 before it. */
typedef struct weft_sides_counts {
    uint32_t arrived;   /* CTAs that run, and from then on which one is next */
    uint32_t late;      /* 1: a CTA waited in vain for another, and all have left */
    uint64_t clocks[2]; /* of the first, of the second */
} weft_sides_counts;

/* How long a CTA waits for another, in ns: far longer than one takes. The launch is cooperative, so all run at a time. */
#define WEFT_SIDES_PATIENCE 1000000000ull

/* Passed by value. One CTA runs on each SM: the one on SM `first` reads every line, then the one on SM `second` reads every
 * line, each address coming from the line before, and both count the clocks that took. */
typedef struct weft_sides_params {
    const uint32_t *lines; /* WEFT_SIDES_LINES lines: the first word of each is the index of the next line, in words */
    weft_sides_counts *counts;
    uint32_t *sm_of_cta; /* a CTA each */
    uint32_t first, second;
} weft_sides_params;

#endif
