/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at the edge of an attention and of its gradients, on the CPU: docs/numbers.md. Each row runs in every dtype as a
 * tile of queries and as a decode, whose code is another. */
#include "numbers.h"

typedef struct trial {
    weft_attention p;
    int forms;             /* that next_form() has made */
    tensors clean, spoilt; /* the same inputs; the spoilt ones are a row's to change. The clean ones have been run */
} trial;

static void forward(tensors *t) {
    weft_message message = {""};
    tensors_poison_outputs(t);
    succeeds(weft_attention_forward(&t->p, &t->data, &message), &message);
    tensors_check_borders(t);
}

/* One batch, two heads that share K and V, so that what a head's row does to another's shows. */
static trial trial_new(weft_dtype dtype, int decodes, weft_mask mask, int32_t extras) {
    trial x = {.p = WEFT_ATTENTION_INIT};
    x.p.heads = 2;
    x.p.seq = decodes ? 1 : 37;
    x.p.kv_seq = decodes ? 300 : 53;
    x.p.head_dim = 24;
    x.p.dtype = dtype;
    x.p.mask = mask;
    x.p.extras = extras;
    uint64_t random = 1, again = 1;
    x.clean = tensors_new(&random, &x.p);
    x.spoilt = tensors_new(&again, &x.p);
    forward(&x.clean);
    return x;
}

static void trial_free(trial *x) {
    tensors_free(&x->clean);
    tensors_free(&x->spoilt);
}

/* Element d of row i of head h of Q or O, of K or V. */
static int64_t in_q(const trial *x, int64_t i, int64_t h, int64_t d) {
    return (i * x->p.heads + h) * x->p.head_dim + d;
}

static int64_t in_kv(const trial *x, int64_t key, int64_t d) {
    return key * x->p.head_dim + d;
}

static double out_of(const trial *x, const tensors *t, int64_t i, int64_t h, int64_t d) {
    return at(x->p.dtype, t->data.o, in_q(x, i, h, d));
}

static float lse_of(const trial *x, const tensors *t, int64_t i, int64_t h) {
    return t->data.lse[h * x->p.seq + i];
}

/* Calls check(x, i, h) for each row, after a run of the spoilt tensors. */
typedef void row_check(const trial *x, int64_t i, int64_t h);

static void each_row(trial *x, row_check *check) {
    forward(&x->spoilt);
    for (int64_t i = 0; i < x->p.seq; i++) {
        for (int64_t h = 0; h < x->p.heads; h++) {
            check(x, i, h);
        }
    }
}

static void row_is_nan(const trial *x, int64_t i, int64_t h) {
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        assert_true(isnan(out_of(x, &x->spoilt, i, h, d)));
    }
    assert_true(isnan(lse_of(x, &x->spoilt, i, h)));
}

static void row_is_clean(const trial *x, int64_t i, int64_t h) {
    const size_t bytes = (size_t)x->p.head_dim * weft_dtype_bytes(x->p.dtype);
    const size_t from = (size_t)in_q(x, i, h, 0) * weft_dtype_bytes(x->p.dtype);
    assert_memory_equal((const char *)x->spoilt.data.o + from, (const char *)x->clean.data.o + from, bytes);
    assert_true(lse_of(x, &x->spoilt, i, h) == lse_of(x, &x->clean, i, h));
}

static void row_is_empty(const trial *x, int64_t i, int64_t h) {
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        assert_true(out_of(x, &x->spoilt, i, h, d) == 0);
    }
    assert_true(lse_of(x, &x->spoilt, i, h) == -INFINITY);
}

static void row_is_finite(const trial *x, int64_t i, int64_t h) {
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        assert_true(isfinite(out_of(x, &x->spoilt, i, h, d)));
    }
    assert_true(isfinite(lse_of(x, &x->spoilt, i, h)));
}

static void row_is_finite_or_empty(const trial *x, int64_t i, int64_t h) {
    (lse_of(x, &x->spoilt, i, h) == -INFINITY ? row_is_empty : row_is_finite)(x, i, h);
}

/* Sets every element of Q to one number and of K to another, so that each score is their product times head_dim * scale. */
static void fill(trial *x, double q, double k) {
    for (size_t i = 0; i < x->spoilt.size.q; i++) {
        put(x->p.dtype, x->spoilt.q, (int64_t)i, q);
    }
    for (size_t i = 0; i < x->spoilt.size.k; i++) {
        put(x->p.dtype, x->spoilt.k, (int64_t)i, k);
    }
}

