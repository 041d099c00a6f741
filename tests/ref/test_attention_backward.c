/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against finite differences of a forward pass of the test's own, in doubles that mirror the storage. */
#include "tensors.h"

#include "../features.h"
#include "ref/scores.h"

/* The problem, and every tensor as doubles at the same indices as in storage. */
typedef struct mirror {
    const weft_attention *p;
    const weft_attention_data *data; /* what gradients are not asked for */
    double *q, *k, *v, *grad_o, *sinks;
    double *added; /* (batch, heads, seq, kv_seq): to scores beside the bias; or null */
} mirror;

static double at(const double *data, const weft_strides *s, int64_t b, int64_t i, int64_t h, int64_t d) {
    return data[b * s->batch + i * s->seq + h * s->head + d];
}

/* Sum of grad_o * O over one query. */
static double query_loss(const mirror *m, int64_t b, int64_t h, int64_t row) {
    const weft_attention *p = m->p;
    const int64_t kv_head = h / (p->heads / p->kv_heads);
    double sum = p->extras & WEFT_SINKS ? exp(m->sinks[h]) : 0, loss = 0;
    for (int64_t key = 0; key < p->kv_seq; key++) {
        if (!batch_shows(p, &p->lengths, b, row, key) || !pairs_show(p, &p->pairs, &p->lengths, b, h, row, key)) {
            continue;
        }
        double score = 0, value = 0;
        for (int64_t d = 0; d < p->head_dim; d++) {
            score += at(m->q, &p->q_strides, b, row, h, d) * at(m->k, &p->k_strides, b, key, kv_head, d);
        }
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            value += at(m->grad_o, &p->o_strides, b, row, h, d) * at(m->v, &p->v_strides, b, key, kv_head, d);
        }
        score *= p->scale;
        score = p->softcap > 0 ? p->softcap * tanh(score / p->softcap) : score;
        score += m->added ? m->added[weft_attention_score_at(p, b, h, row, key)] : 0;
        const double weight = exp(score + weft_ref_bias(p, m->data->alibi, m->data->bias, b, h, row, key));
        sum += weight;
        loss += weight * value * weft_ref_kept(p, m->data->dropout_seed, b * p->heads + h, row, key);
    }
    return sum > 0 ? loss / sum : 0;
}

static double loss_of(const mirror *m) {
    double loss = 0;
    for (int64_t b = 0; b < m->p->batch; b++) {
        for (int64_t h = 0; h < m->p->heads; h++) {
            for (int64_t row = 0; row < weft_attention_rows(m->p); row++) {
                loss += query_loss(m, b, h, row);
            }
        }
    }
    return loss;
}

static double *mirrored(weft_dtype dtype, const void *data, size_t count) {
    double *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = weft_ref_load(dtype, data, i);
    }
    return copy;
}

/* The change of the loss with a number of the mirror's. */
static double slope_of(const mirror *m, double *number) {
    const double h = 1e-5, here = *number;
    *number = here + h;
    const double more = loss_of(m);
    *number = here - h;
    const double less = loss_of(m);
    *number = here;
    return (more - less) / (2 * h);
}

/* Compares a gradient with differences of the loss over `input`, one of the mirror's tensors. */
static void check_gradient(const mirror *m, double *input, const void *gradient, const char *owned, size_t count) {
    const weft_dtype out = weft_attention_out_dtype(m->p);
    const size_t bytes = weft_dtype_bytes(out);
    const double relative = out == WEFT_FP32 ? 1e-6 : out == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
    for (size_t i = 0; i < count; i++) {
        if (owned[i * bytes]) {
            const double want = slope_of(m, &input[i]);
            assert_near(weft_ref_load(out, gradient, i), want, relative * (fabs(want) + 0.01));
        }
    }
    guarded_check(gradient, count * bytes, owned);
}

/* The same for a bias, in fp32 whatever the dtype, of which every element is written. */
static void check_bias(const mirror *m, const float *gradient, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double want = slope_of(m, &m->added[i]);
        assert_near((double)gradient[i], want, 1e-6 * (fabs(want) + 0.01));
    }
    guarded_check(gradient, count * sizeof *gradient, NULL);
}

static void check_row(const void *gradient, size_t at, const double *row, int64_t dims) {
    for (size_t d = 0; d < (size_t)dims; d++) {
        assert_near(weft_ref_load(WEFT_FP32, gradient, at + d), row[d], 1e-5 * (fabs(row[d]) + 1));
    }
}

/* Single queries and keys, by the O and LSE of a forward pass: the same gradients. For O in fp32, which is not rounded
 * much, and inputs that are not repeated, whose gradients add up. */
