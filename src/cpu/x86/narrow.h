/* SPDX-License-Identifier: Apache-2.0 */
/* Floats to bf16, and pairs of rows to rows of pairs: what both kernels of bf16 take as B. */
#ifndef WEFT_CPU_X86_NARROW_H
#define WEFT_CPU_X86_NARROW_H

#include <immintrin.h>
#include <stdint.h>

/* Interleaves two rows of sixteen that follow each other. */
static inline __m512i interleave_rows(__m512i rows) {
    static const uint16_t turns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(turns), rows);
}

/* c (k, cols) to (k / 2, cols, 2); k even, cols a multiple of 16. */
static inline void narrow_pairs(int64_t k, int cols, const float *c, uint16_t *to) {
    for (int64_t row = 0; row < k; row += 2, c += 2 * cols, to += 2 * cols) {
        for (int j = 0; j < cols; j += 16) {
            const __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(c + cols + j), _mm512_loadu_ps(c + j));
            _mm512_storeu_si512(to + 2 * j, interleave_rows((__m512i)pair));
        }
    }
}

/* Two rows of `lines` bf16, a multiple of 16, `step` bytes apart. */
static inline void pair_rows(const char *from, int64_t step, int lines, uint16_t *to) {
    for (int i = 0; i < lines; i += 16) {
        const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)(from + 2 * i));
        const __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)(from + step + 2 * i));
        _mm512_storeu_si512(to + 2 * i, interleave_rows(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1)));
    }
}

/* `count` floats in a row, a multiple of 8. */
static inline void narrow_run(const float *from, int count, uint16_t *to) {
    for (int i = 0; i < count; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(to + i), (__m128i)_mm256_cvtneps_pbh(_mm256_loadu_ps(from + i)));
    }
}

#endif
