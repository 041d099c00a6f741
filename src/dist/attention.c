/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a kind of shared work: its check, its choices, what moves, and what it needs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "problem/problem.h"

/* What positions do not say once rows are cut, or what has no place in a sum of parts. */
static const char *refused(const weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    const weft_ranks *r = &dist->ranks;
    const int back = weft_dist_is_backward(dist);
    const int32_t lengths = WEFT_STARTS | WEFT_KV_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD;
    if (r->cut >= WEFT_CUT_M) {
        return "a cut of products";
    }
    const int stripes = r->cut == WEFT_CUT_STRIPED && r->ranks > 1;
    if (p->extras & lengths) {
        return "lengths that are known to the data only";
    }
    if (p->lengths.q_used || p->lengths.kv_used || p->lengths.kv_pad) {
        return "used lengths and padding: give a packed batch";
    }
    if (p->cache.page > 0 || p->cache.append > 0 || p->cache.rotary_dim > 0 || (p->extras & WEFT_QV)) {
        return "a KV cache, rotation or latent queries";
    }
    if (weft_attention_has_pairs(p) || (p->extras & WEFT_BLOCKS)) {
        return "block masks and trees";
    }
    return p->dropout > 0                                 ? "dropout, which would depend on the number of ranks"
           : p->extras & WEFT_MAX                         ? "the maximum of scores"
           : back && (p->extras & WEFT_BIAS)              ? "the gradient of a biased attention"
           : stripes && p->chunk > 0                      ? "chunks of a striped cut"
           : stripes && (p->extras & WEFT_ALIBI)          ? "slopes of a striped cut"
           : p->sequences > 0 && (p->extras & WEFT_BIAS)  ? "a bias of a packed batch"
           : r->head_ranks > 1 && (p->extras & WEFT_BIAS) ? "a bias, where ranks exchange heads"
                                                          : NULL;
}

/* Contiguous where all see all; zigzag evens out a causal mask; what is left is dealt by its work. */
static int32_t usual_cut(const weft_attention *p) {
    const int plain = p->sequences == 0 && p->chunk == 0 && p->prefix == 0;
    return plain && p->mask == WEFT_MASK_NONE     ? WEFT_CUT_CONTIGUOUS
           : plain && p->mask == WEFT_MASK_CAUSAL ? WEFT_CUT_ZIGZAG
                                                  : WEFT_CUT_BALANCED;
}

void weft_dist_attention_choose(weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    weft_ranks *r = &dist->ranks;
    r->cut = r->cut ? r->cut : usual_cut(p);
    r->sweep = r->sweep ? r->sweep : weft_dist_is_backward(dist) ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
    dist->rows[WEFT_QUERY_ROWS].total = p->seq;
    dist->rows[WEFT_KEY_ROWS].total = p->kv_seq;
}

/* Ranks that exchange heads have whole groups of them, or parts of a group with its one kv head. */
static weft_status check_heads(const weft_attention *p, const weft_ranks *r, weft_message *message) {
    const int64_t u = r->head_ranks;
    if (p->heads % u != 0 || (p->kv_heads % u != 0 && u % p->kv_heads != 0)) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "heads %" PRId64 " and kv_heads %" PRId64 " are not dealt evenly to %" PRId64
                         " ranks that exchange heads",
                         p->heads, p->kv_heads, u);
    }
    return WEFT_OK;
}

weft_status weft_dist_attention_check(const weft_dist *dist, weft_message *message) {
    const weft_attention *p = &dist->problem.attention;
    const weft_ranks *r = &dist->ranks;
    const weft_status status = check_heads(p, r, message);
    const char *why = refused(dist);
    if (status || why) {
        return status ? status : weft_fail(message, WEFT_UNSUPPORTED, "attention is not shared among ranks with %s", why);
    }
    return r->ranks > weft_smaller(p->seq, p->kv_seq)
               ? weft_fail(message, WEFT_INVALID, "ranks %" PRId64 " are more than seq %" PRId64 " or kv_seq %" PRId64,
                           r->ranks, p->seq, p->kv_seq)
               : WEFT_OK;
}

/* The problem of all ranks, without the strides, which are those of a rank's tensors. */
weft_status weft_dist_attention_resolve(weft_dist *dist, const void *problem, weft_message *message) {
    const weft_attention init = WEFT_ATTENTION_INIT;
    weft_attention *given = &dist->given.attention;
    *given = init;
    weft_status status =
        weft_struct_take(given, sizeof *given, sizeof(size_t) + sizeof(int64_t), problem, "WEFT_ATTENTION_INIT", message);
    weft_attention all = *given;
    all.q_strides = all.k_strides = all.v_strides = all.o_strides = all.bias_strides = (weft_strides){0, 0, 0};
    all.bias_key_stride = 0;
    status = status ? status : weft_problem_resolve(&dist->problem, &dist->operation, &all, message);
    return status ? status : dist->operation->keep(&dist->problem, &dist->memory, message);
}

void weft_dist_attention_rows(weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    const size_t heads = (size_t)(p->batch * weft_dist_kv_heads_of(dist)), element = weft_dtype_bytes(p->dtype);
    const size_t dim = heads * (size_t)p->head_dim, dim_v = heads * (size_t)p->head_dim_v;
    dist->row = (weft_dist_row){dim * element, dim_v * element, dim * sizeof(float), dim_v * sizeof(float)};
    dist->adds = weft_dist_is_backward(dist);
    dist->keeps = 1;
}

/* Gradients of sinks: each rank has those of its queries. */
size_t weft_dist_attention_told(const weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    return weft_dist_is_backward(dist) && (p->extras & WEFT_SINKS) ? (size_t)p->heads * sizeof(float) : 0;
}

/* A rank's buffers, and its tensors: all heads of its own rows. */
uint64_t weft_dist_attention_memory(const weft_dist *dist, int64_t rank, int64_t most_queries, int64_t most_keys) {
    const weft_attention *p = &dist->problem.attention;
    const int back = weft_dist_is_backward(dist);
    const uint64_t element = weft_dtype_bytes(p->dtype), lines = (uint64_t)(p->batch * p->heads);
    const uint64_t both = (uint64_t)(p->head_dim + p->head_dim_v);
    const uint64_t queries = (uint64_t)weft_dist_rows(dist, rank, WEFT_QUERY_ROWS) * lines;
    const uint64_t keys = (uint64_t)weft_dist_rows(dist, rank, WEFT_KEY_ROWS) * (uint64_t)(p->batch * p->kv_heads);
    return weft_dist_buffers(dist, rank, most_queries, most_keys) + (back ? 2 : 1) * (queries + keys) * both * element +
           queries * sizeof(float);
}

int weft_dist_attention_rows_text(const weft_dist *dist, char *text, size_t size) {
    weft_chunk chunk;
    int64_t chunks = 0;
    while (weft_dist_chunk(dist, 0, WEFT_QUERY_ROWS, chunks, &chunk)) {
        chunks++;
    }
    return snprintf(text, size, "rows       %" PRId64 " queries and %" PRId64 " keys of rank 0, in %" PRId64 " chunk%s",
                    weft_dist_rows(dist, 0, WEFT_QUERY_ROWS), weft_dist_rows(dist, 0, WEFT_KEY_ROWS), chunks,
                    chunks == 1 ? "" : "s");
}
