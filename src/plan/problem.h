/* Problems with every default filled in. Kernels see only these. */
#ifndef WEFT_PLAN_PROBLEM_H
#define WEFT_PLAN_PROBLEM_H

#include <weft/weft.h>

/* Checks a problem and copies it with its defaults filled in: strides and leading dimensions are never all zero, scale is
 * set, and mask is WEFT_MASK_NONE or WEFT_MASK_CAUSAL with the offset that applies. */
weft_status weft_attention_resolve(weft_attention *resolved, const weft_attention *problem, weft_message *message);
weft_status weft_gemm_resolve(weft_gemm *resolved, const weft_gemm *problem, weft_message *message);

/* The caller's schedule, or one that leaves every choice open when `theirs` is null. */
weft_status weft_schedule_copy(weft_schedule *ours, const weft_schedule *theirs, weft_message *message);

/* The caller's device, checked, or the CPU when `theirs` is null. */
weft_status weft_device_copy(weft_device *ours, const weft_device *theirs, weft_message *message);

/* How many keys query `row` sees: keys 0 .. n - 1. For resolved problems. */
static inline int64_t weft_visible_keys(const weft_attention *p, int64_t row) {
    if (p->mask == WEFT_MASK_NONE || row + p->offset + 1 > p->kv_seq) {
        return p->kv_seq;
    }
    return row + p->offset + 1 > 0 ? row + p->offset + 1 : 0;
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
    return (weft_gemm_data){(const char *)all->a + product * p->a_stride * bytes,
                            (const char *)all->b + product * p->b_stride * bytes,
                            (char *)all->c + product * p->c_stride * c_bytes};
}

#endif
