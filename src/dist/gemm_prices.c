/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of a shared matrix product cost: products of slices, adding up their sums, and rounding them. */
#include "dist/gemm_work.h"
#include "dist/prices.h"
#include "problem/problem.h"

/* The products of a batch, one after another: of one the simulator knows. */
static weft_status ask_products(const weft_prices *prices, const weft_gemm *problem, double *seconds,
                                weft_message *message) {
    const double batch = (double)prices->dist->problem.gemm.batch;
    weft_gemm p = *problem;
    weft_schedule schedule = prices->schedule;
    weft_plan_options options = prices->options;
    double one = 0;
    p.batch = 1;
    p.a_stride = p.b_stride = p.c_stride = p.residual_stride = p.ld_residual = 0;
    schedule.tile_m = weft_smaller(schedule.tile_m, p.m); /* 0: chosen */
    schedule.tile_n = weft_smaller(schedule.tile_n, p.n);
    schedule.tile_k = weft_smaller(schedule.tile_k, p.k);
    options.schedule = &schedule;
    const weft_status status = weft_price_ask(&options, &prices->simulate, &p, &one, message);
    *seconds += batch * one;
    return status;
}

/* Adding up rows of sums, or rounding them. */
static weft_status ask_sums(const weft_prices *prices, int64_t rows, int rounds, double *seconds, weft_message *message) {
    const weft_gemm *p = &prices->dist->problem.gemm;
    const int64_t columns = p->batch * p->n;
    weft_status status = WEFT_OK;
    for (int rest = 0; rest < 2 && !status; rest++) {
        weft_combine c;
        if (weft_dist_gemm_blocks(rows, columns, columns, columns, rest, &c)) {
            c.into = !rounds;
            c.o_dtype = rounds ? p->c_dtype : WEFT_FP32;
            status = weft_price_combine(prices, &c, rounds ? 1 : prices->adding, seconds, message);
        }
    }
    return status;
}

weft_status weft_dist_gemm_ask(const weft_prices *prices, const weft_price_key *key, double *seconds,
                               weft_message *message) {
    const weft_dist *dist = prices->dist;
    if (key->kind == WEFT_PRICE_WHOLE) {
        return ask_products(prices, &dist->problem.gemm, seconds, message);
    }
    if (key->kind == WEFT_PRICE_HOME || key->kind == WEFT_PRICE_ROUNDING) {
        const int rounds = key->kind == WEFT_PRICE_ROUNDING;
        return dist->adds ? ask_sums(prices, rounds ? key->keys : key->rows, rounds, seconds, message) : WEFT_OK;
    }
    const weft_dist_slice slice = {.queries = {0, key->rows}, .keys = {0, key->keys}};
    const weft_gemm p = weft_dist_gemm_slice_problem(dist, &slice);
    const weft_status status = ask_products(prices, &p, seconds, message);
    return status || !dist->adds ? status : ask_sums(prices, key->keys, 0, seconds, message);
}

/* Slices of other cuts are other products. */
int64_t weft_dist_gemm_variant(const weft_dist *dist) {
    return dist->ranks.cut;
}
