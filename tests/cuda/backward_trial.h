/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of an attention on a GPU, and what is right: the reference's sums in fp64, and how far a plain kernel is from
 * them that rounds weights and gradients of scores to 16 bits before it multiplies them.
 *
 * A score is a sum in fp32, and another order of adding rounds it differently: scores of 1e4 by some thousandths, and so
 * their weights. How far off one plain kernel is there is chance. So every element may also be off by what the rounding
 * of each score's sum changes it by, to first order. This allows next to nothing more for scores of usual size. */
#ifndef WEFT_TESTS_CUDA_BACKWARD_TRIAL_H
#define WEFT_TESTS_CUDA_BACKWARD_TRIAL_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../features.h"
#include "../plans.h"
#include "../random.h"
#include "cuda/driver/module.h"
#include "cuda/plan/backend.h"
#include "problem/attention.h"
#include "ref/dot.h"
#include "ref/ref.h"
#include "ref/scores.h"
#include "trial_checks.h"

static int runs;
static double worst; /* error to what is allowed */

/* A tensor here and on the GPU. Elements that no row holds, or whose row does not count, are NaN. */
typedef struct tensor {
    size_t elements, bytes;
    void *host;
    uint64_t device;
} tensor;

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, GRAD_SINKS, GRAD_BIAS, SINKS, ALIBI, BIAS, TENSORS };

/* The gradients: dQ, dK, dV, the sinks' and the bias's. */
enum { GRADIENTS = 5 };

/* The error of a sum of so many terms in fp32, relative to the sum of their sizes: 8 roundings, or one for every 16 terms,
 * of which tensor cores cut off what is below the last digit. */
static inline double sum_rounding(int64_t terms) {
    return 0x1p-24 * fmax(8, (double)terms / 16);
}

static inline int gradient_at(int i) {
    return i < 3 ? GRAD_Q + i : GRAD_SINKS + i - 3;
}

typedef struct gradients {
    weft_attention asked; /* as a plan is asked for: lengths and pairs may come with the data */
    weft_attention p;     /* resolved, with all its lengths and pairs here */
    weft_attention_gradients data;
    tensor t[TENSORS];
    uint64_t lengths[5], pairs[WEFT_PAIR_ARRAYS]; /* on the GPU */
    double *exact[GRADIENTS], *plain[GRADIENTS];
    double *rounding[GRADIENTS]; /* of each element: the error that roundings of scores, and such noise, make */
    double noise;                /* of dQ and dK: the gradient of a weight and the delta, each a sum in fp32, may cancel */
} gradients;

static const char *const names[] = {"dQ", "dK", "dV", "the gradient of the sinks", "the gradient of the bias"};

static inline uint64_t there(const void *from, size_t bytes) {
    uint64_t to = 0;
    DEMAND(driver->memory_new(&to, bytes ? bytes : 1));
    DEMAND(bytes && driver->copy_in(to, from, bytes));
    return to;
}

static inline double random_real_between(uint64_t *random, double low, double high) {
    return low + (high - low) * (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* Whether a row of a tensor, a query or a key, counts in any sequence of its batch. */
static inline int row_counts(const weft_attention *p, int64_t batch, int64_t row, int is_query) {
    const weft_sequences all = weft_attention_sequences(p);
    for (int64_t i = p->sequences ? 0 : batch; i < (p->sequences ? all.count : batch + 1); i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        const int64_t begin = is_query ? s.rows.begin : s.columns.begin, end = is_query ? s.used_end : s.columns.end;
        if (row >= begin && row < end) {
            return 1;
        }
    }
    return 0;
}

static inline const weft_strides *strides_of(const weft_attention *p, int which) {
    return which == Q || which == GRAD_Q   ? &p->q_strides
           : which == K || which == GRAD_K ? &p->k_strides
           : which == V || which == GRAD_V ? &p->v_strides
                                           : &p->o_strides;
}

/* Results, and O, may be in fp32; everything else is of the problem's dtype. */
static inline weft_dtype dtype_of(const weft_attention *p, int which) {
    return which == O || (which >= GRAD_Q && which <= GRAD_V) ? weft_attention_out_dtype(p) : p->dtype;
}

static inline int is_of_keys(int which) {
    return which == K || which == V || which == GRAD_K || which == GRAD_V;
}

static inline int64_t dims_of(const weft_attention *p, int which) {
    return which == Q || which == K || which == GRAD_Q || which == GRAD_K ? p->head_dim : p->head_dim_v;
}

static inline void random_rows(gradients *x, int which, double size, uint64_t *random) {
    const weft_attention *p = &x->p;
    const int keys = is_of_keys(which);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < (keys ? p->kv_seq : p->seq); i++) {
            for (int64_t h = 0; h < (keys ? p->kv_heads : p->heads) && row_counts(p, b, i, !keys); h++) {
                const size_t row = weft_row_index(strides_of(p, which), b, i, h);
                for (size_t d = 0; d < (size_t)dims_of(p, which); d++) {
                    weft_ref_store(p->dtype, x->t[which].host, row + d, random_real_between(random, -size, size));
                }
            }
        }
    }
}

