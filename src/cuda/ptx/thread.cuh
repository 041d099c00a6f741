/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers, and registers as such. */
#ifndef WEFT_CUDA_PTX_THREAD_CUH
#define WEFT_CUDA_PTX_THREAD_CUH

#include <stdint.h>

/* threadIdx.x, read anew: what is worked out from it is not kept in registers from earlier on. */
static __device__ __forceinline__ uint32_t thread_index() {
    uint32_t index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

/* The SM that runs the CTA, as the chip numbers them: not always from 0 without gaps. */
static __device__ __forceinline__ uint32_t sm_index() {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

/* A value that the compiler takes as it is. It would otherwise take sums apart, and hold their terms in registers one by
 * one. */
static __device__ __forceinline__ uint32_t settled(uint32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}

/* The same for values that are to be worked out by here, not later. */
static __device__ __forceinline__ void all_settled(int32_t &a, uint64_t &b, int32_t &c, int32_t &d, int32_t &e) {
    asm volatile("" : "+r"(a), "+l"(b), "+r"(c), "+r"(d), "+r"(e));
}

#endif
