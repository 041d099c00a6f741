/* SPDX-License-Identifier: Apache-2.0 */
/* What every attention in this folder reads: a dot product of two rows, and the kv head that a query head shares. */
#ifndef WEFT_REF_DOT_H
#define WEFT_REF_DOT_H

#include "ref/ref.h"

/* Sum of a[a_index + d] * b[b_index + d] over d < count, in fp64. */
static inline double weft_ref_dot(weft_dtype dtype, const void *a, size_t a_index, const void *b, size_t b_index,
                                  int64_t count) {
    double sum = 0;
    for (size_t d = 0; d < (size_t)count; d++) {
        sum += weft_ref_load(dtype, a, a_index + d) * weft_ref_load(dtype, b, b_index + d);
    }
    return sum;
}

/* The kv head that query head `head` reads: neighbouring query heads share one. */
static inline int64_t weft_ref_kv_head(const weft_attention *p, int64_t head) {
    return head / (p->heads / p->kv_heads);
}

#endif
