/* SPDX-License-Identifier: Apache-2.0 */
/* ldmatrix: four 8 x 8 matrices of 16-bit elements from shared memory to the lanes of a warp (sm_75).
 *
 * Lane i gives the address of row i mod 8 of matrix i / 8 (16 bytes, aligned to 16); to[m] of lane i then holds elements
 * 2 (i mod 4) and 2 (i mod 4) + 1 of row i / 4 of matrix m. */
#ifndef WEFT_CUDA_PTX_LDMATRIX_CUH
#define WEFT_CUDA_PTX_LDMATRIX_CUH

#include <stdint.h>

static __device__ __forceinline__ void ldmatrix_x4(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

/* The same with each matrix transposed. */
static __device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

#endif
