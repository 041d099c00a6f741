/* SPDX-License-Identifier: Apache-2.0 */
/* Attention row by row: closed forms, a triple loop of its own, masks, layouts, borders, NaN and infinities. */
#include "tensors.h"

#include "../masks.h"

static weft_attention problem_of(int64_t seq, int64_t kv_seq, weft_mask mask, int64_t offset) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = 8;
    p.mask = mask;
    p.offset = offset;
    return p;
}

static void fill_rows(const tensors *t, void *data, size_t count, double value) {
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(t->p.dtype, data, i, value);
    }
}

static double o_at(const tensors *t, int64_t b, int64_t row, int64_t h, int64_t d) {
    const weft_strides *s = &t->p.o_strides;
    return weft_ref_load(weft_attention_out_dtype(&t->p), t->data.o,
                         (size_t)(b * s->batch + row * s->seq + h * s->head + d));
}

static double lse_at(const tensors *t, int64_t b, int64_t row, int64_t h) {
    return t->data.lse[(b * t->p.heads + h) * t->p.seq + row];
}

/* Equal keys: every weight is 1 / n, so O is the mean of V and LSE is log n + score. */
static void equal_keys_give_the_mean(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    const weft_attention problem = problem_of(1, 13, WEFT_MASK_NONE, 0);
    tensors t = tensors_new(&seed, &problem);
    fill_rows(&t, t.q, t.size.q, 0.5);
    fill_rows(&t, t.k, t.size.k, 0.75);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (size_t d = 0; d < 8; d++) {
        double mean = 0;
        for (size_t key = 0; key < 13; key++) {
            mean += weft_ref_load(WEFT_FP32, t.v, key * 8 + d) / 13;
        }
        assert_near(o_at(&t, 0, 0, 0, (int64_t)d), mean, 1e-7);
    }
    assert_near(lse_at(&t, 0, 0, 0), log(13) + 8 * 0.5 * 0.75 / sqrt(8), 1e-6);
    tensors_free(&t);
}

/* V of one key is one-hot, of the others zero: O reads off that key's weight. */
static void one_hot_values_read_the_weights(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    const weft_attention problem = problem_of(3, 8, WEFT_MASK_NONE, 0);
    tensors t = tensors_new(&seed, &problem);
    fill_rows(&t, t.v, t.size.v, 0);
    for (size_t key = 0; key < 8; key++) {
        weft_ref_store(WEFT_FP32, t.v, key * 8 + key, 1);
    }
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (int64_t row = 0; row < 3; row++) {
        double weights[8], out[8], total = 0;
        weft_ref_attention_row(&t.p, &t.data, 0, 0, row, weights, out);
        for (int64_t key = 0; key < 8; key++) {
            assert_near(o_at(&t, 0, row, 0, key), weights[key], 1e-7);
            total += weights[key];
        }
        assert_near(total, 1, 1e-15);
    }
    tensors_free(&t);
}

static void no_visible_key_gives_zeros(void **state) {
    (void)state;
    uint64_t seed = random_seed(3);
    const weft_attention problem = problem_of(6, 4, WEFT_MASK_CAUSAL, -3); /* queries 0, 1 and 2 see nothing */
    tensors t = tensors_new(&seed, &problem);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (int64_t row = 0; row < 6; row++) {
        float weights[4];
        double naive[8];
        weft_ref_attention_row_naive(&t.p, &t.data, 0, 0, row, weights, naive);
        for (int64_t d = 0; d < 8; d++) {
            assert_true((o_at(&t, 0, row, 0, d) == 0) == (row < 3));
            assert_true((naive[d] == 0) == (row < 3));
        }
        assert_true((lse_at(&t, 0, row, 0) == -INFINITY) == (row < 3));
    }
    tensors_free(&t);
}

static double element(weft_dtype dtype, const void *data, weft_strides s, int64_t b, int64_t i, int64_t h, int64_t d) {
    return weft_ref_load(dtype, data, (size_t)(b * s.batch + i * s.seq + h * s.head + d));
}

