/* SPDX-License-Identifier: Apache-2.0 */
/* A warp's part of a leaf: scores, weights and sums of its keys. Products have keys, or the output's columns, as the long
 * side and the rows of queries as the narrow one, so that none of it is wasted on few queries. */
#ifndef WEFT_CUDA_DECODE_SWEEP_CUH
#define WEFT_CUDA_DECODE_SWEEP_CUH

#include "cuda/decode/load.cuh"

/* The two rows of each side that a lane has: rows 8 side + 2 (lane mod 4) + 0 and 1. */
template <class S> struct decode_rows {
    int begin[2 * S::sides], end[2 * S::sides]; /* keys that they see */
    float slope[2 * S::sides];                  /* to base 2 */
    float at[2 * S::sides];                     /* position, for slopes: a key's number is counted from the origin */
    int from, to;                               /* keys that all of them see */
    uint32_t q[S::slices][S::sides][2];         /* Q as the right operand: of row lane / 4 of each side */
};

/* Sums of a warp, transposed: rows of queries are columns of the products. */
template <class S> struct decode_sums {
    float max[2 * S::sides], sum[2 * S::sides];
    float o[S::slices][S::sides][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 2 * S::sides; i++) {
            max[i] = -INFINITY;
            sum[i] = 0;
        }
#pragma unroll
        for (int i = 0; i < S::slices; i++) {
#pragma unroll
            for (int j = 0; j < S::sides; j++) {
                o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0;
            }
        }
    }
};

/* Scores to base 2: capped, lowered by distance, hidden. `wrong` has a bit for each key whose page there is none of. */
template <class S>
static __device__ __forceinline__ void decode_scores(const weft_decode_params &p, const decode_rows<S> &rows, int key,
                                                     uint32_t wrong, float (&s)[S::sides][4]) {
    const int lane = (int)(threadIdx.x % 32), mine = key + lane / 4;
    const bool all = key >= rows.from && key + WEFT_DECODE_BLOCK <= rows.to;
#pragma unroll
    for (int side = 0; side < S::sides; side++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[side][i] *= p.scale;
        }
    }
    if (p.cap != 0) {
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
#pragma unroll
            for (int i = 0; i < 4; i++) { /* 1 - 2 / (e^2x + 1), exact at both ends */
                s[side][i] = p.cap - 2 * p.cap * reciprocal_flushed(exp2_flushed(s[side][i]) + 1);
            }
        }
    }
    if (p.alibi) {
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = 2 * side + i % 2;
                s[side][i] -= rows.slope[row] * fabsf(rows.at[row] - (float)(mine + 8 * (i / 2)));
            }
        }
    }
    if (wrong) {
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[side][i] = wrong >> (lane / 4 + 8 * (i / 2)) & 1 ? __int_as_float(0x7fffffff) : s[side][i];
            }
        }
    }
    if (!all) {
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = 2 * side + i % 2, at = mine + 8 * (i / 2);
                s[side][i] = at >= rows.begin[row] && at < rows.end[row] ? s[side][i] : -INFINITY;
            }
        }
    }
}

/* Adds a block of 16 keys that is in shared memory at `at`. */
template <class S>
static __device__ __forceinline__ void decode_block(const weft_decode_params &p, const decode_rows<S> &rows, int key,
                                                    uint32_t wrong, uint32_t at, decode_sums<S> &sums) {
    const int lane = (int)(threadIdx.x % 32);
    float s[S::sides][4] = {}, odd[S::sides][4] = {}; /* two sums at a time: a product waits for the one before it */
#pragma unroll
    for (int i = 0; i < S::slices; i++) {
        uint32_t k[4];
        ldmatrix_x4(k, at + decode_place<S>(lane % 16, 2 * i + lane / 16));
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
            mma_m16n8k16<S::bf16>(i % 2 ? odd[side] : s[side], k, rows.q[i][side][0], rows.q[i][side][1]);
        }
    }
#pragma unroll
    for (int side = 0; side < S::sides; side++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[side][i] += odd[side][i];
        }
    }
    decode_scores<S>(p, rows, key, wrong, s);
    uint32_t w[S::sides][2];
#pragma unroll
    for (int side = 0; side < S::sides; side++) {
        float scale[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = 2 * side + i;
            float max = fmaxf(s[side][i], s[side][i + 2]);
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes *= 2) {
                max = fmaxf(max, __shfl_xor_sync(~0u, max, lanes));
            }
            max = fmaxf(max, sums.max[row]);
            const float from = max == -INFINITY ? 0.0f : max;
            scale[i] = exp2_flushed(sums.max[row] - from);
            sums.max[row] = max;
            s[side][i] = exp2_flushed(s[side][i] - from);
            s[side][i + 2] = exp2_flushed(s[side][i + 2] - from);
            sums.sum[row] = sums.sum[row] * scale[i] + (s[side][i] + s[side][i + 2]);
        }
#pragma unroll
        for (int i = 0; i < S::slices; i++) {
            sums.o[i][side][0] *= scale[0];
            sums.o[i][side][1] *= scale[1];
            sums.o[i][side][2] *= scale[0];
            sums.o[i][side][3] *= scale[1];
        }
        w[side][0] = movmatrix_transposed(pack_halves<S::bf16>(s[side][0], s[side][1]));
        w[side][1] = movmatrix_transposed(pack_halves<S::bf16>(s[side][2], s[side][3]));
    }
#pragma unroll
    for (int i = 0; i < S::slices; i++) {
        uint32_t v[4];
        ldmatrix_x4_transposed(v, at + S::block_bytes + decode_place<S>(lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
#pragma unroll
        for (int side = 0; side < S::sides; side++) {
            mma_m16n8k16<S::bf16>(sums.o[i][side], v, w[side][0], w[side][1]);
        }
    }
}

#endif
