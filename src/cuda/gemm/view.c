#include "cuda/gemm/view.h"

weft_gemm_view weft_gemm_view_of(const weft_gemm *p) {
    const int a_mn = p->a_major == WEFT_COL_MAJOR, b_mn = p->b_major == WEFT_ROW_MAJOR;
    if (p->c_major == WEFT_ROW_MAJOR) {
        return (weft_gemm_view){0, a_mn, b_mn, p->m, p->n, p->lda, p->ldb, p->a_stride, p->b_stride};
    }
    return (weft_gemm_view){1, b_mn, a_mn, p->n, p->m, p->ldb, p->lda, p->b_stride, p->a_stride};
}
