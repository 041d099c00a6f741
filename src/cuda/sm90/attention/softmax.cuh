/* SPDX-License-Identifier: Apache-2.0 */
/* The online softmax of a warpgroup, all in registers.
 *
 * A thread holds, of a 64 x keys block of scores, rows r and r + 8 (`half` 0 and 1) and two neighbouring columns of every
 * eight: scores[4 j + 2 half + 0 or 1]; see ptx/wgmma.cuh. COUNT is how many: keys / 2, of a whole step or a short one. */
#ifndef WEFT_CUDA_SM90_ATTENTION_SOFTMAX_CUH
#define WEFT_CUDA_SM90_ATTENTION_SOFTMAX_CUH

#include <float.h>

#include "cuda/ptx/math.cuh"
#include "cuda/sm90/attention/shape.cuh"

/* Below every score: exponentials over it are 0 once a row has seen a key, and a masked score, -inf, is still below. */
#define HOPPER_NO_SHIFT (S::bias ? -FLT_MAX : -3e38f)

#define HOPPER_LOG2E 1.44269504f

/* How far scores may rise above a row's shift, in base 2, before sums and output are rescaled. Where only sums are looked
 * at, a thread's may be 2^8 a term, so that one term may be 2^8 times its number of terms, 2^13 at most: which loses
 * nothing in fp32 sums nor, being rounded relative to its size, in 16 bits. In fp16 shifts do not lag: the largest weight
 * is then 1, which has no rounding error, and where one key outweighs the others the output is as exact as V. */
#define HOPPER_LAG  (!S::bf16 ? 0.0f : S::bias ? 5.5f : 8.0f)
#define HOPPER_MOST 256.0f /* 2^8 */

struct hopper_rows {
    float shift[2];  /* what is subtracted from scores, near the largest one so far; in which units: hopper_scaled() */
    float sum[2];    /* of this thread's exponentials */
    float factor[2]; /* what the output has to be multiplied by, when hopper_shift() says so */
    bool level;      /* slopes: whether the shifts of both rows, of all lanes, are as far apart as what the rows fall by */
};

/* A score in the units of the shifts. bf16: scaled, in base 2, so that an exponent is one multiply-add, off by the rounding
 * of the shift (6e-4 at 1e4). fp16: as it is, so that the largest score's exponent is 0 exactly: subtract, then scale. */
template <class S> static __device__ __forceinline__ float hopper_scaled(float score, float scale_log2) {
    return S::scaled ? score * scale_log2 : score;
}

/* A difference in the units of the shifts, or a shift, in base 2. */
template <class S> static __device__ __forceinline__ float hopper_in_base_2(float shift, float scale_log2) {
    return S::scaled ? shift : S::bias ? fmaxf(shift * scale_log2, -FLT_MAX) : shift * scale_log2;
}

/* Scores, or weights, of keys that rows r and r + 8 do not see become `hidden`. at: where what they see begins (BEGINS) or
 * ends, counted from the block's first key. */
template <bool BEGINS, int COUNT>
static __device__ __forceinline__ void hopper_mask(float (&scores)[COUNT], float hidden, int at_0, int at_1) {
    const int column = (int)(thread_index() % 4 * 2);
    const int at[2] = {at_0 - column, at_1 - column};
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int key = i / 4 * 8 + i % 2;
        scores[i] = (key < at[i / 2 % 2]) != BEGINS ? scores[i] : hidden;
    }
}

/* The same by bits: 32 keys a word, from the block's first on. */
template <int COUNT, int WORDS>
static __device__ __forceinline__ void hopper_hide(float (&scores)[COUNT], float hidden,
                                                   const uint32_t (&words)[2][WORDS]) {
    static_assert(COUNT == 16 * WORDS, "a thread has half of the keys, in two rows");
    const uint32_t column = thread_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int key = i / 4 * 8 + i % 2;
        scores[i] = words[i / 2 % 2][key / 32] >> column & 1u << key % 32 ? scores[i] : hidden;
    }
}

