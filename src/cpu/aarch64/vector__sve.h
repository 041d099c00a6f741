/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors as long as the compiler is told by -msve-vector-bits. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_AARCH64_VECTOR__SVE_H
#define WEFT_CPU_AARCH64_VECTOR__SVE_H

#include <arm_sve.h>

#define WIDTH (__ARM_FEATURE_SVE_BITS / 32)
typedef svfloat32_t vec __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svint32_t ints __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));

static inline vec vec_load(const float *from) {
    return svld1_f32(svptrue_b32(), from);
}

static inline void vec_store(float *to, vec v) {
    svst1_f32(svptrue_b32(), to, v);
}

static inline vec vec_all(float x) {
    return svdup_n_f32(x);
}

/* x * y + sum, rounded once: compilers fuse operators where they like, and the same bits are to come from different code.
 */
static inline vec vec_fma(vec x, vec y, vec sum) {
    return svmla_f32_x(svptrue_b32(), sum, x, y);
}

/* NaN when b is NaN. */
static inline vec vec_max(vec a, vec b) {
    return svmax_f32_x(svptrue_b32(), a, b);
}

/* a where the mask is set, b elsewhere */
static inline vec vec_select(ints mask, vec a, vec b) {
    return svsel_f32(svcmpne_n_s32(svptrue_b32(), mask, 0), a, b);
}

static inline int vec_any(ints mask) {
    return svptest_any(svptrue_b32(), svcmpne_n_s32(svptrue_b32(), mask, 0));
}

#endif
