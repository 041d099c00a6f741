/* Resolved problems, whose every default is filled in: strides and leading dimensions are never all zero, scale is set, and
 * mask is WEFT_MASK_NONE, WEFT_MASK_CAUSAL or WEFT_MASK_WINDOW with the offset that applies; a window that hides nothing on
 * a side is one of the other two. Kernels see only these. */
#ifndef WEFT_PROBLEM_PROBLEM_H
#define WEFT_PROBLEM_PROBLEM_H

#include <weft/order.h>
#include <weft/weft.h>

/* Elements that buffers of a resolved problem must hold, strides included. */
typedef struct weft_attention_extents {
    size_t q, k, v, o; /* elements of dtype */
    size_t lse;        /* floats: batch * heads * seq */
} weft_attention_extents;
typedef struct weft_gemm_extents {
    size_t a, b, c; /* elements of dtype, dtype and c_dtype */
} weft_gemm_extents;
weft_attention_extents weft_attention_sizes(const weft_attention *resolved);
weft_gemm_extents weft_gemm_sizes(const weft_gemm *resolved);

/* The keys that query `row` sees: begin .. end - 1. Both grow from row to row. For resolved problems. */
static inline weft_rows weft_seen_keys(const weft_attention *p, int64_t row) {
    weft_rows seen = {0, p->kv_seq};
    const int is_window = p->mask == WEFT_MASK_WINDOW;
    if (p->mask != WEFT_MASK_NONE) {
        const int64_t at = row + p->offset, begin = is_window ? at - p->left : 0;
        seen.end = weft_larger(weft_smaller(at + (is_window ? p->right : 0) + 1, p->kv_seq), 0);
        seen.begin = weft_larger(weft_smaller(begin, seen.end), 0);
    }
    return seen;
}

/* The most keys that a query sees. */
static inline int64_t weft_most_seen(const weft_attention *p) {
    const weft_rows last = weft_seen_keys(p, p->seq - 1);
    return p->mask == WEFT_MASK_WINDOW ? weft_smaller(p->left + p->right + 1, p->kv_seq) : last.end - last.begin;
}

/* Index of the first element of a (batch, position in the sequence, head) row of a tensor. */
static inline size_t weft_row_index(const weft_strides *s, int64_t batch, int64_t position, int64_t head) {
    return (size_t)(batch * s->batch + position * s->seq + head * s->head);
}

/* Index of element (row, col) of a matrix with leading dimension ld. */
static inline size_t weft_matrix_index(weft_major major, int64_t ld, int64_t row, int64_t col) {
    return (size_t)(major == WEFT_ROW_MAJOR ? row * ld + col : col * ld + row);
}

/* The matrices of one product of a batch. */
static inline weft_gemm_data weft_gemm_product(const weft_gemm *p, const weft_gemm_data *all, int64_t product) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    return (weft_gemm_data){sizeof(weft_gemm_data), WEFT_GEMM, (const char *)all->a + product * p->a_stride * bytes,
                            (const char *)all->b + product * p->b_stride * bytes,
                            (char *)all->c + product * p->c_stride * c_bytes};
}

#endif
