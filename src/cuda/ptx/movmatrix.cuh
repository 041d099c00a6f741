/* SPDX-License-Identifier: Apache-2.0 */
/* movmatrix: an 8 x 8 matrix of 16-bit elements that the lanes of a warp hold, transposed (sm_75).
 *
 * Lane i gives elements 2 (i mod 4) and 2 (i mod 4) + 1 of row i / 4, and gets those of the transposed matrix. */
#ifndef WEFT_CUDA_PTX_MOVMATRIX_CUH
#define WEFT_CUDA_PTX_MOVMATRIX_CUH

#include <stdint.h>

static __device__ __forceinline__ uint32_t movmatrix_transposed(uint32_t from) {
    uint32_t to;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(from));
    return to;
}

#endif
