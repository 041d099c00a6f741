/* SPDX-License-Identifier: Apache-2.0 */
/* How the lines of A, B and C lie in memory, for kernels that copy them in units of bytes. */
#ifndef WEFT_CUDA_GEMM_LINES_H
#define WEFT_CUDA_GEMM_LINES_H

#include "cuda/gemm/view.h"

typedef struct weft_gemm_lines {
    int64_t lda, ldb;       /* elements from one line to the next; 0 where there is but one */
    int32_t a_unit, b_unit; /* bytes of a line that can be copied at a time: 16, 4 or 2 */
    int32_t c_wide;         /* 1: lines of C begin at multiples of 16 bytes */
    int whole;              /* 1: lines of A and B begin and end at such */
} weft_gemm_lines;

weft_gemm_lines weft_gemm_lines_of(const weft_gemm *p, const weft_gemm_view *view);

#endif
