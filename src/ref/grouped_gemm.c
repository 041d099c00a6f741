/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products: a GEMM for each group. */
#include "problem/grouped_gemm.h"
#include "ref/ref.h"

weft_gemm weft_ref_grouped_product(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data,
                                   const weft_group_rows *rows, weft_gemm_data *matrices) {
    weft_gemm product = weft_grouped_gemm_product(p);
    *matrices = weft_grouped_gemm_at(p, data, rows);
    product.m = rows->count;
    product.batch = 1;
    return product;
}

int weft_ref_grouped_row(const weft_grouped_gemm *p, const int32_t *bounds, int64_t row, weft_group_rows *found) {
    const weft_groups groups = weft_grouped_gemm_groups(p, bounds, 1, 1);
    const int64_t in_group = groups.masked ? row % p->rows : row;
    for (int32_t i = groups.masked ? (int32_t)(row / p->rows) : 0; i < groups.count; i++) {
        const weft_group_rows r = weft_group_at(&groups, i);
        if (in_group >= r.first && in_group < r.first + r.count) {
            *found = (weft_group_rows){i, (int32_t)in_group, 1};
            return 1;
        }
        if (groups.masked) {
            break;
        }
    }
    return 0;
}

weft_status weft_ref_grouped_gemm(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data, weft_message *message) {
    const int32_t *bounds = weft_grouped_gemm_bounds(p, data);
    weft_status status = weft_grouped_gemm_check_bounds(p, bounds, message);
    const weft_groups groups = weft_grouped_gemm_groups(p, bounds, 1, 1);
    for (int32_t i = 0; i < groups.count && status == WEFT_OK; i++) {
        const weft_group_rows rows = weft_group_at(&groups, i);
        weft_gemm_data matrices;
        const weft_gemm product = weft_ref_grouped_product(p, data, &rows, &matrices);
        status = rows.count > 0 ? weft_ref_gemm(&product, &matrices, message) : WEFT_OK;
    }
    return status;
}
