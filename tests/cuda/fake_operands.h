/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of operands on the fake driver. */
#ifndef WEFT_TESTS_CUDA_FAKE_OPERANDS_H
#define WEFT_TESTS_CUDA_FAKE_OPERANDS_H

#include <string.h>

#include "ref/ref.h"

/* The dtype that a variant's name says. WEFT_FP32 stands for TF32, whose operands are described as if they were of 16 bits.
 */
static inline weft_dtype fake_multiplied(const char *name) {
    return strcmp(name, "tf32") == 0 ? WEFT_FP32 : (weft_dtype)weft_dtype_find(name);
}

/* The element k of a line that lies along k at `line`: of TF32 two of 16 bits are one, and then zero. */
static inline double fake_tf32(const void *line, int64_t k) {
    uint32_t bits;
    float value;
    memcpy(&bits, (const char *)line + 4 * (k / 2), sizeof bits);
    bits &= 0xffffe000;
    memcpy(&value, &bits, sizeof value);
    return k % 2 ? 0 : (double)value;
}

#endif