/* The definition, with none of the library's shortcuts: exp of the score itself, no maximum taken out. */
static void definition(const weft_attention *p, const tensors *t, int64_t b, int64_t h, int64_t row, double *out,
                       double *lse) {
    const int64_t kv_head = h * p->kv_heads / p->heads;
    const double scale = p->scale == 0 ? pow((double)p->head_dim, -0.5) : p->scale;
    double sum = 0;
    memset(out, 0, (size_t)p->head_dim * sizeof *out);
    for (int64_t key = 0; key < p->kv_seq; key++) {
        double score = 0;
        for (int64_t d = 0; d < p->head_dim; d++) {
            score += element(p->dtype, t->q, p->q_strides, b, row, h, d) *
                     element(p->dtype, t->k, p->k_strides, b, key, kv_head, d);
        }
        const double weight = mask_shows(p, row, key) ? exp(score * scale) : 0;
        sum += weight;
        for (int64_t d = 0; d < p->head_dim; d++) {
            out[d] += weight * element(p->dtype, t->v, p->v_strides, b, key, kv_head, d);
        }
    }
    for (int64_t d = 0; d < p->head_dim; d++) {
        out[d] = sum > 0 ? out[d] / sum : 0;
    }
    *lse = log(sum);
}

static void check_against_definition(uint64_t *seed, const weft_attention *problem) {
    tensors t = tensors_new(seed, problem);
    double weights[64], row_out[32], want[32], row_lse, want_lse;
    const double naive_tolerance = t.p.dtype == WEFT_FP32 ? 1e-5 : t.p.dtype == WEFT_FP16 ? 4e-3 : 3e-2;
    float naive_weights[64];
    double naive[32];
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (int64_t b = 0; b < t.p.batch; b++) {
        for (int64_t h = 0; h < t.p.heads; h++) {
            for (int64_t row = 0; row < t.p.seq; row++) {
                definition(problem, &t, b, h, row, want, &want_lse);
                row_lse = weft_ref_attention_row(&t.p, &t.data, b, h, row, weights, row_out).lse;
                weft_ref_attention_row_naive(&t.p, &t.data, b, h, row, naive_weights, naive);
                for (int64_t d = 0; d < t.p.head_dim; d++) {
                    assert_near(row_out[d], want[d], 1e-13);
                    assert_true(o_at(&t, b, row, h, d) == weft_ref_round(weft_attention_out_dtype(&t.p), row_out[d]));
                    assert_near(naive[d], want[d], naive_tolerance);
                    assert_true(naive[d] == weft_ref_round(weft_attention_out_dtype(&t.p), naive[d]));
                }
                if (want_lse == -INFINITY) {
                    assert_true(row_lse == -INFINITY);
                } else {
                    assert_near(row_lse, want_lse, 1e-13);
                }
                assert_true(lse_at(&t, b, row, h) == weft_ref_round(WEFT_FP32, row_lse));
            }
        }
    }
    tensors_check_borders(&t);
    tensors_free(&t);
}

static void random_shapes_match_the_definition(void **state) {
    (void)state;
    uint64_t seed = random_seed(4);
    for (int n = 0; random_round(&seed, &n, 120); n++) {
        weft_attention p = problem_of(random_between(&seed, 1, 12), random_between(&seed, 1, 14), WEFT_MASK_NONE, 0);
        draw_mask(&seed, &p);
        p.dtype = (weft_dtype)(n / 3 % 3);
        p.o_dtype = n % 2 ? 1 + WEFT_FP32 : 0;
        p.layout = (weft_layout)(n / 9 % 2);
        p.batch = random_between(&seed, 1, 3);
        p.kv_heads = random_between(&seed, 1, 3);
        p.heads = p.kv_heads * random_between(&seed, 1, 3);
        p.head_dim = 8 * random_between(&seed, 1, 3);
        p.scale = n % 5 == 0 ? -0.3 : 0;
        pad_problem(&p, n / 18 % 2 == 0 ? 0 : random_between(&seed, 0, 5));
        check_against_definition(&seed, &p);
    }
}

/* A row of a tensor, and behind it one of another, as a row of a third, which is packed (batch, seq, heads, ...). */
static void join_rows(const tensors *t, int64_t heads, int64_t seq, const void *first, const weft_strides *s,
                      const void *second, const weft_strides *behind, void *to) {
    const int64_t dim = t->p.head_dim, all = dim + t->p.head_dim_v;
    for (int64_t i = 0; i < t->p.batch * seq * heads * all; i++) {
        const int64_t d = i % all, h = i / all % heads, row = i / all / heads % seq, b = i / all / heads / seq;
        weft_ref_store(t->p.dtype, to, (size_t)i,
                       d < dim ? element(t->p.dtype, first, *s, b, row, h, d)
                               : element(t->p.dtype, second, *behind, b, row, h, d - dim));
    }
}

