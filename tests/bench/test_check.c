/* Results held to the reference: a sample of a large problem, shared elements, and what is refused. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/check.h>

#include "../random.h"
#include "bench/bench.h"

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

/* Elements of C with what it was before; and a large product is checked on a sample: not all of it, and not nothing. */
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
    assert_int_equal(weft_bench_check_stride(1000, 1e6), 1);
    assert_int_equal(weft_bench_check_stride(1000, 4e7), 10);
    assert_int_equal(weft_bench_check_stride(1000, 1e12), 1000);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_where_heads_share_keys),
                                       cmocka_unit_test(attention_with_and_without_lse), cmocka_unit_test(products),
                                       cmocka_unit_test(epilogues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
