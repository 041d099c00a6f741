/* SPDX-License-Identifier: Apache-2.0 */
/* The bias of an attention, added to the scores of a piece. */
#ifndef WEFT_CUDA_STUDY_BIAS_CUH
#define WEFT_CUDA_STUDY_BIAS_CUH

#include <float.h>

#include "cuda/ptx/keep.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/study/shape.cuh"

/* A score in base 2 with a bias that is added. One that is finite, however low, hides nothing, nor does it hide NaN. */
static __device__ __forceinline__ float study_biased(float score, float bias) {
    return bias == -INFINITY ? bias : larger_or_nan(fmaf(bias, 1.44269504f, score), -FLT_MAX);
}

/* The bias of one element; a boolean one hides, or changes nothing. */
template <class S> static __device__ __forceinline__ float study_bias_at(const char *bias, int64_t element, int type) {
    if (type == WEFT_BIAS_BOOL) {
        return ((const uint8_t *)bias)[element] ? 0 : -INFINITY;
    }
    return type == WEFT_BIAS_FP32 ? ((const float *)bias)[element]
                                  : half_to_float<S::bf16>(((const uint16_t *)bias)[element]);
}

/* The same of two neighbours, as they lie in memory: 16 bits each, fp32, or bytes. */
template <class S> static __device__ __forceinline__ void study_bias_of(float (&two)[2], uint32_t both) {
    two[0] = half_to_float<S::bf16>(both & 0xffff);
    two[1] = half_to_float<S::bf16>(both >> 16);
}

template <class S> static __device__ __forceinline__ void study_bias_of(float (&two)[2], float2 both) {
    two[0] = both.x;
    two[1] = both.y;
}

template <class S> static __device__ __forceinline__ void study_bias_of(float (&two)[2], uint16_t both) {
    two[0] = both & 0xff ? 0 : -INFINITY;
    two[1] = both >> 8 ? 0 : -INFINITY;
}

/* Adds the bias of whole pairs. Those of 16 rows are read before the first is used, since memory takes long to answer, and
 * the next piece's are asked for. bias: of the lane's first key, in the tile's first row; stride: of a row, in elements. */
template <class S, class PAIR>
static __device__ __forceinline__ void study_add_pairs(const char *bias, int row, int rows, int64_t stride, bool more,
                                                       float (&scores)[S::bands][S::piece / 8][4]) {
    const int bytes = sizeof(PAIR) / 2;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
        PAIR pairs[2][S::piece / 8];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const char *from = bias + min(row + b * 16 + half * 8, rows - 1) * stride * bytes;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
                pairs[half][n] = *(const PAIR *)(from + n * 8 * bytes);
            }
            if (more) {
                prefetch_for_l2(from + S::piece * bytes);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
                float two[2];
                study_bias_of<S>(two, pairs[half][n]);
                scores[b][n][2 * half] = study_biased(scores[b][n][2 * half], two[0]);
                scores[b][n][2 * half + 1] = study_biased(scores[b][n][2 * half + 1], two[1]);
            }
        }
    }
}

/* Adds the bias to the scores of a piece that begins with `key`. bias: of the tile's first query and key 0; row: this
 * lane's first of the tile; rows: of the tile. What is not there is not read: its scores are masked afterwards. */
template <class S>
static __device__ __forceinline__ void study_add_bias(const weft_study_params &p, const char *bias, int row, int rows,
                                                      int key, float (&scores)[S::bands][S::piece / 8][4]) {
    const int column = (int)(thread_index() % 4 * 2), keys = p.kv_seq - key, type = p.general.bias_type;
    const int64_t stride = p.general.bias_key_stride, rows_apart = p.general.bias_strides.seq;
    if (p.general.bias_pairs && keys >= S::piece) {
        const bool more = keys >= 2 * S::piece && column == 0;
        if (type == WEFT_BIAS_DTYPE) {
            study_add_pairs<S, uint32_t>(bias + 2 * ((int64_t)key + column), row, rows, rows_apart, more, scores);
        } else if (type == WEFT_BIAS_FP32) {
            study_add_pairs<S, float2>(bias + 4 * ((int64_t)key + column), row, rows, rows_apart, more, scores);
        } else {
            study_add_pairs<S, uint16_t>(bias + key + column, row, rows, rows_apart, more, scores);
        }
        return;
    }
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t at = min(row + b * 16 + half * 8, rows - 1) * rows_apart + key * stride;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &score = scores[b][n][2 * half + e];
                    score =
                        study_biased(score, study_bias_at<S>(bias, at + min(n * 8 + column + e, keys - 1) * stride, type));
                }
            }
        }
    }
}

#endif
