/* SPDX-License-Identifier: Apache-2.0 */
/* Transposing and widening small squares while packing. */
#ifndef WEFT_CPU_AARCH64_TRANSPOSE_H
#define WEFT_CPU_AARCH64_TRANSPOSE_H

#include <arm_neon.h>
#include <stdint.h>

#include "cpu/kernel/kernel.h"

/* Four rows of four values, `step` bytes apart, become columns, `to_step` values apart. */
static inline void transpose_floats(const char *from, int64_t step, float *to, int64_t to_step) {
    const float32x4_t a = vld1q_f32((const float *)(const void *)from),
                      b = vld1q_f32((const float *)(const void *)(from + step));
    const float32x4_t c = vld1q_f32((const float *)(const void *)(from + 2 * step)),
                      d = vld1q_f32((const float *)(const void *)(from + 3 * step));
    const float32x4_t ac = vzip1q_f32(a, c), bd = vzip1q_f32(b, d), ac2 = vzip2q_f32(a, c), bd2 = vzip2q_f32(b, d);
    vst1q_f32(to, vzip1q_f32(ac, bd));
    vst1q_f32(to + to_step, vzip2q_f32(ac, bd));
    vst1q_f32(to + 2 * to_step, vzip1q_f32(ac2, bd2));
    vst1q_f32(to + 3 * to_step, vzip2q_f32(ac2, bd2));
}

/* The same for 16-bit values. */
static inline void transpose_halves(const char *from, int64_t step, uint16_t *to, int64_t to_step) {
    const uint16x4_t a = vld1_u16((const uint16_t *)(const void *)from),
                     b = vld1_u16((const uint16_t *)(const void *)(from + step));
    const uint16x4_t c = vld1_u16((const uint16_t *)(const void *)(from + 2 * step)),
                     d = vld1_u16((const uint16_t *)(const void *)(from + 3 * step));
    const uint16x4_t ac = vzip1_u16(a, c), bd = vzip1_u16(b, d), ac2 = vzip2_u16(a, c), bd2 = vzip2_u16(b, d);
    vst1_u16(to, vzip1_u16(ac, bd));
    vst1_u16(to + to_step, vzip2_u16(ac, bd));
    vst1_u16(to + 2 * to_step, vzip1_u16(ac2, bd2));
    vst1_u16(to + 3 * to_step, vzip2_u16(ac2, bd2));
}

/* Four values of fp16 or bf16 to floats. */
static inline void widen_four(weft_dtype dtype, const char *from, float *to) {
    const uint16x4_t halves = vld1_u16((const uint16_t *)(const void *)from);
    vst1q_f32(to, dtype == WEFT_FP16 ? vcvt_f32_f16(vreinterpret_f16_u16(halves))
                                     : vreinterpretq_f32_u32(vshll_n_u16(halves, 16)));
}

#endif
