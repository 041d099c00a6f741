/* SPDX-License-Identifier: Apache-2.0 */
/* bf16, 8 x 24, by the instruction that multiplies 2 x 4 by 4 x 2 in each 128 bits of a register: the same two rows of A in
 * both, four columns of B. 24 accumulators of 2 x 4, 4 pairs of rows of A, one at a time, 6 vectors of B. */
#include "cpu/aarch64/narrow.h"
#include "cpu/aarch64/transpose.h"
#include "cpu/aarch64/vector__sve.h"
#include "cpu/kernel/kernel.h"

enum { PAIRS = 4, VECTORS = 6, COLS = 24 };
typedef svbfloat16_t halves __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));

static inline vec load_or_zero(const float *from, int load) {
    return load ? vec_load(from) : vec_all(0);
}

/* Two accumulators side by side hold two rows of eight columns, two columns of one row behind two of the other. */
static inline void store_rows(float *c, vec left, vec right, int add) {
    const svfloat64_t l = svreinterpret_f64_f32(left), r = svreinterpret_f64_f32(right);
    const vec upper = svreinterpret_f32_f64(svuzp1_f64(l, r)), lower = svreinterpret_f32_f64(svuzp2_f64(l, r));
    vec_store(c, upper + load_or_zero(c, add));
    vec_store(c + COLS, lower + load_or_zero(c + COLS, add));
}

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    const bfloat16_t *line_a = a, *line_b = b;
    vec sum[PAIRS][VECTORS];
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < VECTORS; j++) {
            sum[i][j] = vec_all(0);
        }
    }
    do { /* k is at least 4; knowing that, the compiler keeps all sums in registers */
        halves y[VECTORS];
        for (int j = 0; j < VECTORS; j++) {
            y[j] = svld1_bf16(svptrue_b16(), line_b + j * 2 * WIDTH);
        }
        for (int i = 0; i < PAIRS; i++) {
            const halves x = svld1rq_bf16(svptrue_b16(), line_a + i * 8);
            for (int j = 0; j < VECTORS; j++) {
                sum[i][j] = svbfmmla_f32(sum[i][j], x, y[j]);
            }
        }
        line_a += PAIRS * 8;
        line_b += COLS * 4;
    } while ((k -= 4) > 0);
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < VECTORS; j += 2) {
            store_rows(c + 2 * i * COLS + j * 4, sum[i][j], sum[i][j + 1], add);
        }
    }
}

static void narrow(int64_t k, const float *c, void *to) {
    narrow_fours(k, COLS, c, to);
}

#define NAME         bf16_8x24__sve256_bf16
#define PACKED       uint16_t
#define AS           WEFT_BF16
#define A_LINES      8
#define A_INTERLEAVE 4
#define B_LINES      24
#define B_INTERLEAVE 4
#define DEPTH        4
#define SQUARE       4
#define TRANSPOSE    transpose_halves
#define NARROW_RUN   narrow_run
#define PANEL        panel_24_short__sve256
#define DECODE       decode__neon_bfmmla
#define RESULTS      rows__neon
#define FETCH        12
#define FETCH_ACROSS 6
#define NARROW       narrow
#include "cpu/kernel/block.inc"
