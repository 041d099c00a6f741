/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at the edge of products, grouped products and combinations, on the CPU: docs/numbers.md. */
#include "numbers.h"

enum { M = 13, N = 29, K = 40, SPOILT = 5 };

typedef struct product {
    weft_gemm p;
    void *a, *b, *c, *clean; /* clean: C of A and B as they were at first */
} product;

static void multiply(const product *x, void *c) {
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    weft_message message = {""};
    data.a = x->a;
    data.b = x->b;
    data.c = c;
    succeeds(weft_gemm_multiply(&x->p, &data, &message), &message);
}

static product product_new(weft_dtype dtype, double beta) {
    uint64_t random = 3;
    product x = {.p = WEFT_GEMM_INIT};
    x.p.m = M;
    x.p.n = N;
    x.p.k = K;
    x.p.dtype = x.p.c_dtype = dtype;
    x.p.beta = beta;
    x.a = random_buffer(&random, dtype, M * K);
    x.b = random_buffer(&random, dtype, K * N);
    x.c = random_buffer(&random, dtype, M * N);
    x.clean = copy_of(x.c, M * N * weft_dtype_bytes(dtype));
    multiply(&x, x.clean);
    return x;
}

static void product_free(const product *x) {
    void *const all[] = {x->a, x->b, x->c, x->clean};
    for (int i = 0; i < 4; i++) {
        guarded_free(all[i]);
    }
}

/* Elements of a row (1) or a column (0) are `value`, NaN too; all others are the clean ones, bit for bit. */
static void check_line(const product *x, int by_row, double value) {
    for (int64_t i = 0; i < M * N; i++) {
        const double got = at(x->p.c_dtype, x->c, i), clean = at(x->p.c_dtype, x->clean, i);
        const double want = (by_row ? i / N : i % N) == SPOILT ? value : clean;
        assert_true(isnan(want) ? isnan(got) : got == want);
    }
}

static void check_clean(const product *x) {
    assert_memory_equal(x->c, x->clean, M * N * weft_dtype_bytes(x->p.c_dtype));
}

static void gemm_nan(void **state) {
    (void)state;
    for (int n = 0; n < 2 * NUMBER_DTYPES; n++) {
        product x = product_new(number_dtypes[n / 2], 0);
        put(x.p.dtype, n % 2 ? x.a : x.b, n % 2 ? SPOILT * K + 7 : 7 * N + SPOILT, NAN);
        multiply(&x, x.c);
        check_line(&x, n % 2, NAN);
        product_free(&x);
    }
}

static void gemm_infinity(void **state) {
    (void)state;
    for (int n = 0; n < 2 * NUMBER_DTYPES; n++) {
        product x = product_new(number_dtypes[n / 2], 0);
        for (int64_t j = 0; j < N; j++) {
            put(x.p.dtype, x.b, 7 * N + j, 0.5);
        }
        multiply(&x, x.clean);
        put(x.p.dtype, x.a, SPOILT * K + 7, n % 2 ? INFINITY : -INFINITY);
        multiply(&x, x.c);
        check_line(&x, 1, n % 2 ? INFINITY : -INFINITY);
        for (int64_t j = 0; j < N; j++) { /* infinity times 0 */
            put(x.p.dtype, x.b, 7 * N + j, 0);
        }
        multiply(&x, x.clean);
        multiply(&x, x.c);
        for (int64_t j = 0; j < N; j++) {
            assert_true(isnan(at(x.p.dtype, x.c, SPOILT * N + j)));
        }
        product_free(&x);
    }
}

/* With beta 0 the old C is not read, whatever alpha is; with another it counts. */
static void gemm_beta(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        product x = product_new(number_dtypes[n], 0);
        memset(x.c, POISON, M * N * weft_dtype_bytes(x.p.dtype)); /* NaN */
        multiply(&x, x.c);
        check_clean(&x);
        product_free(&x);
        x = product_new(number_dtypes[n], 0.5);
        for (int64_t j = 0; j < N; j++) {
            put(x.p.dtype, x.c, SPOILT * N + j, NAN);
        }
        multiply(&x, x.c);
        check_line(&x, 1, NAN);
        product_free(&x);
    }
}

