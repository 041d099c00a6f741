/* SPDX-License-Identifier: Apache-2.0 */
/* Transposing and widening small squares while packing. */
#ifndef WEFT_CPU_X86_TRANSPOSE_H
#define WEFT_CPU_X86_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

#include "cpu/kernel/kernel.h"

/* Four rows of four floats, `step` bytes apart, become columns, `to_step` values apart. */
static inline void transpose_floats(const char *from, int64_t step, float *to, int64_t to_step) {
    __m128 a = _mm_loadu_ps((const float *)(const void *)from),
           b = _mm_loadu_ps((const float *)(const void *)(from + step));
    __m128 c = _mm_loadu_ps((const float *)(const void *)(from + 2 * step));
    __m128 d = _mm_loadu_ps((const float *)(const void *)(from + 3 * step));
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_step, b);
    _mm_storeu_ps(to + 2 * to_step, c);
    _mm_storeu_ps(to + 3 * to_step, d);
}

/* Four values of fp16 or bf16 to floats. */
static inline void widen_four(weft_dtype dtype, const char *from, float *to) {
    const __m128i halves = _mm_loadl_epi64((const __m128i *)(const void *)from);
    _mm_storeu_ps(to, dtype == WEFT_FP16 ? _mm_cvtph_ps(halves) : (__m128)_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16));
}

/* Four rows of four pairs of 16-bit values: a pair moves as a float does. */
static inline void transpose_pairs(const char *from, int64_t step, uint16_t *to, int64_t to_step) {
    transpose_floats(from, step, (float *)(void *)to, to_step);
}

/* Four rows of four 16-bit values become columns. */
static inline void transpose_four_halves(const char *from, int64_t step, uint16_t *to, int64_t to_step) {
    __m128i a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = _mm_loadl_epi64((const __m128i *)(const void *)(from + i * step));
    }
    const __m128i ab = _mm_unpacklo_epi16(a[0], a[1]), cd = _mm_unpacklo_epi16(a[2], a[3]);
    const __m128i first = _mm_unpacklo_epi32(ab, cd), last = _mm_unpackhi_epi32(ab, cd);
    _mm_storel_epi64((__m128i *)(void *)to, first);
    _mm_storel_epi64((__m128i *)(void *)(to + to_step), _mm_unpackhi_epi64(first, first));
    _mm_storel_epi64((__m128i *)(void *)(to + 2 * to_step), last);
    _mm_storel_epi64((__m128i *)(void *)(to + 3 * to_step), _mm_unpackhi_epi64(last, last));
}

/* Eight rows of eight 16-bit values become columns. */
static inline void transpose_halves(const char *from, int64_t step, uint16_t *to, int64_t to_step) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++) {
        a[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * step));
    }
    for (int i = 0; i < 4; i++) { /* pairs of rows, then fours, then all eight */
        b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        a[4 * i] = _mm_unpacklo_epi32(b[4 * i], b[4 * i + 2]);
        a[4 * i + 1] = _mm_unpackhi_epi32(b[4 * i], b[4 * i + 2]);
        a[4 * i + 2] = _mm_unpacklo_epi32(b[4 * i + 1], b[4 * i + 3]);
        a[4 * i + 3] = _mm_unpackhi_epi32(b[4 * i + 1], b[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(void *)(to + 2 * i * to_step), _mm_unpacklo_epi64(a[i], a[4 + i]));
        _mm_storeu_si128((__m128i *)(void *)(to + (2 * i + 1) * to_step), _mm_unpackhi_epi64(a[i], a[4 + i]));
    }
}

#endif
