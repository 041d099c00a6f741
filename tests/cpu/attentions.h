/* SPDX-License-Identifier: Apache-2.0 */
/* Random attentions and schedules for the CPU, and their results against the reference. */
#ifndef TESTS_CPU_ATTENTIONS_H
#define TESTS_CPU_ATTENTIONS_H

#include "../masks.h"
#include "../plans.h"
#include "../ref/tensors.h"

static inline weft_attention random_attention(uint64_t *random, int round) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 3);
    p.heads = p.kv_heads * random_between(random, 1, 3);
    p.seq = random_between(random, 1, 90);
    p.kv_seq = random_between(random, 1, 130);
    p.head_dim = 8 * random_between(random, 1, 12);
    p.dtype = (weft_dtype)(round % 3);
    draw_mask(random, &p);
    p.layout = (weft_layout)random_between(random, 0, 1);
    if (round % 4 == 0) {
        pad_problem(&p, 3);
    }
    return p;
}

static inline weft_schedule random_schedule(uint64_t *random, const weft_attention *p) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = random_between(random, 1, p->seq);
    s.tile_n = random_between(random, 1, p->kv_seq);
    s.tile_m = p->seq > p->block_rows && p->block_rows ? weft_tile_dividing(p->block_rows, s.tile_m) : s.tile_m;
    s.tile_n = p->kv_seq > p->block_columns && p->block_columns ? weft_tile_dividing(p->block_columns, s.tile_n) : s.tile_n;
    s.order = (int32_t)random_between(random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_CUSTOM);
    s.sweep = (int32_t)random_between(random, 1, WEFT_COMMON_SWEEPS);
    s.dispatch = (int32_t)random_between(random, 1, WEFT_DISPATCHES);
    s.workers = random_between(random, 1, 5);
    s.domains = random_between(random, 1, 3);
    s.group = random_between(random, 0, 4);
    return s;
}

/* Runs a plan made for these tensors. */
static inline void run(const tensors *t, const weft_attention *p, const weft_schedule *s) {
    weft_message message = {""};
    weft_plan *plan;
    tensors_poison_outputs(t);
    if (plan_for(&plan, p, s, NULL, &message) || weft_plan_run(plan, &t->data, &message)) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
}

static inline void compare_number(const weft_attention *p, float got, double want) {
    if (want == -INFINITY) {
        assert_true(got == -INFINITY);
    } else {
        assert_near((double)got, want, (p->dtype == WEFT_BF16 ? 8e-6 : 2e-6) * fmax(1, fabs(want)));
    }
}

/* How much the rounding errors of a query's weights add up to, as random ones do, in units of one weight's; values are at
 * most 1. */
static inline double spread_of(const weft_attention *p, int64_t batch, int64_t row, const double *weights) {
    const weft_rows keys = weft_seen_keys(p, batch, row);
    double squares = 0;
    for (int64_t key = keys.begin; key < keys.end; key++) {
        squares += weights[key] * weights[key];
    }
    return sqrt(squares) / (1 - p->dropout);
}

/* What a rounding to a dtype adds at most, relative to the value; for fp32 that of a few. */
static inline double rounding_of(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-22 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
}

/* No worse than twice a plain kernel in the same dtype, or than one rounding of the result and of the weights: of a few
 * results, the plain kernel's may all be lucky. */
static inline void compare(const tensors *t) {
    const weft_attention *p = &t->p;
    const weft_dtype out = weft_attention_out_dtype(p);
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), exact[WEFT_MAX_HEAD_DIM], naive[WEFT_MAX_HEAD_DIM];
    float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
    assert_true(weights && plain);
    double error = 0, bound = 0, largest = 0, spread = 0;
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        const weft_ref_row want = weft_ref_attention_row(p, &t->data, batch, head, row, weights, exact);
        weft_ref_attention_row_naive(p, &t->data, batch, head, row, plain, naive);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            const size_t at = weft_row_index(&p->o_strides, batch, row, head) + (size_t)d;
            const double got = weft_ref_load(out, t->data.o, at);
            assert_true(isfinite(got));
            error = fmax(error, fabs(got - exact[d]));
            bound = fmax(bound, 2 * fabs(naive[d] - exact[d]));
            largest = fmax(largest, fabs(exact[d]));
        }
        spread = fmax(spread, spread_of(p, batch, row, weights));
        compare_number(p, t->data.lse[i], want.lse);
        if (p->extras & WEFT_MAX) {
            compare_number(p, t->data.max[i], want.max);
        }
    }
    assert_near(error, 0, fmax(bound, rounding_of(out) * largest + rounding_of(p->dtype) * spread));
    free(weights);
    free(plain);
}

