/* Pairs of rows of floats as pairs of bf16: what both kernels of bf16 take as B. */
#ifndef WEFT_CPU_X86_NARROW_H
#define WEFT_CPU_X86_NARROW_H

#include <immintrin.h>
#include <stdint.h>

/* c (k, cols) to (k / 2, cols, 2); k even, cols a multiple of 16. */
static inline void narrow_pairs(int64_t k, int cols, const float *c, uint16_t *to) {
    /* The conversion puts the second row's sixteen values behind the first's; the permutation takes them in turn. */
    static const uint16_t turns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i turn = _mm512_loadu_si512(turns);
    for (int64_t row = 0; row < k; row += 2, c += 2 * cols, to += 2 * cols) {
        for (int j = 0; j < cols; j += 16) {
            const __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(c + cols + j), _mm512_loadu_ps(c + j));
            _mm512_storeu_si512(to + 2 * j, _mm512_permutexvar_epi16(turn, (__m512i)pair));
        }
    }
}

#endif
