/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit elements as floats. */
#ifndef WEFT_TESTS_CUDA_EMULATE_HALVES_H
#define WEFT_TESTS_CUDA_EMULATE_HALVES_H

#include "emulate.h"

extern "C" {
#include "ref/ref.h"
}

/* All values of fp16, by their bits: products convert so many that the reference's way takes too long. */
struct emulated_fp16_values {
    float of[1 << 16];

    emulated_fp16_values() {
        for (unsigned i = 0; i < 1 << 16; i++) {
            const uint16_t half = (uint16_t)i;
            of[i] = (float)weft_ref_load(WEFT_FP16, &half, 0);
        }
    }
};
inline const emulated_fp16_values emulated_fp16;

static inline float emulated_half(bool bf16, uint16_t half) {
    if (!bf16) {
        return emulated_fp16.of[half];
    }
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* What the tensor cores see of an element of fp32: its lower 13 bits count nothing. */
static inline float emulated_tf32(uint32_t bits) {
    float value;
    bits &= 0xffffe000;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
