/* SPDX-License-Identifier: Apache-2.0 */
/* stmatrix: four 8 x 8 matrices of 16-bit elements from the lanes of a warp to shared memory (sm_90).
 *
 * Lane i gives the address of row i mod 8 of matrix i / 8 (16 bytes, aligned to 16); from[m] of lane i holds elements
 * 2 (i mod 4) and 2 (i mod 4) + 1 of row i / 4 of matrix m: the opposite of ldmatrix. */
#ifndef WEFT_CUDA_PTX_STMATRIX_CUH
#define WEFT_CUDA_PTX_STMATRIX_CUH

#include <stdint.h>

static __device__ __forceinline__ void stmatrix_x4(uint32_t to, const uint32_t (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]),
                 "r"(from[2]), "r"(from[3])
                 : "memory");
}

/* The same, and each matrix is transposed on the way: row i of what is stored is column i of what the lanes hold. */
static __device__ __forceinline__ void stmatrix_x4_transposed(uint32_t to, const uint32_t (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

#endif