static inline void tensor_new(tensor *t, size_t elements, size_t bytes) {
    t->elements = elements;
    t->bytes = elements * bytes;
    t->host = malloc(t->bytes ? t->bytes : 1);
    DEMAND(!t->host);
    memset(t->host, 0xff, t->bytes);
}

static inline void random_numbers(tensor *t, weft_dtype dtype, double low, double high, uint64_t *random) {
    for (size_t i = 0; i < t->elements; i++) {
        if (dtype == WEFT_BOOL) {
            ((unsigned char *)t->host)[i] = random_between(random, 0, 3) != 0;
        } else {
            weft_ref_store(dtype, t->host, i, random_real_between(random, low, high));
        }
    }
}

static inline void tensors_of(gradients *x, double size, uint64_t *random) {
    const weft_attention *p = &x->p;
    const weft_attention_extents n = weft_attention_sizes(p);
    const size_t elements[] = {n.q, n.k, n.v, n.o, n.o, n.q, n.k, n.v}, heads = (size_t)p->heads;
    const int64_t each = p->sequences ? p->sequences : p->batch;
    for (int i = Q; i <= GRAD_V; i++) {
        tensor_new(&x->t[i], elements[i], weft_dtype_bytes(dtype_of(p, i)));
    }
    tensor_new(&x->t[LSE], n.lse, sizeof(float));
    tensor_new(&x->t[GRAD_SINKS], heads, sizeof(float));
    tensor_new(&x->t[GRAD_BIAS], p->extras & WEFT_BIAS ? weft_attention_all_scores(p) : 0, sizeof(float));
    tensor_new(&x->t[SINKS], p->extras & WEFT_SINKS ? heads : 0, sizeof(float));
    tensor_new(&x->t[ALIBI], p->extras & WEFT_ALIBI ? (size_t)((each - 1) * p->alibi_stride) + heads : 0, sizeof(float));
    tensor_new(&x->t[BIAS], p->extras & WEFT_BIAS ? weft_attention_bias_extent(p) : 0,
               weft_dtype_bytes(weft_attention_bias_dtype(p)));
    for (int i = Q; i <= V; i++) {
        random_rows(x, i, size, random);
    }
    random_rows(x, GRAD_O, 1, random);
    random_numbers(&x->t[SINKS], WEFT_FP32, -1, 2, random);
    random_numbers(&x->t[ALIBI], WEFT_FP32, 0, 0.1, random);
    random_numbers(&x->t[BIAS], weft_attention_bias_dtype(p), -1, 1, random);
}

/* A product of rows as a plain kernel has it, summed in fp32. */
static inline double plain_dot(weft_dtype dtype, const void *a, size_t a_row, const void *b, size_t b_row, int64_t dims) {
    float sum = 0;
    for (size_t d = 0; d < (size_t)dims; d++) {
        sum += (float)weft_ref_load(dtype, a, a_row + d) * (float)weft_ref_load(dtype, b, b_row + d);
    }
    return (double)sum;
}

