/* SPDX-License-Identifier: Apache-2.0 */
/* Floats to bf16, four values of a column after each other: what the bf16 kernels take as B. */
#ifndef WEFT_CPU_AARCH64_NARROW_H
#define WEFT_CPU_AARCH64_NARROW_H

#include <arm_neon.h>
#include <stdint.h>

/* Four rows of four floats, `step` floats apart, become four columns of bf16. */
static inline void narrow_square(const float *c, int step, uint16_t *to) {
    static const uint8_t columns[2][16] = {{0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27},
                                           {4, 5, 12, 13, 20, 21, 28, 29, 6, 7, 14, 15, 22, 23, 30, 31}};
    const bfloat16x8_t upper = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(c)), vld1q_f32(c + step));
    const bfloat16x8_t lower = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(c + 2 * step)), vld1q_f32(c + 3 * step));
    const uint8x16x2_t both = {{vreinterpretq_u8_bf16(upper), vreinterpretq_u8_bf16(lower)}};
    vst1q_u16(to, vreinterpretq_u16_u8(vqtbl2q_u8(both, vld1q_u8(columns[0]))));
    vst1q_u16(to + 8, vreinterpretq_u16_u8(vqtbl2q_u8(both, vld1q_u8(columns[1]))));
}

/* c (k, cols) to (k / 4, cols, 4); both multiples of 4. */
static inline __attribute__((always_inline)) void narrow_fours(int64_t k, int cols, const float *c, uint16_t *to) {
    for (int64_t i = 0; i < k; i += 4, c += 4 * cols, to += 4 * cols) {
        for (int j = 0; j < cols; j += 4) {
            narrow_square(c + j, cols, to + 4 * j);
        }
    }
}

/* `count` floats in a row, a multiple of 4. */
static inline void narrow_run(const float *from, int count, uint16_t *to) {
    for (int i = 0; i < count; i += 4) {
        vst1_u16(to + i, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(from + i))));
    }
}

#endif
