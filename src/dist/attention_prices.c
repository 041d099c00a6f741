/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of a shared attention cost: slices, adding their results, and rounding sums. */
#include "dist/kinds.h"
#include "dist/prices.h"
#include "problem/problem.h"

enum { QUERIES = 128, BACKWARD_QUERIES = 64, KEYS = 128 }; /* of a tile, as kernels on GPUs usually have them */

/* A tile that nobody chose is a GPU kernel's, or the problem's where that is smaller. Kernels that were measured have tiles
 * of their own. */
static weft_schedule schedule_of(const weft_prices *prices, const weft_attention *p) {
    weft_schedule s = prices->schedule;
    const int back = weft_dist_is_backward(prices->dist);
    if (prices->options.device) {
        return s;
    }
    s.dispatch = s.dispatch || s.tile_m > 0 ? s.dispatch : WEFT_DISPATCH_DYNAMIC;
    s.tile_m = weft_smaller(s.tile_m > 0 ? s.tile_m : back ? BACKWARD_QUERIES : QUERIES, p->seq);
    s.tile_n = weft_smaller(s.tile_n > 0 ? s.tile_n : KEYS, p->kv_seq);
    return s;
}

static weft_status ask_attention(const weft_prices *prices, const weft_attention *problem, double *seconds,
                                 weft_message *message) {
    weft_attention apart = *problem;
    if (prices->heads_apart && weft_dist_is_backward(prices->dist)) {
        apart.kv_heads = problem->heads;
        apart.k_strides = apart.v_strides = (weft_strides){0, 0, 0};
    }
    const weft_attention *p = &apart;
    const weft_schedule schedule = schedule_of(prices, p);
    weft_plan_options options = prices->options;
    options.schedule = &schedule;
    return weft_price_ask(&options, &prices->simulate, p, seconds, message);
}

/* Adding so many rows of K and V, or rounding them. */
static weft_status ask_keys(const weft_prices *prices, int64_t rows, int rounds, weft_dtype dtype, double times,
                            double *seconds, weft_message *message) {
    const weft_dist *dist = prices->dist;
    const int64_t dims[] = {dist->problem.attention.head_dim, dist->problem.attention.head_dim_v};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && !status; i++) {
        weft_combine c = (rounds ? weft_dist_rounding : weft_dist_adding)(dist, rows, weft_dist_kv_heads_of(dist), dims[i]);
        c.dtype = rounds ? c.dtype : dtype;
        status = weft_price_combine(prices, &c, times, seconds, message);
    }
    return status;
}

static int64_t query_dim(const weft_prices *prices) {
    const weft_attention *p = &prices->dist->problem.attention;
    return weft_dist_is_backward(prices->dist) ? p->head_dim : p->head_dim_v;
}

static weft_status ask_slice(const weft_prices *prices, const weft_dist_slice *slice, double *seconds,
                             weft_message *message) {
    const weft_dist *dist = prices->dist;
    const weft_attention p = weft_dist_slice_problem(dist, slice);
    weft_combine add = weft_dist_adding(dist, p.seq, p.heads, query_dim(prices));
    add.sum = weft_dist_is_backward(prices->dist);
    weft_status status = ask_attention(prices, &p, seconds, message);
    status = status ? status : weft_price_combine(prices, &add, prices->adding, seconds, message);
    return status || !weft_dist_is_backward(prices->dist)
               ? status
               : ask_keys(prices, p.kv_seq, 0, p.dtype, prices->adding, seconds, message);
}

static weft_status ask_rounding(const weft_prices *prices, int64_t queries, int64_t keys, double *seconds,
                                weft_message *message) {
    const weft_dist *dist = prices->dist;
    const weft_combine c = weft_dist_rounding(dist, queries, weft_dist_heads_of(dist), query_dim(prices));
    const weft_status status = weft_price_combine(prices, &c, 1, seconds, message);
    return status || !weft_dist_is_backward(prices->dist) ? status
                                                          : ask_keys(prices, keys, 1, WEFT_FP32, 1, seconds, message);
}

weft_status weft_dist_attention_ask(const weft_prices *prices, const weft_price_key *key, double *seconds,
                                    weft_message *message) {
    if (key->kind == WEFT_PRICE_HOME) {
        return ask_keys(prices, key->rows, 0, WEFT_FP32, prices->adding, seconds, message);
    }
    if (key->kind == WEFT_PRICE_WHOLE) {
        return ask_attention(prices, &prices->dist->problem.attention, seconds, message);
    }
    if (key->kind == WEFT_PRICE_ROUNDING) {
        return ask_rounding(prices, key->rows, key->keys, seconds, message);
    }
    const weft_dist_slice slice = {.queries = {0, key->rows},
                                   .keys = {0, key->keys},
                                   .mask = (weft_mask)key->mask,
                                   .offset = key->offset,
                                   .left = key->left,
                                   .right = key->right};
    return ask_slice(prices, &slice, seconds, message);
}

int64_t weft_dist_attention_variant(const weft_dist *dist) {
    return weft_dist_heads_of(dist);
}
