/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product element by element: a loop of the test's own, all majors, leading dimensions, dtypes, alpha, beta. */
#include "../plans.h"
#include "tensors.h"

typedef struct matrices {
    weft_gemm p; /* resolved */
    weft_gemm_extents size;
    weft_gemm_data data;
    void *a, *b;
} matrices;

static matrices matrices_new(uint64_t *seed, const weft_gemm *problem) {
    matrices x;
    weft_message message;
    if (resolve_gemm(&x.p, problem, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    x.size = gemm_sizes(&x.p);
    x.a = random_buffer(seed, x.p.dtype, x.size.a);
    x.b = random_buffer(seed, x.p.dtype, x.size.b);
    x.data = gemm_data(x.a, x.b, NULL);
    x.data.c =
        x.p.beta == 0 ? guarded_new(x.size.c * weft_dtype_bytes(x.p.c_dtype)) : random_buffer(seed, x.p.c_dtype, x.size.c);
    return x;
}

static void matrices_free(matrices *x) {
    guarded_free(x->a);
    guarded_free(x->b);
    guarded_free(x->data.c);
}

/* Index of an element, from the words of the layout. */
static size_t index_of(weft_major major, int64_t ld, int64_t row, int64_t col) {
    return (size_t)(major == WEFT_COL_MAJOR ? row + ld * col : ld * row + col);
}

static double definition(const matrices *x, int64_t row, int64_t col) {
    const weft_gemm *p = &x->p;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += p->alpha * weft_ref_load(p->dtype, x->a, index_of(p->a_major, p->lda, row, k)) *
               weft_ref_load(p->dtype, x->b, index_of(p->b_major, p->ldb, k, col));
    }
    if (p->beta != 0) {
        sum += p->beta * weft_ref_load(p->c_dtype, x->data.c, index_of(p->c_major, p->ldc, row, col));
    }
    return sum;
}

static void check_problem(uint64_t *seed, const weft_gemm *problem) {
    matrices x = matrices_new(seed, problem);
    const weft_gemm *p = &x.p;
    const size_t bytes = weft_dtype_bytes(p->c_dtype);
    const double naive_tolerance = p->c_dtype == WEFT_FP32 ? 1e-5 : p->c_dtype == WEFT_FP16 ? 1e-2 : 6e-2;
    double *want = malloc((size_t)(p->m * p->n) * sizeof *want);
    char *owned = calloc(x.size.c, bytes);
    assert_true(want && owned);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const int64_t row = i / p->n, col = i % p->n;
        const double naive = weft_ref_gemm_element_naive(p, &x.data, row, col);
        assert_near(weft_ref_gemm_element(p, &x.data, row, col), definition(&x, row, col), 1e-13);
        assert_near(naive, definition(&x, row, col), naive_tolerance);
        assert_true(naive == weft_ref_round(p->c_dtype, naive));
        want[i] = weft_ref_round(p->c_dtype, weft_ref_gemm_element(p, &x.data, row, col));
        memset(owned + index_of(p->c_major, p->ldc, row, col) * bytes, 1, bytes);
    }
    if (p->beta != 0 && x.size.c != (size_t)(p->m * p->n)) { /* poison the gaps, which were filled at random */
        for (size_t i = 0; i < x.size.c * bytes; i++) {
            ((char *)x.data.c)[i] = (char)(owned[i] ? ((char *)x.data.c)[i] : (char)POISON);
        }
    }
    assert_int_equal(weft_ref_gemm(p, &x.data, NULL), WEFT_OK);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const size_t c = index_of(p->c_major, p->ldc, i / p->n, i % p->n);
        assert_true(weft_ref_load(p->c_dtype, x.data.c, c) == want[i]);
    }
    guarded_check(x.data.c, x.size.c * bytes, owned);
    free(want);
    free(owned);
    matrices_free(&x);
}