/* The sum of the sizes of a product's terms. */
static inline double sizes_dot(weft_dtype dtype, const void *a, size_t a_row, const void *b, size_t b_row, int64_t dims) {
    double sum = 0;
    for (size_t d = 0; d < (size_t)dims; d++) {
        sum += fabs(weft_ref_load(dtype, a, a_row + d) * weft_ref_load(dtype, b, b_row + d));
    }
    return sum;
}

/* The weight of a key and the gradient of its score, as a plain kernel has them. */
typedef struct plain_pair {
    double weight, grad_score;
    double grad_sum; /* of the score with what is added to it */
} plain_pair;

static inline plain_pair plain_pair_of(const gradients *x, int64_t batch, int64_t head, int64_t row, int64_t key, size_t k,
                                       size_t v, double kept, float lse, double delta) {
    const weft_attention *p = &x->p;
    const size_t q = weft_row_index(&p->q_strides, batch, row, head), o = weft_row_index(&p->o_strides, batch, row, head);
    const double score = p->scale * plain_dot(p->dtype, x->t[Q].host, q, x->t[K].host, k, p->head_dim);
    const double grad = kept * plain_dot(p->dtype, x->t[GRAD_O].host, o, x->t[V].host, v, p->head_dim_v);
    const double whole =
        weft_ref_cap(p, score) + weft_ref_bias(p, x->t[ALIBI].host, x->t[BIAS].host, batch, head, row, key);
    const double weight = isfinite(whole) ? exp((double)(float)whole - (double)lse) : 0;
    return (plain_pair){weft_ref_round(p->dtype, weight),
                        weft_ref_round(p->dtype, weft_ref_cap_slope(p, score) * weight * (grad - delta)),
                        weight * (grad - delta)};
}

