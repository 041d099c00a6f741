/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/study/fill.h"

#include <math.h>
#include <string.h>

#include "problem/dropout.h"
#include "problem/problem.h"

static const double log2e = 1.4426950408889634;

static int32_t unit_of(const void *data, const weft_strides *s, int64_t bytes) {
    const uint64_t at = (uint64_t)(uintptr_t)data | (uint64_t)(bytes * (s->batch | s->seq | s->head));
    return at % 16 == 0 ? 16 : at % 4 == 0 ? 4 : 2;
}

int32_t weft_study_unit(const void *data, const weft_strides *s) {
    return unit_of(data, s, 2);
}

int32_t weft_study_out_unit(const weft_attention *p, const void *data, const weft_strides *s) {
    return unit_of(data, s, (int64_t)weft_dtype_bytes(weft_attention_out_dtype(p)));
}

/* Finite in fp32, so that a score of 0 stays 0. */
static float limited(double number) {
    return (float)fmax(fmin(number, 1e30), -1e30);
}

static void fill_bias(weft_study_general *to, const weft_attention *p, const void *bias) {
    const weft_strides *s = &p->bias_strides;
    const uint64_t bytes = p->bias_type == WEFT_BIAS_BOOL ? 1 : p->bias_type == WEFT_BIAS_FP32 ? 4 : 2;
    to->bias = bias;
    to->bias_strides = *s;
    to->bias_key_stride = p->bias_key_stride;
    to->bias_type = p->bias_type;
    to->bias_pairs =
        p->bias_key_stride == 1 && (s->batch | s->seq | s->head) % 2 == 0 && (uint64_t)(uintptr_t)bias % (2 * bytes) == 0;
}

static void fill_general(weft_study_general *to, const weft_attention *p, const weft_attention_data *data) {
    to->head_dim = (int32_t)p->head_dim;
    to->head_dim_v = (int32_t)p->head_dim_v;
    to->q_unit = weft_study_unit(data->q, &p->q_strides);
    to->k_unit = weft_study_unit(data->k, &p->k_strides);
    to->v_unit = weft_study_unit(data->v, &p->v_strides);
    to->out_bytes = (int32_t)weft_dtype_bytes(weft_attention_out_dtype(p));
    to->o_unit = weft_study_out_unit(p, data->o, &p->o_strides);
    to->scale = limited(p->softcap > 0 ? 2 * p->scale / p->softcap : p->scale * log2e);
    to->cap = limited(p->softcap * log2e);
    to->kept = (float)(1 / (1 - p->dropout));
    to->dropout_limit = weft_dropout_limit(p->dropout);
    to->dropout_seed = data->dropout_seed;
    to->sinks = p->extras & WEFT_SINKS ? data->sinks : NULL;
    to->alibi = p->extras & WEFT_ALIBI ? data->alibi : NULL;
    to->alibi_stride = p->alibi_stride;
    to->max = p->extras & WEFT_MAX ? data->max : NULL;
    to->lag = to->max ? 0 : 8;
    if (p->extras & WEFT_BIAS) {
        fill_bias(to, p, data->bias);
    }
}

/* Rotated queries, in the workspace: rows of whole 16 bytes, one behind the other. */
weft_strides weft_study_rotated_strides(const weft_attention *p) {
    const int64_t row = (p->head_dim + 7) / 8 * 8;
    return (weft_strides){.batch = p->seq * p->heads * row, .seq = p->heads * row, .head = row};
}

int weft_study_appends(const weft_attention *p) {
    return p->cache.append > 0 || p->cache.rotary_dim > 0;
}

size_t weft_study_rotated_bytes(const weft_attention *p) {
    return p->cache.rotary_dim > 0 ? 2 * (size_t)(p->batch * weft_study_rotated_strides(p).batch) : 0;
}

/* What a walk knows of the sequences, or what follows from the problem where it needs no lengths. */
static weft_sequences sequences_of(const weft_attention *p, const weft_walk *walk) {
    return weft_reach_has_band(&walk->reach) ? walk->reach.sequences : weft_attention_sequences(p);
}

void weft_study_fill(weft_study_params *to, const weft_attention *p, const weft_attention_data *data,
                     const weft_walk *walk) {
    memset(to, 0, sizeof *to);
    to->q = data->q;
    to->k = data->k;
    to->v = data->v;
    to->o = data->o;
    to->lse = data->lse;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    to->o_strides = p->o_strides;
    to->heads = p->heads;
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->by_kv_group = weft_divisor_make((uint64_t)(p->heads / p->kv_heads));
    weft_study_set_scale(to, p->scale);
    to->walk = *walk;
    if (!weft_reach_has_band(&walk->reach)) { /* general variants go by the band of every mask, plain ones by the slice */
        to->walk.reach.band = weft_attention_band(p);
    }
    to->walk.reach.sequences = sequences_of(p, walk);
    fill_general(&to->general, p, data);
    to->general.pages = weft_attention_pages(p, data);
    if (p->cache.rotary_dim > 0) {
        to->q = data->workspace;
        to->q_strides = weft_study_rotated_strides(p);
        to->general.q_unit = weft_study_unit(to->q, &to->q_strides);
    }
}

