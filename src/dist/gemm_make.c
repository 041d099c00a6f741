/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a shared matrix product needs: its matrices, plans for slices, and buffers. */
#include <stdlib.h>

#include "base/status.h"
#include "dist/gemm_work.h"
#include "problem/problem.h"

/* This rank's matrices have strides of their own, and may be empty. As there is no product of sizes 0, those count as 1. */
static weft_status resolve(const weft_gemm *given, int64_t m, int64_t n, int64_t k, weft_problem *resolved,
                           weft_message *message) {
    const weft_operation_row *row;
    weft_gemm p = *given;
    p.m = weft_larger(m, 1);
    p.n = weft_larger(n, 1);
    p.k = weft_larger(k, 1);
    return weft_problem_resolve(resolved, &row, &p, message);
}

/* On a GPU what a slice begins with lies at a multiple of the bytes that its kernels read at a time. */
static weft_status check_alignment(const weft_dist_work *work, weft_message *message) {
    const weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm, *ab = &x->ab, *c = &x->c;
    const int by_k = weft_dist_shares_k(work->dist), many = all->batch > 1;
    const int residual = (all->extras & WEFT_GEMM_RESIDUAL) != 0, scales = (all->extras & WEFT_GEMM_COLUMN_SCALE) != 0;
    const size_t of_ab = weft_dtype_bytes(all->dtype), of_c = weft_dtype_bytes(all->c_dtype);
    const size_t of_bias = weft_dtype_bytes(all->bias_dtype);
    const struct {
        int counts;
        const char *what;
        size_t bytes, wanted;
    } rows[] = {
        {by_k, "rows of A", ab->a_major == WEFT_ROW_MAJOR ? (size_t)ab->lda * of_ab : of_ab, 16},
        {by_k && many, "matrices A of the batch", (size_t)ab->a_stride * of_ab, 16},
        {by_k && many, "matrices of sums", (size_t)all->n * sizeof(float), 16},
        {!by_k, "rows of A as they come", (size_t)all->k * of_ab, 16},
        {!by_k, "rows of C", c->c_major == WEFT_ROW_MAJOR ? (size_t)c->ldc * of_c : of_c, 16},
        {!by_k && many, "matrices C of the batch", (size_t)c->c_stride * of_c, 16},
        {!by_k && residual, "rows of the residual", c->c_major == WEFT_ROW_MAJOR ? (size_t)c->ld_residual * of_c : of_c,
         16},
        {!by_k && residual && many, "residuals of the batch", (size_t)c->residual_stride * of_c, 16},
        {!by_k && many && (all->extras & WEFT_GEMM_BIAS), "biases of the batch", (size_t)x->columns * of_bias, 8},
        {scales && many, "scales of columns of the batch", (size_t)x->columns * sizeof(float), 8},
        {many, "matrices B of the batch", (size_t)ab->b_stride * of_ab, 16},
    };
    const int computes = (by_k ? x->b_rows : x->columns) > 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && computes; i++) {
        if (rows[i].counts && rows[i].bytes % rows[i].wanted != 0) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "on GPUs a product over ranks wants %s a multiple of %zu bytes apart, not %zu", rows[i].what,
                             rows[i].wanted, rows[i].bytes);
        }
    }
    return WEFT_OK;
}

