/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of four floats in GNU C, for any processor. Arithmetic on vec and ints is by operators. */
#ifndef WEFT_CPU_GENERIC_VECTOR__GENERIC_H
#define WEFT_CPU_GENERIC_VECTOR__GENERIC_H

#include <stdint.h>
#include <string.h>

#include "cpu/kernel/element.h"

#define WIDTH 4
typedef float vec __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));

static inline vec vec_load(const float *from) {
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline vec vec_load_bf16(const void *from) {
    uint16_t halves[4];
    memcpy(halves, from, sizeof halves);
    return (vec)((ints){halves[0], halves[1], halves[2], halves[3]} << 16);
}

static inline vec vec_load_fp16(const void *from) {
    const char *at = from;
    return (vec){weft_element(WEFT_FP16, at), weft_element(WEFT_FP16, at + 2), weft_element(WEFT_FP16, at + 4),
                 weft_element(WEFT_FP16, at + 6)};
}

static inline void vec_store(float *to, vec v) {
    memcpy(to, &v, sizeof v);
}

static inline void vec_store_bf16(void *to, vec v) {
    const uint16_t halves[4] = {weft_narrow_bf16(v[0]), weft_narrow_bf16(v[1]), weft_narrow_bf16(v[2]),
                                weft_narrow_bf16(v[3])};
    memcpy(to, halves, sizeof halves);
}

static inline void vec_store_fp16(void *to, vec v) {
    const uint16_t halves[4] = {weft_narrow_fp16(v[0]), weft_narrow_fp16(v[1]), weft_narrow_fp16(v[2]),
                                weft_narrow_fp16(v[3])};
    memcpy(to, halves, sizeof halves);
}

static inline vec vec_all(float x) {
    return x - (vec){0};
}

/* x * y + sum, rounded once where the processor always can, and twice where it never does: compilers fuse operators where
 * they like, and the same bits are to come from different code. */
static inline vec vec_fma(vec x, vec y, vec sum) {
#ifdef __ARM_FEATURE_FMA
    for (int i = 0; i < WIDTH; i++) {
        sum[i] = __builtin_fmaf(x[i], y[i], sum[i]);
    }
    return sum;
#else
    return x * y + sum;
#endif
}

/* a where the mask is set, b elsewhere */
static inline vec vec_select(ints mask, vec a, vec b) {
    return (vec)(((ints)a & mask) | ((ints)b & ~mask));
}

/* NaN when b is NaN. */
static inline vec vec_max(vec a, vec b) {
    return vec_select((ints)(a > b), a, b);
}

static inline float vec_sum(vec v) {
    return (v[0] + v[1]) + (v[2] + v[3]);
}

static inline int vec_any(ints mask) {
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}

#endif