static void check_single(const tensors *t, const weft_attention_gradients *data) {
    const weft_attention *p = &t->p;
    const int repeats = !p->q_strides.seq || !p->k_strides.seq || !p->k_strides.head || !p->v_strides.head;
    if (weft_attention_out_dtype(p) != WEFT_FP32 || repeats ||
        (p->batch > 1 && (!p->k_strides.batch || !p->v_strides.batch))) {
        return;
    }
    weft_attention_data forward = t->data;
    weft_attention_gradients with = *data;
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), k[WEFT_MAX_HEAD_DIM], v[WEFT_MAX_HEAD_DIM];
    with.o = forward.o = calloc(t->size.o, sizeof(float));
    with.lse = forward.lse = calloc((size_t)(p->batch * p->heads * p->seq), sizeof(float));
    assert_true(weights && forward.o && forward.lse);
    assert_int_equal(weft_ref_attention(p, &forward, NULL), WEFT_OK);
    const int64_t rows = weft_attention_rows(p), keys = weft_attention_keys(p);
    for (int64_t i = 0; i < p->batch * p->heads * rows; i++) {
        const int64_t row = i % rows, head = i / rows % p->heads, batch = i / rows / p->heads;
        weft_ref_attention_query_gradient(p, &with, batch, head, row, weights, v);
        check_row(data->grad_q, weft_row_index(&p->q_strides, batch, row, head), v, p->head_dim);
    }
    for (int64_t i = 0; i < p->batch * p->kv_heads * keys; i++) {
        const int64_t key = i % keys, head = i / keys % p->kv_heads, batch = i / keys / p->kv_heads;
        weft_ref_attention_key_gradients(p, &with, batch, head, key, k, v);
        check_row(data->grad_k, weft_row_index(&p->k_strides, batch, key, head), k, p->head_dim);
        check_row(data->grad_v, weft_row_index(&p->v_strides, batch, key, head), v, p->head_dim_v);
    }
    free(weights);
    free(forward.o);
    free(forward.lse);
}

/* `lengths` and `pairs`: those that count. */
static void check_lengths(uint64_t *seed, const weft_attention *problem, const weft_lengths *lengths,
                          const weft_pairs *pairs) {
    tensors t = tensors_new(seed, problem);
    t.p.lengths = *lengths;
    t.p.pairs = *pairs;
    const weft_attention *p = &t.p;
    const size_t bytes = weft_dtype_bytes(weft_attention_out_dtype(p));
    const size_t scores = weft_attention_all_scores(p);
    void *grad_o = random_buffer(seed, p->dtype, t.size.o);
    const weft_attention_gradients data = {.struct_size = sizeof(weft_attention_gradients),
                                           .operation = WEFT_ATTENTION_BACKWARD,
                                           .q = t.q,
                                           .k = t.k,
                                           .v = t.v,
                                           .grad_o = grad_o,
                                           .grad_q = guarded_new(t.size.q * bytes),
                                           .grad_k = guarded_new(t.size.k * bytes),
                                           .grad_v = guarded_new(t.size.v * bytes),
                                           .grad_sinks = guarded_new((size_t)p->heads * sizeof(float)),
                                           .grad_bias = t.bias ? guarded_new(scores * sizeof(float)) : NULL,
                                           .sinks = t.sinks,
                                           .alibi = t.alibi,
                                           .bias = t.bias,
                                           .dropout_seed = t.data.dropout_seed};
    assert_int_equal(weft_ref_attention_backward(p, &data, NULL), WEFT_OK);

    const mirror m = {p,
                      &t.data,
                      mirrored(p->dtype, t.q, t.size.q),
                      mirrored(p->dtype, t.k, t.size.k),
                      mirrored(p->dtype, t.v, t.size.v),
                      mirrored(p->dtype, grad_o, t.size.o),
                      t.sinks ? mirrored(WEFT_FP32, t.sinks, (size_t)p->heads) : NULL,
                      t.bias ? calloc(scores, sizeof(double)) : NULL};
    const int64_t rows = weft_attention_rows(p), keys = weft_attention_keys(p);
    char *owned_q = owned_bytes(p, &p->q_strides, rows, p->heads, t.size.q);
    char *owned_k = owned_bytes(p, &p->k_strides, keys, p->kv_heads, t.size.k);
    char *owned_v = owned_bytes(p, &p->v_strides, keys, p->kv_heads, t.size.v);
    check_gradient(&m, m.q, data.grad_q, owned_q, t.size.q);
    check_gradient(&m, m.k, data.grad_k, owned_k, t.size.k);
    check_gradient(&m, m.v, data.grad_v, owned_v, t.size.v);
    if (m.sinks && p->dtype == WEFT_FP32) {
        char *owned = malloc((size_t)p->heads * sizeof(float));
        assert_non_null(owned);
        memset(owned, 1, (size_t)p->heads * sizeof(float));
        check_gradient(&m, m.sinks, data.grad_sinks, owned, (size_t)p->heads);
        free(owned);
    }

    if (m.added) {
        check_bias(&m, data.grad_bias, scores);
    }
    check_single(&t, &data);

    void *plain[] = {m.q, m.k, m.v, m.grad_o, m.sinks, m.added, owned_q, owned_k, owned_v};
    void *guarded[] = {grad_o, data.grad_q, data.grad_k, data.grad_v, data.grad_sinks, data.grad_bias};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        free(plain[i]);
    }
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        if (guarded[i]) {
            guarded_free(guarded[i]);
        }
    }
    tensors_free(&t);
}

