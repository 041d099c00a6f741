/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that every problem shares: dimensions, dtypes and what a tensor spans. */
#ifndef WEFT_PROBLEM_TENSOR_H
#define WEFT_PROBLEM_TENSOR_H

#include <weft/weft.h>

typedef struct weft_dimension {
    const char *name;
    int64_t value;
} weft_dimension;

/* Each between 1 and WEFT_MAX_DIMENSION. */
weft_status weft_check_dimensions(const weft_dimension *fields, size_t count, weft_message *message);
weft_status weft_check_dtype(const char *name, weft_dtype dtype, weft_message *message);

/* What kernels multiply scores by, in fp32: its size is between 1e-30 and 1e30, so that it is neither 0 nor infinite there,
 * nor times log2(e). A factor of 0 makes a hidden score, -inf, NaN. */
weft_status weft_check_factor(const char *name, double value, weft_message *message);

/* From a tensor's first element to its last: their bytes, and the sum of a few such, fit. */
#define WEFT_MOST_ELEMENTS (INT64_C(1) << 59)

typedef struct weft_tensor_axis {
    int64_t length, stride;
} weft_tensor_axis;

/* The stride of an axis of length 1 says nothing, so any is taken; a vast one is lowered, since it will be multiplied. */
void weft_lower_stride(int64_t *stride, int64_t length);

/* Elements from the first to the last of a tensor, or 0 when that is beyond what weft can address. */
int64_t weft_extent(const weft_tensor_axis *axes, size_t count, int64_t innermost);

/* Whether an output would write an element twice. Sorts the axes. */
int weft_overlaps_itself(weft_tensor_axis *axes, size_t count, int64_t innermost);

/* Packed strides where all are 0, and the check of what a tensor (batch, seq, heads, row) spans. */
weft_status weft_resolve_strides(weft_strides *s, const char *name, weft_layout layout, int64_t batch, int64_t seq,
                                 int64_t heads, int64_t row, weft_message *message);

#endif
