/* SPDX-License-Identifier: Apache-2.0 */
/* bf16, 8 x 12, by the instruction that multiplies 2 x 4 by 4 x 2: 24 accumulators of 2 x 2, 4 vectors of A, 1 or 2 of B at
 * a time. */
#include "cpu/aarch64/narrow.h"
#include "cpu/aarch64/transpose.h"
#include "cpu/aarch64/vector__neon.h"
#include "cpu/kernel/kernel.h"

/* Two accumulators side by side hold two rows of four columns. */
static inline void store_rows(float *c, float32x4_t left, float32x4_t right, int add) {
    const float64x2_t l = vreinterpretq_f64_f32(left), r = vreinterpretq_f64_f32(right);
    const float32x4_t upper = vreinterpretq_f32_f64(vzip1q_f64(l, r)), lower = vreinterpretq_f32_f64(vzip2q_f64(l, r));
    vst1q_f32(c, add ? vaddq_f32(upper, vld1q_f32(c)) : upper);
    vst1q_f32(c + 12, add ? vaddq_f32(lower, vld1q_f32(c + 12)) : lower);
}

/* A row of accumulators, pairs of rows of A in `a`; in between, the next pair is loaded to `next`. The last row also loads
 * the next B, each vector after its last use. Loads must be spread among the multiplications: without loads in between, all
 * multiplications wait for the same two of a Neoverse V1's four pipes. */
#define CELL(i, j, a, b) "bfmmla %[s" #i #j "].4s, " a ".8h, v" #b ".8h\n"
/* clang-format off */
#define ROW(i, a, next, at)                                                                                                \
    CELL(i, 0, a, 24) CELL(i, 1, a, 25) LOAD_A(next, at)                                                                   \
    CELL(i, 2, a, 26) CELL(i, 3, a, 27) CELL(i, 4, a, 28) CELL(i, 5, a, 29)
#define LAST_ROW(i, a, next, at)                                                                                           \
    CELL(i, 0, a, 24) LOAD_B(24, 0)                                                                                        \
    CELL(i, 1, a, 25) LOAD_A(next, at) LOAD_B(25, 16)                                                                      \
    CELL(i, 2, a, 26) LOAD_B(26, 32)                                                                                       \
    CELL(i, 3, a, 27) LOAD_B(27, 48)                                                                                       \
    CELL(i, 4, a, 28) LOAD_B(28, 64)                                                                                       \
    CELL(i, 5, a, 29) LOAD_B(29, 80)
/* clang-format on */
#define LOAD_A(q, at) "ldr " q ", [%[a], #" #at "]\n"
#define LOAD_B(q, at) "ldr q" #q ", [%[b], #" #at "]\n"

#define CLEAR(i, j) "movi %[s" #i #j "].2d, #0\n"
#define ZERO(i)     CLEAR(i, 0) CLEAR(i, 1) CLEAR(i, 2) CLEAR(i, 3) CLEAR(i, 4) CLEAR(i, 5)
#define SUMS(i)                                                                                                            \
    [s##i##0] "=&w"(sum[i][0]), [s##i##1] "=&w"(sum[i][1]), [s##i##2] "=&w"(sum[i][2]), [s##i##3] "=&w"(sum[i][3]),        \
        [s##i##4] "=&w"(sum[i][4]), [s##i##5] "=&w"(sum[i][5])

/* Reads four k beyond the panels' ends: weft_cpu_alloc() allows it. */
static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    float32x4_t sum[4][6];
    /* clang-format off */
    __asm__ volatile(
        ZERO(0) ZERO(1) ZERO(2) ZERO(3)
        LOAD_A("q30", 0) LOAD_B(24, 0) LOAD_B(25, 16) LOAD_B(26, 32) LOAD_B(27, 48) LOAD_B(28, 64) LOAD_B(29, 80)
        "add %[b], %[b], #96\n"
        "1:\n"
        ROW(0, "v30", "q31", 16)
        ROW(1, "v31", "q30", 32)
        ROW(2, "v30", "q31", 48)
        LAST_ROW(3, "v31", "q30", 64)
        "add %[a], %[a], #64\n"
        "add %[b], %[b], #96\n"
        "subs %[k], %[k], #4\n"
        "b.gt 1b\n"
        : SUMS(0), SUMS(1), SUMS(2), SUMS(3), [k] "+r"(k), [a] "+r"(a), [b] "+r"(b)
        :
        : "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
    /* clang-format on */
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 6; j += 2) {
            store_rows(c + i * 24 + j * 2, sum[i][j], sum[i][j + 1], add);
        }
    }
}

static void narrow(int64_t k, const float *c, void *to) {
    narrow_fours(k, 12, c, to);
}

#define NAME         bf16_8x12__neon_bfmmla
#define PACKED       uint16_t
#define AS           WEFT_BF16
#define A_LINES      8
#define A_INTERLEAVE 4
#define B_LINES      12
#define B_INTERLEAVE 4
#define DEPTH        4
#define SQUARE       4
#define TRANSPOSE    transpose_halves
#define NARROW_RUN   narrow_run
#define PANEL        panel_12_short__neon
#define DECODE       decode__neon_bfmmla
#define RESULTS      rows__neon
#define FETCH        12
#define FETCH_ACROSS 6
#define NARROW       narrow
#include "cpu/kernel/block.inc"
