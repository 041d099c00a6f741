/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions and conversions on a CPU. */
#ifndef WEFT_CUDA_PTX_MATH_CUH
#define WEFT_CUDA_PTX_MATH_CUH

#include "halves.h"

/* Zero in place of a denormal; the sign does not matter to the kernels. */
static inline float emulated_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? 0 : x;
}

static inline float exp2_flushed(float x) {
    return emulated_flushed(exp2f(x));
}

static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float tanh_approximate(float x) {
    return tanhf(x);
}

static inline float larger_or_nan(float a, float b) {
    return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
}

static inline int largest_of_three(int a, int b, int c) {
    return max(max(a, b), c);
}

static inline float log2_flushed(float x) {
    return log2f(emulated_flushed(x));
}

static inline float reciprocal_flushed(float x) {
    return emulated_flushed(1 / emulated_flushed(x));
}

template <bool BF16> static inline uint32_t pack_halves(float low, float high) {
    uint16_t two[2];
    weft_ref_store(BF16 ? WEFT_BF16 : WEFT_FP16, two, 0, low);
    weft_ref_store(BF16 ? WEFT_BF16 : WEFT_FP16, two, 1, high);
    return two[0] | (uint32_t)two[1] << 16;
}

template <bool BF16> static inline float half_to_float(uint32_t half) {
    return emulated_half(BF16, (uint16_t)half);
}

#endif