/* For a loop: the next dtype and form; 0 after the last. Begins with a trial of zeros, frees the one before. */
static int next_form(trial *x, weft_mask mask, int32_t extras) {
    const int form = x->forms;
    if (form > 0) {
        trial_free(x);
    }
    if (form == 2 * NUMBER_DTYPES) {
        return 0;
    }
    *x = trial_new(number_dtypes[form / 2], form % 2, mask, extras);
    x->forms = form + 1;
    return 1;
}

static void query_check(const trial *x, int64_t i, int64_t h) {
    (i == x->p.seq / 2 && h == 1 ? row_is_nan : row_is_clean)(x, i, h);
}

static void attention_query_nan(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, 0);) {
        put(x.p.dtype, x.spoilt.q, in_q(&x, x.p.seq / 2, 1, 5), NAN);
        each_row(&x, query_check);
    }
}

/* Keys up to the query's own position; the one that is spoilt is the last of the first third. */
static int64_t spoilt_key(const trial *x) {
    return x->p.seq / 3;
}

static void key_check(const trial *x, int64_t i, int64_t h) {
    (i >= spoilt_key(x) ? row_is_nan : row_is_clean)(x, i, h);
}

static void attention_key_nan(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_CAUSAL, 0);) {
        put(x.p.dtype, x.spoilt.k, in_kv(&x, spoilt_key(&x), 3), NAN);
        each_row(&x, key_check);
    }
}

/* The column that is spoilt has what `value` gives where the key is seen; all others are as they were, but for rounding. */
static double value_given;

static void value_check(const trial *x, int64_t i, int64_t h) {
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        const double got = out_of(x, &x->spoilt, i, h, d), clean = out_of(x, &x->clean, i, h, d);
        if (d != 7 || i < spoilt_key(x)) {
            assert_near(got, clean, 4 * unit_of(x->p.dtype));
        } else {
            assert_true(isnan(value_given) ? isnan(got) : got == value_given);
        }
    }
    assert_true(lse_of(x, &x->spoilt, i, h) == lse_of(x, &x->clean, i, h));
}

static void attention_value_nonfinite(void **state) {
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 3; n++) {
        value_given = values[n];
        for (trial x = {0}; next_form(&x, WEFT_MASK_CAUSAL, 0);) {
            put(x.p.dtype, x.spoilt.v, in_kv(&x, spoilt_key(&x), 7), value_given);
            each_row(&x, value_check);
        }
    }
}

static void attention_score_plus_infinity(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, 0);) {
        fill(&x, 1, 0.5);
        put(x.p.dtype, x.spoilt.k, in_kv(&x, 2, 0), INFINITY);
        each_row(&x, row_is_nan);
    }
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE,
                                  0);) { /* and where sums of finite products are beyond fp32, which fp16 does not reach */
        if (x.p.dtype != WEFT_FP16) {
            fill(&x, 0x1p100, 0x1p100);
            each_row(&x, row_is_nan);
        }
    }
}

/* One key has a score of -inf: it is as if it were not there. */
static void minus_check(const trial *x, int64_t i, int64_t h) {
    double mean = 0;
    for (int64_t key = 0; key < x->p.kv_seq; key++) {
        mean += key == 2 ? 0 : at(x->p.dtype, x->spoilt.v, in_kv(x, key, 4)) / (double)(x->p.kv_seq - 1);
    }
    assert_near(out_of(x, &x->spoilt, i, h, 4), mean, 2 * unit_of(x->p.dtype));
    row_is_finite(x, i, h);
}

static void attention_score_minus_infinity(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, 0);) {
        fill(&x, 1, 0.5);
        put(x.p.dtype, x.spoilt.k, in_kv(&x, 2, 0), -INFINITY);
        each_row(&x, minus_check);
        fill(&x, 1, -INFINITY);
        each_row(&x, row_is_empty);
    }
}

/* Each row takes the value of the one key whose score is largest, and its LSE is that score. */
static void extreme_check(const trial *x, int64_t i, int64_t h) {
    const double q = at(x->p.dtype, x->spoilt.q, in_q(x, i, h, 0)), k = at(x->p.dtype, x->spoilt.k, in_kv(x, 11, 0));
    const double score = q * k * (double)x->p.head_dim / sqrt((double)x->p.head_dim);
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        assert_true(out_of(x, &x->spoilt, i, h, d) == at(x->p.dtype, x->spoilt.v, in_kv(x, 11, d)));
    }
    assert_near((double)lse_of(x, &x->spoilt, i, h) / score, 1, 1e-5);
}