/* A and B are read with alpha 0, too: 0 times NaN is NaN. */
static void gemm_alpha_zero(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        product x = product_new(number_dtypes[n], 0);
        x.p.alpha = 0;
        multiply(&x, x.clean);
        for (int64_t i = 0; i < M * N; i++) {
            assert_true(at(x.p.dtype, x.clean, i) == 0);
        }
        put(x.p.dtype, x.a, SPOILT * K, NAN);
        multiply(&x, x.c);
        check_line(&x, 1, NAN);
        product_free(&x);
    }
}

/* C = A B of one element each. */
static double times(weft_dtype dtype, double a, double b) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    weft_message message = {""};
    float numbers[3] = {0};
    p.m = p.n = p.k = 1;
    p.dtype = p.c_dtype = dtype;
    put(dtype, &numbers[0], 0, a);
    put(dtype, &numbers[1], 0, b);
    data.a = &numbers[0];
    data.b = &numbers[1];
    data.c = &numbers[2];
    succeeds(weft_gemm_multiply(&p, &data, &message), &message);
    return at(dtype, &numbers[2], 0);
}

static void gemm_one_element(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        const weft_dtype dtype = number_dtypes[n];
        const double tiny = smallest_of(dtype), most = largest_of(dtype);
        assert_true(times(dtype, 3, -0.5) == -1.5);
        assert_true(times(dtype, 1, most) == most && times(dtype, -1, most) == -most);
        assert_true(times(dtype, 0, most) == 0 && times(dtype, -0.0, 1) == 0); /* of either sign */
        assert_true(times(dtype, tiny, 0.25) == 0);
        assert_true(is_denormal(dtype, times(dtype, tiny, 1), tiny));
        assert_true(is_denormal(dtype, times(dtype, tiny, 0.75), tiny));
        assert_true(is_denormal(dtype, times(dtype, -5 * tiny, 8), -40 * tiny));
    }
}

/* Beyond the largest number comes infinity, from half a unit on, to nearest and ties to even. */
static void gemm_overflow(void **state) {
    (void)state;
    assert_true(times(WEFT_FP16, 256, 255.75) == 65472 && times(WEFT_FP16, 32760, 2) == INFINITY);
    assert_true(times(WEFT_FP16, -32752, 2) == -65504);
    assert_true(times(WEFT_BF16, 0x1.fep127, 1.0078125) == INFINITY);
    assert_true(times(WEFT_FP32, (double)FLT_MAX, 2) == INFINITY && times(WEFT_FP32, -(double)FLT_MAX, 2) == -INFINITY);
}

/* Sums are in fp32, so that those of fp16 may pass beyond what fp16 holds. */
static void gemm_sums(void **state) {
    (void)state;
    product x = product_new(WEFT_FP16, 0);
    for (int64_t i = 0; i < K; i++) {
        for (int64_t j = 0; j < M; j++) {
            put(WEFT_FP16, x.a, j * K + i, i % 2 ? -60000 : 60000);
        }
        for (int64_t j = 0; j < N; j++) {
            put(WEFT_FP16, x.b, i * N + j, i < 2 ? 1 : 256);
        }
    }
    multiply(&x, x.c);
    for (int64_t i = 0; i < M * N; i++) {
        assert_true(at(WEFT_FP16, x.c, i) == 0);
    }
    product_free(&x);
}

/* Lines apart, NaN between those of A and B; what lies between those of C stays. */
static void gemm_gaps(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        enum { GAP = 3 };
        product x = product_new(number_dtypes[n], 0), far = {.p = x.p};
        const size_t bytes = weft_dtype_bytes(x.p.dtype);
        far.p.lda = K + GAP;
        far.p.ldb = far.p.ldc = N + GAP;
        far.a = guarded_new(M * (K + GAP) * bytes);
        far.b = guarded_new(K * (N + GAP) * bytes);
        char *c = guarded_new(M * (N + GAP) * bytes), *owned = calloc(M * (N + GAP), bytes);
        assert_non_null(owned);
        for (size_t i = 0; i < M; i++) {
            memcpy((char *)far.a + i * (K + GAP) * bytes, (char *)x.a + i * K * bytes, K * bytes);
            memset(owned + i * (N + GAP) * bytes, 1, N * bytes);
        }
        for (size_t i = 0; i < K; i++) {
            memcpy((char *)far.b + i * (N + GAP) * bytes, (char *)x.b + i * N * bytes, N * bytes);
        }
        multiply(&far, c);
        guarded_check(c, M * (N + GAP) * bytes, owned);
        for (size_t i = 0; i < M; i++) {
            assert_memory_equal(c + i * (N + GAP) * bytes, (char *)x.clean + i * N * bytes, N * bytes);
        }
        free(owned);
        void *const all[] = {far.a, far.b, c};
        for (int i = 0; i < 3; i++) {
            guarded_free(all[i]);
        }
        product_free(&x);
    }
}

