/* SPDX-License-Identifier: Apache-2.0 */
/* Results held to the reference: a sample of a large problem, shared elements, and what is refused. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/check.h>

#include "../random.h"
#include "bench/sample.h"

static float *numbers(uint64_t *random, size_t count) {
    float *list = malloc(count * sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        list[i] = (float)random_between(random, -1000, 1000) / 500;
    }
    return list;
}

static void gradients_where_heads_share_keys(void **state) {
    (void)state;
    enum { SEQ = 9, DIM = 8, HEADS = 2 };
    for (int shared = 0; shared < 2; shared++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        weft_attention_gradients d = WEFT_ATTENTION_GRADIENTS_INIT;
        weft_check found = WEFT_CHECK_INIT;
        uint64_t random = 3;
        const size_t count = HEADS * SEQ * DIM;
        p.operation = WEFT_ATTENTION_BACKWARD;
        p.heads = p.kv_heads = HEADS;
        p.seq = p.kv_seq = SEQ;
        p.head_dim = DIM;
        p.layout = WEFT_BHSD;
        if (shared) { /* both heads read the same keys, whose gradients add up */
            p.k_strides = (weft_strides){0, DIM, 0};
        }
        d.q = numbers(&random, count);
        d.k = numbers(&random, count);
        d.v = numbers(&random, count);
        d.grad_o = numbers(&random, count);
        d.grad_q = numbers(&random, count);
        d.grad_k = numbers(&random, count);
        d.grad_v = numbers(&random, count);
        assert_int_equal(weft_attention_backward(&p, &d, NULL), WEFT_OK);
        assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
        assert_true(found.passed && found.relative);
        assert_int_equal(found.checked, 3 * HEADS * SEQ);
        void *const outputs[] = {d.grad_q, d.grad_k, d.grad_v};
        for (int i = 0; i < 3; i++) {
            float *wrong = outputs[i];
            wrong[5] += 1;
            assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
            assert_false(found.passed);
            wrong[5] -= 1;
        }
        const void *const all[] = {d.q, d.k, d.v, d.grad_o, d.grad_q, d.grad_k, d.grad_v};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            free((void *)(uintptr_t)all[i]);
        }
    }
}

/* Rows of O and their LSE; an LSE that is left out is not asked for. */
static void attention_with_and_without_lse(void **state) {
    (void)state;
    enum { SEQ = 12, DIM = 8 };
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_attention_data d = WEFT_ATTENTION_DATA_INIT;
    weft_check found = WEFT_CHECK_INIT;
    uint64_t random = 4;
    float *q = numbers(&random, SEQ * DIM), *k = numbers(&random, SEQ * DIM), *v = numbers(&random, SEQ * DIM),
          o[SEQ * DIM], lse[SEQ];
    p.seq = p.kv_seq = SEQ;
    p.head_dim = DIM;
    d.q = q;
    d.k = k;
    d.v = v;
    d.o = o;
    d.lse = lse;
    assert_int_equal(weft_attention_forward(&p, &d, NULL), WEFT_OK);
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    assert_int_equal(found.checked, SEQ);
    assert_string_equal(found.unit, "rows");
    lse[3] += 0.1f;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    d.lse = NULL;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    d.o = NULL;
    weft_message message;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, &message), WEFT_INVALID);
    assert_string_equal(message.text, "o is null");
    d.o = o;
    found.struct_size = 2;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_INVALID);
    free(q);
    free(k);
    free(v);
}

