/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of elements to floats and back. */
#include "cpu/kernel/convert.h"

#include "cpu/kernel/element.h"

void weft_cpu_load(weft_dtype dtype, const void *data, size_t index, int64_t count, float *to) {
    if (dtype == WEFT_FP32) {
        memcpy(to, (const char *)data + index * sizeof *to, (size_t)count * sizeof *to);
        return;
    }
    const char *from = (const char *)data + index * sizeof(uint16_t);
    for (int64_t i = 0; i < count; i++) {
        to[i] = weft_element(dtype, from + i * (int64_t)sizeof(uint16_t));
    }
}

void weft_cpu_store(weft_dtype dtype, void *data, size_t index, int64_t count, const float *from) {
    if (dtype == WEFT_FP32) {
        memcpy((char *)data + index * sizeof *from, from, (size_t)count * sizeof *from);
        return;
    }
    char *to = (char *)data + index * sizeof(uint16_t);
    uint16_t half;
    if (dtype == WEFT_BF16) {
        for (int64_t i = 0; i < count; i++) {
            half = weft_narrow_bf16(from[i]);
            memcpy(to + i * (int64_t)sizeof half, &half, sizeof half);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        half = weft_narrow_fp16(from[i]);
        memcpy(to + i * (int64_t)sizeof half, &half, sizeof half);
    }
}
