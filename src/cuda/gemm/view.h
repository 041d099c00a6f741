/* A product as the GPU's kernels see it: with a row-major C. A column-major one is its transpose, and A and B change
 * places. */
#ifndef WEFT_CUDA_GEMM_VIEW_H
#define WEFT_CUDA_GEMM_VIEW_H

#include <weft/weft.h>

typedef struct weft_gemm_view {
    int swapped, a_mn, b_mn; /* whether A and B are contiguous along m and n */
    int64_t m, n, lda, ldb, a_stride, b_stride;
} weft_gemm_view;

weft_gemm_view weft_gemm_view_of(const weft_gemm *p);

#endif
