/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of a grouped product: the rows that each has, and the product that it is. */
#include <inttypes.h>

#include "base/status.h"
#include "problem/grouped_gemm.h"

static int is_masked(const weft_grouped_gemm *p) {
    return p->layout == WEFT_GROUPS_MASKED;
}

weft_gemm weft_grouped_gemm_product(const weft_grouped_gemm *p) {
    weft_gemm product = WEFT_GEMM_INIT;
    product.m = p->rows;
    product.n = p->n;
    product.k = p->k;
    product.dtype = p->dtype;
    product.c_dtype = p->c_dtype;
    product.b_major = p->b_major;
    product.lda = p->lda;
    product.ldb = p->ldb;
    product.ldc = p->ldc;
    product.alpha = p->alpha;
    product.batch = p->groups;
    product.a_stride = p->a_stride;
    product.b_stride = p->b_stride;
    product.c_stride = p->c_stride;
    return product;
}

weft_gemm_data weft_grouped_gemm_at(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data,
                                    const weft_group_rows *rows) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const int64_t group = rows->group, row = rows->first;
    weft_gemm_data one = WEFT_GEMM_DATA_INIT;
    one.a = (const char *)data->a + (group * p->a_stride + row * p->lda) * bytes;
    one.b = (const char *)data->b + group * p->b_stride * bytes;
    one.c = (char *)data->c + (group * p->c_stride + row * p->ldc) * c_bytes;
    return one;
}

const int32_t *weft_grouped_gemm_bounds(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data) {
    const int32_t *known = is_masked(p) ? p->counts : p->starts;
    return known || !data ? known : is_masked(p) ? data->counts : data->starts;
}

weft_status weft_grouped_gemm_check_bounds(const weft_grouped_gemm *p, const int32_t *bounds, weft_message *message) {
    const int64_t numbers = is_masked(p) ? p->groups : p->groups + 1;
    for (int64_t i = 0; i < numbers; i++) {
        const int32_t least = i == 0 || is_masked(p) ? 0 : bounds[i - 1];
        if (bounds[i] < least || bounds[i] > p->rows) {
            return weft_fail(message, WEFT_INVALID, "%s[%" PRId64 "] %d is not between %d and %" PRId64,
                             is_masked(p) ? "counts" : "starts", i, (int)bounds[i], (int)least, p->rows);
        }
    }
    return WEFT_OK;
}

weft_groups weft_grouped_gemm_groups(const weft_grouped_gemm *p, const int32_t *bounds, int64_t tile, int64_t strip) {
    return (weft_groups){.bounds = bounds,
                         .count = (int32_t)p->groups,
                         .rows = (int32_t)p->rows,
                         .masked = p->layout == WEFT_GROUPS_MASKED,
                         .tile = (int32_t)tile,
                         .strip = (int32_t)strip,
                         .height = (uint32_t)weft_smaller(tile * strip, INT64_C(1) << 30)};
}

int64_t weft_grouped_gemm_rows(const weft_grouped_gemm *p) {
    int64_t sum = 0;
    if (!is_masked(p)) {
        return p->starts ? p->starts[p->groups] - p->starts[0] : p->rows;
    }
    for (int64_t i = 0; i < p->groups && p->counts; i++) {
        sum += p->counts[i];
    }
    return p->counts ? sum : p->groups * p->rows;
}

int64_t weft_grouped_gemm_mean_rows(const weft_grouped_gemm *p) {
    return weft_larger(weft_ceil_divide(weft_grouped_gemm_rows(p), p->groups), 1);
}
