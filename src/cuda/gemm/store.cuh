/* SPDX-License-Identifier: Apache-2.0 */
/* From sums in registers to C in memory: pieces of 16 rows x 32 columns, through the stage of the ring that is free, each
 * warp for itself. */
#ifndef WEFT_CUDA_GEMM_STORE_CUH
#define WEFT_CUDA_GEMM_STORE_CUH

#include "cuda/gemm/finish.cuh"
#include "cuda/gemm/shape.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/shared.cuh"

static __device__ __forceinline__ uint32_t portable_pack(bool bf16, float low, float high) {
    return bf16 ? pack_halves<true>(low, high) : pack_halves<false>(low, high);
}

static __device__ __forceinline__ float portable_unpack(bool bf16, uint32_t half) {
    return bf16 ? half_to_float<true>(half) : half_to_float<false>(half);
}

/* Eight columns of a row of C, whose sums are in `x`, aligned to 16 bytes. */
static __device__ __forceinline__ void portable_put_eight(const weft_portable_gemm_params &p, char *to, float (&x)[8]) {
    const bool bf16 = p.c_dtype == WEFT_BF16;
    uint4 *at = (uint4 *)to;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] *= p.alpha;
    }
    if (p.c_dtype == WEFT_FP32) {
        float4 *wide = (float4 *)to;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float *four = &x[4 * i];
            if (p.beta != 0) {
                const float4 old = wide[i];
                four[0] += p.beta * old.x;
                four[1] += p.beta * old.y;
                four[2] += p.beta * old.z;
                four[3] += p.beta * old.w;
            }
            wide[i] = make_float4(four[0], four[1], four[2], four[3]);
        }
        return;
    }
    if (p.beta != 0) {
        const uint4 old = *at;
        const uint32_t words[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] += p.beta * portable_unpack(bf16, i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xffff);
        }
    }
    *at = make_uint4(portable_pack(bf16, x[0], x[1]), portable_pack(bf16, x[2], x[3]), portable_pack(bf16, x[4], x[5]),
                     portable_pack(bf16, x[6], x[7]));
}

/* The same of fewer columns, or of a row that begins anywhere, from the sums at shared address `from`. */
static __device__ __forceinline__ void portable_put_each(const weft_portable_gemm_params &p, char *to, uint32_t from,
                                                         int count) {
    const bool bf16 = p.c_dtype == WEFT_BF16;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        uint32_t sum[1];
        shared_load(from + 4 * i, sum);
        float x = p.alpha * __uint_as_float(sum[0]);
        if (p.c_dtype == WEFT_FP32) {
            float *one = (float *)to + i;
            *one = p.beta != 0 ? x + p.beta * *one : x;
        } else {
            uint16_t *one = (uint16_t *)to + i;
            x = p.beta != 0 ? x + p.beta * portable_unpack(bf16, *one) : x;
            *one = (uint16_t)portable_pack(bf16, x, 0);
        }
    }
}

/* Stores a piece that lies at `piece` in shared memory, from row `y` and column `x` of the tile on: eight columns of a row
 * at a time. Columns of eight are swizzled, see portable_store(). */
static __device__ __forceinline__ void portable_store_piece(const weft_portable_gemm_params &p, const portable_job &job,
                                                            uint32_t piece, uint32_t y, uint32_t x) {
    const uint32_t lane = thread_index() % 32, col = x + lane % 4 * 8;
    const int columns = min(job.n_left - (int)col, 8);
#pragma unroll 1
    for (uint32_t i = lane / 4; i < 16; i += 8) {
        const uint32_t from = piece + i * 128 + (lane % 4 ^ i % 4) * 32;
        char *to = job.c + ((y + i) * p.ldc + col) * (p.c_dtype == WEFT_FP32 ? 4 : 2);
        if ((int)(y + i) < job.m_left && columns > 0) {
            if (columns == 8 && p.c_wide) {
                float eight[8], low[4], high[4];
                shared_load(from, low);
                shared_load(from + 16, high);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    eight[j] = low[j];
                    eight[4 + j] = high[j];
                }
                portable_put_eight(p, to, eight);
            } else {
                portable_put_each(p, to, from, columns);
            }
        }
    }
}

/* Puts 16 rows x 32 columns of sums to `piece` in shared memory. */
template <class S>
static __device__ __forceinline__ void portable_put_piece(uint32_t piece, float (&sums)[S::cols][4], int first) {
    const uint32_t lane = thread_index() % 32;
#pragma unroll
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t to = piece + lane / 4 * 128 + (n ^ lane / 4 % 4) * 32 + lane % 4 * 8;
        shared_store(to, {sums[first + n][0], sums[first + n][1]});
        shared_store(to + 8 * 128, {sums[first + n][2], sums[first + n][3]});
    }
}

/* The same as portable_store() of a product with an epilogue. */
template <class S>
static __device__ __forceinline__ void portable_store_fused(const weft_portable_gemm_params &p, const portable_job &job,
                                                            uint32_t stage, float (&sums)[S::rows][S::cols][4], uint32_t y,
                                                            uint32_t x) {
    const bool gated = portable_fused(p).epilogue.gate != 0;
    const uint32_t piece = stage + thread_index() / 32 * S::piece_bytes;
    constexpr int half = S::cols / 2; /* where the sums of values are */
#pragma unroll
    for (int i = 0; i < S::rows; i++) {
#pragma unroll
        for (int j = 0; j < S::cols; j += 4) {
            if (gated && j >= half) {
                continue;
            }
            portable_put_piece<S>(piece, sums[i], j);
            if (gated && j < half) {
                portable_put_piece<S>(piece + S::piece_bytes / 2, sums[i], j + half < S::cols ? j + half : 0);
            }
            __syncwarp();
            portable_finish_piece(p, job, piece, piece + S::piece_bytes / 2, y + 16 * i, (gated ? x / 2 : x) + 8 * j);
            __syncwarp();
        }
    }
}

/* Stores a warp's sums, which begin at row `y` and column `x` of the tile. `stage`: the ring's free one. */
template <class S>
static __device__ __forceinline__ void portable_store(const weft_portable_gemm_params &p, const portable_job &job,
                                                      uint32_t stage, float (&sums)[S::rows][S::cols][4], uint32_t y,
                                                      uint32_t x) {
    const uint32_t lane = thread_index() % 32, piece = stage + thread_index() / 32 * S::piece_bytes;
#pragma unroll
    for (int i = 0; i < S::rows; i++) {
#pragma unroll
        for (int j = 0; j < S::cols; j += 4) {
#pragma unroll
            for (uint32_t n = 0; n < 4; n++) {
                const uint32_t to = piece + lane / 4 * 128 + (n ^ lane / 4 % 4) * 32 + lane % 4 * 8;
                shared_store(to, {sums[i][j + n][0], sums[i][j + n][1]});
                shared_store(to + 8 * 128, {sums[i][j + n][2], sums[i][j + n][3]});
            }
            __syncwarp();
            portable_store_piece(p, job, piece, y + 16 * i, x + 8 * j);
            __syncwarp();
        }
    }
}

#endif
