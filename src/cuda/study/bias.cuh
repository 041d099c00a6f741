/* The bias of an attention, added to the scores of a piece. */
#ifndef WEFT_CUDA_STUDY_BIAS_CUH
#define WEFT_CUDA_STUDY_BIAS_CUH

#include <float.h>

#include "cuda/ptx/math.cuh"
#include "cuda/study/shape.cuh"

/* What the types of bias are stored as: an element, and two neighbours. */
template <int TYPE> struct study_bias_type {
    typedef uint16_t element;
    typedef uint32_t pair;
};
template <> struct study_bias_type<WEFT_BIAS_FP32> {
    typedef uint32_t element;
    typedef uint64_t pair;
};
template <> struct study_bias_type<WEFT_BIAS_BOOL> {
    typedef uint8_t element;
    typedef uint16_t pair;
};

/* A score in base 2 with its bias. A bias that is finite, however low, hides nothing. */
template <class S, int TYPE> static __device__ __forceinline__ float study_biased(float score, uint32_t bits) {
    if (TYPE == WEFT_BIAS_BOOL) {
        return bits ? score : -INFINITY;
    }
    const float bias = TYPE == WEFT_BIAS_FP32 ? __uint_as_float(bits) : half_to_float<S::bf16>(bits);
    return bias == -INFINITY ? bias : fmaxf(fmaf(bias, 1.44269504f, score), -FLT_MAX);
}

/* Adds the bias to the scores of a piece that begins with `key`. bias: of the tile's first query and key 0; row: this
 * lane's first of the tile; rows: of the tile. What is not there is not read: its scores are masked afterwards. */
template <class S, int TYPE>
static __device__ __forceinline__ void study_add_bias_of(const weft_study_params &p, const char *bias, int row, int rows,
                                                         int key, float (&scores)[S::bands][S::piece / 8][4]) {
    typedef typename study_bias_type<TYPE>::element element;
    typedef typename study_bias_type<TYPE>::pair pair;
    constexpr int bits = 8 * sizeof(element);
    const int column = (int)(thread_index() % 4 * 2), keys = p.kv_seq - key;
    const int64_t stride = p.general.bias_key_stride;
    const bool pairs = p.general.bias_pairs && keys >= S::piece;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t at = min(row + b * 16 + half * 8, rows - 1) * p.general.bias_strides.seq + key * stride;
            const element *from = (const element *)bias + at;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
                float(&two)[4] = scores[b][n];
                const int first = n * 8 + column;
                if (pairs) {
                    const pair both = *(const pair *)(from + first);
                    two[2 * half] = study_biased<S, TYPE>(two[2 * half], (uint32_t)(element)both);
                    two[2 * half + 1] = study_biased<S, TYPE>(two[2 * half + 1], (uint32_t)(both >> bits));
                } else {
                    two[2 * half] = study_biased<S, TYPE>(two[2 * half], from[min(first, keys - 1) * stride]);
                    two[2 * half + 1] = study_biased<S, TYPE>(two[2 * half + 1], from[min(first + 1, keys - 1) * stride]);
                }
            }
        }
    }
}

template <class S>
static __device__ __forceinline__ void study_add_bias(const weft_study_params &p, const char *bias, int row, int rows,
                                                      int key, float (&scores)[S::bands][S::piece / 8][4]) {
    switch (p.general.bias_type) {
    case WEFT_BIAS_DTYPE:
        study_add_bias_of<S, WEFT_BIAS_DTYPE>(p, bias, row, rows, key, scores);
        break;
    case WEFT_BIAS_FP32:
        study_add_bias_of<S, WEFT_BIAS_FP32>(p, bias, row, rows, key, scores);
        break;
    default:
        study_add_bias_of<S, WEFT_BIAS_BOOL>(p, bias, row, rows, key, scores);
    }
}

#endif