/* What sums of both kinds get from one query; its output and LSE are what the forward pass gives. */
static inline void add_query(gradients *x, int64_t batch, int64_t head, int64_t row, const weft_blocks *blocks,
                             double *weights, double *out) {
    const weft_attention *p = &x->p;
    const int64_t line = batch * p->heads + head, kv_head = head / (p->heads / p->kv_heads);
    const size_t q = weft_row_index(&p->q_strides, batch, row, head), o = weft_row_index(&p->o_strides, batch, row, head);
    const weft_attention_data inputs = {.struct_size = sizeof inputs,
                                        .q = x->t[Q].host,
                                        .k = x->t[K].host,
                                        .v = x->t[V].host,
                                        .sinks = x->t[SINKS].host,
                                        .alibi = x->t[ALIBI].host,
                                        .bias = x->t[BIAS].host,
                                        .dropout_seed = x->data.dropout_seed};
    const double lse = weft_ref_attention_row(p, &inputs, batch, head, row, weights, out).lse;
    const float rounded_lse = (float)lse;
    double delta = 0;
    ((float *)x->t[LSE].host)[line * p->seq + row] = rounded_lse;
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        weft_ref_store(dtype_of(p, O), x->t[O].host, o + d, out[d]);
    }
    if (lse == -INFINITY || !row_counts(p, batch, row, 1)) {
        return;
    }
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        const double grad = weft_ref_load(p->dtype, x->t[GRAD_O].host, o + d);
        delta += grad * out[d];
    }
    float sum = 0;
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        sum += (float)weft_ref_load(p->dtype, x->t[GRAD_O].host, o + d) *
               (float)weft_ref_load(dtype_of(p, O), x->t[O].host, o + d);
    }
    const double plain_delta = (double)sum;
    if (p->extras & WEFT_SINKS) {
        const double sink = (double)((const float *)x->t[SINKS].host)[head];
        x->exact[3][head] -= exp(sink - lse) * delta;
        x->plain[3][head] -= exp(sink - (double)rounded_lse) * plain_delta;
    }
    const weft_rows keys = weft_seen_keys(p, batch, row);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        if (!weft_attention_shows(p, blocks, batch, head, row, key)) {
            continue;
        }
        const size_t k = weft_row_index(&p->k_strides, batch, key, kv_head);
        const size_t v = weft_row_index(&p->v_strides, batch, key, kv_head);
        const double kept = weft_ref_kept(p, x->data.dropout_seed, line, row, key);
        const double grad = kept * weft_ref_dot(p->dtype, x->t[GRAD_O].host, o, x->t[V].host, v, p->head_dim_v);
        const double score = p->scale * weft_ref_dot(p->dtype, x->t[Q].host, q, x->t[K].host, k, p->head_dim);
        const double weight = weights[key], grad_sum = weight * (grad - delta);
        const double slope = p->scale * weft_ref_cap_slope(p, score), grad_score = slope * grad_sum;
        const double off = /* of the weight, relative to it */
            sum_rounding(p->head_dim) * fabs(slope) * sizes_dot(p->dtype, x->t[Q].host, q, x->t[K].host, k, p->head_dim);
        const plain_pair plain = plain_pair_of(x, batch, head, row, key, k, v, kept, rounded_lse, plain_delta);
        const double plain_grad = p->scale * plain.grad_score;
        if (p->extras & WEFT_BIAS) {
            /* Exact zeros are of pairs that are hidden. */
            x->exact[4][weft_attention_score_at(p, batch, head, row, key)] =
                weight > 0 && grad_sum == 0 ? DBL_MIN : grad_sum;
            x->plain[4][weft_attention_score_at(p, batch, head, row, key)] = plain.grad_sum;
            x->rounding[4][weft_attention_score_at(p, batch, head, row, key)] = off * fabs(grad_sum);
        }
        const double terms = sizes_dot(p->dtype, x->t[GRAD_O].host, o, x->t[V].host, v, p->head_dim_v);
        const double noise = kept * fabs(p->scale) * terms * sum_rounding(p->head_dim_v); /* of a weight of 1 */
        x->noise = fmax(x->noise, noise);
        for (size_t d = 0; d < (size_t)p->head_dim; d++) {
            const double query = weft_ref_load(p->dtype, x->t[Q].host, q + d);
            const double value = weft_ref_load(p->dtype, x->t[K].host, k + d);
            x->exact[0][q + d] += grad_score * value;
            x->plain[0][q + d] += plain_grad * value;
            x->rounding[0][q + d] += (off * fabs(grad_score) + noise * weight) * fabs(value);
            x->exact[1][k + d] += grad_score * query;
            x->plain[1][k + d] += plain_grad * query;
            x->rounding[1][k + d] += (off * fabs(grad_score) + noise * weight) * fabs(query);
        }
        for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
            const double value = weft_ref_load(p->dtype, x->t[GRAD_O].host, o + d);
            x->exact[2][v + d] += kept * weight * value;
            x->plain[2][v + d] += kept * plain.weight * value;
            x->rounding[2][v + d] += off * fabs(kept * weight * value);
        }
    }
}

static inline void solve(gradients *x) {
    const weft_attention *p = &x->p;
    const weft_blocks blocks = weft_attention_blocks(p);
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), out[WEFT_MAX_HEAD_DIM];
    DEMAND(!weights);
    for (int i = 0; i < GRADIENTS; i++) {
        x->exact[i] = calloc(x->t[gradient_at(i)].elements + 1, sizeof(double));
        x->plain[i] = calloc(x->t[gradient_at(i)].elements + 1, sizeof(double));
        x->rounding[i] = calloc(x->t[gradient_at(i)].elements + 1, sizeof(double));
        DEMAND(!x->exact[i] || !x->plain[i] || !x->rounding[i]);
    }
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq;
        if (row < weft_attention_rows(p)) {
            add_query(x, i / p->seq / p->heads, i / p->seq % p->heads, row, &blocks, weights, out);
        }
    }
    free(weights);
}

/* Strides with `gap` elements left over behind every row, line and batch. */
static inline weft_strides spread(weft_layout layout, int64_t seq, int64_t heads, int64_t dims, int64_t gap) {
    weft_strides s;
    if (layout == WEFT_BSHD) {
        s.head = dims + gap;
        s.seq = heads * s.head + gap;
        s.batch = seq * s.seq + gap;
    } else {
        s.seq = dims + gap;
        s.head = seq * s.seq + gap;
        s.batch = heads * s.head + gap;
    }
    return s;
}

