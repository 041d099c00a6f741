/* SPDX-License-Identifier: Apache-2.0 */
/* The problems that a rank computes: the attention of a slice, and adding its results to sums in fp32. Inside of a rank all
 * tensors are (rows, batch, heads, dim). */
#include "dist/dist.h"
#include "problem/problem.h"

static weft_strides rows_strides(int64_t batch, int64_t heads, int64_t dim) {
    return (weft_strides){.batch = heads * dim, .seq = batch * heads * dim, .head = dim};
}

int64_t weft_dist_heads_of(const weft_dist *dist) {
    return dist->problem.attention.heads / dist->ranks.head_ranks;
}

int64_t weft_dist_kv_heads_of(const weft_dist *dist) {
    return weft_larger(dist->problem.attention.kv_heads / dist->ranks.head_ranks, 1);
}

weft_attention weft_dist_slice_problem(const weft_dist *dist, const weft_dist_slice *s) {
    const weft_attention *all = &dist->problem.attention;
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = all->operation;
    p.batch = all->batch;
    p.heads = weft_dist_heads_of(dist);
    p.kv_heads = weft_dist_kv_heads_of(dist);
    p.seq = s->queries.end - s->queries.begin;
    p.kv_seq = s->keys.end - s->keys.begin;
    p.head_dim = all->head_dim;
    p.head_dim_v = all->head_dim_v;
    p.dtype = all->dtype;
    p.mask = s->mask;
    p.offset = s->offset;
    p.left = s->left;
    p.right = s->right;
    p.scale = all->scale;
    p.softcap = all->softcap;
    p.extras = all->extras & (WEFT_ALIBI | WEFT_BIAS);
    p.alibi_stride = all->sequences > 0 ? 0 : all->alibi_stride;
    p.q_strides = rows_strides(p.batch, p.heads, p.head_dim);
    p.k_strides = rows_strides(p.batch, p.kv_heads, p.head_dim);
    p.v_strides = rows_strides(p.batch, p.kv_heads, p.head_dim_v);
    p.o_strides = rows_strides(p.batch, p.heads, p.head_dim_v);
    return p;
}

weft_combine weft_dist_adding(const weft_dist *dist, int64_t rows, int64_t heads, int64_t dim) {
    weft_combine c = WEFT_COMBINE_INIT;
    c.parts = 1;
    c.batch = dist->problem.attention.batch;
    c.heads = heads;
    c.seq = rows;
    c.head_dim = dim;
    c.dtype = dist->problem.attention.dtype;
    c.o_dtype = WEFT_FP32;
    c.part_strides = c.o_strides = rows_strides(c.batch, heads, dim);
    c.into = 1;
    c.sum = 1;
    return c;
}

weft_combine weft_dist_rounding(const weft_dist *dist, int64_t rows, int64_t heads, int64_t dim) {
    weft_combine c = weft_dist_adding(dist, rows, heads, dim);
    c.o_dtype = c.dtype;
    c.dtype = WEFT_FP32;
    c.into = 0;
    return c;
}