/* Puts non-finite values into K and V, here and there. With dropout only into V: where a score is NaN and all is dropped,
 * 0 and NaN are both right. */
static inline void spoil(uint64_t *random, const tensors *t) {
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) {
        const int in_k = i % 2 && t->p.dropout == 0;
        const size_t count = in_k ? t->size.k : t->size.v;
        weft_ref_store(t->p.dtype, in_k ? t->k : t->v, (size_t)random_between(random, 0, (int64_t)count - 1),
                       values[i % 3]);
    }
}

/* A result in fp32 against the reference, whose place it takes: finite where that is. */
static inline void compare_spoilt(const tensors *t) {
    float *o = malloc(t->size.o * sizeof *o);
    assert_non_null(o);
    memcpy(o, t->data.o, t->size.o * sizeof *o);
    assert_int_equal(weft_ref_attention(&t->p, &t->data, NULL), WEFT_OK);
    char *owned = owned_bytes(&t->p, &t->p.o_strides, weft_attention_rows(&t->p), t->p.heads, t->size.o);
    for (size_t i = 0; i < t->size.o; i++) {
        if (owned[i * sizeof *o]) {
            const float want = ((const float *)t->data.o)[i];
            assert_true(isfinite(want) ? fabsf(o[i] - want) < 1e-5f * (float)fmax(1, fabs((double)want))
                        : isnan(want)  ? isnan(o[i])
                                       : o[i] == want || isnan(o[i]));
        }
    }
    free(owned);
    free(o);
}

/* How much the rounding errors of the terms of a gradient of Q, or of K, add up to, as random ones do, in units of what one
 * rounding is relative to its value. A term is scale P (g . V) times an element of K or Q, at most 1; g is the gradient of
 * O. Sums may cancel: where a query sees one key, g . V less g . O is 0, and these errors are all there is. */
typedef struct gradient_spread {
    double q, k;
} gradient_spread;

static inline gradient_spread gradient_spread_of(const tensors *t, const void *grad_o) {
    const weft_attention *p = &t->p;
    gradient_spread spread = {0, 0};
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), out[WEFT_MAX_HEAD_DIM];
    double *of_keys = calloc((size_t)(p->batch * p->kv_heads * p->kv_seq), sizeof *of_keys);
    assert_true(weights && of_keys);
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        weft_ref_attention_row(p, &t->data, batch, head, row, weights, out);
        const int64_t kv_head = head / (p->heads / p->kv_heads);
        const size_t g = weft_row_index(&p->o_strides, batch, row, head);
        const weft_rows keys = weft_seen_keys(p, batch, row);
        double of_query = 0;
        for (int64_t key = keys.begin; key < keys.end; key++) {
            const size_t v = weft_row_index(&p->v_strides, batch, key, kv_head);
            double products = 0;
            for (size_t d = 0; d < (size_t)p->head_dim_v; d++) {
                products += fabs(weft_ref_load(p->dtype, grad_o, g + d) * weft_ref_load(p->dtype, t->v, v + d));
            }
            const double term = p->scale * weights[key] * products / (1 - p->dropout);
            const double square = isfinite(term) ? term * term : 0;
            double *of_key = of_keys + (batch * p->kv_heads + kv_head) * p->kv_seq + key;
            of_query += square;
            *of_key += square;
            spread.k = fmax(spread.k, sqrt(*of_key));
        }
        spread.q = fmax(spread.q, sqrt(of_query));
    }
    free(weights);
    free(of_keys);
    return spread;
}

/* Largest difference of two tensors, beyond what their terms may round to, against the largest value, over the elements
 * that belong to rows. */
static inline double difference(const weft_attention *p, const weft_strides *strides, int64_t seq, int64_t heads,
                                const void *got, const void *want, double spread) {
    const int64_t dims = dims_of(p, strides);
    const weft_dtype out = weft_attention_out_dtype(p);
    double worst = 0, largest = 1e-3;
    for (int64_t i = 0; i < p->batch * seq * heads * dims; i++) {
        const int64_t d = i % dims, head = i / dims % heads, row = i / dims / heads % seq;
        const size_t at = weft_row_index(strides, i / dims / heads / seq, row, head) + (size_t)d;
        const double x = weft_ref_load(out, got, at), y = weft_ref_load(out, want, at);
        if (isnan(x) != isnan(y)) {
            return INFINITY;
        }
        worst = isnan(x) || x == y ? worst : fmax(worst, fabs(x - y));
        largest = isnan(y) || isinf(y) ? largest : fmax(largest, fabs(y));
    }
    return fmax(0, worst - rounding_of(p->dtype) * spread) / largest;
}