static void gemm_misaligned(void **state) {
    (void)state;
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        product x = product_new(number_dtypes[n], 0), moved = x;
        const size_t bytes = weft_dtype_bytes(x.p.dtype);
        weft_gemm_data data = WEFT_GEMM_DATA_INIT;
        weft_message message = {""};
        char text[128];
        data.a = x.a;
        data.b = (char *)x.b + bytes - 1;
        data.c = x.c;
        snprintf(text, sizeof text, "b is not aligned to its elements of %zu bytes", bytes);
        refused(weft_gemm_multiply(&x.p, &data, &message), &message, text);
        char *a = guarded_new(M * K * bytes + bytes);
        moved.a = a + bytes; /* aligned to an element and to nothing more */
        memcpy(moved.a, x.a, M * K * bytes);
        multiply(&moved, x.c);
        check_clean(&x);
        guarded_free(a);
        product_free(&x);
    }
}

static void gemm_refused(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    weft_message message = {""};
    p.m = p.n = p.k = 8;
    p.k = 0;
    refused(weft_problem_check(&p, &message), &message, "k 0 is not between 1 and 2147483647");
    p.k = INT64_C(1) << 31;
    refused(weft_problem_check(&p, &message), &message, "k 2147483648 is not between 1 and 2147483647");
    p.k = 8;
    p.alpha = -1e39;
    refused(weft_problem_check(&p, &message), &message, "alpha -1e+39 and beta 0 must be finite in fp32");
    p.alpha = 1;
    p.lda = INT64_MAX / 2;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
}

/* What activations make of infinities and of NaN. */
static void gemm_activations(void **state) {
    (void)state;
    static const int32_t all[] = {WEFT_RELU, WEFT_GELU, WEFT_GELU_TANH, WEFT_SILU};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        product x = product_new(WEFT_FP32, 0);
        x.p.activation = all[n];
        put(WEFT_FP32, x.a, SPOILT * K, NAN);
        multiply(&x, x.c);
        for (int64_t j = 0; j < N; j++) {
            assert_true(isnan(at(WEFT_FP32, x.c, SPOILT * N + j)));
        }
        for (int64_t i = 0; i < M * K; i++) { /* rows of large numbers of either sign */
            put(WEFT_FP32, x.a, i, i / K % 2 ? 1e30 : -1e30);
        }
        for (int64_t i = 0; i < K * N; i++) {
            put(WEFT_FP32, x.b, i, 1);
        }
        multiply(&x, x.c);
        for (int64_t i = 0; i < M * N; i++) {
            const double got = at(WEFT_FP32, x.c, i);
            assert_true(i / N % 2 ? fabs(got / (K * 1e30) - 1) < 1e-6 : got == 0);
        }
        product_free(&x);
    }
}

/* ---- grouped products ---- */

enum { GROUPS = 4 };

/* Groups of 0, 5, 0 and 6 rows of 13: two rows in front are no group's. */
static void grouped_nan(void **state) {
    (void)state;
    static const int32_t starts[GROUPS + 1] = {2, 2, 7, 7, M};
    for (int n = 0; n < NUMBER_DTYPES; n++) {
        const weft_dtype dtype = number_dtypes[n];
        const size_t bytes = weft_dtype_bytes(dtype);
        uint64_t random = 3;
        weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
        weft_grouped_gemm_data data = WEFT_GROUPED_GEMM_DATA_INIT;
        weft_message message = {""};
        p.groups = GROUPS;
        p.rows = M;
        p.n = N;
        p.k = K;
        p.dtype = p.c_dtype = dtype;
        p.starts = starts;
        void *a = random_buffer(&random, dtype, M * K), *b = random_buffer(&random, dtype, GROUPS * K * N);
        char *clean = guarded_new(M * N * bytes), *c = guarded_new(M * N * bytes);
        data.a = a;
        data.b = b;
        data.c = clean;
        succeeds(weft_grouped_gemm_multiply(&p, &data, &message), &message);
        put(dtype, a, 0, NAN);                  /* of no group */
        put(dtype, a, SPOILT * K + 1, NAN);     /* of group 1 */
        put(dtype, b, 2 * K * N, NAN);          /* of a group without rows */
        put(dtype, b, 3 * K * N + SPOILT, NAN); /* of group 3 */
        data.c = c;
        succeeds(weft_grouped_gemm_multiply(&p, &data, &message), &message);
        for (int64_t i = 0; i < M * N; i++) {
            const int64_t row = i / N;
            const int is_spoilt = row == SPOILT || (row >= starts[3] && i % N == SPOILT);
            if (row < starts[0]) {
                assert_int_equal(c[(size_t)i * bytes], (char)POISON);
            } else {
                assert_true(is_spoilt ? isnan(at(dtype, c, i)) : at(dtype, c, i) == at(dtype, clean, i));
            }
        }
        void *const all[] = {a, b, clean, c};
        for (int i = 0; i < 4; i++) {
            guarded_free(all[i]);
        }
    }
}

