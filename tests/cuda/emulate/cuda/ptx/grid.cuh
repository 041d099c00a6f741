/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that follow each other, on a CPU: one is over before the next begins. */
#ifndef WEFT_CUDA_PTX_GRID_CUH
#define WEFT_CUDA_PTX_GRID_CUH

#include "emulate.h"

/* Threads have copies of the parameters, so their place tells nothing. */
static inline uint64_t grid_identity(const void *) {
    return gridNumber;
}

template <class T> static inline T grid_load(const T *from) {
    return *(const volatile T *)from;
}

template <class T> static inline void grid_store(T *to, T value) {
    *(volatile T *)to = value;
}

static inline uint32_t grid_load_relaxed(const uint32_t *from) {
    emulated_pause("other CTAs, being CTA", blockIdx.x);
    return *(const volatile uint32_t *)from;
}

static inline uint32_t grid_load_acquire(const uint32_t *from) {
    return grid_load_relaxed(from);
}

static inline void grid_add_release(uint32_t *to, uint32_t value) {
    *(volatile uint32_t *)to = *(volatile uint32_t *)to + value;
    emulated_moved();
}

static inline uint4 grid_load_16(const void *from) {
    return *(const uint4 *)from;
}

static inline void grid_wait() {
}

static inline void grid_let_next() {
}

#endif
