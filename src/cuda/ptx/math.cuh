/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions and conversions, one instruction each. */
#ifndef WEFT_CUDA_PTX_MATH_CUH
#define WEFT_CUDA_PTX_MATH_CUH

#include <stdint.h>

/* 2^x; denormal inputs and results are flushed to zero. */
static __device__ __forceinline__ float exp2_flushed(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* tanh(x), off by at most 2^-11 of itself. */
static __device__ __forceinline__ float tanh_approximate(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2(x), denormals flushed to zero. */
static __device__ __forceinline__ float log2_flushed(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x to within one unit in the last place, denormals flushed to zero. */
static __device__ __forceinline__ float reciprocal_flushed(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The larger of two; NaN where one is (sm_80). */
static __device__ __forceinline__ float larger_or_nan(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}

/* The largest of three: one instruction on Hopper. */
static __device__ __forceinline__ int largest_of_three(int a, int b, int c) {
    return __vimax3_s32(a, b, c);
}

/* Two floats rounded to nearest even, `low` in the lower half. */
template <bool BF16> static __device__ __forceinline__ uint32_t pack_halves(float low, float high) {
    uint32_t packed;
    if constexpr (BF16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    }
    return packed;
}

/* The 16-bit number in the lower half of `half`, whose upper half is 0. */
template <bool BF16> static __device__ __forceinline__ float half_to_float(uint32_t half) {
    float value;
    if constexpr (BF16) {
        value = __uint_as_float(half << 16);
    } else {
        asm("{.reg .b16 h;\nmov.b32 {h, _}, %1;\ncvt.f32.f16 %0, h;}" : "=f"(value) : "r"(half));
    }
    return value;
}

#endif