/* Lengths and pairs go to the GPU, whether or not a plan copies its own there. */
static inline void place_arrays(gradients *x) {
    const weft_attention *p = &x->p;
    const int64_t each = p->sequences ? p->sequences : p->batch;
    const void *const from[] = {p->lengths.q_starts, p->lengths.kv_starts, p->lengths.q_used, p->lengths.kv_used,
                                p->lengths.kv_pad};
    const void *const pairs[] = {p->pairs.block_starts, p->pairs.block_list, p->pairs.block_bits_at, p->pairs.block_bits,
                                 p->pairs.tree};
    const int32_t bits[] = {WEFT_STARTS, WEFT_KV_STARTS, WEFT_Q_USED, WEFT_KV_USED, WEFT_KV_PAD};
    size_t elements[WEFT_PAIR_ARRAYS];
    weft_attention_pair_elements(p, elements);
    for (int i = 0; i < 5; i++) {
        if (from[i] && (x->asked.extras & bits[i])) {
            x->lengths[i] = there(from[i], sizeof(int32_t) * (size_t)(each + (i < 2)));
            memcpy((char *)&x->data.lengths + (size_t)i * sizeof(void *), &x->lengths[i], sizeof(void *));
        }
    }
    for (int i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        if (pairs[i] && (x->asked.extras & (i == 4 ? WEFT_TREE : WEFT_BLOCKS))) {
            x->pairs[i] = there(pairs[i], elements[i] * (i == 4 ? sizeof(uint64_t) : sizeof(uint32_t)));
            memcpy((char *)&x->data.pairs + (size_t)i * sizeof(void *), &x->pairs[i], sizeof(void *));
        }
    }
}

