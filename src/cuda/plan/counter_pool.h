/* SPDX-License-Identifier: Apache-2.0 */
/* Counters for launches that are captured: plain C for the host, and CUDA for the kernels.
 *
 * The host sees a captured launch once, but it may run at any time and at the same time as itself: in two executables of
 * its graph, or as a child graph in two branches. So such a launch finds its counters when it runs: its first CTA claims a
 * set, the others join it, and the last one gives it back. See counter_pool.cuh. */
#ifndef WEFT_CUDA_PLAN_COUNTER_POOL_H
#define WEFT_CUDA_PLAN_COUNTER_POOL_H

#include <stdint.h>

/* Sets of a pool: as many as a GPU has grids at a time, so that there is always one. */
enum { WEFT_POOL_SETS = 128, WEFT_POOL_COUNTERS = 3 };

typedef struct weft_counter_set {
    uint64_t counters[WEFT_POOL_COUNTERS]; /* 0 when it is claimed, and when it is given back */
    uint64_t owner;                        /* a launch: see grid_identity(); 0: none */
} weft_counter_set;

/* In device memory, all 0 at first. */
typedef struct weft_counter_pool {
    uint32_t lock; /* 1: a CTA claims a set */
    uint32_t used; /* sets from this one on were never claimed */
    uint64_t unused[3];
    weft_counter_set sets[WEFT_POOL_SETS];
} weft_counter_pool;

#endif
