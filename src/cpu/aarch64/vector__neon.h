/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of four floats. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_AARCH64_VECTOR__NEON_H
#define WEFT_CPU_AARCH64_VECTOR__NEON_H

#include <arm_neon.h>
#include <string.h>

#define WIDTH 4
typedef float32x4_t vec;
typedef int32x4_t ints;

static inline vec vec_load(const float *from) {
    return vld1q_f32(from);
}

static inline vec vec_load_bf16(const void *from) {
    uint16x4_t halves;
    memcpy(&halves, from, sizeof halves);
    return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

static inline vec vec_load_fp16(const void *from) {
    float16x4_t halves;
    memcpy(&halves, from, sizeof halves);
    return vcvt_f32_f16(halves);
}

static inline void vec_store(float *to, vec v) {
    vst1q_f32(to, v);
}

/* To nearest, ties to even; NaN stays NaN. */
static inline void vec_store_bf16(void *to, vec v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    const uint16x4_t halves = vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
    memcpy(to, &halves, sizeof halves);
}

static inline void vec_store_fp16(void *to, vec v) {
    const float16x4_t halves = vcvt_f16_f32(v);
    memcpy(to, &halves, sizeof halves);
}

static inline vec vec_all(float x) {
    return vdupq_n_f32(x);
}

/* x * y + sum, rounded once: compilers fuse operators where they like, and the same bits are to come from different
 * code. */
static inline vec vec_fma(vec x, vec y, vec sum) {
    return vfmaq_f32(sum, x, y);
}

/* NaN when b is NaN. */
static inline vec vec_max(vec a, vec b) {
    return vmaxq_f32(a, b);
}

/* a where the mask is set, b elsewhere */
static inline vec vec_select(ints mask, vec a, vec b) {
    return vbslq_f32(vreinterpretq_u32_s32(mask), a, b);
}

static inline float vec_sum(vec v) {
    return vaddvq_f32(v);
}

static inline int vec_any(ints mask) {
    return vmaxvq_u32(vreinterpretq_u32_s32(mask)) != 0;
}

#endif
