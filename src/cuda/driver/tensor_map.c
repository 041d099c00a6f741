/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver/tensor_map.h"

#include <inttypes.h>

#include "base/status.h"

/* As numbered in cuda.h. */
enum {
    TYPE_UINT8 = 0,
    TYPE_FP16 = 6,
    TYPE_FP32 = 7,
    TYPE_BF16 = 9,
    SWIZZLE_32 = 1,
    SWIZZLE_64 = 2,
    SWIZZLE_128 = 3,
    PROMOTE_NONE = 0,
    PROMOTE_64 = 1,
    PROMOTE_128 = 2,
    PROMOTE_256 = 3
};

enum { SHORT_ROW = 512 }; /* bytes: beyond, what a wide request brings at a row's two ends hardly counts */

static int type_of(weft_dtype dtype) {
    return dtype == WEFT_FP16 ? TYPE_FP16 : dtype == WEFT_BF16 ? TYPE_BF16 : dtype == WEFT_BOOL ? TYPE_UINT8 : TYPE_FP32;
}

static int swizzle_of(const weft_tensor_view *view, int64_t bytes) {
    const int64_t row = view->box[0] * bytes;
    return !view->swizzle ? 0 : row > 64 ? SWIZZLE_128 : row > 32 ? SWIZZLE_64 : SWIZZLE_32;
}

/* How much the L2 fetches at a request for a sector: as much as may be, but nothing of a short row's neighbours, which
 * belong to other heads and are long gone when these are computed. */
static int promotion_of(const weft_tensor_view *view, int64_t bytes) {
    const int64_t row = view->length[0] * bytes;
    int64_t whole = row; /* bytes that divides every distance there is */
    int promotion = view->narrow ? PROMOTE_128 : PROMOTE_256;
    int is_packed = row > SHORT_ROW;
    for (int i = 1; i < view->rank; i++) {
        is_packed |= view->length[i] > 1 && view->stride[i] == view->length[0] && view->box[i] > 1;
        whole |= view->length[i] > 1 ? view->stride[i] * bytes : 0; /* the lowest bit that is set is what counts */
    }
    while (promotion > PROMOTE_NONE && !is_packed && whole % (32 << promotion) != 0) {
        promotion--;
    }
    return promotion;
}

weft_status weft_tensor_map_make(const weft_cuda_driver *driver, const char *name, const weft_tensor_view *view,
                                 weft_tensor_map *map, weft_message *message) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(view->dtype);
    uint64_t lengths[WEFT_TENSOR_RANK], strides[WEFT_TENSOR_RANK];
    uint32_t box[WEFT_TENSOR_RANK], steps[WEFT_TENSOR_RANK];
    if (!driver->tensor_map) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the CUDA driver has no tensor maps");
    }
    for (int i = 0; i < view->rank; i++) {
        if (view->length[i] < 1 || view->length[i] > UINT32_MAX) {
            return weft_fail(message, WEFT_UNSUPPORTED, "%s has an axis of %" PRId64 " elements: not 1 to 2^32 - 1", name,
                             view->length[i]);
        }
        /* An axis of one element has no stride to speak of; the driver wants a valid one all the same. */
        const int64_t stride = view->length[i] > 1 ? view->stride[i] : 16 / bytes;
        if (i > 0 && (stride < 0 || stride >= (INT64_C(1) << 40) / bytes || stride * bytes % 16 != 0)) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "%s has a stride of %" PRId64
                             " elements: the copy engine takes multiples of 16 bytes below 2^40",
                             name, stride);
        }
        lengths[i] = (uint64_t)view->length[i];
        strides[i] = (uint64_t)(stride * bytes);
        box[i] = (uint32_t)view->box[i];
        steps[i] = 1;
    }
    const weft_cu_result result =
        driver->tensor_map(map, type_of(view->dtype), (unsigned)view->rank, (uint64_t)(uintptr_t)view->data, lengths,
                           strides + 1, box, steps, 0, swizzle_of(view, bytes), promotion_of(view, bytes), 0);
    return result ? weft_cuda_fail(driver, result, "a tensor cannot be described to the copy engine", message) : WEFT_OK;
}

weft_status weft_tensor_check_strides(const char *name, const weft_strides *s, int64_t batch, int64_t seq, int64_t heads,
                                      weft_message *why) {
    if ((s->batch | s->seq | s->head) % 8 != 0) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "strides of %s (%" PRId64 ", %" PRId64 ", %" PRId64 ") are not multiples of 8 elements", name,
                         s->batch, s->seq, s->head);
    }
    if ((s->batch == 0 && batch > 1) || (s->seq == 0 && seq > 1) || (s->head == 0 && heads > 1)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "a stride of %s is 0", name);
    }
    return WEFT_OK;
}