/* Queries for the values are the rest of longer queries, whose keys are K and V. */
static void qv_is_the_rest_of_longer_queries(void **state) {
    (void)state;
    uint64_t seed = random_seed(9);
    for (int n = 0; random_round(&seed, &n, 60); n++) {
        weft_attention p = problem_of(random_between(&seed, 1, 12), random_between(&seed, 1, 14), WEFT_MASK_NONE, 0);
        draw_mask(&seed, &p);
        p.dtype = (weft_dtype)(n % 3);
        p.layout = (weft_layout)(n / 3 % 2);
        p.batch = random_between(&seed, 1, 3);
        p.kv_heads = random_between(&seed, 1, 2);
        p.heads = p.kv_heads * random_between(&seed, 1, 4);
        p.head_dim = random_between(&seed, 1, 24);
        p.head_dim_v = n % 4 == 0 ? 0 : random_between(&seed, 1, 40);
        p.scale = n % 5 == 0 ? -0.3 : 0;
        p.softcap = n % 6 == 5 ? 2 : 0;
        p.extras = WEFT_QV;
        if (n % 2) {
            pad_problem(&p, random_between(&seed, 0, 5));
        }
        tensors t = tensors_new(&seed, &p);
        weft_attention longer = p;
        const weft_strides packed = {0, 0, 0};
        longer.layout = WEFT_BSHD;
        longer.head_dim = t.p.head_dim + t.p.head_dim_v;
        longer.head_dim_v = t.p.head_dim_v;
        longer.extras = 0;
        longer.q_strides = longer.k_strides = packed;
        longer.v_strides = t.p.v_strides;
        longer.o_strides = t.p.o_strides;
        tensors one = tensors_new(&seed, &longer);
        assert_true(one.p.scale == t.p.scale); /* by default that of both head dims */
        join_rows(&t, p.heads, p.seq, t.q, &t.p.q_strides, t.qv, &t.p.qv_strides, one.q);
        join_rows(&t, p.kv_heads, p.kv_seq, t.k, &t.p.k_strides, t.v, &t.p.v_strides, one.k);
        memcpy(one.v, t.v, t.size.v * weft_dtype_bytes(p.dtype));
        for (int64_t i = 0; i < p.batch * p.heads * p.seq; i++) {
            double weights[64], out[64], want[64];
            float plain[64];
            const int64_t row = i % p.seq, h = i / p.seq % p.heads, b = i / p.seq / p.heads;
            const weft_ref_row got = weft_ref_attention_row(&t.p, &t.data, b, h, row, weights, out);
            const weft_ref_row all = weft_ref_attention_row(&one.p, &one.data, b, h, row, weights, want);
            assert_true(got.lse == all.lse || fabs(got.lse - all.lse) < 1e-13);
            for (int64_t d = 0; d < t.p.head_dim_v; d++) {
                assert_near(out[d], want[d], 1e-13);
            }
            weft_ref_attention_row_naive(&t.p, &t.data, b, h, row, plain, out);
            for (int64_t d = 0; d < t.p.head_dim_v; d++) {
                assert_near(out[d], want[d], p.dtype == WEFT_FP32 ? 1e-5 : p.dtype == WEFT_FP16 ? 4e-3 : 3e-2);
            }
        }
        assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
        tensors_check_borders(&t);
        assert_true(weft_problem_flops(&p) == weft_problem_flops(&longer));
        tensors_free(&t);
        tensors_free(&one);
    }
}

/* Packed strides that are left to the library are those of the layout. */
static void packed_is_the_layout(void **state) {
    (void)state;
    for (int layout = WEFT_BSHD; layout <= WEFT_BHSD; layout++) {
        weft_attention p = problem_of(5, 7, WEFT_MASK_CAUSAL_BOTTOM_RIGHT, 0);
        p.layout = (weft_layout)layout;
        p.batch = 2;
        p.heads = 4;
        p.kv_heads = 2;
        uint64_t seed = random_seed(5), same = seed;
        tensors packed = tensors_new(&seed, &p);
        p.q_strides = p.o_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 0);
        p.k_strides = p.v_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 0);
        tensors spelled = tensors_new(&same, &p);
        assert_int_equal(weft_ref_attention(&packed.p, &packed.data, NULL), WEFT_OK);
        assert_int_equal(weft_ref_attention(&spelled.p, &spelled.data, NULL), WEFT_OK);
        assert_int_equal(packed.size.o, spelled.size.o);
        assert_memory_equal(packed.data.o, spelled.data.o, packed.size.o * sizeof(float));
        assert_memory_equal(packed.data.lse, spelled.data.lse, packed.size.lse * sizeof(float));
        tensors_free(&packed);
        tensors_free(&spelled);
    }
}

