/* stmatrix on a CPU. */
#ifndef WEFT_CUDA_PTX_STMATRIX_CUH
#define WEFT_CUDA_PTX_STMATRIX_CUH

#include "cuda/ptx/shared.cuh"

static inline void stmatrix_x4(uint32_t to, const uint32_t (&from)[4]) {
    for (int m = 0; m < 4; m++) { /* the lane that has the row's address */
        const uint32_t row = __shfl_sync(0xffffffffu, to, (int)(8 * m + emulated_thread() % 32 / 4));
        emulated_write(row + emulated_thread() % 4 * 4, &from[m], sizeof from[m]);
    }
}

#endif
