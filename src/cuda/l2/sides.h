/* SPDX-License-Identifier: Apache-2.0 */
/* Which SMs share a side of the L2, measured. */
#ifndef WEFT_CUDA_L2_SIDES_H
#define WEFT_CUDA_L2_SIDES_H

#include "cuda/driver/driver.h"
#include "cuda/l2/sides_params.h"

/* The L2 sides of a GPU, measured. Latencies are mean cycles of one SM over all lines. */
typedef struct weft_cuda_sides {
    int sides; /* 1 or 2 */
    int sms;
    int members[2];                         /* SMs of each side */
    double low[2], high[2];                 /* the least and the largest latency in each group */
    double mean[2];                         /* of each group */
    double dram;                            /* the first touch, after a flush */
    uint32_t sm[WEFT_SIDES_MAX_SMS];        /* the SMs' numbers, ascending */
    double latency[WEFT_SIDES_MAX_SMS];     /* of each */
    unsigned char side[WEFT_SIDES_MAX_SMS]; /* of each */
} weft_cuda_sides;

/* Measures: SM after SM reads lines that the first one has just read. Takes about a second, and the whole GPU.
 * WEFT_UNSUPPORTED when that is not to be had, because other work holds SMs, within some seconds. */
weft_status weft_cuda_sides_measure(const weft_cuda_driver *driver, const weft_cuda_device *device, weft_cuda_sides *sides,
                                    weft_message *message);

/* Sorts the SMs of `sides` into groups by their latencies: two where a gap stands out, else one. */
void weft_cuda_sides_group(weft_cuda_sides *sides);

#endif