/* A problem with its tensors, whose rows have gaps of `gap` elements; Q, K and V are of this size. */
static inline gradients gradients_new(weft_attention *p, const drawn_lengths *lengths, int64_t gap, double size,
                                      uint64_t *random) {
    gradients x = {.data = WEFT_ATTENTION_GRADIENTS_INIT};
    weft_message message = {""};
    const int64_t dims_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    p->q_strides = spread(p->layout, p->seq, p->heads, p->head_dim, gap);
    p->k_strides = spread(p->layout, p->kv_seq, p->kv_heads, p->head_dim, 2 * gap);
    p->v_strides = spread(p->layout, p->kv_seq, p->kv_heads, dims_v, gap);
    p->o_strides = spread(p->layout, p->seq, p->heads, dims_v, 3 * gap);
    x.asked = *p;
    if (resolve_attention(&x.p, p, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    x.p.lengths = lengths->all;
    x.p.pairs = lengths->pairs;
    x.data.dropout_seed = random_bits(random);
    tensors_of(&x, size, random);
    solve(&x);
    for (int i = 0; i < TENSORS; i++) {
        x.t[i].device = there(x.t[i].host, x.t[i].bytes);
    }
    const struct {
        const void *field;
        int which;
    } fields[] = {{&x.data.q, Q},
                  {&x.data.k, K},
                  {&x.data.v, V},
                  {&x.data.o, O},
                  {&x.data.grad_o, GRAD_O},
                  {&x.data.grad_q, GRAD_Q},
                  {&x.data.grad_k, GRAD_K},
                  {&x.data.grad_v, GRAD_V},
                  {&x.data.lse, LSE},
                  {&x.data.sinks, SINKS},
                  {&x.data.alibi, ALIBI},
                  {&x.data.bias, BIAS},
                  {&x.data.grad_sinks, GRAD_SINKS},
                  {&x.data.grad_bias, GRAD_BIAS}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const int which = fields[i].which;
        const int is_there = x.t[which].elements > 0 && (which != GRAD_SINKS || (x.p.extras & WEFT_SINKS));
        const void *at = is_there ? (const void *)(uintptr_t)x.t[which].device : NULL;
        memcpy((void *)(uintptr_t)fields[i].field, &at, sizeof at);
    }
    x.data.grad_bias = random_between(random, 0, 3) ? x.data.grad_bias : NULL;
    place_arrays(&x);
    return x;
}

/* After a change of the inputs here. */
static inline void gradients_solve_again(gradients *x) {
    for (int i = 0; i < GRADIENTS; i++) {
        free(x->exact[i]);
        free(x->plain[i]);
        free(x->rounding[i]);
    }
    solve(x);
    for (int i = 0; i < TENSORS; i++) {
        DEMAND(x->t[i].bytes && driver->copy_in(x->t[i].device, x->t[i].host, x->t[i].bytes));
    }
}

static inline void gradients_free(gradients *x) {
    for (int i = 0; i < TENSORS; i++) {
        free(x->t[i].host);
        DEMAND(driver->memory_free(x->t[i].device));
    }
    for (int i = 0; i < 5; i++) {
        DEMAND(x->lengths[i] && driver->memory_free(x->lengths[i]));
        DEMAND(x->pairs[i] && driver->memory_free(x->pairs[i]));
    }
    for (int i = 0; i < GRADIENTS; i++) {
        free(x->exact[i]);
        free(x->plain[i]);
        free(x->rounding[i]);
    }
}

static inline size_t gradients_bytes(const gradients *x) {
    return x->t[GRAD_Q].bytes + x->t[GRAD_K].bytes + x->t[GRAD_V].bytes + x->t[GRAD_SINKS].bytes + x->t[GRAD_BIAS].bytes;
}

static inline void gradients_copy(const gradients *x, void *to) {
    for (int i = 0; i < GRADIENTS; i++) {
        const tensor *t = &x->t[gradient_at(i)];
        memcpy(to, t->host, t->bytes);
        to = (char *)to + t->bytes;
    }
}

/* What is wrong with one tensor of gradients, or null: rows of queries or keys up to the last sequence's have the sums, the
 * rest is as it was. */
static inline const char *compare_tensor(const gradients *x, int i) {
    const weft_attention *p = &x->p;
    const int which = GRAD_Q + i, keys = is_of_keys(which);
    const int64_t rows = keys ? weft_attention_keys(p) : weft_attention_rows(p);
    const int64_t heads = keys ? p->kv_heads : p->heads, dims = dims_of(p, which);
    const tensor *t = &x->t[which];
    const double unit = p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    double error = 0, bound = 0, largest = 0;
    char *owned = calloc(t->elements, 1);
    DEMAND(!owned);
    for (int64_t j = 0; j < p->batch * rows * heads; j++) {
        const size_t row = weft_row_index(strides_of(p, which), j / heads / rows, j / heads % rows, j % heads);
        for (size_t d = row; d < row + (size_t)dims; d++) {
            const double got = weft_ref_load(dtype_of(p, which), t->host, d), want = x->exact[i][d];
            owned[d] = 1;
            if (!isfinite(got)) {
                free(owned);
                return "not finite";
            }
            error = fmax(error, fabs(got - want) - x->rounding[i][d]);
            bound = fmax(bound, fabs(weft_ref_round(dtype_of(p, which), x->plain[i][d]) - want));
            largest = fmax(largest, fabs(want));
        }
    }
    size_t touched = 0;
    for (size_t d = 0; d < t->elements; d++) {
        const size_t bytes = t->bytes / t->elements;
        touched += !owned[d] && memcmp((const char *)t->host + d * bytes, "\xff\xff\xff\xff", bytes) != 0;
    }
    free(owned);
    bound = fmax(2 * bound, unit * largest) + (i < 2 ? x->noise : 0) + 1e-7;
    worst = fmax(worst, error / bound);
    CHECK(error <= bound, "%s: error %g, allowed %g, largest %g", names[i], error, bound, largest);
    return touched ? "written between its rows" : NULL;
}

static inline void compare_sinks(const gradients *x) {
    const weft_attention *p = &x->p;
    for (int64_t head = 0; head < p->heads; head++) {
        const float *got = x->t[GRAD_SINKS].host;
        const double want = x->exact[3][head], off = fabs((double)got[head] - want);
        const double bound = 2 * fabs(x->plain[3][head] - want) + 1e-4 * fmax(1, fabs(want));
        CHECK(p->extras & WEFT_SINKS ? off <= bound : isnan(got[head]), "%s %lld: %g, not %g", names[3], (long long)head,
              (double)got[head], want);
    }
}

/* Every element is written where the gradient of the bias is asked for, else none. */
static inline void compare_bias(const gradients *x) {
    const weft_attention *p = &x->p;
    const float *got = x->t[GRAD_BIAS].host;
    const double unit = p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    double error = 0, bound = 0, largest = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < x->t[GRAD_BIAS].elements; i++) {
        const double want = x->exact[4][i];
        wrong += x->data.grad_bias ? !isfinite(got[i]) || (want == 0 && got[i] != 0) : !isnan(got[i]);
        error = fmax(error, fabs((double)got[i] - want) - x->rounding[4][i]);
        bound = fmax(bound, fabs(x->plain[4][i] - want));
        largest = fmax(largest, fabs(want));
    }
    bound = fmax(2 * bound, unit * largest) + x->noise / fabs(p->scale) + 1e-7;
    CHECK(wrong == 0, "%s: %zu elements are wrong", names[4], wrong);
    CHECK(!x->data.grad_bias || error <= bound, "%s: error %g, allowed %g, largest %g", names[4], error, bound, largest);
}

static inline void gradients_poison(const gradients *x) {
    for (int i = 0; i < GRADIENTS; i++) {
        const tensor *t = &x->t[gradient_at(i)];
        memset(t->host, 0xff, t->bytes);
        DEMAND(driver->copy_in(t->device, t->host, t->bytes));
    }
}

static inline void gradients_fetch(const gradients *x) {
    for (int i = 0; i < GRADIENTS; i++) {
        const tensor *t = &x->t[gradient_at(i)];
        DEMAND(driver->copy_out(t->host, t->device, t->bytes));
    }
}

/* Runs a plan and compares what comes back; `brings`: with a workspace of the caller's, which holds NaNs. */
static inline void gradients_run(gradients *x, const weft_schedule *schedule, const char *kernel, int brings) {
    weft_plan *plan = plan_new(&x->asked, schedule, kernel);
    weft_message message = {""};
    uint64_t workspace = 0;
    char text[2048];
    if (brings) {
        const size_t bytes = weft_plan_workspace(plan);
        void *poison = malloc(bytes);
        DEMAND(!poison || driver->memory_new(&workspace, bytes));
        memset(poison, 0xff, bytes);
        DEMAND(driver->copy_in(workspace, poison, bytes));
        free(poison);
    }
    x->data.workspace = (void *)(uintptr_t)workspace;
    gradients_poison(x);
    const int before = failures;
    CHECK(weft_plan_run(plan, &x->data, &message) == WEFT_OK, "%s", message.text);
    gradients_fetch(x);
    for (int i = 0; i < 3; i++) {
        const char *wrong = compare_tensor(x, i);
        CHECK(!wrong, "%s: %s", names[i], wrong);
    }
    compare_sinks(x);
    compare_bias(x);
    if (failures > before) {
        weft_plan_text(plan, text, sizeof text);
        fputs(text, stderr);
    }
    runs++;
    weft_plan_destroy(plan);
    if (workspace) {
        DEMAND(driver->memory_free(workspace));
    }
}

/* Runs drawn gradients, says how to repeat them where they are wrong, and frees them. */
static inline void gradients_try(gradients *x, const weft_schedule *schedule, const char *kernel, int brings) {
    const int before = failures;
    gradients_run(x, schedule, kernel, brings);
    if (failures > before) {
        random_report();
    }
    gradients_free(x);
}

/* Whether the kernels that a plan takes are among those that were compiled for a test: the emulator may have fewer. */
static inline int is_there(const weft_attention *p, const char *kernel, const char *const *variants, size_t count) {
    weft_plan *plan = plan_new(p, NULL, kernel);
    const char *entry = weft_plan_kernel(plan); /* its name goes on behind the variant's, and so may another variant's */
    int there = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(variants[i]);
        there |= strncmp(entry, variants[i], length) == 0 && strncmp(entry + length, "_general", 8) != 0 &&
                 strncmp(entry + length, "_full", 5) != 0;
    }
    weft_plan_destroy(plan);
    return there;
}

