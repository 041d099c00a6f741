/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues of products on the CPU: every one alone and many together, against the reference and over poison; and what is
 * refused. */
#include "../../epilogues.h"
#include "../../plans.h"
#include "../../ref/tensors.h"
#include "cpu/kernel/kernel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* A product with all of its buffers. */
typedef struct product {
    weft_gemm p; /* resolved */
    weft_gemm_data data;
    void *a, *b, *before; /* before: C as it was */
    void *extra[EPILOGUE_BUFFERS];
    size_t c_bytes;
} product;

static product product_new(uint64_t *random, const weft_gemm *problem) {
    product x = {.data = WEFT_GEMM_DATA_INIT};
    weft_message message;
    if (resolve_gemm(&x.p, problem, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    const weft_gemm_extents size = weft_gemm_sizes(&x.p);
    x.data.a = x.a = random_buffer(random, x.p.dtype, size.a);
    x.data.b = x.b = random_buffer(random, x.p.dtype, size.b);
    x.c_bytes = size.c * weft_dtype_bytes(x.p.c_dtype);
    x.data.c = x.p.beta != 0 ? random_buffer(random, x.p.c_dtype, size.c) : guarded_new(x.c_bytes);
    x.before = malloc(x.c_bytes);
    assert_non_null(x.before);
    memcpy(x.before, x.data.c, x.c_bytes);
    for (size_t i = 0; i < EPILOGUE_BUFFERS; i++) {
        weft_buffer buffer = WEFT_BUFFER_INIT;
        if (weft_problem_buffer(&x.p, EPILOGUE_FIRST_BUFFER + i, &buffer, NULL) == WEFT_OK) {
            x.extra[i] = buffer.is_written ? guarded_new(buffer.elements * weft_dtype_bytes(buffer.dtype))
                                           : random_buffer(random, buffer.dtype, buffer.elements);
            set_epilogue_pointer(&x.data, buffer.offset, x.extra[i]);
        }
    }
    return x;
}

static void product_free(product *x) {
    guarded_free(x->a);
    guarded_free(x->b);
    guarded_free(x->data.c);
    for (size_t i = 0; i < EPILOGUE_BUFFERS; i++) {
        if (x->extra[i]) {
            guarded_free(x->extra[i]);
        }
    }
    free(x->before);
}

static double rounding_of(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-19 : dtype == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
}

/* C and the sums against the reference, and nothing written beside C. `changed`: what the caller's function made of an
 * element. */
static void product_check(const product *x, double (*changed)(double value, int64_t batch, int64_t row, int64_t col)) {
    const weft_gemm *p = &x->p;
    const int64_t columns = weft_gemm_columns(p);
    const size_t bytes = weft_dtype_bytes(p->c_dtype);
    char *owned = calloc(x->c_bytes, 1);
    double error = 0, naive_error = 0, largest = 1;
    assert_non_null(owned);
    for (int64_t i = 0; i < p->batch * columns; i++) {
        const int64_t batch = i / columns, col = i % columns;
        weft_gemm_data old = weft_gemm_product(p, &x->data, batch);
        old.c = (char *)x->before + (size_t)(batch * p->c_stride) * bytes;
        double sum = 0, size = 1;
        for (int64_t row = 0; row < p->m; row++) {
            const double plain = weft_ref_gemm_element(p, &old, row, col);
            const double exact = changed ? changed(plain, batch, row, col) : plain;
            const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
            const double difference = fabs(weft_ref_load(p->c_dtype, x->data.c, at) - exact);
            assert_true(isfinite(difference));
            error = fmax(error, difference);
            naive_error = fmax(naive_error, fabs(weft_ref_gemm_element_naive(p, &old, row, col) - plain));
            largest = fmax(largest, fabs(exact));
            sum += exact;
            size += fabs(exact);
            memset(owned + at * bytes, 1, bytes);
        }
        if (p->extras & WEFT_GEMM_COLUMN_SUMS) {
            assert_near((double)x->data.column_sums[i], sum, 0x1p-18 * size);
        }
    }
    assert_near(error, 0, (changed ? 4 : 2) * naive_error + rounding_of(p->c_dtype) * largest);
    if (p->beta == 0) {
        guarded_check(x->data.c, x->c_bytes, owned);
    }
    if (p->extras & WEFT_GEMM_COLUMN_SUMS) {
        guarded_check(x->data.column_sums, (size_t)(p->batch * columns) * sizeof(float), NULL);
    }
    free(owned);
}

static void run(const product *x, const weft_schedule *s) {
    weft_plan *plan;
    weft_message message = {""};
    if (plan_for(&plan, &x->p, s, NULL, &message) != WEFT_OK || weft_plan_run(plan, &x->data, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
}

static weft_gemm random_product(uint64_t *random, int round) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = random_between(random, 1, 70);
    p.n = random_between(random, 1, 70);
    p.k = random_between(random, 1, 50);
    p.dtype = (weft_dtype)(round % 3);
    p.c_dtype = (weft_dtype)(round / 3 % 3);
    p.a_major = (weft_major)(round % 2);
    p.b_major = (weft_major)(round / 2 % 2);
    p.c_major = (weft_major)(round / 5 % 2);
    p.alpha = round % 5 ? 1 : -0.5;
    p.beta = round % 4 ? 0 : 0.75;
    p.batch = round % 6 == 5 ? 3 : 1;
    draw_epilogue(random, &p, round % (2 * EPILOGUES_ALONE), 1, 1);
    const int by_rows = p.c_major == WEFT_ROW_MAJOR;
    const int64_t columns = weft_gemm_columns(&p);
    p.ldc = (by_rows ? columns : p.m) + round % 4;
    p.c_stride = p.ldc * (by_rows ? p.m : columns) + round % 3;
    if ((p.extras & WEFT_GEMM_RESIDUAL) && round % 2) {
        p.ld_residual = p.ldc + 1 + round % 3;
        p.residual_stride = p.ld_residual * (by_rows ? p.m : columns);
    }
    return p;
}

static weft_schedule random_tiles(uint64_t *random, const weft_gemm *p, int round) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    if (round % 5 == 0) {
        return s;
    }
    s.tile_m = random_between(random, 1, p->m);
    s.tile_n = random_between(random, 1, p->n);
    s.tile_k = random_between(random, 1, p->k);
    s.order = round % 4 == 1 ? WEFT_ORDER_CUSTOM : (int32_t)random_between(random, 0, WEFT_ORDER_HILBERT);
    s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
    s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
    s.workers = random_between(random, 1, 4);
    return s;
}

static void random_epilogues(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        uint64_t random = random_seed(90);
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        for (int round = 0; usable && random_round(&random, &round, 160); round++) {
            const weft_gemm p = random_product(&random, round);
            const weft_schedule s = random_tiles(&random, &p, round);
            product x = product_new(&random, &p);
            run(&x, &s);
            product_check(&x, NULL);
            product_free(&x);
        }
    }
    unsetenv("WEFT_CPU");
}

/* Whatever the number of threads, which may share tiles: C and the sums have the same bits. */
static void threads_change_nothing(void **state) {
    (void)state;
#ifdef _OPENMP
    uint64_t random = random_seed(91);
    for (int round = 0; random_round(&random, &round, 32); round++) {
        weft_gemm p = random_product(&random, round);
        p.beta = 0;
        p.extras |= WEFT_GEMM_COLUMN_SUMS;
        product x = product_new(&random, &p);
        weft_schedule s = random_tiles(&random, &p, 1 + round % 4);
        s.dispatch = round % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_GRID;
        s.workers = 12;
        const size_t sums = (size_t)(p.batch * weft_gemm_columns(&p)) * sizeof(float);
        char *first = malloc(x.c_bytes + sums);
        assert_non_null(first);
        for (int threads = 1; threads <= 16; threads *= 4) {
            omp_set_num_threads(threads);
            run(&x, &s);
            if (threads == 1) {
                memcpy(first, x.data.c, x.c_bytes);
                memcpy(first + x.c_bytes, x.data.column_sums, sums);
            }
            assert_memory_equal(first, x.data.c, x.c_bytes);
            assert_memory_equal(first + x.c_bytes, x.data.column_sums, sums);
        }
        free(first);
        product_free(&x);
    }
#else
    skip();
#endif
}

/* The caller's function: twice the value, and where it is. */
static double changed(double value, int64_t batch, int64_t row, int64_t col) {
    return 2 * value + (double)(batch * 4 + row % 3) - (double)(col % 5);
}

static void change_part(void *user, const weft_gemm_part *part) {
    __atomic_fetch_add((int64_t *)user, part->rows * part->cols, __ATOMIC_RELAXED);
    for (int64_t i = 0; i < part->rows; i++) {
        for (int64_t j = 0; j < part->cols; j++) {
            float *value = &part->values[i * part->ld + j];
            *value = (float)changed((double)*value, part->batch, part->row + i, part->col + j);
        }
    }
}

static void functions(void **state) {
    (void)state;
    uint64_t random = random_seed(92);
    for (int round = 0; random_round(&random, &round, 60); round++) {
        weft_gemm p = random_product(&random, round);
        const weft_schedule s = random_tiles(&random, &p, round);
        int64_t elements = 0;
        p.extras |= WEFT_GEMM_FUNCTION;
        product x = product_new(&random, &p);
        x.data.function = change_part;
        x.data.user = &elements;
        run(&x, &s);
        assert_int_equal(elements, p.batch * p.m * weft_gemm_columns(&p));
        product_check(&x, changed);
        product_free(&x);
    }
}

/* A struct from before there were epilogues is a plain product. */
static void older_structs(void **state) {
    (void)state;
    const float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1};
    float c[4] = {0, 0, 0, 0};
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    p.m = p.n = p.k = 2;
    p.activation = 77; /* beyond what the struct says that it has */
    p.struct_size = offsetof(weft_gemm, extras);
    data.a = a;
    data.b = b;
    data.c = c;
    data.struct_size = offsetof(weft_gemm_data, bias);
    assert_int_equal(weft_gemm_multiply(&p, &data, NULL), WEFT_OK);
    assert_memory_equal(a, c, sizeof c);
}

