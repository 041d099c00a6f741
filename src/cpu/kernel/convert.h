/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of elements to floats and back. */
#ifndef WEFT_CPU_KERNEL_CONVERT_H
#define WEFT_CPU_KERNEL_CONVERT_H

#include <weft/weft.h>

/* `count` elements from data[index] as floats, and back, rounded to nearest. */
void weft_cpu_load(weft_dtype dtype, const void *data, size_t index, int64_t count, float *to);
void weft_cpu_store(weft_dtype dtype, void *data, size_t index, int64_t count, const float *from);

#endif
