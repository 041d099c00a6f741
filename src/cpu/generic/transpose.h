/* SPDX-License-Identifier: Apache-2.0 */
/* Transposing and widening small squares while packing. */
#ifndef WEFT_CPU_GENERIC_TRANSPOSE_H
#define WEFT_CPU_GENERIC_TRANSPOSE_H

#include "cpu/generic/vector__generic.h"

/* Four rows of four values, `step` bytes apart, become columns, `to_step` values apart. */
static inline void transpose_floats(const char *from, int64_t step, float *to, int64_t to_step) {
    for (int i = 0; i < 4; i++) {
        const vec row = vec_load((const float *)(const void *)(from + i * step));
        for (int j = 0; j < 4; j++) {
            to[j * to_step + i] = row[j];
        }
    }
}

/* Four values of fp16 or bf16 to floats. */
static inline void widen_four(weft_dtype dtype, const char *from, float *to) {
    vec_store(to, dtype == WEFT_FP16 ? vec_load_fp16(from) : vec_load_bf16(from));
}

#endif
