/* Special functions and conversions on a CPU. */
#ifndef WEFT_CUDA_PTX_MATH_CUH
#define WEFT_CUDA_PTX_MATH_CUH

#include "emulate.h"

extern "C" {
#include "ref/ref.h"
}

static inline float exp2_flushed(float x) {
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0 : y;
}

static inline float log2_flushed(float x) {
    return log2f(x);
}

static inline float reciprocal_flushed(float x) {
    return 1 / x;
}

template <bool BF16> static inline uint32_t pack_halves(float low, float high) {
    uint16_t two[2];
    weft_ref_store(BF16 ? WEFT_BF16 : WEFT_FP16, two, 0, low);
    weft_ref_store(BF16 ? WEFT_BF16 : WEFT_FP16, two, 1, high);
    return two[0] | (uint32_t)two[1] << 16;
}

#endif
