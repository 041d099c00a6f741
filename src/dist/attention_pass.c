/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a shared attention computes at a step: its queries and the keys of a part. */
#include <math.h>

#include "base/status.h"
#include "dist/kinds.h"
#include "dist/pass.h"
#include "problem/problem.h"

static const weft_dist_queries *queries_of(const weft_pass *p) {
    return p->in->fixed;
}

/* Bytes of a row of Q, or of O. */
static size_t row_bytes(const weft_pass *p, int of_values) {
    const weft_attention *a = &p->work->dist->problem.attention;
    return (size_t)(a->batch * p->work->heads * (of_values ? a->head_dim_v : a->head_dim)) * weft_dtype_bytes(a->dtype);
}

/* Where the bias of a slice begins. */
static const char *bias_at(const weft_pass *p, const weft_dist_slice *s, int64_t part) {
    const weft_dist *dist = p->work->dist;
    const weft_attention *mine = &p->work->local.attention;
    if (!queries_of(p)->bias) {
        return NULL;
    }
    const weft_dist_group group = weft_dist_group_of(dist, part, WEFT_KEY_ROWS);
    int64_t key = 0;
    for (int64_t i = group.first; i < group.end; i++) {
        int64_t before;
        const weft_chunk chunk = weft_dist_group_chunk(&group, i, &before);
        if (s->keys.begin >= before && s->keys.begin < before + chunk.count) {
            key = chunk.begin + (s->keys.begin - before) * chunk.stride;
        }
    }
    const size_t bytes = mine->bias_type == WEFT_BIAS_BOOL   ? 1
                         : mine->bias_type == WEFT_BIAS_FP32 ? sizeof(float)
                                                             : weft_dtype_bytes(mine->dtype);
    return queries_of(p)->bias + (size_t)(s->queries.begin * mine->bias_strides.seq + key * mine->bias_key_stride) * bytes;
}

static const float *alibi_at(const weft_pass *p, const weft_dist_slice *s) {
    const weft_attention *a = &p->work->dist->problem.attention;
    return queries_of(p)->alibi ? queries_of(p)->alibi + (a->sequences > 0 ? s->sequence * a->alibi_stride : 0) : NULL;
}

/* Whether nothing was added before to what a slice's queries see, and they are all queries: then sums are what it gives. */
static int begins_sums(const weft_pass *p, const weft_dist_slice *s, const weft_hop *hop) {
    return hop->step == 0 && s == hop->slices.list && s->queries.begin == 0 && s->queries.end == p->work->queries &&
           !queries_of(p)->sinks;
}

static weft_status forward_slice(const weft_pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                 const weft_hop *hop, const weft_dist_pair *keys) {
    weft_dist_work *work = p->work;
    const size_t query = (size_t)s->queries.begin, key = (size_t)(s->keys.begin - hop->keys.begin);
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = queries_of(p)->q + query * row_bytes(p, 0);
    data.k = keys->k + key * p->row.k;
    data.v = keys->v + key * p->row.v;
    const int begins = begins_sums(p, s, hop);
    data.o = begins ? work->sums : work->part_o;
    data.lse = (float *)(void *)(begins ? work->sums_lse : work->part_lse);
    data.alibi = alibi_at(p, s);
    data.bias = bias_at(p, s, hop->part);
    data.workspace = work->workspace;
    const weft_status status = weft_dist_compute(work, plans->compute, &data, p->message);
    weft_combine_data add = WEFT_COMBINE_DATA_INIT;
    add.parts[0] = work->part_o;
    add.lses[0] = data.lse;
    add.o = work->sums + query * row_bytes(p, 1) / weft_dtype_bytes(work->dist->problem.attention.dtype) * sizeof(float);
    add.lse = (float *)(void *)work->sums_lse + query;
    return status || begins ? status : weft_dist_compute(work, plans->add_queries, &add, p->message);
}

static weft_status backward_slice(const weft_pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                  const weft_hop *hop, const weft_dist_pair *keys) {
    weft_dist_work *work = p->work;
    const weft_attention *a = &work->dist->problem.attention;
    const size_t query = (size_t)s->queries.begin, key = (size_t)(s->keys.begin - hop->keys.begin);
    const size_t lines = (size_t)(a->batch * work->heads), rows = (size_t)(s->queries.end - s->queries.begin),
                 all = (size_t)work->queries;
    const float *lse = queries_of(p)->lse + query;
    weft_status status = WEFT_OK;
    if (rows != all) { /* a plan takes LSEs of all its queries, head by head */
        status = work->memory.copy(&work->memory, work->part_lse, rows * sizeof(float), lse, all * sizeof(float),
                                   rows * sizeof(float), lines, p->message);
        lse = (const float *)(const void *)work->part_lse;
    }
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = queries_of(p)->q + query * row_bytes(p, 0);
    data.k = keys->k + key * p->row.k;
    data.v = keys->v + key * p->row.v;
    data.grad_o = queries_of(p)->grad_o + query * row_bytes(p, 1);
    data.o = queries_of(p)->o + query * row_bytes(p, 1) / weft_dtype_bytes(a->dtype) * sizeof(float);
    data.lse = lse;
    weft_dist_pair computed = {work->part_k, work->part_v};
    const int begins = begins_sums(p, s, hop), begins_keys = weft_pass_begins(p, s, hop, &computed);
    data.grad_q = begins ? work->sums : work->part_o;
    data.grad_k = computed.k;
    data.grad_v = computed.v;
    data.alibi = alibi_at(p, s);
    data.workspace = work->workspace;
    status = status ? status : weft_dist_compute(work, plans->compute, &data, p->message);

    weft_combine_data add = WEFT_COMBINE_DATA_INIT;
    const size_t element = weft_dtype_bytes(a->dtype);
    add.parts[0] = work->part_o;
    add.o = work->sums + query * row_bytes(p, 0) / element * sizeof(float);
    status = status || begins ? status : weft_dist_compute(work, plans->add_queries, &add, p->message);
    return status || begins_keys ? status : weft_pass_add(p, s, plans, hop, &computed);
}

weft_status weft_dist_attention_slice(const weft_pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                      const weft_hop *hop, const weft_dist_pair *keys) {
    return (weft_dist_is_backward(p->work->dist) ? backward_slice : forward_slice)(p, s, plans, hop, keys);
}

/* Sums are 0, and forward their LSE is what a sink adds, or nothing. */
weft_status weft_dist_attention_clear(const weft_pass *p) {
    weft_dist_work *work = p->work;
    const weft_attention *a = &work->dist->problem.attention;
    const size_t rows = (size_t)(work->queries * a->batch * work->heads), all = (size_t)work->queries;
    const weft_dist_memory *m = &work->memory;
    const int back = weft_dist_is_backward(work->dist);
    weft_status status = m->fill(m, work->sums, 0, rows * (size_t)(back ? a->head_dim : a->head_dim_v), p->message);
    float *lse = (float *)(void *)work->sums_lse;
    for (int64_t i = 0; i < a->batch * work->heads && !back && !status; i++) {
        const float sink = queries_of(p)->sinks ? queries_of(p)->sinks[i % work->heads] : -INFINITY;
        status = m->fill(m, lse + (size_t)i * all, sink, all, p->message);
    }
    return status;
}
