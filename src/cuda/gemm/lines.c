/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gemm/lines.h"

/* Elements from one line to the next; 0 where there is but one, so that it tells nothing. */
static int64_t distance_of(int64_t lines, int64_t ld) {
    return lines > 1 ? ld : 0;
}

/* Of A and B as the kernel sees them. */
static int64_t a_distance(const weft_gemm *p, const weft_gemm_view *view) {
    return distance_of(view->a_mn ? p->k : view->m, view->lda);
}

static int64_t b_distance(const weft_gemm *p, const weft_gemm_view *view) {
    return distance_of(view->b_mn ? p->k : view->n, view->ldb);
}

/* Bytes of a matrix's lines that can be copied at a time. */
static int32_t unit_of(const weft_gemm *p, int64_t distance, int64_t stride) {
    const uint64_t bytes = (uint64_t)(2 * (distance | distance_of(p->batch, stride)));
    return bytes % 16 == 0 ? 16 : bytes % 4 == 0 ? 4 : 2;
}

/* The same of B. Values that are in the lines of their gates begin where these end. */
static int32_t b_unit_of(const weft_gemm *p, const weft_gemm_view *view) {
    const int64_t gates = p->gated && view->b_mn ? p->n / 2 : 0;
    return unit_of(p, b_distance(p, view) | gates, view->b_stride);
}

/* Whether lines of A and B begin at multiples of 16 bytes and end there: a copy of 16 bytes over a matrix's end would read
 * what is not the caller's. */
static int is_whole(const weft_gemm *p, const weft_gemm_view *view) {
    return unit_of(p, a_distance(p, view), view->a_stride) == 16 && b_unit_of(p, view) == 16 &&
           (view->a_mn ? view->m : p->k) % 8 == 0 && (view->b_mn ? view->n : p->k) % 8 == 0;
}

weft_gemm_lines weft_gemm_lines_of(const weft_gemm *p, const weft_gemm_view *view) {
    const int64_t lda = a_distance(p, view), ldb = b_distance(p, view);
    const int64_t ldc = distance_of(view->m, p->ldc) | distance_of(p->batch, p->c_stride);
    return (weft_gemm_lines){.lda = lda,
                             .ldb = ldb,
                             .a_unit = unit_of(p, lda, view->a_stride),
                             .b_unit = b_unit_of(p, view),
                             .c_wide = ldc * (int64_t)weft_dtype_bytes(p->c_dtype) % 16 == 0,
                             .whole = is_whole(p, view)};
}
