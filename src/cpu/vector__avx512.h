/* Vectors of sixteen floats. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_VECTOR__AVX512_H
#define WEFT_CPU_VECTOR__AVX512_H

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

static inline vec vec_all(float x) {
    return _mm512_set1_ps(x);
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

static inline int vec_any(ints mask) {
    return _mm512_movepi32_mask((__m512i)mask) != 0;
}

#endif
