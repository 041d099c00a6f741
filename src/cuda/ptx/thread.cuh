/* Special registers. */
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

#endif