static inline weft_attention plain_backward(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq, int64_t kv_seq,
                                            int64_t dim, weft_dtype dtype, weft_mask mask) {
    weft_attention p = attention(batch, heads, kv_heads, seq, kv_seq, dim, dtype, mask);
    p.operation = WEFT_ATTENTION_BACKWARD;
    return p;
}

/* Scores of 1e4 and more leave one key a query, and scores of 0 leave all of them alike. */
static inline void extremes(int64_t most, int64_t dim, const char *kernel) {
    uint64_t random = random_seed(92);
    static drawn_lengths none;
    for (int i = 0; i < 4; i++) {
        weft_attention p = plain_backward(1, 2, 1, most / 2 + 3, most / 2 + 9, dim, i % 2 ? WEFT_BF16 : WEFT_FP16,
                                          i < 2 ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE);
        p.scale = i < 2 ? 500 : 1e-30;
        gradients x = gradients_new(&p, &none, 0, 2, &random);
        gradients_run(&x, NULL, kernel, 0);
        gradients_free(&x);
    }
}

/* A run after the other gives the same bits, whatever its workspace. */
static inline void repeats(int64_t most, int64_t dim, int32_t extras, const char *kernel, int32_t dispatch, int times) {
    uint64_t random = random_seed(93);
    static drawn_lengths none;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = plain_backward(1, 4, 2, most, most, dim, WEFT_BF16, WEFT_MASK_CAUSAL);
    p.extras = extras;
    s.dispatch = dispatch;
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    gradients_run(&x, &s, kernel, 0);
    const size_t bytes = gradients_bytes(&x);
    void *first = malloc(bytes), *again = malloc(bytes);
    DEMAND(!first || !again);
    gradients_copy(&x, first);
    for (int i = 0; i < times; i++) {
        gradients_run(&x, &s, kernel, i % 2);
        gradients_copy(&x, again);
        CHECK(memcmp(first, again, bytes) == 0, "run %d gave other bits", i);
    }
    free(first);
    free(again);
    gradients_free(&x);
}

