/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when a kernel of the portable backward is launched: all gradients by the reference, from the
 * parameters and nothing else, of which it stores what the kernel is for. The launch for dQ leaves sums and deltas in the
 * workspace, and the others fail where these are not there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/study/backward/params.h"
#include "fake_study.h"
#include "problem/problem.h"
#include "ref/ref.h"
#include "ref/scores.h"

/* A launch: the problem that its parameters describe, and all of its gradients. */
typedef struct job {
    const weft_study_backward_params *p;
    weft_attention problem;
    weft_attention_gradients data;
    void *grad_q, *grad_k, *grad_v;
    float *grad_sinks, *grad_bias;
} job;

/* Some of a sequence's keys: their weights are those that the O and the LSE of all keys say, which the launch has. */
static void solve_part(job *j) {
    const weft_attention *p = &j->problem;
    const weft_dtype out = weft_attention_out_dtype(p);
    const weft_blocks blocks = weft_attention_blocks(p);
    j->data.o = j->p->forward.o;
    j->data.lse = j->p->forward.lse;
    for (int64_t line = 0; line < p->batch * p->heads * p->seq; line++) {
        const int64_t row = line % p->seq, head = line / p->seq % p->heads, batch = line / p->seq / p->heads;
        const size_t q = weft_row_index(&p->q_strides, batch, row, head),
                     o = weft_row_index(&p->o_strides, batch, row, head);
        const weft_rows keys = weft_seen_keys(p, batch, row);
        double delta = 0, grad[WEFT_MAX_HEAD_DIM] = {0};
        for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
            delta += weft_ref_load(p->dtype, j->p->grad_o, o + d) * weft_ref_load(out, j->data.o, o + d);
        }
        if (j->data.sinks && j->data.lse[line] > -INFINITY) {
            j->grad_sinks[head] -= (float)(exp((double)j->data.sinks[head] - (double)j->data.lse[line]) * delta);
        }
        for (int64_t key = keys.begin; key < keys.end && j->data.lse[line] > -INFINITY; key++) {
            const size_t k = weft_row_index(&p->k_strides, batch, key, weft_ref_kv_head(p, head));
            const size_t v = weft_row_index(&p->v_strides, batch, key, weft_ref_kv_head(p, head));
            const double raw = p->scale * weft_ref_dot(p->dtype, j->data.q, q, j->data.k, k, p->head_dim);
            const double bias = weft_ref_bias(p, j->data.alibi, NULL, batch, head, row, key);
            const double weight = exp(weft_ref_cap(p, raw) + bias - (double)j->data.lse[line]);
            const double by = weft_ref_dot(p->dtype, j->p->grad_o, o, j->data.v, v, p->head_dim_v) - delta;
            for (size_t d = 0; d < (size_t)p->head_dim && weft_attention_shows(p, &blocks, batch, head, row, key); d++) {
                grad[d] += p->scale * weft_ref_cap_slope(p, raw) * weight * by * weft_ref_load(p->dtype, j->data.k, k + d);
            }
        }
        for (size_t d = 0; d < (size_t)p->head_dim; d++) {
            weft_ref_store(out, j->grad_q, q + d, grad[d]);
        }
    }
    for (int64_t line = 0; line < p->batch * p->kv_heads * p->kv_seq; line++) {
        const int64_t key = line % p->kv_seq, head = line / p->kv_seq % p->kv_heads, batch = line / p->kv_seq / p->kv_heads;
        double grad_k[WEFT_MAX_HEAD_DIM], grad_v[WEFT_MAX_HEAD_DIM];
        weft_ref_attention_key_gradients(p, &j->data, batch, head, key, grad_k, grad_v);
        for (size_t d = 0; d < (size_t)p->head_dim; d++) {
            weft_ref_store(out, j->grad_k, weft_row_index(&p->k_strides, batch, key, head) + d, grad_k[d]);
        }
        for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
            weft_ref_store(out, j->grad_v, weft_row_index(&p->v_strides, batch, key, head) + d, grad_v[d]);
        }
    }
}

static int solve(job *j, const char *kernel) {
    const weft_study_params *f = &j->p->forward;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    if (!fake_study_problem(kernel, f, &j->problem)) {
        return 0;
    }
    const int64_t dims = j->problem.head_dim;
    fake_study_general(f, &j->problem, &data);
    if (j->problem.head_dim > dims || j->problem.head_dim_v > dims || fabs((double)j->p->scale - j->problem.scale) > 1e-6) {
        return 0;
    }
    const weft_attention_extents n = weft_attention_sizes(&j->problem);
    const size_t bytes = (size_t)f->general.out_bytes;
    j->grad_q = calloc(n.q, bytes);
    j->grad_k = calloc(n.k, bytes);
    j->grad_v = calloc(n.v, bytes);
    j->grad_sinks = calloc((size_t)j->problem.heads, sizeof(float));
    j->grad_bias = j->p->grad_bias ? calloc(weft_attention_all_scores(&j->problem), sizeof(float)) : NULL;
    const weft_attention_gradients none = WEFT_ATTENTION_GRADIENTS_INIT;
    j->data = none;
    j->data.q = f->q;
    j->data.k = f->k;
    j->data.v = f->v;
    j->data.grad_o = j->p->grad_o;
    j->data.grad_q = j->grad_q;
    j->data.grad_k = j->grad_k;
    j->data.grad_v = j->grad_v;
    j->data.grad_sinks = j->grad_sinks;
    j->data.grad_bias = j->grad_bias;
    j->data.sinks = data.sinks;
    j->data.alibi = data.alibi;
    j->data.bias = data.bias;
    j->data.dropout_seed = data.dropout_seed;
    const weft_attention *p = &j->problem;
    const int ok = j->grad_q && j->grad_k && j->grad_v && j->grad_sinks && !j->grad_bias == !j->p->grad_bias;
    if (ok && p->sequences == 0 && p->dropout == 0 && p->o_dtype && !(p->extras & WEFT_BIAS)) {
        solve_part(j);
        return 1;
    }
    return ok && weft_ref_attention_backward(p, &j->data, NULL) == WEFT_OK;
}

