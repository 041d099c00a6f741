/* SPDX-License-Identifier: Apache-2.0 */
/* Storage formats in software. A double is rounded once, straight to the target: going through float would round twice, and
 * a value just beside the middle of two neighbours could then land on the wrong one. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

/* A 16-bit format: 1 sign bit, then exponent and mantissa bits, laid out as IEEE 754 does. */
typedef struct format {
    int exponent_bits, mantissa_bits;
} format;

static const format fp16 = {5, 10};
static const format bf16 = {8, 7};

enum { DOUBLE_MANTISSA = 52, DOUBLE_BIAS = 1023, DOUBLE_SPECIAL = 0x7ff };

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int bias_of(format f) {
    return (1 << (f.exponent_bits - 1)) - 1;
}

/* Exact: every value of a 16-bit format is a double. Its bits, at the end of a double's exponent and the beginning of its
 * mantissa, are that value but for the bias, subnormals included. */
static double widen(format f, uint16_t half) {
    const uint64_t sign = (uint64_t)(half >> 15) << 63, size = half & 0x7fff;
    const uint64_t bits = size << (DOUBLE_MANTISSA - f.mantissa_bits);
    if (size >> f.mantissa_bits == (UINT64_C(1) << f.exponent_bits) - 1) { /* infinity or NaN: all exponent bits are set */
        return double_of_bits(sign | bits | (uint64_t)DOUBLE_SPECIAL << DOUBLE_MANTISSA);
    }
    const double unbiased =
        double_of_bits((uint64_t)(2 * DOUBLE_BIAS - bias_of(f)) << DOUBLE_MANTISSA); /* 2^(1023 - bias) */
    return double_of_bits(sign | bits) * unbiased;
}

/* value / 2^shift, to nearest, ties to even; 1 <= shift <= 63. */
static uint64_t shift_to_nearest(uint64_t value, int shift) {
    const uint64_t half = UINT64_C(1) << (shift - 1);
    const uint64_t rest = value & (2 * half - 1);
    const uint64_t quotient = value >> shift;
    return quotient + (rest > half || (rest == half && quotient % 2 != 0));
}

static uint16_t narrow(format f, double value) {
    const uint64_t bits = bits_of_double(value);
    const uint64_t sign = bits >> 63 << 15;
    const int exponent = (int)(bits >> DOUBLE_MANTISSA & DOUBLE_SPECIAL);
    const uint64_t mantissa = bits & ((UINT64_C(1) << DOUBLE_MANTISSA) - 1);
    const uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.mantissa_bits;
    const int drop = DOUBLE_MANTISSA - f.mantissa_bits;

    if (exponent == DOUBLE_SPECIAL && mantissa != 0) { /* the quiet bit, so that dropping bits never leaves an infinity */
        return (uint16_t)(sign | infinity | UINT64_C(1) << (f.mantissa_bits - 1) | mantissa >> drop);
    }
    /* The exponent in the target's bias. Below 1 the result is subnormal: it keeps the smallest normal's exponent and loses
     * a bit for each step down. At 55 dropped bits nothing is left to round up, and a subnormal double is far below that.
     */
    const int target = exponent - DOUBLE_BIAS + bias_of(f);
    const int shift = target >= 1 ? drop : drop + 1 - target;
    if (shift > 54) {
        return (uint16_t)sign;
    }
    /* The hidden bit adds 1 to the exponent field, as does a mantissa that rounds up to the next power of two. */
    const uint64_t field = target >= 1 ? (uint64_t)(target - 1) << f.mantissa_bits : 0;
    const uint64_t size = field + shift_to_nearest(mantissa | UINT64_C(1) << DOUBLE_MANTISSA, shift);
    return (uint16_t)(sign | (size < infinity ? size : infinity));
}

static double load_half(format f, const void *data, size_t index) {
    uint16_t half;
    memcpy(&half, (const char *)data + index * sizeof half, sizeof half);
    return widen(f, half);
}

static void store_half(format f, void *data, size_t index, double value) {
    const uint16_t half = narrow(f, value);
    memcpy((char *)data + index * sizeof half, &half, sizeof half);
}

double weft_ref_load(weft_dtype dtype, const void *data, size_t index) {
    switch (dtype) {
    case WEFT_FP16:
        return load_half(fp16, data, index);
    case WEFT_BF16:
        return load_half(bf16, data, index);
    case WEFT_FP8: /* weft_problem_check_dtypes() has refused it */
        return NAN;
    case WEFT_FP32:
        break;
    }
    float value;
    memcpy(&value, (const char *)data + index * sizeof value, sizeof value);
    return value;
}

void weft_ref_store(weft_dtype dtype, void *data, size_t index, double value) {
    switch (dtype) {
    case WEFT_FP16:
        store_half(fp16, data, index, value);
        return;
    case WEFT_BF16:
        store_half(bf16, data, index, value);
        return;
    case WEFT_FP8:
        return;
    case WEFT_FP32:
        break;
    }
    const float rounded = (float)value;
    memcpy((char *)data + index * sizeof rounded, &rounded, sizeof rounded);
}

double weft_ref_round(weft_dtype dtype, double value) {
    char element[sizeof(float)];
    weft_ref_store(dtype, element, 0, value);
    return weft_ref_load(dtype, element, 0);
}