static void attention_score_extreme(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, 0);) {
        const double size = x.p.dtype == WEFT_FP16 ? 0x1p14 : 0x1p60;
        fill(&x, size, -size);
        for (int64_t d = 0; d < x.p.head_dim; d++) {
            put(x.p.dtype, x.spoilt.k, in_kv(&x, 11, d), size);
        }
        each_row(&x, extreme_check);
    }
}

static void attention_one_key(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        const weft_dtype dtype = number_dtypes[n];
        weft_attention p = WEFT_ATTENTION_INIT;
        p.seq = p.kv_seq = p.head_dim = 1;
        p.dtype = dtype;
        const double values[] = {
            1, -0.0, smallest_of(dtype), -3 * smallest_of(dtype), largest_of(dtype), -largest_of(dtype)};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            uint64_t random = 1;
            tensors t = tensors_new(&random, &p);
            put(dtype, t.v, 0, values[i]);
            forward(&t);
            const double o = at(dtype, t.data.o, 0); /* -0 may come out as 0 */
            assert_true(fabs(values[i]) < 1e-4 ? is_denormal(dtype, o, values[i]) : o == values[i]);
            assert_near(t.data.lse[0], at(dtype, t.q, 0) * at(dtype, t.k, 0), 1e-6);
            tensors_free(&t);
        }
    }
}

static float sink_given;

static void sink_check(const trial *x, int64_t i, int64_t h) {
    if (h == 0) {
        row_is_clean(x, i, h);
    } else if (!(sink_given < INFINITY)) { /* NaN, too */
        row_is_nan(x, i, h);
    } else {
        for (int64_t d = 0; d < x->p.head_dim; d++) {
            assert_true(sink_given > 0 ? out_of(x, &x->spoilt, i, h, d) == 0 : isfinite(out_of(x, &x->spoilt, i, h, d)));
        }
        assert_true(sink_given > 0 ? lse_of(x, &x->spoilt, i, h) == sink_given : isfinite(lse_of(x, &x->spoilt, i, h)));
    }
}

static void attention_sink(void **state) {
    (void)state;
    static const float sinks[] = {NAN, INFINITY, 1e30f, -1e30f, -INFINITY};
    for (size_t n = 0; n < sizeof sinks / sizeof *sinks; n++) {
        sink_given = sinks[n];
        for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, WEFT_SINKS);) {
            ((float *)x.spoilt.sinks)[1] = sink_given;
            each_row(&x, sink_check);
        }
    }
}

static void fill_bias(trial *x, double value) {
    for (int64_t i = 0; i < x->p.heads * x->p.seq * x->p.kv_seq; i++) {
        put(x->p.dtype, x->spoilt.bias, i, value);
    }
}

/* Every key hidden by -inf; or by the lowest number, which times log2(e) is -inf in fp32 and is -94502 in fp16. */
static void attention_bias_lowest(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, WEFT_BIAS);) {
        fill_bias(&x, -INFINITY);
        each_row(&x, row_is_empty);
        fill_bias(&x, -largest_of(x.p.dtype));
        each_row(&x, x.p.dtype == WEFT_FP16 ? row_is_finite : row_is_empty);
    }
}

static void bias_value_check(const trial *x, int64_t i, int64_t h) {
    for (int64_t d = 0; d < x->p.head_dim; d++) {
        assert_true(isnan(out_of(x, &x->spoilt, i, h, d)) == (d == 7));
    }
    assert_true(isfinite(lse_of(x, &x->spoilt, i, h)));
}

static void attention_bias_value_nan(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, WEFT_BIAS);) {
        for (int64_t i = 0; i < x.p.heads * x.p.seq; i++) {
            put(x.p.dtype, x.spoilt.bias, i * x.p.kv_seq + 2, -INFINITY);
        }
        put(x.p.dtype, x.spoilt.v, in_kv(&x, 2, 7), NAN);
        each_row(&x, bias_value_check);
    }
}

