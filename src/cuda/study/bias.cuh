/* The bias of an attention, added to the scores of a piece. */
#ifndef WEFT_CUDA_STUDY_BIAS_CUH
#define WEFT_CUDA_STUDY_BIAS_CUH

#include <float.h>

#include "cuda/ptx/math.cuh"
#include "cuda/study/shape.cuh"

/* A score in base 2 with a bias that is added. One that is finite, however low, hides nothing. */
static __device__ __forceinline__ float study_biased(float score, float bias) {
    return bias == -INFINITY ? bias : fmaxf(fmaf(bias, 1.44269504f, score), -FLT_MAX);
}

/* The bias of one element; a boolean one hides, or changes nothing. */
template <class S> static __device__ __forceinline__ float study_bias_at(const char *bias, int64_t element, int type) {
    if (type == WEFT_BIAS_BOOL) {
        return ((const uint8_t *)bias)[element] ? 0 : -INFINITY;
    }
    return type == WEFT_BIAS_FP32 ? ((const float *)bias)[element]
                                  : half_to_float<S::bf16>(((const uint16_t *)bias)[element]);
}

/* The same of two neighbours, the first of which is even. */
template <class S>
static __device__ __forceinline__ void study_bias_pair(float (&two)[2], const char *bias, int64_t element, int type) {
    if (type == WEFT_BIAS_DTYPE) {
        const uint32_t both = *(const uint32_t *)(bias + 2 * element);
        two[0] = half_to_float<S::bf16>(both & 0xffff);
        two[1] = half_to_float<S::bf16>(both >> 16);
    } else if (type == WEFT_BIAS_FP32) {
        const float2 both = *(const float2 *)(bias + 4 * element);
        two[0] = both.x;
        two[1] = both.y;
    } else {
        const uint32_t both = *(const uint16_t *)(bias + element);
        two[0] = both & 0xff ? 0 : -INFINITY;
        two[1] = both >> 8 ? 0 : -INFINITY;
    }
}

/* Adds the bias to the scores of a piece that begins with `key`. bias: of the tile's first query and key 0; row: this
 * lane's first of the tile; rows: of the tile. What is not there is not read: its scores are masked afterwards. */
template <class S>
static __device__ __forceinline__ void study_add_bias(const weft_study_params &p, const char *bias, int row, int rows,
                                                      int key, float (&scores)[S::bands][S::piece / 8][4]) {
    const int column = (int)(thread_index() % 4 * 2), keys = p.kv_seq - key, type = p.general.bias_type;
    const int64_t stride = p.general.bias_key_stride;
    const bool pairs = p.general.bias_pairs && keys >= S::piece;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t at = min(row + b * 16 + half * 8, rows - 1) * p.general.bias_strides.seq + key * stride;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
                const int first = n * 8 + column;
                float two[2];
                if (pairs) {
                    study_bias_pair<S>(two, bias, at + first, type);
                } else {
                    two[0] = study_bias_at<S>(bias, at + min(first, keys - 1) * stride, type);
                    two[1] = study_bias_at<S>(bias, at + min(first + 1, keys - 1) * stride, type);
                }
                scores[b][n][2 * half] = study_biased(scores[b][n][2 * half], two[0]);
                scores[b][n][2 * half + 1] = study_biased(scores[b][n][2 * half + 1], two[1]);
            }
        }
    }
}

#endif
