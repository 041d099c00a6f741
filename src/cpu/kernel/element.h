/* SPDX-License-Identifier: Apache-2.0 */
/* One element to a float and back, inlined into loops over many. */
#ifndef WEFT_CPU_ELEMENT_H
#define WEFT_CPU_ELEMENT_H

#include <string.h>

#include <weft/weft.h>

static inline uint32_t weft_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float weft_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Exact. Subnormals and infinities come out right by a multiplication that rescales the exponent. */
static inline float weft_widen_fp16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) { /* infinity, or NaN with its payload */
        return weft_float_of(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    }
    return weft_float_of(sign | weft_bits_of(weft_float_of(rest << 13) * 0x1p112f));
}

/* To nearest, ties to even: adding a power of two that drops the bits below the last one kept makes the processor round. */
static inline uint16_t weft_narrow_fp16(float x) {
    const uint32_t bits = weft_bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    }
    if (rest >= 0x477ff000u) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000u) { /* below the smallest normal, 2^-14: count in units of 2^-24 */
        return (uint16_t)(sign | (weft_bits_of(weft_float_of(rest) + 0.5f) - weft_bits_of(0.5f)));
    }
    const uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static inline uint16_t weft_narrow_bf16(float x) {
    const uint32_t bits = weft_bits_of(x);
    const uint16_t nan = (uint16_t)(bits >> 16 | 0x40), rounded = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}

static inline float weft_element(weft_dtype dtype, const char *p) {
    uint16_t half;
    float x;
    if (dtype == WEFT_FP32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&half, p, sizeof half);
    if (dtype == WEFT_BF16) {
        return weft_float_of((uint32_t)half << 16);
    }
#if defined(__aarch64__) /* an instruction */
    __fp16 hard;
    memcpy(&hard, p, sizeof hard);
    return (float)hard;
#elif defined(__F16C__)
    return __builtin_ia32_vcvtph2ps((short __attribute__((vector_size(16)))){(short)half})[0];
#else
    return weft_widen_fp16(half);
#endif
}

#endif
