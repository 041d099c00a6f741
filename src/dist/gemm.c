/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product as a kind of shared work: its check, its choices, what moves, and what it needs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/gemm_work.h"
#include "problem/problem.h"

weft_status weft_dist_gemm_resolve(weft_dist *dist, const void *problem, weft_message *message) {
    const weft_gemm init = WEFT_GEMM_INIT;
    weft_gemm *given = &dist->given.gemm;
    *given = init;
    const weft_status status =
        weft_struct_take(given, sizeof *given, sizeof(size_t) + sizeof(int64_t), problem, "WEFT_GEMM_INIT", message);
    weft_gemm all = *given;
    all.lda = all.ldb = all.ldc = all.a_stride = all.b_stride = all.c_stride = 0;
    all.ld_residual = all.residual_stride = 0;
    return status ? status : weft_problem_resolve(&dist->problem, &dist->operation, &all, message);
}

void weft_dist_gemm_choose(weft_dist *dist) {
    const weft_gemm *p = &dist->problem.gemm;
    weft_ranks *r = &dist->ranks;
    r->cut = r->cut ? r->cut : WEFT_CUT_M;
    r->sweep = r->sweep ? r->sweep : weft_dist_shares_k(dist) ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
    dist->rows[WEFT_OWN_LINES].total = weft_dist_shares_k(dist) ? p->k : p->n;
    dist->rows[WEFT_PART_ROWS].total = p->m;
}

/* What cannot be done with a part of the columns, or with a part of the sum. */
static const char *refused(const weft_dist *dist) {
    const weft_gemm *p = &dist->problem.gemm;
    const int by_k = weft_dist_shares_k(dist);
    return p->gated                                            ? "gated halves of n"
           : p->extras & WEFT_GEMM_COLUMN_SUMS                 ? "column sums"
           : p->extras & WEFT_GEMM_FUNCTION                    ? "a function"
           : by_k && p->beta != 0                              ? "cut k and beta"
           : by_k && (p->extras & WEFT_GEMM_RESIDUAL)          ? "cut k and a residual"
           : by_k && p->activation != WEFT_IDENTITY            ? "cut k and an activation"
           : !by_k && dist->ranks.sweep == WEFT_SWEEP_SAWTOOTH ? "cut m and sweep sawtooth"
                                                               : NULL;
}

weft_status weft_dist_gemm_check(const weft_dist *dist, weft_message *message) {
    const weft_ranks *r = &dist->ranks;
    const char *why = refused(dist);
    if (r->cut != WEFT_CUT_M && r->cut != WEFT_CUT_K) {
        return weft_fail(message, WEFT_UNSUPPORTED, "cut %s is of attention: a product's is m or k",
                         weft_rank_cut_name(r->cut));
    }
    if (r->exchange == WEFT_EXCHANGE_HEADS || r->head_ranks > 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "a product has no heads to exchange among ranks");
    }
    return why ? weft_fail(message, WEFT_UNSUPPORTED, "gemm is not shared among ranks with %s", why) : WEFT_OK;
}

void weft_dist_gemm_rows(weft_dist *dist) {
    const weft_gemm *p = &dist->problem.gemm;
    dist->adds = weft_dist_shares_k(dist);
    if (dist->adds) {
        dist->row.k_sums = (size_t)(p->batch * p->n) * sizeof(float);
    } else {
        dist->row.k = (size_t)(p->batch * p->k) * weft_dtype_bytes(p->dtype);
    }
}

/* All rows of a part meet all that the rank has. */
weft_status weft_dist_gemm_slices(const weft_dist *dist, int64_t ring_rank, int64_t part, weft_range rows,
                                  weft_dist_slices *slices, weft_message *message) {
    const int64_t own = weft_dist_group_of(dist, ring_rank, WEFT_OWN_LINES).rows;
    const weft_dist_slice slice = {.queries = {0, own},
                                   .keys = rows,
                                   .mask = WEFT_MASK_NONE,
                                   .left = -1,
                                   .right = -1,
                                   .pairs = (double)own * (double)(rows.end - rows.begin)};
    (void)part;
    return slice.pairs > 0 ? weft_dist_slices_add(slices, slice, message) : WEFT_OK;
}

