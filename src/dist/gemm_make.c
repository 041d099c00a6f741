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

weft_status weft_dist_gemm_begin(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const weft_gemm *all = &dist->problem.gemm;
    const int64_t rows = weft_dist_rows(dist, dist->rank, WEFT_PART_ROWS);
    const int64_t own = weft_dist_rows(dist, dist->rank, WEFT_OWN_LINES);
    const int by_k = weft_dist_shares_k(dist);
    if (work->memory.on_device) {
        return weft_fail(message, WEFT_UNSUPPORTED, "products over ranks are computed on CPUs");
    }
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
    return status;
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

/* Plans for rows of sums: added up, or rounded to results, where rows are so far apart. */
static weft_status plan_blocks(weft_dist_work *work, int64_t rows, int64_t columns, int64_t from, int64_t to, int rounds,
                               weft_dist_sum *sum, weft_message *message) {
    weft_status status = WEFT_OK;
    for (int rest = 0; rest < 2 && !status; rest++) {
        weft_combine c;
        if (weft_dist_gemm_blocks(rows, columns, from, to, rest, &c)) {
            c.into = !rounds;
            c.o_dtype = rounds ? work->dist->problem.gemm.c_dtype : WEFT_FP32;
            status = weft_dist_plan_of(work, &c, rest ? &sum->second : &sum->first, message);
        }
    }
    return status;
}

weft_status weft_dist_gemm_plan_sum(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message) {
    const int64_t columns = work->dist->problem.gemm.batch * work->dist->problem.gemm.n;
    return plan_blocks(work, rows, columns, columns, columns, 0, sum, message);
}

weft_status weft_dist_gemm_plan_end(weft_dist_work *work, weft_message *message) {
    weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    const int64_t to = x->c.c_major == WEFT_ROW_MAJOR ? x->c.ldc : all->n;
    return work->dist->adds ? plan_blocks(work, work->keys, all->n, all->batch * all->n, to, 1, &x->rounding, message)
                            : WEFT_OK;
}

weft_status weft_dist_gemm_take(weft_dist_work *work, weft_message *message) {
    weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    const size_t row = (size_t)all->n * weft_dtype_bytes(all->c_dtype);
    weft_status status = WEFT_OK;
    if (!work->dist->adds) {
        return WEFT_OK;
    }
    if (x->c.c_major == WEFT_COL_MAJOR) {
        status = weft_dist_take(work, (size_t)work->keys * row, &x->rounded, message);
    }
    return status || !(all->extras & WEFT_GEMM_BIAS)
               ? status
               : weft_dist_take(work, work->dist->row.k_sums, (char **)&x->bias, message);
}