static void check_problem(uint64_t *seed, const weft_attention *problem) {
    const weft_lengths none = {0, 0, 0, 0, 0};
    const weft_pairs no_pairs = {0, 0, 0, 0, 0};
    check_lengths(seed, problem, &none, &no_pairs);
}

static weft_attention problem_of(int64_t seq, int64_t kv_seq, int64_t heads, int64_t kv_heads) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.head_dim = 8;
    return p;
}

static void masks(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    const int64_t offsets[] = {0, 2, -2, -9};
    weft_attention p = problem_of(5, 6, 1, 1);
    check_problem(&seed, &p);
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    check_problem(&seed, &p);
    p.mask = WEFT_MASK_CAUSAL;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        p.offset = offsets[i]; /* with -9 no query sees a key: all gradients are zero */
        check_problem(&seed, &p);
    }
    for (int round = 0; random_round(&seed, &round, 12); round++) {
        weft_attention any = problem_of(random_between(&seed, 1, 7), random_between(&seed, 1, 8), 1, 1);
        draw_mask(&seed, &any);
        check_problem(&seed, &any);
    }
}

/* Every feature alone and with another. */
static void features(void **state) {
    (void)state;
    uint64_t seed = random_seed(6);
    for (int round = 0; random_round(&seed, &round, 2 * FEATURES); round++) {
        weft_attention p = problem_of(random_between(&seed, 1, 6), random_between(&seed, 1, 7), 2, 1);
        drawn_lengths lengths;
        draw_mask(&seed, &p);
        draw_features(&seed, &p, draw_pair(&seed, round) & ~WEFT_HAS_LARGE_DIM, 16, &lengths);
        check_lengths(&seed, &p, &lengths.all, &lengths.pairs);
    }
}

static void heads_of_a_group_add_up(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    for (int layout = WEFT_BSHD; layout <= WEFT_BHSD; layout++) {
        weft_attention p = problem_of(3, 4, 4, 2);
        p.batch = 2;
        p.layout = (weft_layout)layout;
        check_problem(&seed, &p);
        p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
        pad_problem(&p, 3);
        check_problem(&seed, &p);
    }
}

static void storage_dtypes(void **state) {
    (void)state;
    uint64_t seed = random_seed(3);
    weft_attention p = problem_of(4, 3, 2, 1);
    p.scale = 0.7;
    p.dtype = WEFT_FP16;
    check_problem(&seed, &p);
    p.dtype = WEFT_BF16;
    check_problem(&seed, &p);
    p.o_dtype = 1 + WEFT_FP32;
    check_problem(&seed, &p);
}

/* Through a stride of 0 both batches read the same K and V: their gradients add up in one place. */
static void repeated_inputs_add_up(void **state) {
    (void)state;
    uint64_t seed = random_seed(4);
    weft_attention p = problem_of(3, 4, 2, 2);
    p.batch = 2;
    p.k_strides = p.v_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 0);
    p.k_strides.batch = p.v_strides.batch = 0;
    check_problem(&seed, &p);
}

/* A query whose scores are all -inf has a constant output: it adds nothing to any gradient, not even NaN. */
static void hopeless_queries_add_nothing(void **state) {
    (void)state;
    uint64_t seed = random_seed(5);
    const weft_attention problem = problem_of(2, 3, 1, 1);
    tensors t = tensors_new(&seed, &problem);
    void *grad_o = random_buffer(&seed, WEFT_FP32, t.size.o);
    for (size_t i = 0; i < t.size.k; i++) {
        weft_ref_store(WEFT_FP32, t.k, i, -INFINITY);
    }
    for (size_t i = 0; i < t.size.q; i++) {
        weft_ref_store(WEFT_FP32, t.q, i, 1);
    }
    float grad_q[2 * 8], grad_k[3 * 8], grad_v[3 * 8];
    const weft_attention_gradients data = {.struct_size = sizeof(weft_attention_gradients),
                                           .operation = WEFT_ATTENTION_BACKWARD,
                                           .q = t.q,
                                           .k = t.k,
                                           .v = t.v,
                                           .grad_o = grad_o,
                                           .grad_q = grad_q,
                                           .grad_k = grad_k,
                                           .grad_v = grad_v};
    assert_int_equal(weft_ref_attention_backward(&t.p, &data, NULL), WEFT_OK);
    for (size_t i = 0; i < 3 * 8; i++) {
        assert_true(grad_k[i] == 0 && grad_v[i] == 0 && grad_q[i % 16] == 0);
    }
    guarded_free(grad_o);
    tensors_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(features),
        cmocka_unit_test(heads_of_a_group_add_up),
        cmocka_unit_test(storage_dtypes),
        cmocka_unit_test(repeated_inputs_add_up),
        cmocka_unit_test(hopeless_queries_add_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
