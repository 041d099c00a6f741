/* SPDX-License-Identifier: Apache-2.0 */
/* bf16, 8 x 48, by the instruction that adds products of pairs: 24 accumulators, 3 vectors of B, pairs of A broadcast one
 * at a time. */
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/x86/narrow.h"
#include "cpu/x86/transpose.h"
#include "cpu/x86/vector__avx512.h"

enum { ROWS = 8, VECTORS = 3, COLS = VECTORS * WIDTH };

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    const uint16_t *line_a = a, *line_b = b;
    vec sum[ROWS][VECTORS];
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < VECTORS; j++) {
            sum[i][j] = vec_all(0);
        }
    }
    do {
        __m512bh y[VECTORS];
        for (int j = 0; j < VECTORS; j++) {
            y[j] = (__m512bh)_mm512_loadu_si512(line_b + 2 * WIDTH * j);
        }
        for (int i = 0; i < ROWS; i++) {
            int pair;
            memcpy(&pair, line_a + 2 * i, sizeof pair);
            const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            for (int j = 0; j < VECTORS; j++) {
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, y[j]);
            }
        }
        line_a += 2 * ROWS;
        line_b += 2 * COLS;
    } while ((k -= 2) > 0);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < VECTORS; j++) {
            float *at = c + i * COLS + j * WIDTH;
            vec_store(at, sum[i][j] + (add ? vec_load(at) : vec_all(0)));
        }
    }
}

static void narrow(int64_t k, const float *c, void *to) {
    narrow_pairs(k, COLS, c, to);
}

#define NAME            bf16_8x48__avx512_bf16
#define PACKED          uint16_t
#define AS              WEFT_BF16
#define A_LINES         8
#define A_INTERLEAVE    2
#define B_LINES         48
#define B_INTERLEAVE    2
#define DEPTH           2
#define PAIR            pair_rows
#define TRANSPOSE_PAIRS transpose_pairs
#define NARROW_RUN      narrow_run
#define PANEL           panel_48_short__avx512
#define DECODE          decode__avx512
#define RESULTS         rows__avx512
#define FETCH           12
#define FETCH_ACROSS    12
#define NARROW          narrow
#include "cpu/kernel/block.inc"
