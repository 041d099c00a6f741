/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels get of a product's epilogue: plain C for the host, and CUDA for the kernels. */
#ifndef WEFT_CUDA_GEMM_EPILOGUE_PARAMS_H
#define WEFT_CUDA_GEMM_EPILOGUE_PARAMS_H

#include <weft/weft.h>

/* Rows of C whose sum a kernel leaves as one share of the sums of columns. */
enum { WEFT_GEMM_SHARE_ROWS = 16 };

/* Pointers are to device memory; null: there is none. Vectors have one behind the other for each product of a batch. */
typedef struct weft_gemm_epilogue {
    const float *scale, *row_scale, *column_scale;
    const void *bias;
    float *shares; /* (batch, ceil(rows / WEFT_GEMM_SHARE_ROWS), columns): sums of columns over so many rows */
    float alpha;
    int32_t rows, columns; /* of C */
    int32_t width;         /* columns of B */
    int32_t gate;          /* columns of B from a gate to its value; 0: not gated */
    int32_t activation;    /* a weft_activation */
    int32_t bias_dtype;    /* a weft_dtype */
} weft_gemm_epilogue;

/* The launch that adds up shares: a CTA takes so many columns, in which so many threads have every so many-th share each.
 * What they have is added in their order. */
enum { WEFT_GEMM_SUMS_COLUMNS = 32, WEFT_GEMM_SUMS_THREADS = 256 };

typedef struct weft_gemm_sums_params {
    const float *shares; /* as above */
    float *sums;         /* (batch, columns) */
    int64_t count;       /* shares of a column */
    int32_t columns;
    int32_t ctas; /* of a product */
} weft_gemm_sums_params;

#endif
