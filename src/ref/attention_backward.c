/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of attention, one query at a time.
 *
 * With P the probabilities of a query, o its output and g the gradient of o:
 *   dV[j] += P[j] g
 *   dS[j]  = P[j] (g . V[j] - g . o)
 *   dQ    += scale dS[j] K[j]
 *   dK[j] += scale dS[j] Q
 * With dropout, V is met by weights of which some are 0 and the others grown: dV takes those, and g . V[j] is multiplied
 * likewise. A cap multiplies dS by its slope; before that, dS is the gradient of a bias. A sink is a key of value 0: its
 * dS, over all queries, is its gradient. Sums are kept in fp64, at the index where the element lives, and rounded once at
 * the end. So query heads that share a kv head add up, and so do positions that share an element through a stride of 0. */
#include "base/status.h"
#include "ref/ref.h"
#include "ref/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sums {
    double *q, *k, *v;     /* as many elements as the tensors */
    double *sinks;         /* (heads) */
    double *weights, *out; /* of the query at hand: (kv_seq) and (head_dim_v) */
} sums;

static int wants_bias(const weft_attention *p, const weft_attention_gradients *data) {
    return (p->extras & WEFT_BIAS) && data->grad_bias;
}

/* to[to_index + d] += factor * from[from_index + d] for a row of `dims` elements. */
static void add_scaled(const weft_attention *p, double *to, size_t to_index, double factor, const void *from,
                       size_t from_index, int64_t dims) {
    for (size_t d = 0; d < (size_t)dims; d++) {
        to[to_index + d] += factor * weft_ref_load(p->dtype, from, from_index + d);
    }
}

/* A pair of query and key: what dropout multiplies its weight by, and the gradients of its score, with a bias and without.
 */
typedef struct pair {
    double kept, grad_sum, grad_score;
} pair;

/* delta: the gradient of the query's output times the output. */
static pair pair_of(const weft_attention *p, const weft_attention_gradients *data, int64_t batch, int64_t head, int64_t row,
                    int64_t key, double weight, double delta) {
    const size_t q = weft_row_index(&p->q_strides, batch, row, head), o = weft_row_index(&p->o_strides, batch, row, head);
    const size_t k = weft_row_index(&p->k_strides, batch, key, weft_ref_kv_head(p, head));
    const size_t v = weft_row_index(&p->v_strides, batch, key, weft_ref_kv_head(p, head));
    const double score = p->softcap > 0 ? p->scale * weft_ref_dot(p->dtype, data->q, q, data->k, k, p->head_dim) : 0;
    pair of = {.kept = weft_ref_kept(p, data->dropout_seed, batch * p->heads + head, row, key)};
    of.grad_sum = weight * (of.kept * weft_ref_dot(p->dtype, data->grad_o, o, data->v, v, p->head_dim_v) - delta);
    of.grad_score = p->scale * weft_ref_cap_slope(p, score) * of.grad_sum;
    return of;
}

/* What the forward pass took. */
static weft_attention_data inputs_of(const weft_attention_gradients *data) {
    return (weft_attention_data){.struct_size = sizeof(weft_attention_data),
                                 .operation = WEFT_ATTENTION,
                                 .q = data->q,
                                 .k = data->k,
                                 .v = data->v,
                                 .sinks = data->sinks,
                                 .alibi = data->alibi,
                                 .bias = data->bias,
                                 .dropout_seed = data->dropout_seed};
}

static double delta_of(const weft_attention *p, const weft_attention_gradients *data, size_t o, const double *out) {
    double delta = 0;
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        delta += weft_ref_load(p->dtype, data->grad_o, o + d) * out[d];
    }
    return delta;
}

