/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers on a CPU. */
#ifndef WEFT_CUDA_PTX_THREAD_CUH
#define WEFT_CUDA_PTX_THREAD_CUH

#include "emulate.h"

static inline uint32_t thread_index() {
    return emulated_thread();
}

/* Every CTA has an SM of its own. */
static inline uint32_t sm_index() {
    return blockIdx.x;
}

static inline uint32_t settled(uint32_t value) {
    return value;
}

static inline void all_settled(int32_t &, uint64_t &, int32_t &, int32_t &, int32_t &) {
}

#endif
