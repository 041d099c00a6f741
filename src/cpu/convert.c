/* Rows of elements to floats and back. */
#include <string.h>

#include "cpu/cpu.h"

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Exact. Subnormals and infinities come out right by a multiplication that rescales the exponent. */
static inline float widen_fp16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) { /* infinity, or NaN with its payload */
        return float_of(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    }
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

/* To nearest, ties to even: adding a power of two that drops the bits below the last one kept makes the processor round. */
static inline uint16_t narrow_fp16(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    }
    if (rest >= 0x477ff000u) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000u) { /* below the smallest normal, 2^-14: count in units of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    }
    const uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static inline uint16_t narrow_bf16(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void weft_cpu_load(weft_dtype dtype, const void *data, size_t index, int64_t count, float *to) {
    if (dtype == WEFT_FP32) {
        memcpy(to, (const char *)data + index * sizeof *to, (size_t)count * sizeof *to);
        return;
    }
    const char *from = (const char *)data + index * sizeof(uint16_t);
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * (int64_t)sizeof half, sizeof half);
        to[i] = dtype == WEFT_BF16 ? float_of((uint32_t)half << 16) : widen_fp16(half);
    }
}

void weft_cpu_store(weft_dtype dtype, void *data, size_t index, int64_t count, const float *from) {
    if (dtype == WEFT_FP32) {
        memcpy((char *)data + index * sizeof *from, from, (size_t)count * sizeof *from);
        return;
    }
    char *to = (char *)data + index * sizeof(uint16_t);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = dtype == WEFT_BF16 ? narrow_bf16(from[i]) : narrow_fp16(from[i]);
        memcpy(to + i * (int64_t)sizeof half, &half, sizeof half);
    }
}