/* Rows of a tensor that are moved, `chunk` elements at a time. */
static weft_study_moved moved(const void *from, const weft_strides *from_strides, void *to, const weft_strides *to_strides,
                              int64_t rows, int64_t heads, int64_t dim, int64_t rotary_dim, int64_t chunk) {
    const int64_t chunks = rotary_dim / (2 * chunk) + (dim - rotary_dim) / chunk;
    return (weft_study_moved){.from = from,
                              .to = to,
                              .from_strides = *from_strides,
                              .to_strides = *to_strides,
                              .items = rows * heads * chunks,
                              .by_chunks = weft_divisor_make((uint64_t)chunks),
                              .by_heads = weft_divisor_make((uint64_t)heads),
                              .rotary_dim = (int32_t)rotary_dim};
}

/* Whether everything that is moved and looked up can be read and written by 16 bytes. */
static int moves_chunks(const weft_attention *p, const weft_attention_data *data) {
    const weft_kv_cache *c = &p->cache;
    const weft_strides rows = {.batch = c->rotary_dim / 2, .seq = 0, .head = 0};
    const int keys =
        c->append == 0 || (weft_study_unit(data->k, &p->k_strides) == 16 && weft_study_unit(data->v, &p->v_strides) == 16 &&
                           weft_study_unit(data->cache.k_new, &c->k_new_strides) == 16 &&
                           weft_study_unit(data->cache.v_new, &c->v_new_strides) == 16 && p->head_dim_v % 8 == 0);
    const int rotated = c->rotary_dim == 0 ||
                        (weft_study_unit(data->q, &p->q_strides) == 16 && weft_study_unit(data->cache.cos, &rows) == 16 &&
                         weft_study_unit(data->cache.sin, &rows) == 16);
    return keys && rotated && p->head_dim % 8 == 0;
}

void weft_study_append_fill(weft_study_append *to, const weft_plan *plan, const weft_attention_data *data,
                            const weft_walk *walk) {
    const weft_attention *p = &plan->attention;
    const weft_kv_cache *c = &p->cache;
    const int64_t chunk = moves_chunks(p, data) ? WEFT_STUDY_APPEND_CHUNK : 1, keys = p->batch * c->append;
    const weft_strides rotated = weft_study_rotated_strides(p);
    memset(to, 0, sizeof *to);
    if (c->append > 0) {
        void *k = (void *)(uintptr_t)data->k, *v = (void *)(uintptr_t)data->v; /* a cache is written */
        to->moved[WEFT_STUDY_K] = moved(data->cache.k_new, &c->k_new_strides, k, &p->k_strides, keys, p->kv_heads,
                                        p->head_dim, c->rotary_dim, chunk);
        to->moved[WEFT_STUDY_V] =
            moved(data->cache.v_new, &c->v_new_strides, v, &p->v_strides, keys, p->kv_heads, p->head_dim_v, 0, chunk);
        to->by_new = weft_divisor_make((uint64_t)c->append);
    }
    if (c->rotary_dim > 0) {
        to->moved[WEFT_STUDY_Q] = moved(data->q, &p->q_strides, data->workspace, &rotated, p->batch * p->seq, p->heads,
                                        p->head_dim, c->rotary_dim, chunk);
        to->by_queries = weft_divisor_make((uint64_t)p->seq);
    }
    to->sequences = sequences_of(p, walk);
    to->pages = weft_cuda_pages(plan, data);
    to->cos = data->cache.cos;
    to->sin = data->cache.sin;
    to->positions = data->cache.positions;
    to->rotary_rows = c->rotary_rows;
    to->interleaved = c->rotary_interleaved;
    to->by_position = p->mask != WEFT_MASK_NONE;
    to->chunk = (int32_t)chunk;
}

/* As many CTAs as that launch is worth. */
static int64_t append_ctas(const weft_attention *p) {
    const weft_kv_cache *c = &p->cache;
    const int64_t k = p->batch * c->append * p->kv_heads * p->head_dim,
                  v = p->batch * c->append * p->kv_heads * p->head_dim_v;
    const int64_t q = c->rotary_dim > 0 ? p->batch * p->seq * p->heads * p->head_dim : 0;
    const int64_t chunks = weft_larger(weft_larger(k, v), q) / WEFT_STUDY_APPEND_CHUNK;
    return weft_between(weft_ceil_divide(chunks, WEFT_STUDY_APPEND_THREADS), 1, WEFT_STUDY_APPEND_MOST_CTAS);
}

int weft_study_passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_attention *p = &plan->attention;
    *main = weft_study_appends(p) ? 1 : 0;
    list[0] = (weft_cuda_choice){.image = "study_append",
                                 .kernel = p->dtype == WEFT_BF16 ? "study_append_bf16" : "study_append_fp16",
                                 .threads = WEFT_STUDY_APPEND_THREADS,
                                 .grid = append_ctas(p)};
    list[*main] = *choice;
    return *main + 1;
}