static void add_query(const weft_attention *p, const weft_attention_gradients *data, int64_t batch, int64_t head,
                      int64_t row, const sums *s) {
    const weft_attention_data inputs = inputs_of(data);
    const size_t q = weft_row_index(&p->q_strides, batch, row, head);
    const size_t o = weft_row_index(&p->o_strides, batch, row, head);
    const double lse = weft_ref_attention_row(p, &inputs, batch, head, row, s->weights, s->out).lse;
    if (lse == -INFINITY) {
        return; /* the output is a constant zero */
    }
    const double delta = delta_of(p, data, o, s->out);
    if (p->extras & WEFT_SINKS) {
        s->sinks[head] -= exp((double)data->sinks[head] - lse) * delta;
    }
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const weft_blocks blocks = weft_attention_blocks(p);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        if (!weft_attention_shows(p, &blocks, batch, head, row, key)) {
            continue;
        }
        const size_t k = weft_row_index(&p->k_strides, batch, key, weft_ref_kv_head(p, head));
        const size_t v = weft_row_index(&p->v_strides, batch, key, weft_ref_kv_head(p, head));
        const pair of = pair_of(p, data, batch, head, row, key, s->weights[key], delta);
        if (wants_bias(p, data)) {
            data->grad_bias[weft_attention_score_at(p, batch, head, row, key)] = (float)of.grad_sum;
        }
        add_scaled(p, s->v, v, of.kept * s->weights[key], data->grad_o, o, p->head_dim_v);
        add_scaled(p, s->q, q, of.grad_score, data->k, k, p->head_dim);
        add_scaled(p, s->k, k, of.grad_score, data->q, q, p->head_dim);
    }
}

void weft_ref_attention_query_gradient(const weft_attention *p, const weft_attention_gradients *data, int64_t batch,
                                       int64_t head, int64_t row, double *weights, double *grad_q) {
    const weft_attention_data inputs = inputs_of(data);
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const weft_blocks blocks = weft_attention_blocks(p);
    double out[WEFT_MAX_HEAD_DIM];
    memset(grad_q, 0, (size_t)p->head_dim * sizeof *grad_q);
    if (weft_ref_attention_row(p, &inputs, batch, head, row, weights, out).lse == -INFINITY) {
        return;
    }
    const double delta = delta_of(p, data, weft_row_index(&p->o_strides, batch, row, head), out);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        if (weft_attention_shows(p, &blocks, batch, head, row, key)) {
            const pair of = pair_of(p, data, batch, head, row, key, weights[key], delta);
            add_scaled(p, grad_q, 0, of.grad_score, data->k,
                       weft_row_index(&p->k_strides, batch, key, weft_ref_kv_head(p, head)), p->head_dim);
        }
    }
}

/* O as the forward pass stored it. */
static double stored_delta(const weft_attention *p, const weft_attention_gradients *data, size_t o) {
    double out[WEFT_MAX_HEAD_DIM];
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        out[d] = weft_ref_load(weft_attention_out_dtype(p), data->o, o + d);
    }
    return delta_of(p, data, o, out);
}

double weft_ref_attention_sink_gradient(const weft_attention *p, const weft_attention_gradients *data, int64_t head) {
    double sum = 0;
    for (int64_t i = 0; i < p->batch * weft_attention_rows(p); i++) {
        const int64_t batch = i / weft_attention_rows(p), row = i % weft_attention_rows(p);
        const double lse = (double)data->lse[(batch * p->heads + head) * p->seq + row];
        if (lse > -INFINITY) {
            sum -= exp((double)data->sinks[head] - lse) *
                   stored_delta(p, data, weft_row_index(&p->o_strides, batch, row, head));
        }
    }
    return sum;
}