/* Elements of C with what it was before. */
static void products(void **state) {
    (void)state;
    enum { M = 6, N = 5, K = 4 };
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data d = WEFT_GEMM_DATA_INIT, before = WEFT_GEMM_DATA_INIT;
    weft_check found = WEFT_CHECK_INIT;
    uint64_t random = 5;
    float *a = numbers(&random, M * K), *b = numbers(&random, K * N), *c = numbers(&random, M * N), old[M * N];
    memcpy(old, c, sizeof old);
    p.m = M;
    p.n = N;
    p.k = K;
    p.beta = 2;
    d.a = before.a = a;
    d.b = before.b = b;
    d.c = c;
    before.c = old;
    assert_int_equal(weft_gemm_multiply(&p, &d, NULL), WEFT_OK);
    assert_int_equal(weft_check_result(&p, &d, &before, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    assert_int_equal(found.checked, M * N);
    assert_string_equal(found.unit, "elements");
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK); /* as if C had been there before */
    assert_false(found.passed);
    assert_int_equal(found.total, M * N);
    free(a);
    free(b);
    free(c);
}

/* Sums of columns are checked, and a caller's function has no reference. */
static void epilogues(void **state) {
    (void)state;
    enum { M = 6, N = 8, K = 4 };
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data d = WEFT_GEMM_DATA_INIT;
    weft_check found = WEFT_CHECK_INIT;
    weft_message message = {""};
    uint64_t random = 6;
    float *a = numbers(&random, M * K), *b = numbers(&random, K * N), *bias = numbers(&random, N), c[M * N / 2],
          sums[N / 2];
    p.m = M;
    p.n = N;
    p.k = K;
    p.extras = WEFT_GEMM_BIAS | WEFT_GEMM_COLUMN_SUMS;
    p.activation = WEFT_SILU;
    p.gated = 1;
    d.a = a;
    d.b = b;
    d.c = c;
    d.bias = bias;
    d.column_sums = sums;
    assert_int_equal(weft_gemm_multiply(&p, &d, NULL), WEFT_OK);
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    assert_int_equal(found.checked, M * N / 2);
    sums[2] += 0.1f;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    p.extras |= WEFT_GEMM_FUNCTION;
    assert_int_equal(weft_check_result(&p, &d, NULL, &found, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "there is no reference to hold a caller's function to");
    free(a);
    free(b);
    free(bias);
}

/* How often a sample takes each of its items. Returns how many it takes. */
static int64_t draw(const weft_check_options *options, int64_t items, double cost, int8_t *times) {
    weft_sample s = weft_sample_begin(options, items, cost);
    int64_t item, count = 0;
    memset(times, 0, (size_t)items);
    while ((item = weft_sample_take(&s)) >= 0) {
        assert_true(item < items);
        times[item]++;
        count++;
    }
    return count;
}

static void samples(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static int8_t times[MOST], others[MOST];
    uint64_t random = random_seed(8);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        const int64_t items = random_between(&random, 1, MOST), affordable = random_between(&random, 1, MOST);
        weft_check_options o = WEFT_CHECK_OPTIONS_INIT;
        o.operations = (double)affordable * 7;
        o.seconds = random_between(&random, 0, 1) ? HUGE_VAL : 0;
        o.seed = (uint64_t)random_between(&random, 0, 5);
        const int64_t count = draw(&o, items, 7, times), stride = (items + affordable - 1) / affordable;
        assert_int_equal(count, (items + stride - 1) / stride);
        for (int64_t i = 0; i < items; i += stride) { /* one of each line */
            int taken = 0;
            for (int64_t k = i; k < i + stride && k < items; k++) {
                taken += times[k];
            }
            assert_int_equal(taken, 1);
        }
        draw(&o, items, 7, others);
        assert_memory_equal(times, others, (size_t)items);
        o.operations = HUGE_VAL;
        assert_int_equal(draw(&o, items, 1e12, times), items);
    }
    weft_check_options o = WEFT_CHECK_OPTIONS_INIT;
    assert_int_equal(draw(&o, 1000, 1e6, times), 1000); /* 4e9 operations by itself */
    assert_int_equal(draw(&o, 1000, 4e7, times), 100);
    o.seed = 2;
    assert_int_equal(draw(&o, 1000, 4e7, others), 100);
    assert_memory_not_equal(times, others, 1000);
}

/* When the time is over, the first item has been taken, or those of a small problem. The next lie far from each other. */
static void samples_end(void **state) {
    (void)state;
    weft_check_options o = WEFT_CHECK_OPTIONS_INIT;
    o.seconds = 1;
    weft_sample s = weft_sample_begin(&o, 1000, 1e6);
    s.began -= 10;
    assert_true(weft_sample_take(&s) >= 0);
    assert_int_equal(weft_sample_take(&s), -1);
    s = weft_sample_begin(&o, 1000, 1);
    s.began -= 10;
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(weft_sample_take(&s), i);
    }
    o.seconds = 1e9;
    s = weft_sample_begin(&o, 1000, 1e6);
    int tenths[10] = {0};
    for (int i = 0; i < 20; i++) {
        tenths[weft_sample_take(&s) / 100]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_true(tenths[i] >= 1);
    }
}

