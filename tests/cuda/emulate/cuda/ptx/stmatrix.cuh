/* SPDX-License-Identifier: Apache-2.0 */
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

static inline void stmatrix_x4_transposed(uint32_t to, const uint32_t (&from)[4]) {
    const uint32_t lane = emulated_thread() % 32;
    for (int i = 0; i < 8; i++) { /* element i % 2 of matrix i / 2 */
        const uint32_t row = __shfl_sync(0xffffffffu, to, (int)(8 * (i / 2) + lane % 4 * 2 + i % 2));
        const uint16_t element = (uint16_t)(from[i / 2] >> 16 * (i % 2));
        emulated_write(row + lane / 4 * 2, &element, sizeof element);
    }
}

#endif
