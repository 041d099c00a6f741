/* SPDX-License-Identifier: Apache-2.0 */
/* What a warp does with one piece of keys: scores, mask, softmax, and the sum of values. All in registers.
 *
 * Lane i of a warp holds, of every 16 x 8 block of scores or output, rows i / 4 and i / 4 + 8 (`half` 0 and 1) and two
 * neighbouring columns of each: element [2 half + 0 or 1]. */
#ifndef WEFT_CUDA_STUDY_PIECE_CUH
#define WEFT_CUDA_STUDY_PIECE_CUH

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/study/shape.cuh"

/* Running state of the online softmax, per row of this lane. */
template <class S> struct study_rows {
    float max[S::bands][2]; /* of the raw scores, as last used for rescaling; -inf before the first visible key */
    float sum[S::bands][2]; /* of this lane's exponentials */
};

template <class S> static __device__ __forceinline__ float study_exp2(float x) {
    return S::precise ? exp2f(x) : exp2_flushed(x);
}

/* scores = Q K^T, (bands x 16) x piece. q: this lane's address in Q, or q_held; k: this lane's address in the piece of K.
 */
template <class S>
static __device__ __forceinline__ void study_scores(float (&scores)[S::bands][S::piece / 8][4], uint32_t q,
                                                    const uint32_t (&q_held)[S::q_steps][S::bands][4], uint32_t k) {
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int n = 0; n < S::piece / 8; n++) {
            scores[b][n][0] = scores[b][n][1] = scores[b][n][2] = scores[b][n][3] = 0;
        }
    }
#pragma unroll
    for (int step = 0; step < S::depth / 16; step++) {
        uint32_t a[S::bands][4];
#pragma unroll
        for (int b = 0; b < S::bands; b++) {
            if constexpr (S::q_held) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    a[b][i] = q_held[step][b][i];
                }
            } else {
                ldmatrix_x4(a[b], study_k_step<S>(q, step) + (uint32_t)(b * 16 * S::row_bytes));
            }
        }
#pragma unroll
        for (int n = 0; n < S::piece / 16; n++) {
            uint32_t keys[4]; /* 0, 1: keys 0-7, first and next 8 of head_dim; 2, 3: keys 8-15 */
            ldmatrix_x4(keys, study_k_step<S>(k, step) + (uint32_t)(n * 16 * S::row_bytes));
#pragma unroll
            for (int b = 0; b < S::bands; b++) {
                mma_m16n8k16<S::bf16>(scores[b][2 * n], a[b], keys[0], keys[1]);
                mma_m16n8k16<S::bf16>(scores[b][2 * n + 1], a[b], keys[2], keys[3]);
            }
        }
    }
}

/* Scores of keys that a row does not see become -inf. visible: keys that this lane's row 0 of band 0 sees, counted from the
 * piece's first key; each row further down sees one more, and none sees more than `present`. */
template <class S>
static __device__ __forceinline__ void study_mask(float (&scores)[S::bands][S::piece / 8][4], int64_t visible,
                                                  int present) {
    const int column = (int)(thread_index() % 4 * 2);
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t seen = visible + b * 16 + half * 8;
            const int limit = seen < present ? (seen < 0 ? 0 : (int)seen) : present;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    scores[b][n][2 * half + e] = n * 8 + column + e < limit ? scores[b][n][2 * half + e] : -INFINITY;
                }
            }
        }
    }
}

/* Takes a new maximum for every row, and rescales sums and output to it. */
template <class S>
static __device__ __forceinline__ void study_rescale(study_rows<S> &rows, float (&out)[S::bands][S::columns / 8][4],
                                                     const float (&largest)[S::bands][2], float scale_log2) {
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float max = fmaxf(rows.max[b][half], largest[b][half]);
            max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1)); /* the four lanes that share the row */
            max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
            const float shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
            const float factor = study_exp2<S>((rows.max[b][half] - shift) * scale_log2);
            rows.max[b][half] = max;
            rows.sum[b][half] *= factor;
#pragma unroll
            for (int n = 0; n < S::columns / 8; n++) {
                out[b][n][2 * half] *= factor;
                out[b][n][2 * half + 1] *= factor;
            }
        }
    }
}

/* Whether a row of this warp has a score so far above its maximum that the maximum has to follow. lag: see
 * weft_study_params. largest: of this lane's scores, for study_rescale. */
template <class S>
static __device__ __forceinline__ bool study_grown(float (&largest)[S::bands][2],
                                                   const float (&scores)[S::bands][S::piece / 8][4],
                                                   const study_rows<S> &rows, float lag) {
    bool grown = false;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float max = fmaxf(scores[b][0][2 * half], scores[b][0][2 * half + 1]);
#pragma unroll
            for (int n = 1; n < S::piece / 8; n++) {
                max = fmaxf(max, fmaxf(scores[b][n][2 * half], scores[b][n][2 * half + 1]));
            }
            largest[b][half] = max;
            grown |= max > rows.max[b][half] + lag;
        }
    }
    return __any_sync(0xffffffffu, grown);
}

/* Exponentials of the scores of 16 keys, the k-th of the piece, rounded, in the lanes where an mma wants its A operand. */
template <class S>
static __device__ __forceinline__ void study_weights(uint32_t (&weights)[S::bands][4],
                                                     const float (&scores)[S::bands][S::piece / 8][4], study_rows<S> &rows,
                                                     int k, float scale_log2) {
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int half = i % 2, n = 2 * k + i / 2;
            const float max = rows.max[b][half], shift = max == -INFINITY ? 0 : max * scale_log2;
            const float low = study_exp2<S>(fmaf(scores[b][n][2 * half], scale_log2, -shift));
            const float high = study_exp2<S>(fmaf(scores[b][n][2 * half + 1], scale_log2, -shift));
            rows.sum[b][half] += low + high;
            weights[b][i] = pack_halves<S::bf16>(low, high);
        }
    }
}

/* out += P V for the 16 keys k of a piece. v: the lane's address in the piece of V (study_lane_at). */
template <class S>
static __device__ __forceinline__ void study_values(float (&out)[S::bands][S::columns / 8][4],
                                                    const uint32_t (&weights)[S::bands][4], int k, uint32_t v) {
#pragma unroll
    for (int n = 0; n < S::columns / 16; n++) {
        uint32_t values[4]; /* 0, 1: keys 0-7 and 8-15 of 8 columns; 2, 3: of the next 8 */
        ldmatrix_x4_transposed(values, study_k_step<S>(v, n) + (uint32_t)(k * 16 * S::row_bytes));
#pragma unroll
        for (int b = 0; b < S::bands; b++) {
            mma_m16n8k16<S::bf16>(out[b][2 * n], weights[b], values[0], values[1]);
            mma_m16n8k16<S::bf16>(out[b][2 * n + 1], weights[b], values[2], values[3]);
        }
    }
}

#endif
