/* SPDX-License-Identifier: Apache-2.0 */
/* fp16, 8 x 12, by the instruction that multiplies halves and adds to floats: products are exact, sums are those of fp32.
 */
#include "cpu/aarch64/transpose.h"
#include "cpu/aarch64/vector__neon.h"
#include "cpu/kernel/kernel.h"

#define FMLA     "fmlal"
#define VECTOR   ".4h"
#define LANE     ".h"
#define REGISTER "d"
#define STRIDE   "#8"
#include "cpu/aarch64/multiply_8x12.inc"

/* Weights are at most 1, so that none overflows. Two rows at a time. */
static void narrow(int64_t k, const float *c, void *to) {
    char *out = to;
    for (int64_t i = 0; i < k; i += 2, c += 24, out += 48) {
        float16x8_t halves[3];
        for (int j = 0; j < 3; j++) {
            halves[j] = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(c + 8 * j)), vld1q_f32(c + 8 * j + 4));
        }
        memcpy(out, halves, sizeof halves);
    }
}

#define NAME         fp16_8x12__neon_fhm
#define PACKED       uint16_t
#define AS           WEFT_FP16
#define A_LINES      8
#define A_INTERLEAVE 1
#define B_LINES      12
#define B_INTERLEAVE 1
#define DEPTH        2
#define SQUARE       4
#define TRANSPOSE    transpose_halves
#define PANEL        panel_12__neon
#define DECODE       decode__neon
#define RESULTS      rows__neon
#define FETCH        12
#define FETCH_ACROSS 6
#define NARROW       narrow
#include "cpu/kernel/block.inc"