static void random_products_match_the_definition(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int n = 0; random_round(&seed, &n, 144); n++) {
        weft_gemm p = WEFT_GEMM_INIT;
        p.m = random_between(&seed, 1, 9);
        p.n = random_between(&seed, 1, 9);
        p.k = random_between(&seed, 1, 20);
        p.a_major = (weft_major)(n & 1);
        p.b_major = (weft_major)(n >> 1 & 1);
        p.c_major = (weft_major)(n >> 2 & 1);
        p.dtype = (weft_dtype)(n / 8 % 3);
        p.c_dtype = (weft_dtype)(n / 24 % 3);
        p.alpha = n % 3 == 0 ? 1 : random_even(&seed);
        p.beta = n / 72 == 0 ? 0 : random_even(&seed);
        if (n % 2 == 0) {
            const int64_t pad = random_between(&seed, 0, 3);
            p.lda = (p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + pad;
            p.ldb = (p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + pad + 1;
            p.ldc = (p.c_major == WEFT_ROW_MAJOR ? p.n : p.m) + pad + 2;
        }
        check_problem(&seed, &p);
    }
}

static void identity_copies(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.k = 5;
    p.n = 7;
    matrices x = matrices_new(&seed, &p);
    for (size_t i = 0; i < 25; i++) {
        weft_ref_store(WEFT_FP32, x.a, i, i % 6 == 0);
    }
    assert_int_equal(weft_ref_gemm(&x.p, &x.data, NULL), WEFT_OK);
    assert_memory_equal(x.data.c, x.b, 35 * sizeof(float));
    matrices_free(&x);
}

/* C is all NaN: with beta 0 nothing of it may show, with another beta all of it must. */
static void beta_zero_does_not_read_c(void **state) {
    (void)state;
    uint64_t seed = random_seed(3);
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 3;
    matrices x = matrices_new(&seed, &p);
    assert_true(!isnan(weft_ref_gemm_element(&x.p, &x.data, 1, 1)));
    assert_true(!isnan(weft_ref_gemm_element_naive(&x.p, &x.data, 1, 1)));
    x.p.beta = 0.5;
    assert_true(isnan(weft_ref_gemm_element(&x.p, &x.data, 1, 1)));
    assert_true(isnan(weft_ref_gemm_element_naive(&x.p, &x.data, 1, 1)));
    matrices_free(&x);
}

/* An epilogue whose every number is worked out by hand: A B is (1, 2; 3, 4), of which the second column is the value. */
static void epilogues_by_hand(void **state) {
    (void)state;
    const float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, bias[2] = {-4, 1}, scale = 2, rows[2] = {1, 0.5f},
                columns[2] = {-1, 3};
    const float residual[2] = {100, 200};
    float c[2] = {10, 20}, sums[1] = {0};
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = gemm_data(a, b, c);
    p.m = p.n = p.k = 2;
    p.alpha = -1;
    p.beta = 0.5;
    p.gated = 1;
    p.activation = WEFT_RELU;
    p.extras = 2 * WEFT_GEMM_COLUMN_SUMS - 1;
    data.bias = bias;
    data.residual = residual;
    data.scale = &scale;
    data.row_scale = rows;
    data.column_scale = columns;
    data.column_sums = sums;
    assert_int_equal(resolve_gemm(&p, &p, NULL), WEFT_OK);
    assert_int_equal(weft_ref_gemm(&p, &data, NULL), WEFT_OK);
    /* z: (2 * 1 - 4, -12 + 1) and (3 - 4, -12 + 1), whose gates are closed */
    assert_true(c[0] == 105 && c[1] == 210 && sums[0] == 315);
    const float open[2] = {4, 1};
    data.bias = open;
    c[0] = 10;
    c[1] = 20;
    assert_int_equal(weft_ref_gemm(&p, &data, NULL), WEFT_OK);
    assert_true(c[0] == 6 * -11 + 105 && c[1] == 7 * -11 + 210 && sums[0] == 315 - 13 * 11);
}

/* Values of the activations at 1 and -2, from tables of the normal distribution and of exp. */
static void activations_by_hand(void **state) {
    (void)state;
    static const struct {
        int32_t activation;
        double at_one, at_minus_two;
    } rows[] = {{WEFT_IDENTITY, 1, -2},
                {WEFT_RELU, 1, 0},
                {WEFT_GELU, 0.8413447460685429, -0.04550026389635842},
                {WEFT_GELU_TANH, 0.8411919906082768, -0.04540230591222494},
                {WEFT_SILU, 0.7310585786300049, -0.2384058440442351}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const float a[2] = {1, -2}, one = 1;
        weft_gemm p = WEFT_GEMM_INIT;
        const weft_gemm_data data = gemm_data(a, &one, NULL);
        p.m = 2;
        p.n = p.k = 1;
        p.activation = rows[i].activation;
        assert_int_equal(resolve_gemm(&p, &p, NULL), WEFT_OK);
        assert_near(weft_ref_gemm_element(&p, &data, 0, 0), rows[i].at_one, 1e-14);
        assert_near(weft_ref_gemm_element(&p, &data, 1, 0), rows[i].at_minus_two, 1e-14);
        assert_near(weft_ref_gemm_element_naive(&p, &data, 0, 0), rows[i].at_one, 1e-6);
        assert_near(weft_ref_gemm_element_naive(&p, &data, 1, 0), rows[i].at_minus_two, 1e-6);
    }
}

/* A plain product loses what its precision says: 2^-9 and 2^-18 of elements that are a little above 1. */
static void precisions(void **state) {
    (void)state;
    static const double expected[] = {1 + 0x1p-8 + 0x1p-18, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-18};
    static const double of_tf32 = 1 + 0x1p-12;
    float a = 1 + 0x1p-9f, c = 0;
    weft_gemm p = WEFT_GEMM_INIT;
    const weft_gemm_data data = gemm_data(&a, &a, &c);
    p.m = p.n = p.k = 1;
    weft_gemm r;
    for (int32_t i = 0; i < 3; i++) {
        p.precision = i;
        assert_int_equal(resolve_gemm(&r, &p, NULL), WEFT_OK);
        assert_true(weft_ref_gemm_element(&r, &data, 0, 0) == expected[0]);
        assert_true(weft_ref_gemm_element_naive(&r, &data, 0, 0) == expected[i]);
    }
    a = (float)of_tf32; /* the last bit is below those of TF32 */
    assert_true(weft_ref_gemm_element_naive(&r, &data, 0, 0) == 1);
    p.dtype = WEFT_BF16; /* is multiplied exactly */
    assert_int_equal(resolve_gemm(&r, &p, NULL), WEFT_OK);
    assert_int_equal(r.precision, WEFT_PRECISION_FP32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products_match_the_definition),
        cmocka_unit_test(identity_copies),
        cmocka_unit_test(beta_zero_does_not_read_c),
        cmocka_unit_test(epilogues_by_hand),
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
