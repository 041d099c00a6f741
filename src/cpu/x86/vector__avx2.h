/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of eight floats. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_X86_VECTOR__AVX2_H
#define WEFT_CPU_X86_VECTOR__AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define WIDTH 8
typedef __m256 vec;
typedef int32_t ints __attribute__((vector_size(32)));

static inline vec vec_load(const float *from) {
    return _mm256_loadu_ps(from);
}

static inline vec vec_load_bf16(const void *from) {
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16);
}

static inline vec vec_load_fp16(const void *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

static inline void vec_store(float *to, vec v) {
    _mm256_storeu_ps(to, v);
}

/* To nearest, ties to even; NaN stays NaN. */
static inline void vec_store_bf16(void *to, vec v) {
    const __m256i bits = (__m256i)v, odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i kept =
        _mm256_srli_epi32((__m256i)_mm256_blendv_ps((vec)rounded, (vec)quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)), 16);
    _mm_storeu_si128(to, _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1)));
}

static inline void vec_store_fp16(void *to, vec v) {
    _mm_storeu_si128(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_all(float x) {
    return _mm256_set1_ps(x);
}

/* x * y + sum, rounded once: compilers fuse operators where they like, and the same bits are to come from different code.
 */
static inline vec vec_fma(vec x, vec y, vec sum) {
    return _mm256_fmadd_ps(x, y, sum);
}

/* NaN when b is NaN. */
static inline vec vec_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}

/* a where the mask is set, b elsewhere */
static inline vec vec_select(ints mask, vec a, vec b) {
    return _mm256_blendv_ps(b, a, (vec)mask);
}

static inline float vec_sum(vec v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The sums of eight vectors, each the same bits as vec_sum(): halves, pairs and then neighbours are added. */
static inline vec vec_sums(const vec v[WIDTH]) {
    vec halves[4], pairs[2];
    for (int i = 0; i < 4; i++) { /* lanes 4 j .. 4 j + 3: four partial sums of v[i + 4 j] */
        halves[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20) + _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    }
    for (int i = 0; i < 2; i++) {
        const vec a = halves[2 * i], b = halves[2 * i + 1];
        pairs[i] = _mm256_shuffle_ps(a, b, 0x44) + _mm256_shuffle_ps(a, b, 0xee);
    }
    return _mm256_shuffle_ps(pairs[0], pairs[1], 0x88) + _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd);
}

static inline int vec_any(ints mask) {
    return _mm256_movemask_ps((vec)mask) != 0;
}

#endif