void weft_ref_attention_key_gradients(const weft_attention *p, const weft_attention_gradients *data, int64_t batch,
                                      int64_t kv_head, int64_t key, double *grad_k, double *grad_v) {
    const weft_blocks blocks = weft_attention_blocks(p);
    const int64_t group = p->heads / p->kv_heads;
    memset(grad_k, 0, (size_t)p->head_dim * sizeof *grad_k);
    memset(grad_v, 0, (size_t)p->head_dim_v * sizeof *grad_v);
    for (int64_t i = 0; i < group * weft_attention_rows(p); i++) {
        const int64_t head = kv_head * group + i / weft_attention_rows(p), row = i % weft_attention_rows(p);
        const weft_rows keys = weft_seen_keys(p, batch, row);
        const double lse = (double)data->lse[(batch * p->heads + head) * p->seq + row];
        if (key < keys.begin || key >= keys.end || lse == -INFINITY ||
            !weft_attention_shows(p, &blocks, batch, head, row, key)) {
            continue;
        }
        const size_t q = weft_row_index(&p->q_strides, batch, row, head);
        const size_t o = weft_row_index(&p->o_strides, batch, row, head);
        const size_t k = weft_row_index(&p->k_strides, batch, key, kv_head);
        const double score = weft_ref_cap(p, p->scale * weft_ref_dot(p->dtype, data->q, q, data->k, k, p->head_dim)) +
                             weft_ref_bias(p, data->alibi, data->bias, batch, head, row, key);
        const double weight = exp(score - lse), delta = stored_delta(p, data, o);
        const pair of = pair_of(p, data, batch, head, row, key, weight, delta);
        add_scaled(p, grad_v, 0, of.kept * weight, data->grad_o, o, p->head_dim_v);
        add_scaled(p, grad_k, 0, of.grad_score, data->q, q, p->head_dim);
    }
}

/* Rounds the sums of one tensor, (batch, seq, heads, dims), into the caller's buffer; gaps between rows stay as they
 * are. */
static void store_tensor(const weft_attention *p, const weft_strides *strides, int64_t seq, int64_t heads, int64_t dims,
                         const double *from, void *to) {
    for (int64_t batch = 0; batch < p->batch; batch++) {
        for (int64_t position = 0; position < seq; position++) {
            for (int64_t head = 0; head < heads; head++) {
                const size_t row = weft_row_index(strides, batch, position, head);
                for (size_t d = 0; d < (size_t)dims; d++) {
                    weft_ref_store(weft_attention_out_dtype(p), to, row + d, from[row + d]);
                }
            }
        }
    }
}

weft_status weft_ref_attention_backward(const weft_attention *p, const weft_attention_gradients *data,
                                        weft_message *message) {
    weft_status status = WEFT_OK;
    const weft_attention_extents size = weft_attention_sizes(p);
    sums s;
    s.q = calloc(size.q, sizeof *s.q);
    s.k = calloc(size.k, sizeof *s.k);
    s.v = calloc(size.v, sizeof *s.v);
    s.weights = calloc((size_t)p->kv_seq, sizeof *s.weights);
    s.out = calloc((size_t)p->head_dim_v, sizeof *s.out);
    s.sinks = calloc((size_t)p->heads, sizeof *s.sinks);
    if (!s.q || !s.k || !s.v || !s.weights || !s.out || !s.sinks) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for gradients of %zu + %zu + %zu elements in fp64", size.q,
                           size.k, size.v);
        goto done;
    }
    if (wants_bias(p, data)) {
        memset(data->grad_bias, 0, weft_attention_all_scores(p) * sizeof(float));
    }
    for (int64_t batch = 0; batch < p->batch; batch++) {
        for (int64_t head = 0; head < p->heads; head++) {
            for (int64_t row = 0; row < weft_attention_rows(p); row++) {
                add_query(p, data, batch, head, row, &s);
            }
        }
    }
    store_tensor(p, &p->q_strides, weft_attention_rows(p), p->heads, p->head_dim, s.q, data->grad_q);
    store_tensor(p, &p->k_strides, weft_attention_keys(p), p->kv_heads, p->head_dim, s.k, data->grad_k);
    store_tensor(p, &p->v_strides, weft_attention_keys(p), p->kv_heads, p->head_dim_v, s.v, data->grad_v);
    for (int64_t head = 0; head < p->heads && data->grad_sinks; head++) {
        data->grad_sinks[head] = (float)s.sinks[head];
    }
done:
    free(s.q);
    free(s.k);
    free(s.v);
    free(s.weights);
    free(s.out);
    free(s.sinks);
    return status;
}