size_t weft_dist_gemm_told(const weft_dist *dist) {
    (void)dist;
    return 0;
}

uint64_t weft_dist_gemm_memory(const weft_dist *dist, int64_t rank, int64_t most_own, int64_t most_rows) {
    const weft_gemm *p = &dist->problem.gemm;
    const uint64_t rows = (uint64_t)weft_dist_rows(dist, rank, WEFT_PART_ROWS), batch = (uint64_t)p->batch;
    const uint64_t own = (uint64_t)weft_dist_rows(dist, rank, WEFT_OWN_LINES), slot = (uint64_t)weft_dist_slot_rows(dist);
    const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k, c_bytes = weft_dtype_bytes(p->c_dtype);
    const int by_k = weft_dist_shares_k(dist);
    const uint64_t a = by_k ? m * own : rows * k, b = by_k ? own * n : k * own, c = by_k ? rows * n : m * own;
    uint64_t bytes = batch * ((a + b) * weft_dtype_bytes(p->dtype) + c * c_bytes);
    bytes += ((uint64_t)weft_dist_slots(dist) * slot + rows) * weft_dist_key_bytes(dist);
    if (by_k) {
        const uint64_t sums = ((uint64_t)weft_ring_lag(&dist->ring) + 1) * slot + 2 * rows + (uint64_t)most_rows;
        bytes += sums * weft_dist_add_bytes(dist);
        bytes += p->c_major == WEFT_COL_MAJOR ? c * c_bytes : 0;
    }
    (void)most_own;
    return bytes;
}

int weft_dist_gemm_rows_text(const weft_dist *dist, char *text, size_t size) {
    return snprintf(text, size,
                    weft_dist_shares_k(dist) ? "rows       %" PRId64 " of C and %" PRId64 " of k at rank 0"
                                             : "rows       %" PRId64 " of A and %" PRId64 " columns of B and C at rank 0",
                    weft_dist_rows(dist, 0, WEFT_PART_ROWS), weft_dist_rows(dist, 0, WEFT_OWN_LINES));
}

weft_gemm weft_dist_gemm_slice_problem(const weft_dist *dist, const weft_dist_slice *s) {
    const weft_gemm *all = &dist->problem.gemm;
    const int64_t own = s->queries.end - s->queries.begin;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = s->keys.end - s->keys.begin;
    p.dtype = all->dtype;
    p.alpha = all->alpha;
    p.b_major = all->b_major;
    p.precision = all->precision;
    p.extras = all->extras & (WEFT_GEMM_SCALE | WEFT_GEMM_ROW_SCALE | WEFT_GEMM_COLUMN_SCALE);
    if (weft_dist_shares_k(dist)) { /* what is linear is applied to each share of the sum */
        p.n = all->n;
        p.k = own;
        p.a_major = all->a_major;
        return p;
    }
    p.n = own;
    p.k = all->k;
    p.c_dtype = all->c_dtype;
    p.c_major = all->c_major;
    p.beta = all->beta;
    p.extras = all->extras;
    p.activation = all->activation;
    p.bias_dtype = all->bias_dtype;
    return p;
}

int weft_dist_gemm_blocks(int64_t rows, int64_t columns, int64_t from, int64_t to, int rest, weft_combine *c) {
    const weft_combine fresh = WEFT_COMBINE_INIT;
    *c = fresh;
    c->parts = 1;
    c->sum = 1;
    c->seq = rows;
    c->heads = rest ? 1 : columns / WEFT_DIST_BLOCK;
    c->head_dim = rest ? columns % WEFT_DIST_BLOCK : WEFT_DIST_BLOCK;
    c->part_strides = (weft_strides){.batch = rows * from, .seq = from, .head = c->head_dim};
    c->o_strides = (weft_strides){.batch = rows * to, .seq = to, .head = c->head_dim};
    return rows > 0 && c->heads > 0 && c->head_dim > 0;
}