/* Rows of gradients, O and LSE being computed for the purpose, and those of sinks. Dropout and batches are in it. */
static void sampled_gradients(void **state) {
    (void)state;
    enum { BATCH = 2, SEQ = 40, DIM = 8, HEADS = 4, KV_HEADS = 2, ALL = BATCH * SEQ * (HEADS + 2 * KV_HEADS) + HEADS };
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_attention_gradients d = WEFT_ATTENTION_GRADIENTS_INIT;
    weft_check_options o = WEFT_CHECK_OPTIONS_INIT;
    weft_check found = WEFT_CHECK_INIT;
    uint64_t random = 7;
    const size_t count = BATCH * HEADS * SEQ * DIM, kv_count = BATCH * KV_HEADS * SEQ * DIM;
    float *list[8];
    for (size_t i = 0; i < 8; i++) {
        list[i] = numbers(&random, i == 7 ? HEADS : i == 1 || i == 2 || i == 5 || i == 6 ? kv_count : count);
    }
    float sinks[HEADS] = {0.5f, -1, 2, 0};
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = BATCH;
    p.heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.seq = p.kv_seq = SEQ;
    p.head_dim = DIM;
    p.mask = WEFT_MASK_CAUSAL;
    p.dropout = 0.25;
    p.extras = WEFT_SINKS;
    d.q = list[0];
    d.k = list[1];
    d.v = list[2];
    d.grad_o = list[3];
    d.grad_q = list[4];
    d.grad_k = list[5];
    d.grad_v = list[6];
    d.grad_sinks = list[7];
    d.sinks = sinks;
    d.dropout_seed = 9;
    assert_int_equal(weft_attention_backward(&p, &d, NULL), WEFT_OK);
    for (int whole = 0; whole < 2; whole++) {
        o.operations = whole ? HUGE_VAL : 2e5;
        assert_int_equal(weft_check_sample(&p, &d, NULL, &o, &found, NULL), WEFT_OK);
        assert_true(found.passed);
        assert_int_equal(found.total, ALL);
        assert_true(whole ? found.checked == ALL : found.checked > HEADS && found.checked < ALL / 4);
        for (int i = 4; i < 8; i++) { /* a sample sees what is wrong in a quarter of the rows */
            for (size_t k = 0; k < (i == 7 ? 1 : kv_count); k++) {
                list[i][k] += k / DIM % 4 ? 0 : 1;
            }
            assert_int_equal(weft_check_sample(&p, &d, NULL, &o, &found, NULL), WEFT_OK);
            assert_false(found.passed);
            for (size_t k = 0; k < (i == 7 ? 1 : kv_count); k++) {
                list[i][k] -= k / DIM % 4 ? 0 : 1;
            }
        }
    }
    for (size_t i = 0; i < 8; i++) {
        free(list[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_where_heads_share_keys),
                                       cmocka_unit_test(attention_with_and_without_lse),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(epilogues),
                                       cmocka_unit_test(samples),
                                       cmocka_unit_test(samples_end),
                                       cmocka_unit_test(sampled_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
