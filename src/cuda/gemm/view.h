/* SPDX-License-Identifier: Apache-2.0 */
/* A product as the GPU's kernels see it: C, or its transpose, for which A and B change places. */
#ifndef WEFT_CUDA_GEMM_VIEW_H
#define WEFT_CUDA_GEMM_VIEW_H

#include <weft/weft.h>

typedef struct weft_gemm_view {
    int swapped, a_mn, b_mn; /* whether A and B are contiguous along m and n */
    int64_t m, n, lda, ldb, a_stride, b_stride;
} weft_gemm_view;

/* Whose rows lie in C one behind the other. */
weft_gemm_view weft_gemm_view_of(const weft_gemm *p);

/* The other one: whose columns do. */
weft_gemm_view weft_gemm_view_transposed(const weft_gemm *p);

#endif
