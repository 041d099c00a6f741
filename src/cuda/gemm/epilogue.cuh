/* SPDX-License-Identifier: Apache-2.0 */
/* The epilogue of a product in kernels: what both of them load. */
#ifndef WEFT_CUDA_GEMM_EPILOGUE_CUH
#define WEFT_CUDA_GEMM_EPILOGUE_CUH

#include "cuda/gemm/epilogue_params.h"
#include "cuda/ptx/math.cuh"
#include "problem/epilogue.h"

static __device__ __forceinline__ float epilogue_half(int32_t dtype, uint32_t half) {
    return dtype == WEFT_BF16 ? half_to_float<true>(half) : half_to_float<false>(half);
}

/* alpha and the product's scale. */
static __device__ __forceinline__ float epilogue_scale(const weft_gemm_epilogue &e, int32_t batch) {
    return e.scale ? e.alpha * e.scale[batch] : e.alpha;
}

static __device__ __forceinline__ float epilogue_row_scale(const weft_gemm_epilogue &e, int32_t batch, int32_t row) {
    return e.row_scale && row < e.rows ? e.row_scale[(int64_t)batch * e.rows + row] : 1;
}

/* Of one column of B. */
static __device__ __forceinline__ float epilogue_column_scale(const weft_gemm_epilogue &e, int32_t batch, int32_t col) {
    return e.column_scale && col < e.width ? e.column_scale[(int64_t)batch * e.width + col] : 1;
}

static __device__ __forceinline__ float epilogue_bias(const weft_gemm_epilogue &e, int32_t batch, int32_t col) {
    if (!e.bias || col >= e.width) {
        return 0;
    }
    const int64_t at = (int64_t)batch * e.width + col;
    return e.bias_dtype == WEFT_FP32 ? ((const float *)e.bias)[at]
                                     : epilogue_half(e.bias_dtype, ((const uint16_t *)e.bias)[at]);
}

/* The same of two neighbouring columns, of which the first and B's number of columns are even. */
static __device__ __forceinline__ void epilogue_two_scales(const weft_gemm_epilogue &e, int32_t batch, int32_t col,
                                                           float *to) {
    to[0] = to[1] = 1;
    if (e.column_scale && col < e.width) {
        const float2 two = *(const float2 *)(e.column_scale + ((int64_t)batch * e.width + col));
        to[0] = two.x;
        to[1] = two.y;
    }
}

static __device__ __forceinline__ void epilogue_two_biases(const weft_gemm_epilogue &e, int32_t batch, int32_t col,
                                                           float *to) {
    to[0] = to[1] = 0;
    if (!e.bias || col >= e.width) {
        return;
    }
    const int64_t at = (int64_t)batch * e.width + col;
    if (e.bias_dtype == WEFT_FP32) {
        const float2 two = *(const float2 *)((const float *)e.bias + at);
        to[0] = two.x;
        to[1] = two.y;
    } else {
        const uint32_t two = *(const uint32_t *)((const uint16_t *)e.bias + at);
        to[0] = epilogue_half(e.bias_dtype, two & 0xffff);
        to[1] = epilogue_half(e.bias_dtype, two >> 16);
    }
}

/* Where a share of a column's sum goes: the one of `row` and those behind it. */
static __device__ __forceinline__ float *epilogue_share(const weft_gemm_epilogue &e, int32_t batch, int32_t row,
                                                        int32_t col) {
    const int64_t shares = (e.rows + WEFT_GEMM_SHARE_ROWS - 1) / WEFT_GEMM_SHARE_ROWS;
    return e.shares + ((batch * shares + row / WEFT_GEMM_SHARE_ROWS) * e.columns + col);
}

#endif
