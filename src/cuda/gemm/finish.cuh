/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM's pieces of a product with an epilogue: from sums in shared memory to C. */
#ifndef WEFT_CUDA_GEMM_FINISH_CUH
#define WEFT_CUDA_GEMM_FINISH_CUH

#include "cuda/gemm/epilogue.cuh"
#include "cuda/gemm/shape.cuh"
#include "cuda/ptx/shared.cuh"

static __device__ __forceinline__ float portable_load_c(int32_t dtype, const void *from, int64_t at) {
    return dtype == WEFT_FP32 ? ((const float *)from)[at] : epilogue_half(dtype, ((const uint16_t *)from)[at]);
}

static __device__ __forceinline__ void portable_store_c(int32_t dtype, void *to, int64_t at, float x) {
    if (dtype == WEFT_FP32) {
        ((float *)to)[at] = x;
    } else {
        const uint32_t half = dtype == WEFT_BF16 ? pack_halves<true>(x, 0) : pack_halves<false>(x, 0);
        ((uint16_t *)to)[at] = (uint16_t)half;
    }
}

/* z of the first `count` of eight columns of a row, whose sums are at shared address `from`. `value`: columns of B that are
 * to be added. A product that is computed as its transpose has C's columns in rows. */
static __device__ __forceinline__ void portable_scale_eight(const weft_portable_gemm_params &p, int32_t batch,
                                                            uint32_t from, int32_t row, int32_t col, int32_t value,
                                                            int count, float *z) {
    const weft_gemm_epilogue &e = portable_fused(p).epilogue;
    const float all = epilogue_scale(e, batch);
    float sums[2][4];
    shared_load(from, sums[0]);
    shared_load(from + 16, sums[1]);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int32_t of_row = p.swapped ? col + i : row, of_col = (p.swapped ? row : col + i) + value;
        if (i < count) {
            z[i] =
                sums[i / 4][i % 4] * all * epilogue_row_scale(e, batch, of_row) * epilogue_column_scale(e, batch, of_col) +
                epilogue_bias(e, batch, of_col);
        } else {
            z[i] = 0;
        }
    }
}

/* Stores the first `count` of eight columns of a row, and leaves in `x` what they are before they are rounded. */
static __device__ __forceinline__ void portable_finish_eight(const weft_portable_gemm_params &p, const portable_job &job,
                                                             uint32_t gate, uint32_t value, int32_t row, int32_t col,
                                                             int count, float *x) {
    const weft_portable_gemm_fused_params &f = portable_fused(p);
    const int64_t c = job.batch * p.c_stride + row * p.ldc + col;
    const int64_t residual = job.batch * f.residual_stride + row * f.ld_residual + col;
    portable_scale_eight(p, job.batch, gate, row, col, 0, count, x);
    weft_epilogue_activate(f.epilogue.activation, 8, x);
    if (f.epilogue.gate) {
        float z[8];
        portable_scale_eight(p, job.batch, value, row, col, f.epilogue.gate, count, z);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] *= z[i];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i < count) {
            x[i] += p.beta != 0 ? p.beta * portable_load_c(p.c_dtype, p.c, c + i) : 0;
            x[i] += f.residual ? portable_load_c(p.c_dtype, f.residual, residual + i) : 0;
            portable_store_c(p.c_dtype, p.c, c + i, x[i]);
        } else {
            x[i] = 0;
        }
    }
}

/* Stores a piece, from row `y` and column `x` of the tile's C on, whose sums lie at `gate` in shared memory and, gated, at
 * `value`, in columns of eight that are swizzled as portable_put_piece() does it. Leaves its share of the sums of columns.
 */
static __device__ __forceinline__ void portable_finish_piece(const weft_portable_gemm_params &p, const portable_job &job,
                                                             uint32_t gate, uint32_t value, uint32_t y, uint32_t x) {
    const weft_gemm_epilogue &e = portable_fused(p).epilogue;
    const uint32_t lane = thread_index() % 32, at = x + lane % 4 * 8;
    const int32_t columns = min(job.n_left - (int32_t)at, 8), row = p.m - job.m_left, col = p.n - job.n_left + (int32_t)at;
    float sums[8] = {};
#pragma unroll 1
    for (uint32_t i = lane / 4; i < 16; i += 8) {
        const uint32_t from = i * 128 + (lane % 4 ^ i % 4) * 32;
        float eight[8] = {};
        if ((int32_t)(y + i) < job.m_left && columns > 0) {
            portable_finish_eight(p, job, gate + from, value + from, row + (int32_t)(y + i), col, columns, eight);
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            sums[j] += eight[j];
        }
    }
    if (!e.shares || (int32_t)y >= job.m_left) {
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
#pragma unroll
        for (int other = 4; other < 32; other *= 2) {
            sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], other);
        }
        if (lane < 4 && j < columns) {
            *epilogue_share(e, job.batch, row + (int32_t)y, col + j) = sums[j];
        }
    }
}

#endif
