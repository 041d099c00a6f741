/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of sixteen floats. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_X86_VECTOR__AVX512_H
#define WEFT_CPU_X86_VECTOR__AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define WIDTH 16
typedef __m512 vec;
typedef int32_t ints __attribute__((vector_size(64)));

static inline vec vec_load(const float *from) {
    return _mm512_loadu_ps(from);
}

static inline vec vec_load_bf16(const void *from) {
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16);
}

static inline vec vec_load_fp16(const void *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

static inline void vec_store(float *to, vec v) {
    _mm512_storeu_ps(to, v);
}

/* To nearest, ties to even; NaN stays NaN. */
static inline void vec_store_bf16(void *to, vec v) {
    const __m512i bits = (__m512i)v, odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i kept =
        _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
}

static inline void vec_store_fp16(void *to, vec v) {
    _mm256_storeu_si256(to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_all(float x) {
    return _mm512_set1_ps(x);
}

/* x * y + sum, rounded once: compilers fuse operators where they like, and the same bits are to come from different code.
 */
static inline vec vec_fma(vec x, vec y, vec sum) {
    return _mm512_fmadd_ps(x, y, sum);
}

/* NaN when b is NaN. */
static inline vec vec_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}

/* a where the mask is set, b elsewhere */
static inline vec vec_select(ints mask, vec a, vec b) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), b, a);
}

static inline float vec_sum(vec v) {
    return _mm512_reduce_add_ps(v);
}

/* The sums of sixteen vectors, each the same bits as vec_sum(): halves, quarters, pairs and then neighbours are added. */
static inline vec vec_sums(const vec v[WIDTH]) {
    vec quarters[4], pairs[2];
    for (int i = 0; i < 4; i++) { /* lanes 4 j .. 4 j + 3: four partial sums of v[i + 4 j] */
        const vec first = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x44) + _mm512_shuffle_f32x4(v[i], v[i + 4], 0xee);
        const vec second =
            _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x44) + _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xee);
        quarters[i] = _mm512_shuffle_f32x4(first, second, 0x88) + _mm512_shuffle_f32x4(first, second, 0xdd);
    }
    for (int i = 0; i < 2; i++) {
        const vec a = quarters[2 * i], b = quarters[2 * i + 1];
        pairs[i] = _mm512_shuffle_ps(a, b, 0x44) + _mm512_shuffle_ps(a, b, 0xee);
    }
    return _mm512_shuffle_ps(pairs[0], pairs[1], 0x88) + _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd);
}

static inline int vec_any(ints mask) {
    return _mm512_movepi32_mask((__m512i)mask) != 0;
}

#endif