/* ---- combinations ---- */

enum { DIM = 8 };

typedef struct combination {
    float parts[2][DIM], lses[2], o[DIM], lse;
} combination;

static void combine(combination *x) {
    weft_combine p = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    weft_message message = {""};
    p.seq = 1;
    p.head_dim = DIM;
    for (int i = 0; i < 2; i++) {
        data.parts[i] = x->parts[i];
        data.lses[i] = &x->lses[i];
    }
    data.o = x->o;
    data.lse = &x->lse;
    succeeds(weft_combine_parts(&p, &data, &message), &message);
}

/* Parts of 1 and of 2 in every element. */
static combination combination_new(float first, float second) {
    combination x = {.lses = {first, second}};
    for (int d = 0; d < DIM; d++) {
        x.parts[0][d] = 1;
        x.parts[1][d] = 2;
    }
    return x;
}

static void combine_lse(void **state) {
    (void)state;
    static const struct {
        float first, second, o, lse;
    } rows[] = {
        {3, -INFINITY, 1, 3}, {-INFINITY, -INFINITY, 0, -INFINITY}, {1e30f, -1e30f, 1, 1e30f}, {-1e30f, -2e30f, 1, -1e30f},
        {NAN, 0, NAN, NAN},   {NAN, -INFINITY, NAN, NAN},           {INFINITY, 0, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int swapped = 0; swapped < 2; swapped++) {
            combination x = combination_new(rows[i].first, rows[i].second);
            if (swapped) {
                const combination y = x;
                for (int n = 0; n < 2; n++) {
                    x.lses[n] = y.lses[1 - n];
                    memcpy(x.parts[n], y.parts[1 - n], sizeof x.parts[n]);
                }
            }
            combine(&x);
            assert_true(isnan(rows[i].lse) ? isnan(x.lse) : x.lse == rows[i].lse);
            for (int d = 0; d < DIM; d++) {
                assert_true(isnan(rows[i].o) ? isnan(x.o[d]) : x.o[d] == rows[i].o);
            }
        }
    }
}

static void combine_part_nonfinite(void **state) {
    (void)state;
    combination x = combination_new(0, -INFINITY);
    memset(x.parts[1], POISON, sizeof x.parts[1]); /* NaN in a part that saw no key: is not read */
    combine(&x);
    for (int d = 0; d < DIM; d++) {
        assert_true(x.o[d] == 1);
    }
    x = combination_new(0, 0);
    x.parts[1][3] = NAN;
    x.parts[1][4] = INFINITY;
    combine(&x);
    for (int d = 0; d < DIM; d++) {
        assert_true(d == 3 ? isnan(x.o[d]) : d == 4 ? x.o[d] == INFINITY : x.o[d] == 1.5f);
    }
    assert_true(x.lse == logf(2));
}

int main(int argc, char **argv) {
    const struct CMUnitTest rows[] = {cmocka_unit_test(gemm_nan),         cmocka_unit_test(gemm_infinity),
                                      cmocka_unit_test(gemm_beta),        cmocka_unit_test(gemm_alpha_zero),
                                      cmocka_unit_test(gemm_one_element), cmocka_unit_test(gemm_overflow),
                                      cmocka_unit_test(gemm_sums),        cmocka_unit_test(gemm_gaps),
                                      cmocka_unit_test(gemm_misaligned),  cmocka_unit_test(gemm_refused),
                                      cmocka_unit_test(gemm_activations), cmocka_unit_test(grouped_nan),
                                      cmocka_unit_test(combine_lse),      cmocka_unit_test(combine_part_nonfinite)};
    return run_numbers(argc, argv, rows, sizeof rows / sizeof *rows);
}