static void lse_may_be_null(void **state) {
    (void)state;
    uint64_t seed = random_seed(6);
    const weft_attention problem = problem_of(3, 3, WEFT_MASK_NONE, 0);
    tensors t = tensors_new(&seed, &problem);
    weft_attention_data data = t.data;
    data.lse = NULL;
    assert_int_equal(weft_ref_attention(&t.p, &data, NULL), WEFT_OK);
    assert_true(!isnan(o_at(&t, 0, 2, 0, 7)));
    tensors_free(&t);
}

/* One head, packed, 4 queries on 4 keys, causal: key 2 is set to `value` in K or V; query 1 must not notice. */
static tensors with_bad_key(double value, int in_v) {
    uint64_t seed = random_seed(7);
    const weft_attention problem = problem_of(4, 4, WEFT_MASK_CAUSAL, 0);
    tensors t = tensors_new(&seed, &problem);
    fill_rows(&t, t.q, t.size.q, 0.5);
    weft_ref_store(WEFT_FP32, in_v ? t.v : t.k, 2 * 8, value);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    assert_true(!isnan(o_at(&t, 0, 1, 0, 0)));
    assert_true(!isnan(lse_at(&t, 0, 1, 0)));
    return t;
}

static void visible_nan_spreads_and_masked_does_not(void **state) {
    (void)state;
    tensors in_k = with_bad_key(NAN, 0);
    assert_true(isnan(o_at(&in_k, 0, 2, 0, 5)));
    assert_true(isnan(lse_at(&in_k, 0, 2, 0)));
    tensors_free(&in_k);

    tensors in_v = with_bad_key(NAN, 1);
    assert_true(isnan(o_at(&in_v, 0, 2, 0, 0)));
    assert_true(!isnan(o_at(&in_v, 0, 2, 0, 1)));
    assert_true(!isnan(lse_at(&in_v, 0, 2, 0)));
    tensors_free(&in_v);
}

static void infinite_scores(void **state) {
    (void)state;
    tensors up = with_bad_key(INFINITY, 0);
    assert_true(isnan(o_at(&up, 0, 3, 0, 0)));
    tensors_free(&up);

    /* A score of -inf takes the key out: query 2 then sees keys 0 and 1 only, as query 1 does, and they have equal q. */
    tensors down = with_bad_key(-INFINITY, 0);
    for (int64_t d = 0; d < 8; d++) {
        assert_true(o_at(&down, 0, 2, 0, d) == o_at(&down, 0, 1, 0, d));
    }
    assert_true(lse_at(&down, 0, 2, 0) == lse_at(&down, 0, 1, 0));

    /* When all are -inf, nothing is left: zeros, whatever V holds. */
    fill_rows(&down, down.k, down.size.k, -INFINITY);
    fill_rows(&down, down.v, down.size.v, NAN);
    assert_int_equal(weft_ref_attention(&down.p, &down.data, NULL), WEFT_OK);
    for (int64_t row = 0; row < 4; row++) {
        float weights[4];
        double naive[8];
        weft_ref_attention_row_naive(&down.p, &down.data, 0, 0, row, weights, naive);
        assert_true(o_at(&down, 0, row, 0, 3) == 0 && naive[3] == 0);
        assert_true(lse_at(&down, 0, row, 0) == -INFINITY);
    }
    tensors_free(&down);
}

/* Scores in the thousands: exp alone would overflow. */
static void large_scores_stay_finite(void **state) {
    (void)state;
    uint64_t seed = random_seed(8);
    weft_attention problem = problem_of(4, 9, WEFT_MASK_NONE, 0);
    problem.scale = 5000;
    tensors t = tensors_new(&seed, &problem);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (int64_t row = 0; row < 4; row++) {
        assert_true(isfinite(o_at(&t, 0, row, 0, 0)));
        assert_true(isfinite(lse_at(&t, 0, row, 0)));
    }
    tensors_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_give_the_mean),
        cmocka_unit_test(one_hot_values_read_the_weights),
        cmocka_unit_test(no_visible_key_gives_zeros),
        cmocka_unit_test(random_shapes_match_the_definition),
        cmocka_unit_test(qv_is_the_rest_of_longer_queries),
        cmocka_unit_test(packed_is_the_layout),
        cmocka_unit_test(lse_may_be_null),
        cmocka_unit_test(visible_nan_spreads_and_masked_does_not),
        cmocka_unit_test(infinite_scores),
        cmocka_unit_test(large_scores_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
