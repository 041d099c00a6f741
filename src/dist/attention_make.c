/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a shared attention needs: plans for its slices, and buffers for its queries. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "dist/kinds.h"
#include "problem/problem.h"

/* The attention of a slice, with what the caller's tensors say of a bias. */
static weft_status plan_attention(weft_dist_work *work, const weft_dist_slice *s, const weft_plan **plan,
                                  weft_message *message) {
    weft_attention p = weft_dist_slice_problem(work->dist, s);
    p.o_dtype = 1 + WEFT_FP32; /* results are rounded once, when all have been added up */
    if (p.extras & WEFT_BIAS) {
        p.bias_type = work->dist->problem.attention.bias_type;
        p.bias_strides = work->local.attention.bias_strides;
        p.bias_key_stride = work->local.attention.bias_key_stride * work->key_stride;
    }
    return weft_dist_plan_of(work, &p, plan, message);
}

weft_status weft_dist_attention_plan_slice(weft_dist_work *work, const weft_dist_slice *s, weft_dist_slice_plans *plans,
                                           weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const int back = weft_dist_is_backward(work->dist);
    const int64_t queries = s->queries.end - s->queries.begin;
    weft_combine q = weft_dist_adding(work->dist, queries, work->heads, back ? p->head_dim : p->head_dim_v);
    q.sum = back;
    q.lse_stride = back ? 0 : work->queries;
    q.dtype = WEFT_FP32;
    const weft_status status = plan_attention(work, s, &plans->compute, message);
    return status ? status : weft_dist_plan_of(work, &q, &plans->add_queries, message);
}

weft_status weft_dist_attention_plan_sum(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    weft_combine k = weft_dist_adding(work->dist, rows, work->kv_heads, p->head_dim);
    weft_combine v = weft_dist_adding(work->dist, rows, work->kv_heads, p->head_dim_v);
    k.dtype = v.dtype = WEFT_FP32;
    const weft_status status = weft_dist_plan_of(work, &k, &sum->first, message);
    return status ? status : weft_dist_plan_of(work, &v, &sum->second, message);
}

weft_status weft_dist_attention_add(weft_dist_work *work, const weft_dist_sum *sum, const weft_dist_pair *from,
                                    const weft_dist_pair *to, weft_message *message) {
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    data.parts[0] = from->k;
    data.o = to->k;
    const weft_status status = weft_dist_compute(work, sum->first, &data, message);
    data.parts[0] = from->v;
    data.o = to->v;
    return status ? status : weft_dist_compute(work, sum->second, &data, message);
}

/* This rank's tensors as a problem: no mask, since only strides and sizes count. */
weft_status weft_dist_attention_begin(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    weft_attention p = dist->given.attention;
    const weft_operation_row *row;
    work->heads = weft_dist_heads_of(dist);
    work->kv_heads = weft_dist_kv_heads_of(dist);
    p.seq = weft_dist_rows(dist, dist->rank, WEFT_QUERY_ROWS);
    p.kv_seq = weft_dist_rows(dist, dist->rank, WEFT_KEY_ROWS);
    p.mask = WEFT_MASK_NONE;
    p.offset = p.chunk = p.prefix = p.sequences = p.q_most = 0;
    p.left = p.right = -1;
    p.lengths = (weft_lengths){NULL, NULL, NULL, NULL, NULL};
    const weft_strides *b = &p.bias_strides;
    if ((p.extras & WEFT_BIAS) && !(b->batch | b->seq | b->head | p.bias_key_stride)) { /* of all keys */
        const int64_t keys = dist->problem.attention.kv_seq;
        p.bias_strides = (weft_strides){.batch = p.heads * p.seq * keys, .seq = keys, .head = p.seq * keys};
        p.bias_key_stride = 1;
    }
    return weft_problem_resolve(&work->local, &row, &p, message);
}

weft_status weft_dist_attention_take(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const weft_attention *p = &dist->problem.attention;
    const size_t element = weft_dtype_bytes(p->dtype), lines = (size_t)(p->batch * work->heads);
    const size_t queries = (size_t)work->queries * lines, rows = (size_t)work->most_queries * lines;
    const size_t dim = (size_t)p->head_dim, dim_v = (size_t)p->head_dim_v;
    const int back = weft_dist_is_backward(dist);
    const size_t out = back ? dim : dim_v;
    weft_status status;
    const size_t sinks = (size_t)dist->ranks.ranks * weft_dist_attention_told(dist);
    work->host_sinks = calloc(1, (size_t)work->heads * sizeof(float) + sinks);
    if (!work->host_sinks) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's sinks");
    }
    if ((status = weft_dist_take(work, queries * dim * element, &work->q, message)) ||
        (status = weft_dist_take(work, queries * (dim > dim_v ? dim : dim_v) * element, &work->o, message)) ||
        (status = weft_dist_take(work, queries * sizeof(float), &work->lse, message)) ||
        (status = weft_dist_take(work, rows * out * sizeof(float), &work->part_o, message)) ||
        (status = weft_dist_take(work, rows * sizeof(float), &work->part_lse, message)) ||
        (status = weft_dist_take(work, queries * out * sizeof(float), &work->sums, message)) ||
        (status = weft_dist_take(work, queries * sizeof(float), &work->sums_lse, message)) || !back) {
        return status;
    }
    status = weft_dist_take(work, queries * dim_v * element, &work->grad_o, message);
    status = status ? status : weft_dist_take(work, queries * dim_v * sizeof(float), &work->wide_o, message);
    if (status || sinks == 0) {
        return status;
    }
    status = weft_dist_take_pair(work, 1, dist->row.k_sums, dist->row.v_sums, &work->sink_keys, message);
    return status ? status : weft_dist_take(work, sinks, (char **)&work->sinks, message);
}

/* The gradients of sinks are those of an attention of all of this rank's queries, none of which sees a key. */
static weft_status plan_sinks(weft_dist_work *work, weft_message *message) {
    const weft_dist_slice all = {.queries = {0, work->queries},
                                 .keys = {0, 1},
                                 .mask = WEFT_MASK_CAUSAL,
                                 .offset = -work->queries,
                                 .left = -1,
                                 .right = -1};
    weft_attention p = weft_dist_slice_problem(work->dist, &all);
    p.o_dtype = 1 + WEFT_FP32;
    p.softcap = 0;
    p.extras = WEFT_SINKS;
    return work->queries > 0 ? weft_dist_plan_of(work, &p, &work->sink_plan, message) : WEFT_OK;
}

weft_status weft_dist_attention_plan_end(weft_dist_work *work, weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const int back = weft_dist_is_backward(work->dist);
    const weft_dist *dist = work->dist;
    const weft_combine q = weft_dist_rounding(dist, work->queries, work->heads, back ? p->head_dim : p->head_dim_v);
    const weft_combine k = weft_dist_rounding(dist, work->keys, work->kv_heads, p->head_dim);
    const weft_combine v = weft_dist_rounding(dist, work->keys, work->kv_heads, p->head_dim_v);
    weft_combine o = weft_dist_adding(dist, work->queries, work->heads, p->head_dim_v);
    o.into = 0;
    weft_status status = weft_dist_plan_of(work, &q, &work->round_queries, message);
    status = status || !back ? status : weft_dist_plan_of(work, &o, &work->widen_o, message);
    status = status || !back ? status : weft_dist_plan_of(work, &k, &work->round_keys, message);
    status = status || weft_dist_attention_told(dist) == 0 ? status : plan_sinks(work, message);
    return status || !back ? status : weft_dist_plan_of(work, &v, &work->round_values, message);
}