static void store_row(const job *j, const weft_strides *s, int64_t batch, int64_t row, int64_t head, int64_t dims,
                      const void *from, void *to) {
    const size_t bytes = (size_t)j->p->forward.general.out_bytes, at = bytes * weft_row_index(s, batch, row, head);
    memcpy((char *)to + at, (const char *)from + at, bytes * (size_t)dims);
}

/* What the launch for dQ leaves of a query, or whether that is there. */
static int leave_numbers(const job *j, int64_t batch, int64_t head, int64_t row, int is_check) {
    const weft_attention *p = &j->problem;
    const int64_t at = (batch * p->heads + head) * p->seq + row;
    const size_t o = weft_row_index(&p->o_strides, batch, row, head);
    double delta = 0;
    for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
        delta += weft_ref_load(p->dtype, j->p->grad_o, o + d) *
                 weft_ref_load(weft_attention_out_dtype(p), j->p->forward.o, o + d);
    }
    const float lse = j->p->forward.lse[at], sum = lse == -INFINITY ? INFINITY : lse * 1.44269504f;
    if (is_check) {
        return j->p->log2_sums[at] == sum && j->p->deltas[at] == (float)delta;
    }
    j->p->log2_sums[at] = sum;
    j->p->deltas[at] = (float)delta;
    return 1;
}

/* Whether the numbers of all queries of a sequence are there. */
static int numbers_are_there(const job *j) {
    const weft_attention *p = &j->problem;
    const weft_sequences all = weft_attention_sequences(p);
    int there = 1;
    for (int64_t i = 0; i < all.count * p->heads && there; i++) {
        const weft_sequence s = weft_sequence_at(&all, i / p->heads);
        for (int64_t row = s.rows.begin; row < s.used_end && there; row++) {
            there = leave_numbers(j, p->sequences > 0 ? 0 : i / p->heads, i % p->heads, row, 1);
        }
    }
    return there;
}

/* Stores the rows of the tiles of all workers: queries, or keys. */
static void store_tiles(const job *j, unsigned grid, int keys) {
    const weft_attention *p = &j->problem;
    weft_walk walk = j->p->forward.walk;
    walk.reach.kind = keys ? WEFT_REACH_BAND : WEFT_REACH_BLOCKS;
    for (unsigned index = 0; index < grid; index++) {
        weft_worker worker = weft_worker_start(&walk, index, j->p->forward.counter);
        weft_visit visit;
        while (weft_worker_next(&walk, &worker, &visit)) {
            const int64_t batch = visit.tile.batch, head = visit.tile.head;
            for (int64_t row = visit.cut.rows.begin; row < visit.cut.rows.end; row++) {
                if (keys) {
                    store_row(j, &p->k_strides, batch, row, head, p->head_dim, j->grad_k, j->p->grad_k);
                    store_row(j, &p->v_strides, batch, row, head, p->head_dim_v, j->grad_v, j->p->grad_v);
                } else {
                    store_row(j, &p->q_strides, batch, row, head, p->head_dim, j->grad_q, j->p->grad_q);
                    leave_numbers(j, batch, head, row, 0);
                }
            }
        }
    }
}

int fake_run_backward(const char *kernel, unsigned grid, const void *parameters) {
    job j = {.p = parameters};
    const int dq = strstr(kernel, "_dq") != NULL, keys = strstr(kernel, "_dk_dv") != NULL;
    fake_begin(j.p->forward.counter);
    const int ok = solve(&j, kernel) && j.p->forward.walk.reach.transposed == !dq && (dq || numbers_are_there(&j));
    if (ok && (dq || keys)) {
        store_tiles(&j, grid, keys);
        if (dq && j.grad_bias) {
            memcpy(j.p->grad_bias, j.grad_bias, weft_attention_all_scores(&j.problem) * sizeof(float));
        }
    } else if (ok && grid == (unsigned)j.problem.heads && j.p->grad_sinks) {
        memcpy(j.p->grad_sinks, j.grad_sinks, grid * sizeof(float));
    }
    free(j.grad_q);
    free(j.grad_k);
    free(j.grad_v);
    free(j.grad_sinks);
    free(j.grad_bias);
    return ok ? 0 : 1;
}