static void refuse(weft_gemm p, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", message.text, text);
    }
}

static void bad_input(void **state) {
    (void)state;
    weft_gemm good = WEFT_GEMM_INIT, p;
    good.m = good.n = good.k = 8;
    assert_int_equal(weft_problem_check(&good, NULL), WEFT_OK);
    p = good;
    p.extras = 128;
    refuse(p, "extras 128");
    p = good;
    p.activation = 5;
    refuse(p, "activation 5");
    p = good;
    p.gated = 2;
    refuse(p, "gated 2");
    p = good;
    p.gated = 1;
    p.n = 7;
    refuse(p, "n 7 is odd");
    p = good;
    p.bias_dtype = (weft_dtype)9;
    refuse(p, "bias_dtype");
    p = good;
    p.ld_residual = 8;
    refuse(p, "ld_residual");
    p.extras = WEFT_GEMM_RESIDUAL;
    p.ld_residual = 7;
    refuse(p, "ld_residual 7 is less than 8");
    p.ld_residual = 0;
    p.batch = 2;
    p.residual_stride = 63;
    refuse(p, "residual_stride 63 is less than 64");
}

static void bad_data(void **state) {
    (void)state;
    uint64_t random = random_seed(93);
    weft_gemm p = WEFT_GEMM_INIT;
    weft_plan *plan;
    weft_message message = {""};
    p.m = p.n = p.k = 8;
    p.extras = 2 * WEFT_GEMM_FUNCTION - 1;
    product x = product_new(&random, &p);
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &x.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "function is null");
    x.data.function = change_part;
    int64_t elements = 0;
    x.data.user = &elements;
    assert_int_equal(weft_plan_run(plan, &x.data, NULL), WEFT_OK);
    static const struct {
        size_t offset;
        const char *name;
    } fields[] = {{offsetof(weft_gemm_data, bias), "bias"},
                  {offsetof(weft_gemm_data, residual), "residual"},
                  {offsetof(weft_gemm_data, scale), "scale"},
                  {offsetof(weft_gemm_data, row_scale), "row_scale"},
                  {offsetof(weft_gemm_data, column_scale), "column_scale"},
                  {offsetof(weft_gemm_data, column_sums), "column_sums"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        weft_gemm_data without = x.data;
        char text[64];
        set_epilogue_pointer(&without, fields[i].offset, NULL);
        snprintf(text, sizeof text, "%s is null", fields[i].name);
        assert_int_equal(weft_plan_run(plan, &without, &message), WEFT_INVALID);
        assert_string_equal(message.text, text);
    }
    weft_gemm_data over = x.data;
    over.residual = x.data.c;
    assert_int_equal(weft_plan_run(plan, &over, &message), WEFT_INVALID);
    assert_string_equal(message.text, "residual overlaps c");
    weft_plan_destroy(plan);
    product_free(&x);
}

/* A NaN of A B stays one through every activation; -inf and inf go where their limits are. */
static void not_finite(void **state) {
    (void)state;
    for (int32_t activation = WEFT_IDENTITY; activation <= WEFT_SILU; activation++) {
        const float one = 1, values[3] = {NAN, INFINITY, 0};
        float c[3] = {0, 0, 0};
        weft_gemm p = WEFT_GEMM_INIT;
        weft_gemm_data data = WEFT_GEMM_DATA_INIT;
        p.m = 3;
        p.n = p.k = 1;
        p.activation = activation;
        data.a = values;
        data.b = &one;
        data.c = c;
        assert_int_equal(weft_gemm_multiply(&p, &data, NULL), WEFT_OK);
        assert_true(isnan(c[0]) && c[1] == INFINITY && c[2] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_epilogues), cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(functions),        cmocka_unit_test(older_structs),
        cmocka_unit_test(bad_input),        cmocka_unit_test(bad_data),
        cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
