/* SPDX-License-Identifier: Apache-2.0 */
/* fp16, 12 x 32: halves in memory, floats in registers. AVX-512's multiplications of halves round every sum to a half,
 * which the bound on the error does not allow; so both operands are widened, which is exact: B as it is loaded, and A,
 * whose values are broadcast one at a time, a stretch of k ahead, into the L1. */
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/x86/transpose.h"
#include "cpu/x86/vector__avx512.h"

enum { ROWS = 12, VECTORS = 2, COLS = VECTORS * WIDTH, STRETCH = 64 };

static inline vec widen(const uint16_t *from) {
    return _mm512_cvtxph_ps((__m256h)_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* The first `rows` rows, a constant wherever this is inlined. May read a vector beyond A's end: weft_cpu_alloc() allows it.
 * */
static inline __attribute__((always_inline)) void multiply_rows(int rows, int64_t k, const uint16_t *line_a,
                                                                const uint16_t *line_b, float *c, int add) {
    _Alignas(64) float wide[STRETCH * ROWS];
    vec sum[ROWS][VECTORS];
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < VECTORS; j++) {
            sum[i][j] = vec_all(0);
            __builtin_prefetch(c + i * COLS + j * WIDTH, 1); /* in the cache when the sums are done */
        }
    }
    for (int64_t left = k; left > 0; left -= STRETCH, line_a += STRETCH * ROWS) {
        int64_t count = weft_cpu_min(STRETCH, left);
        for (int64_t i = 0; i < count * ROWS; i += WIDTH) {
            vec_store(wide + i, widen(line_a + i));
        }
        const float *x = wide;
        do { /* count is at least 1; knowing that, the compiler keeps all sums in registers */
            vec y[VECTORS];
            for (int j = 0; j < VECTORS; j++) {
                y[j] = widen(line_b + j * WIDTH);
            }
            for (int i = 0; i < rows; i++) {
                for (int j = 0; j < VECTORS; j++) {
                    sum[i][j] += x[i] * y[j];
                }
            }
            x += ROWS;
            line_b += COLS;
        } while (--count > 0);
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < VECTORS; j++) {
            float *at = c + i * COLS + j * WIDTH;
            vec_store(at, sum[i][j] + (add ? vec_load(at) : vec_all(0)));
        }
    }
}

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    multiply_rows(ROWS, k, a, b, c, add);
}

static void multiply_part(int rows, int64_t k, const void *a, const void *b, float *c, int add) {
    if (rows <= 4) {
        multiply_rows(4, k, a, b, c, add);
    } else if (rows <= 8) {
        multiply_rows(8, k, a, b, c, add);
    } else {
        multiply_rows(ROWS, k, a, b, c, add);
    }
}

/* Weights are at most 1, so that none overflows. */
static void narrow(int64_t k, const float *c, void *to) {
    for (int64_t i = 0; i < k * COLS; i += WIDTH) {
        vec_store_fp16((uint16_t *)to + i, vec_load(c + i));
    }
}

#define NAME          fp16_12x32__avx512_fp16
#define PACKED        uint16_t
#define AS            WEFT_FP16
#define A_LINES       12
#define A_INTERLEAVE  1
#define B_LINES       32
#define B_INTERLEAVE  1
#define DEPTH         1
#define SQUARE        4
#define TRANSPOSE     transpose_four_halves
#define PANEL         panel_32__avx512
#define DECODE        decode__avx512
#define RESULTS       rows__avx512
#define FETCH         20
#define FETCH_ACROSS  20
#define MULTIPLY_PART multiply_part
#define NARROW        narrow
#include "cpu/kernel/block.inc"
