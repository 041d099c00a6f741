/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that every problem shares: dimensions, dtypes and what a tensor spans. */
#include "problem/tensor.h"

#include <inttypes.h>
#include <math.h>

#include "base/status.h"

static weft_status check_dimension(const char *name, int64_t value, weft_message *message) {
    if (value < 1 || value > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not between 1 and %" PRId64, name, value,
                         WEFT_MAX_DIMENSION);
    }
    return WEFT_OK;
}

weft_status weft_check_dimensions(const weft_dimension *fields, size_t count, weft_message *message) {
    for (size_t i = 0; i < count; i++) {
        const weft_status status = check_dimension(fields[i].name, fields[i].value, message);
        if (status) {
            return status;
        }
    }
    return WEFT_OK;
}

weft_status weft_check_factor(const char *name, double value, weft_message *message) {
    return fabs(value) >= 1e-30 && fabs(value) <= 1e30
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "%s %g is not between 1e-30 and 1e30 in size", name, value);
}

weft_status weft_check_dtype(const char *name, weft_dtype dtype, weft_message *message) {
    if (!weft_dtype_name(dtype)) {
        return weft_fail(message, WEFT_INVALID, "%s %d is not WEFT_FP32, WEFT_FP16, WEFT_BF16 or WEFT_FP8", name,
                         (int)dtype);
    }
    return WEFT_OK;
}

size_t weft_dtype_bytes(weft_dtype dtype) {
    return dtype == WEFT_FP32 || dtype == WEFT_INT32  ? 4
           : dtype == WEFT_FP16 || dtype == WEFT_BF16 ? 2
           : dtype == WEFT_FP8 || dtype == WEFT_BOOL  ? 1
           : dtype == WEFT_INT64                      ? 8
                                                      : 0;
}

/* The stride of an axis of length 1 says nothing, so any is taken; a vast one is lowered, since it will be multiplied. */
void weft_lower_stride(int64_t *stride, int64_t length) {
    if (length == 1 && *stride > WEFT_MOST_ELEMENTS) {
        *stride = WEFT_MOST_ELEMENTS;
    }
}

/* Elements from the first to the last of a tensor, or 0 when that is beyond what weft can address. */
int64_t weft_extent(const weft_tensor_axis *axes, size_t count, int64_t innermost) {
    int64_t total = innermost;
    for (size_t i = 0; i < count; i++) {
        int64_t reach;
        if (!weft_multiply(axes[i].length - 1, axes[i].stride, &reach) || reach > WEFT_MOST_ELEMENTS - total) {
            return 0;
        }
        total += reach;
    }
    return total;
}

/* An output must not write the same element twice: every axis, taken from the smallest stride up, has to step over all that
 * the axes below it reach. */
int weft_overlaps_itself(weft_tensor_axis *axes, size_t count, int64_t innermost) {
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && axes[j - 1].stride > axes[j].stride; j--) {
            const weft_tensor_axis swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
    }
    int64_t below = innermost;
    for (size_t i = 0; i < count; i++) {
        if (axes[i].length > 1) {
            if (axes[i].stride < below) {
                return 1;
            }
            below += (axes[i].length - 1) * axes[i].stride;
        }
    }
    return 0;
}

weft_status weft_resolve_strides(weft_strides *s, const char *name, weft_layout layout, int64_t batch, int64_t seq,
                                 int64_t heads, int64_t row, weft_message *message) {
    if (s->batch < 0 || s->seq < 0 || s->head < 0) {
        return weft_fail(message, WEFT_INVALID,
                         "%s_strides are negative: batch %" PRId64 ", seq %" PRId64 ", head %" PRId64, name, s->batch,
                         s->seq, s->head);
    }
    if (s->batch == 0 && s->seq == 0 && s->head == 0) {
        s->seq = layout == WEFT_BSHD ? heads * row : row;
        s->head = layout == WEFT_BSHD ? row : seq * row; /* below 2^31 and 2^10: these fit */
        if (!weft_multiply(seq * row, heads, &s->batch)) {
            s->batch = INT64_MAX; /* refused below, unless there is one batch and it fits */
        }
    }
    weft_lower_stride(&s->batch, batch);
    weft_lower_stride(&s->seq, seq);
    weft_lower_stride(&s->head, heads);
    const weft_tensor_axis axes[] = {{batch, s->batch}, {seq, s->seq}, {heads, s->head}};
    return weft_extent(axes, 3, row) ? WEFT_OK : weft_fail(message, WEFT_INVALID, "%s spans more than 2^59 elements", name);
}