weft_status weft_dist_gemm_begin(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const weft_gemm *all = &dist->problem.gemm;
    const int64_t rows = weft_dist_rows(dist, dist->rank, WEFT_PART_ROWS);
    const int64_t own = weft_dist_rows(dist, dist->rank, WEFT_OWN_LINES);
    const int by_k = weft_dist_shares_k(dist);
    weft_dist_product *x = work->product = calloc(1, sizeof *x);
    if (!x) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's product");
    }
    x->a_rows = by_k ? all->m : rows;
    x->b_rows = by_k ? own : all->k;
    x->columns = by_k ? all->n : own;
    x->c_rows = by_k ? rows : all->m;
    weft_gemm ab = dist->given.gemm, c = ab;
    weft_problem of_c;
    ab.ldc = ab.c_stride = ab.ld_residual = ab.residual_stride = 0;
    c.lda = c.ldb = c.a_stride = c.b_stride = 0;
    if (x->a_rows * x->b_rows == 0) { /* strides of what is empty do not count */
        ab.lda = ab.a_stride = 0;
    }
    if (x->b_rows * x->columns == 0) {
        ab.ldb = ab.b_stride = 0;
    }
    if (x->c_rows * x->columns == 0) {
        c.ldc = c.c_stride = c.ld_residual = c.residual_stride = 0;
    }
    weft_status status = resolve(&ab, x->a_rows, x->columns, x->b_rows, &work->local, message);
    status = status ? status : resolve(&c, x->c_rows, x->columns, x->b_rows, &of_c, message);
    if (!status) {
        x->ab = work->local.gemm;
        x->c = of_c.gemm;
    }
    return status || !work->memory.on_device ? status : check_alignment(work, message);
}

weft_status weft_dist_gemm_plan_slice(weft_dist_work *work, const weft_dist_slice *s, weft_dist_slice_plans *plans,
                                      weft_message *message) {
    const weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    weft_gemm p = weft_dist_gemm_slice_problem(work->dist, s);
    p.ldb = x->ab.ldb;
    if (weft_dist_shares_k(work->dist)) {
        p.lda = x->ab.lda;
        p.ldc = all->batch * all->n;
    } else {
        p.lda = all->batch * all->k;
        p.ldc = x->c.ldc;
        p.ld_residual = p.extras & WEFT_GEMM_RESIDUAL ? x->c.ld_residual : 0;
    }
    return weft_dist_plan_of(work, &p, &plans->compute, message);
}

/* Plans for rows that are so far apart: added to others of the same type, or converted to another type. */
static weft_status plan_blocks(weft_dist_work *work, int64_t rows, int64_t columns, int64_t from, int64_t to,
                               weft_dtype dtype, weft_dtype o_dtype, int into, weft_dist_sum *sum, weft_message *message) {
    weft_status status = WEFT_OK;
    for (int rest = 0; rest < 2 && !status; rest++) {
        weft_combine c;
        if (weft_dist_gemm_blocks(rows, columns, from, to, rest, &c)) {
            c.into = into;
            c.dtype = dtype;
            c.o_dtype = o_dtype;
            status = weft_dist_plan_of(work, &c, rest ? &sum->second : &sum->first, message);
        }
    }
    return status;
}

weft_status weft_dist_gemm_plan_sum(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message) {
    const int64_t columns = work->dist->problem.gemm.batch * work->dist->problem.gemm.n;
    return plan_blocks(work, rows, columns, columns, columns, WEFT_FP32, WEFT_FP32, 1, sum, message);
}

weft_status weft_dist_gemm_plan_end(weft_dist_work *work, weft_message *message) {
    weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    const int64_t columns = all->batch * all->n, to = x->c.c_major == WEFT_ROW_MAJOR ? x->c.ldc : all->n;
    if (!work->dist->adds) {
        return WEFT_OK;
    }
    weft_status status =
        plan_blocks(work, work->keys, all->n, columns, to, WEFT_FP32, all->c_dtype, 0, &x->rounding, message);
    return status || !(all->extras & WEFT_GEMM_BIAS)
               ? status
               : plan_blocks(work, 1, columns, columns, columns, all->bias_dtype, WEFT_FP32, 0, &x->widening, message);
}

weft_status weft_dist_gemm_take(weft_dist_work *work, weft_message *message) {
    weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    const size_t row = (size_t)all->n * weft_dtype_bytes(all->c_dtype);
    const int by_rows = work->dist->adds && x->c.c_major == WEFT_COL_MAJOR;
    return by_rows ? weft_dist_take(work, (size_t)work->keys * row, &x->rounded, message) : WEFT_OK;
}
