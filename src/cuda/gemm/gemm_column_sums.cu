/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the shares of the sums of columns that a product has left: see epilogue_params.h. */
#include "cuda/gemm/epilogue_params.h"
#include "cuda/ptx/grid.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_GEMM_SUMS_THREADS)
    gemm_column_sums(const __grid_constant__ weft_gemm_sums_params p) {
    constexpr int columns = WEFT_GEMM_SUMS_COLUMNS, parts = WEFT_GEMM_SUMS_THREADS / columns;
    static __shared__ float sums[parts][columns];
    const int batch = blockIdx.x / p.ctas, x = threadIdx.x % columns, part = threadIdx.x / columns;
    const int64_t col = (int64_t)(blockIdx.x % p.ctas) * columns + x;
    const float *shares = p.shares + batch * p.count * p.columns;
    float sum = 0;
    grid_wait(); /* for the shares */
    if (col < p.columns) {
#pragma unroll 8
        for (int64_t i = part; i < p.count; i += parts) {
            sum += shares[i * p.columns + col];
        }
    }
    sums[part][x] = sum;
    __syncthreads();
    if (part == 0 && col < p.columns) {
        for (int i = 1; i < parts; i++) {
            sum += sums[i][x];
        }
        p.sums[(int64_t)batch * p.columns + col] = sum;
    }
}