/* What a backward pass reads, and the gradients that it is to write: of q, k, v, the sinks and the bias. */
static inline weft_attention_gradients gradients_of(const tensors *t, const void *grad_o, void *const grads[5]) {
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = t->q;
    data.k = t->k;
    data.v = t->v;
    data.grad_o = grad_o;
    data.grad_q = grads[0];
    data.grad_k = grads[1];
    data.grad_v = grads[2];
    data.grad_sinks = t->sinks ? grads[3] : NULL;
    data.grad_bias = t->bias ? grads[4] : NULL;
    data.sinks = t->sinks;
    data.alibi = t->alibi;
    data.bias = t->bias;
    data.lengths = t->data.lengths;
    data.pairs = t->data.pairs;
    data.dropout_seed = t->data.dropout_seed;
    return data;
}

/* Gradients against the reference's, with the forward pass's results given and not. `problem` is as the caller wrote it. */
static inline void check_backward(uint64_t *random, const tensors *t, const weft_attention *problem, int round) {
    const weft_attention *p = &t->p;
    const size_t bytes = weft_dtype_bytes(weft_attention_out_dtype(p));
    const size_t scores = t->bias ? weft_attention_all_scores(p) : 0;
    const size_t sizes[] = {t->size.q * bytes, t->size.k * bytes, t->size.v * bytes, (size_t)p->heads * sizeof(float),
                            scores * sizeof(float)};
    void *grad_o = random_buffer(random, p->dtype, t->size.o), *ours[5], *theirs[5];
    for (int i = 0; i < 5; i++) {
        ours[i] = guarded_new(sizes[i]);
        theirs[i] = guarded_new(sizes[i]);
    }
    if (round % 5 == 4) { /* a value that not every query sees */
        weft_ref_store(p->dtype, round % 2 ? t->k : t->v, round % 2 ? t->size.k - 1 : t->size.v - 1,
                       round % 3 ? NAN : INFINITY);
    }
    tensors_poison_outputs(t);
    assert_int_equal(weft_ref_attention(p, &t->data, NULL), WEFT_OK);
    weft_attention_gradients data = gradients_of(t, grad_o, theirs);
    assert_int_equal(weft_ref_attention_backward(p, &data, NULL), WEFT_OK);
    data = gradients_of(t, grad_o, ours);
    data.o = round % 2 ? t->data.o : NULL;
    data.lse = round % 2 ? t->data.lse : NULL;
    weft_message message = {""};
    if (weft_attention_backward(problem, &data, &message)) {
        fail_msg("%s", message.text);
    }
    const double most = p->dtype == WEFT_FP32 ? 1e-5 : p->dtype == WEFT_FP16 ? 4e-3 : 3e-2;
    const weft_strides *strides[] = {&p->q_strides, &p->k_strides, &p->v_strides};
    for (int i = 0; i < 3; i++) {
        const int64_t seq = i ? weft_attention_keys(p) : weft_attention_rows(p), heads = i ? p->kv_heads : p->heads;
        double apart = difference(p, strides[i], seq, heads, ours[i], theirs[i], 0);
        if (apart > most && i < 2) { /* asked for only then: it takes a forward pass */
            const gradient_spread spread = gradient_spread_of(t, grad_o);
            apart = difference(p, strides[i], seq, heads, ours[i], theirs[i], i ? spread.k : spread.q);
        }
        assert_near(apart, 0, most);
        char *owned = owned_bytes(p, strides[i], seq, heads, sizes[i] / bytes);
        guarded_check(ours[i], sizes[i], owned);
        free(owned);
    }
    for (int64_t head = 0; t->sinks && head < p->heads; head++) {
        const float *got = ours[3], *want = theirs[3];
        const int alike = got[head] == want[head] || (isnan(got[head]) && isnan(want[head]));
        assert_near(alike ? 0 : (double)got[head] - (double)want[head], 0, most * fmax(1, fabs((double)want[head])));
    }
    double apart = 0, largest = 1e-3;
    for (size_t i = 0; i < scores; i++) {
        const double got = (double)((const float *)ours[4])[i], want = (double)((const float *)theirs[4])[i];
        const int alike = got == want || (isnan(got) && isnan(want));
        apart = alike ? apart : isfinite(got - want) ? fmax(apart, fabs(got - want)) : INFINITY;
        largest = isfinite(want) ? fmax(largest, fabs(want)) : largest;
    }
    assert_near(apart / largest, 0, most);
    for (int i = 0; i < 5; i++) {
        guarded_check(ours[i], sizes[i], NULL);
        guarded_free(ours[i]);
        guarded_free(theirs[i]);
    }
    guarded_free(grad_o);
}

#endif