/* A polynomial in place of tanh(score * cap), in base 2, over the score, of which this is the square. The special function
 * unit has enough to do with exponentials. */
static __device__ __forceinline__ float hopper_small_cap(const weft_hopper_cap &small, float square) {
    return fmaf(fmaf(small.fifth, square, small.third), square, small.first);
}

/* Scores become capped exponents in base 2: softcap * tanh(score * cap). steep: whether scores were beyond the polynomial
 * before. Returns whether they are now. */
template <int COUNT>
static __device__ __forceinline__ bool hopper_cap(float (&scores)[COUNT], const weft_hopper_attention_params &p,
                                                  bool steep) {
    float even = 0, odd = 0; /* of all scores: squares that were used twice would be kept */
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        even = fmaxf(even, fabsf(scores[i]));
        odd = fmaxf(odd, fabsf(scores[i + 1]));
    }
    const float most = fmaxf(even, odd);
    if (steep || __any_sync(0xffffffffu, most * most > p.small.most)) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            scores[i] = tanh_approximate(scores[i] * p.cap) * p.scale_log2;
        }
        return true;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        scores[i] *= hopper_small_cap(p.small, scores[i] * scores[i]);
    }
    return false;
}

/* Scores become exponents in base 2 that fall by `slope` with each key between query and key. away: how far the thread's
 * rows are behind the block's first key of this thread. */
template <int COUNT>
static __device__ __forceinline__ void hopper_lower(float (&scores)[COUNT], float scale_log2, float slope,
                                                    const float (&away)[2]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const float distance = fabsf(away[i / 2 % 2] - (float)(i / 4 * 8 + i % 2));
        scores[i] = fmaf(scores[i], scale_log2, -slope * distance);
    }
}

/* How far a shift may be raised above a row's largest score, in base 2: weights have 2^126 before they vanish. */
#define HOPPER_RAISE 48.0f

/* Moves the shifts where scores have outgrown them. Returns whether a row of this warp was, and so the warp's output has to
 * be multiplied by `factor`. fall: slopes: by how much more the thread's second row falls than its first, at any key. If
 * the shifts are as far apart, one term does for both: the lower one is raised. */
template <class S, int COUNT>
static __device__ __forceinline__ bool hopper_shift(hopper_rows &rows, const float (&scores)[COUNT], float scale_log2,
                                                    float fall) {
    float largest[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float even = scores[2 * half], odd = scores[2 * half + 1];
#pragma unroll
        for (int j = 1; j < COUNT / 4; j++) {
            even = fmaxf(even, scores[4 * j + 2 * half]);
            odd = fmaxf(odd, scores[4 * j + 2 * half + 1]);
        }
        largest[half] = hopper_scaled<S>(fmaxf(even, odd), scale_log2);
    }
    const bool grown = largest[0] > rows.shift[0] + HOPPER_LAG || largest[1] > rows.shift[1] + HOPPER_LAG;
    if (!__any_sync(0xffffffffu, grown)) {
        return false;
    }
    float shift[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = largest[half];
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1)); /* the four lanes that share the row */
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        shift[half] = fmaxf(most, rows.shift[half]);
    }
    if constexpr (S::scores && S::bf16) {
        const float above = shift[0] - fall - shift[1];
        rows.level = fall != 0 && !__any_sync(0xffffffffu, fabsf(above) > HOPPER_RAISE);
        if (rows.level) {
            shift[0] -= fminf(above, 0);
            shift[1] += fmaxf(above, 0);
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rows.factor[half] = exp2_flushed(hopper_in_base_2<S>(rows.shift[half] - shift[half], scale_log2));
        rows.shift[half] = shift[half];
        rows.sum[half] *= rows.factor[half];
    }
    return true;
}