/* Two problems of one plan at a time on streams of their own: they take turns with the plan's workspace, or have one each.
 */
static inline void streams(int64_t most, const char *kernel, int times) {
    uint64_t random = random_seed(97);
    static drawn_lengths none;
    weft_attention p = plain_backward(1, 2, 2, most, most, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    gradients x[2];
    void *first[2], *again, *stream[2];
    for (int i = 0; i < 2; i++) {
        x[i] = gradients_new(&p, &none, 0, 1, &random);
        gradients_run(&x[i], NULL, kernel, 0);
        first[i] = malloc(gradients_bytes(&x[i]));
        DEMAND(!first[i]);
        gradients_copy(&x[i], first[i]);
        DEMAND(driver->stream_new(&stream[i], WEFT_CU_STREAM_NON_BLOCKING));
    }
    again = malloc(gradients_bytes(&x[0]));
    DEMAND(!again);
    weft_plan *plan = plan_new(&p, NULL, kernel);
    uint64_t memory;
    DEMAND(driver->memory_new(&memory, weft_plan_workspace(plan)));
    for (int brings = 0; brings < 2; brings++) {
        x[1].data.workspace = brings ? (void *)(uintptr_t)memory : NULL;
        x[0].data.workspace = NULL;
        for (int i = 0; i < 2; i++) {
            gradients_poison(&x[i]);
        }
        for (int i = 0; i < 2 * times; i++) {
            DEMAND(weft_plan_enqueue(plan, &x[i % 2].data, stream[i % 2], NULL));
        }
        for (int i = 0; i < 2; i++) {
            DEMAND(driver->stream_synchronize(stream[i]));
            gradients_fetch(&x[i]);
            gradients_copy(&x[i], again);
            CHECK(memcmp(first[i], again, gradients_bytes(&x[i])) == 0, "stream %d gave other bits, %d", i, brings);
        }
    }
    weft_plan_destroy(plan);
    DEMAND(driver->memory_free(memory));
    free(again);
    for (int i = 0; i < 2; i++) {
        DEMAND(driver->stream_free(stream[i]));
        free(first[i]);
        gradients_free(&x[i]);
    }
}

#endif