/* Rows apart, and NaN between them. */
static void attention_gaps(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_CAUSAL_BOTTOM_RIGHT, 0);) {
        weft_attention p = x.p;
        pad_problem(&p, 5);
        uint64_t random = 2;
        tensors t = tensors_new(&random, &p);
        const weft_strides *strides[] = {&t.p.q_strides, &t.p.k_strides, &t.p.v_strides};
        const weft_strides *near[] = {&x.clean.p.q_strides, &x.clean.p.k_strides, &x.clean.p.v_strides};
        void *const to[] = {t.q, t.k, t.v}, *const from[] = {x.clean.q, x.clean.k, x.clean.v};
        const size_t counts[] = {t.size.q, t.size.k, t.size.v}, bytes = weft_dtype_bytes(p.dtype);
        for (int n = 0; n < 3; n++) {
            memset(to[n], POISON, counts[n] * bytes);
            for (int64_t i = 0; i < (n ? p.kv_seq : p.seq); i++) {
                for (int64_t h = 0; h < (n ? p.kv_heads : p.heads); h++) {
                    memcpy((char *)to[n] + weft_row_index(strides[n], 0, i, h) * bytes,
                           (const char *)from[n] + weft_row_index(near[n], 0, i, h) * bytes, (size_t)p.head_dim * bytes);
                }
            }
        }
        forward(&t); /* and what lies between rows of O stays */
        for (int64_t i = 0; i < p.seq * p.heads; i++) {
            const size_t row = weft_row_index(&t.p.o_strides, 0, i / p.heads, i % p.heads);
            assert_memory_equal((const char *)t.data.o + row * bytes,
                                (const char *)x.clean.data.o + (size_t)(i * p.head_dim) * bytes,
                                (size_t)p.head_dim * bytes);
        }
        tensors_free(&t);
    }
}

/* Pointers between elements are refused; those that are aligned to elements and to nothing more give the same bits. */
static void attention_misaligned(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_NONE, 0);) {
        weft_message message = {""};
        weft_attention_data data = x.spoilt.data;
        const size_t bytes = weft_dtype_bytes(x.p.dtype), count = x.clean.size.k * bytes;
        char text[128];
        data.q = (const char *)data.q + 1;
        snprintf(text, sizeof text, "q is not aligned to its elements of %zu bytes", bytes);
        refused(weft_attention_forward(&x.p, &data, &message), &message, text);
        data = x.spoilt.data;
        data.lse = (float *)(void *)((char *)data.lse + 2);
        refused(weft_attention_forward(&x.p, &data, &message), &message, "lse is not aligned to its elements of 4 bytes");
        char *moved = guarded_new(count + bytes);
        memcpy(moved + bytes, x.clean.k, count);
        x.spoilt.data.k = moved + bytes;
        each_row(&x, row_is_clean);
        guarded_free(moved);
    }
}

static void attention_sizes_refused(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_message message = {""};
    p.seq = p.kv_seq = p.head_dim = 8;
    p.kv_seq = 0;
    refused(weft_problem_check(&p, &message), &message, "kv_seq 0 is not between 1 and 2147483647");
    p.kv_seq = INT64_C(1) << 31;
    refused(weft_problem_check(&p, &message), &message, "kv_seq 2147483648 is not between 1 and 2147483647");
    p.kv_seq = 8;
    p.k_strides.seq = INT64_MAX / 2;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
    p.k_strides.seq = 0;
    p.scale = 1e-31;
    refused(weft_problem_check(&p, &message), &message, "scale 1e-31 is not between 1e-30 and 1e30 in size");
}

/* ---- gradients ---- */

typedef struct gradients {
    void *o, *q, *k, *v; /* of O, which is given, and of Q, K and V */
} gradients;

static gradients gradients_new(const tensors *t) {
    uint64_t random = 5;
    const size_t bytes = weft_dtype_bytes(t->p.dtype);
    return (gradients){random_buffer(&random, t->p.dtype, t->size.o), guarded_new(t->size.q * bytes),
                       guarded_new(t->size.k * bytes), guarded_new(t->size.v * bytes)};
}

static void gradients_free(const gradients *g) {
    void *const all[] = {g->o, g->q, g->k, g->v};
    for (int i = 0; i < 4; i++) {
        guarded_free(all[i]);
    }
}

static void backward(const tensors *t, const gradients *g) {
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    weft_message message = {""};
    data.q = t->q;
    data.k = t->k;
    data.v = t->v;
    data.grad_o = g->o;
    data.grad_q = g->q;
    data.grad_k = g->k;
    data.grad_v = g->v;
    succeeds(weft_attention_backward(&t->p, &data, &message), &message);
}

/* Elements of a tensor of `rows` rows that are NaN where `spoils` says so, and near the clean ones elsewhere. */
static void check_gradient(const trial *x, const void *got, const void *clean, int64_t rows, int64_t heads,
                           int (*spoils)(const trial *x, int64_t i, int64_t h)) {
    for (int64_t i = 0; i < rows * heads * x->p.head_dim; i++) {
        const int64_t row = i / x->p.head_dim / heads, head = i / x->p.head_dim % heads;
        if (spoils(x, row, head)) {
            assert_true(isnan(at(x->p.dtype, got, i)));
        } else {
            assert_near(at(x->p.dtype, got, i), at(x->p.dtype, clean, i), 16 * unit_of(x->p.dtype));
        }
    }
}