/* The thread's scores become their exponentials. */
template <class S, int COUNT>
static __device__ __forceinline__ void hopper_exponentials(float (&scores)[COUNT], const hopper_rows &rows,
                                                           float scale_log2) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const float shift = rows.shift[i / 2 % 2];
        scores[i] = exp2_flushed(S::scaled ? fmaf(scores[i], scale_log2, -shift) : (scores[i] - shift) * scale_log2);
    }
}

/* Adds up the thread's exponentials, row by row. */
template <class S, int COUNT>
static __device__ __forceinline__ void hopper_add(float (&sums)[2], const float (&scores)[COUNT]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float even = scores[2 * half], odd = scores[2 * half + 1];
#pragma unroll
        for (int j = 1; j < COUNT / 4; j++) {
            even += scores[4 * j + 2 * half];
            odd += scores[4 * j + 2 * half + 1];
        }
        sums[half] = even + odd;
    }
}

/* Both, of scores that also fall by `slope` with each key between the block and the thread's rows, which are all behind it;
 * away: how far, from the block's first key of this thread. Where they are all before it, the slope is that of the other
 * side: its negative. level: whether terms of both rows are the same, see hopper_rows; that holds on one side only. */
template <class S, int COUNT>
static __device__ __forceinline__ void hopper_lowered_exponentials(float (&scores)[COUNT], float (&sums)[2],
                                                                   const hopper_rows &rows, float scale_log2, float slope,
                                                                   const float (&away)[2], bool level) {
    const float base[2] = {fmaf(-slope, away[0], -rows.shift[0]), fmaf(-slope, away[1], -rows.shift[1])};
    if (level) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            scores[i] = exp2_flushed(fmaf(scores[i], scale_log2, fmaf(slope, (float)(i / 4 * 8 + i % 2), base[0])));
        }
        hopper_add<S>(sums, scores);
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        scores[i] = exp2_flushed(fmaf(scores[i], scale_log2, fmaf(slope, (float)(i / 4 * 8 + i % 2), base[i / 2 % 2])));
    }
    hopper_add<S>(sums, scores);
}

/* The exponentials of scores that are to be capped, by the polynomial. Returns whether one is beyond it. Squares are
 * ordered as their bits are. */
template <class S, int COUNT>
static __device__ __forceinline__ bool hopper_capped_exponentials(float (&scores)[COUNT], const hopper_rows &rows,
                                                                  const weft_hopper_cap &small) {
    int most = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const float shift = rows.shift[i / 2 % 2], one = scores[i] * scores[i], other = scores[i + 1] * scores[i + 1];
        most = largest_of_three(most, __float_as_int(one), __float_as_int(other));
        scores[i] = exp2_flushed(fmaf(scores[i], hopper_small_cap(small, one), -shift));
        scores[i + 1] = exp2_flushed(fmaf(scores[i + 1], hopper_small_cap(small, other), -shift));
    }
    return !(__int_as_float(most) <= small.most); /* a NaN is above all others */
}

/* The same by tanh, whatever the scores. */
template <class S, int COUNT>
static __device__ __forceinline__ void hopper_steep_exponentials(float (&scores)[COUNT], const hopper_rows &rows, float cap,
                                                                 float scale_log2) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        scores[i] = exp2_flushed(fmaf(tanh_approximate(scores[i] * cap), scale_log2, -rows.shift[i / 2 % 2]));
    }
}

/* Rounds exponentials to 16 bits, as the A operand of the product with V: weights[4 k ..] are for keys 16 k .. 16 k + 15.
 */
template <class S, int COUNT>
static __device__ __forceinline__ void hopper_round(uint32_t (&weights)[S::keys / 4], const float (&scores)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        weights[i] = pack_halves<S::bf16>(scores[2 * i], scores[2 * i + 1]);
    }
}

template <class S>
static __device__ __forceinline__ void hopper_rescale(float (&out)[S::depth / 2], const hopper_rows &rows) {
#pragma unroll
    for (int i = 0; i < S::depth / 2; i++) {
        out[i] *= rows.factor[i / 2 % 2];
    }
}

#endif
