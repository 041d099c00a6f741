/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gemm/view.h"

static weft_gemm_view view(const weft_gemm *p, int swapped) {
    const int a_mn = p->a_major == WEFT_COL_MAJOR, b_mn = p->b_major == WEFT_ROW_MAJOR;
    if (swapped) {
        return (weft_gemm_view){1, b_mn, a_mn, p->n, p->m, p->ldb, p->lda, p->b_stride, p->a_stride};
    }
    return (weft_gemm_view){0, a_mn, b_mn, p->m, p->n, p->lda, p->ldb, p->a_stride, p->b_stride};
}

weft_gemm_view weft_gemm_view_of(const weft_gemm *p) {
    return view(p, p->c_major == WEFT_COL_MAJOR);
}

weft_gemm_view weft_gemm_view_transposed(const weft_gemm *p) {
    return view(p, p->c_major == WEFT_ROW_MAJOR);
}