static int is_spoilt_row(const trial *x, int64_t i, int64_t h) {
    return i == spoilt_key(x) && h == 1;
}

static int is_key_of_spoilt_row(const trial *x, int64_t key, int64_t h) {
    (void)h;
    return key <= spoilt_key(x);
}

static void gradient_nan(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_CAUSAL, 0);) {
        const gradients clean = gradients_new(&x.clean), got = gradients_new(&x.spoilt);
        for (int64_t d = 0; d < x.p.head_dim; d++) {
            put(x.p.dtype, got.o, in_q(&x, spoilt_key(&x), 1, d), NAN);
        }
        backward(&x.clean, &clean);
        backward(&x.spoilt, &got);
        check_gradient(&x, got.q, clean.q, x.p.seq, x.p.heads, is_spoilt_row);
        check_gradient(&x, got.k, clean.k, x.p.kv_seq, x.p.kv_heads, is_key_of_spoilt_row);
        check_gradient(&x, got.v, clean.v, x.p.kv_seq, x.p.kv_heads, is_key_of_spoilt_row);
        gradients_free(&clean);
        gradients_free(&got);
    }
}

/* One key has all the weight, whatever its score: only V has a gradient, and that is the gradient of O. */
static void gradient_one_key(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        trial x = {.p = WEFT_ATTENTION_INIT};
        x.p.seq = x.p.kv_seq = 1;
        x.p.head_dim = 24;
        x.p.dtype = number_dtypes[n];
        uint64_t random = 1;
        x.clean = tensors_new(&random, &x.p);
        const gradients g = gradients_new(&x.clean);
        put(x.p.dtype, g.o, 3, smallest_of(x.p.dtype));
        backward(&x.clean, &g);
        for (int64_t d = 0; d < x.p.head_dim; d++) {
            assert_near(at(x.p.dtype, g.q, d), 0, 4 * unit_of(x.p.dtype));
            assert_near(at(x.p.dtype, g.k, d), 0, 4 * unit_of(x.p.dtype));
            const double given = at(x.p.dtype, g.o, d), got = at(x.p.dtype, g.v, d);
            assert_true(d == 3 ? is_denormal(x.p.dtype, got, given) : got == given);
        }
        gradients_free(&g);
        tensors_free(&x.clean);
    }
}

/* Queries that see no key, before the first one. */
static void gradient_no_key(void **state) {
    (void)state;
    for (trial x = {0}; next_form(&x, WEFT_MASK_CAUSAL, 0);) {
        x.spoilt.p.offset = -(x.p.seq + 1) / 2;
        each_row(&x, x.p.seq == 1 ? row_is_empty : row_is_finite_or_empty);
        const gradients g = gradients_new(&x.spoilt);
        backward(&x.spoilt, &g);
        for (int64_t i = 0; i < (x.p.seq + 1) / 2 * x.p.heads * x.p.head_dim; i++) {
            assert_true(at(x.p.dtype, g.q, i) == 0);
        }
        for (size_t i = 0; i < x.spoilt.size.k; i++) {
            assert_true(isfinite(at(x.p.dtype, g.k, (int64_t)i)) && isfinite(at(x.p.dtype, g.v, (int64_t)i)));
        }
        gradients_free(&g);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest rows[] = {cmocka_unit_test(attention_query_nan),
                                      cmocka_unit_test(attention_key_nan),
                                      cmocka_unit_test(attention_value_nonfinite),
                                      cmocka_unit_test(attention_score_plus_infinity),
                                      cmocka_unit_test(attention_score_minus_infinity),
                                      cmocka_unit_test(attention_score_extreme),
                                      cmocka_unit_test(attention_one_key),
                                      cmocka_unit_test(attention_sink),
                                      cmocka_unit_test(attention_bias_lowest),
                                      cmocka_unit_test(attention_bias_value_nan),
                                      cmocka_unit_test(attention_gaps),
                                      cmocka_unit_test(attention_misaligned),
                                      cmocka_unit_test(attention_sizes_refused),
                                      cmocka_unit_test(gradient_nan),
                                      cmocka_unit_test(gradient_one_key),
                                      cmocka_unit_test(gradient_no_key)};
    return run_numbers(argc, argv, rows, sizeof rows / sizeof *rows);
}
