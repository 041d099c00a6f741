/* SPDX-License-Identifier: Apache-2.0 */
/* Products of fp32 with the fake driver: which launches they take, and that these compute what was asked for, since the
 * fake runs the reference from their parameters alone; what is refused; how precisions are told, told apart and priced. */
#include "fake_images.h"

#include <math.h>
#include <stdio.h>

#include <weft/sim.h>

#include "../epilogues.h"
#include "../plans.h"
#include "../ref/tensors.h"
#include "cost/cost.h"
#include "cuda/plan/backend.h"
#include "tune/store/key.h"

static const char *const families[] = {"hopper_gemm", "portable_gemm"};
enum { FAMILIES = 2, PRECISIONS = 3 };

static weft_device gpu(const char *family) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = family;
    return device;
}

static weft_gemm product(int32_t precision, weft_major a_major, weft_major b_major) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 200;
    p.n = 136;
    p.k = 100;
    p.a_major = a_major;
    p.b_major = b_major;
    p.precision = precision;
    return p;
}

static weft_plan *planned(const weft_gemm *p, const weft_schedule *s, const char *family) {
    const weft_device device = gpu(family);
    weft_plan *plan;
    weft_message message = {""};
    if (plan_on(&plan, p, s, NULL, &device, &message)) {
        fail_msg("%s", message.text);
    }
    return plan;
}

/* Operands in parts are always written; of TF32 only those that do not lie as the kernel reads them. */
static void launches(void **state) {
    (void)state;
    static const struct {
        int32_t precision;
        weft_major a_major, b_major;
        int64_t k, lda;
        const char *kernel;
        int operands;     /* that are written */
        int64_t elements; /* of 16 bits, in a line as the kernel sees it */
    } rows[] = {
        {WEFT_PRECISION_FP32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR, 100, 0, "gemm_bf16_kk_", 2, 6 * 104},
        {WEFT_PRECISION_FP32, WEFT_COL_MAJOR, WEFT_ROW_MAJOR, 64, 0, "gemm_bf16_kk_", 2, 6 * 64},
        {WEFT_PRECISION_BF16X3, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, 1, 0, "gemm_bf16_kk_", 2, 3 * 8},
        {WEFT_PRECISION_TF32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR, 100, 0, "gemm_tf32_kk_", 0, 200},
        {WEFT_PRECISION_TF32, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, 100, 0, "gemm_tf32_kk_", 1, 200},
        {WEFT_PRECISION_TF32, WEFT_COL_MAJOR, WEFT_ROW_MAJOR, 100, 0, "gemm_tf32_kk_", 2, 200},
        {WEFT_PRECISION_TF32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR, 100, 102, "gemm_tf32_kk_", 1, 200},
        {WEFT_PRECISION_TF32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR, 98, 100, "gemm_tf32_kk_", 2, 200},
    };
    script(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows * FAMILIES; i++) {
        weft_gemm p = product(rows[i / FAMILIES].precision, rows[i / FAMILIES].a_major, rows[i / FAMILIES].b_major);
        p.k = rows[i / FAMILIES].k;
        p.lda = rows[i / FAMILIES].lda;
        weft_plan *plan = planned(&p, NULL, families[i % FAMILIES]);
        const weft_cuda_plan *c = plan->placed;
        const int64_t operands = rows[i / FAMILIES].operands, elements = rows[i / FAMILIES].elements;
        const int64_t distance = (elements + 63) / 64 * 64, lines = operands == 2 ? p.m + p.n : operands == 1 ? -1 : 0;
        assert_non_null(strstr(c->main->choice.kernel, rows[i / FAMILIES].kernel));
        assert_int_equal(c->pass_count, operands ? 2 : 1);
        assert_int_equal(c->main - c->passes, operands ? 1 : 0);
        assert_string_equal(c->passes[0].choice.kernel, operands ? "gemm_operands" : c->main->choice.kernel);
        assert_int_equal(plan->walk.reach.columns, elements);
        assert_true(lines < 0 || (int64_t)weft_plan_workspace(plan) == 2 * lines * distance);
        assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_FORWARD);
        assert_int_equal(plan->gemm.k, p.k); /* the caller's problem is as it was */
        weft_plan_destroy(plan);
    }
    assert_int_equal(counts()->allocations, 0);
}

static void *filled(uint64_t *random, weft_dtype dtype, size_t count) {
    void *m = malloc(count * weft_dtype_bytes(dtype));
    assert_non_null(m);
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(dtype, m, i, (double)random_between(random, -1000, 1000) / 777);
    }
    return m;
}

/* One product by a family and by the CPU, which multiplies in fp32. */
static void compare(uint64_t *random, const weft_gemm *p, const char *family, double tolerance) {
    const weft_gemm_extents sizes = gemm_sizes(p);
    weft_gemm_data mine = WEFT_GEMM_DATA_INIT, theirs = WEFT_GEMM_DATA_INIT;
    const weft_cuda_driver *d;
    weft_buffer buffer = WEFT_BUFFER_INIT;
    uint64_t memory[16];
    void *arrays[16];
    size_t count = 0, sums = 0;
    assert_int_equal(weft_cuda_driver_get(&d, NULL), WEFT_OK);
    for (; weft_problem_buffer(p, count, &buffer, NULL) == WEFT_OK; count++) {
        const size_t bytes = buffer.elements * weft_dtype_bytes(buffer.dtype);
        arrays[count] = filled(random, buffer.dtype, buffer.elements);
        assert_int_equal(d->memory_new(&memory[count], bytes), 0);
        d->copy_in(memory[count], arrays[count], bytes);
        set_epilogue_pointer(&mine, buffer.offset, (void *)(uintptr_t)memory[count]);
        set_epilogue_pointer(&theirs, buffer.offset, arrays[count]);
        sums = buffer.offset == offsetof(weft_gemm_data, column_sums) ? buffer.elements : sums;
    }
    weft_plan *plan = planned(p, NULL, family);
    weft_message message = {""};
    if (weft_plan_run(plan, &mine, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    assert_int_equal(weft_gemm_multiply(p, &theirs, NULL), WEFT_OK);
    for (size_t i = 0; i < sizes.c; i++) {
        const double x = weft_ref_load(p->c_dtype, mine.c, i), y = weft_ref_load(p->c_dtype, theirs.c, i);
        if (!(fabs(x - y) <= tolerance * (1 + fabs(y)))) {
            fail_msg("%s: element %zu is %g, not %g", family, i, x, y);
        }
    }
    for (size_t i = 0; i < sums; i++) {
        assert_true(fabs((double)(mine.column_sums[i] - theirs.column_sums[i])) <= tolerance * (double)p->m);
    }
    weft_plan_destroy(plan);
    for (size_t i = 0; i < count; i++) {
        d->memory_free(memory[i]);
        free(arrays[i]);
    }
}

/* Every precision in every layout, in batches and with epilogues, whose shares lie behind the operands. */
static void parameters(void **state) {
    (void)state;
    static const double tolerances[PRECISIONS] = {1e-4, 2e-3, 6e-2}; /* of sums of a hundred terms of about 1 */
    uint64_t random = random_seed(71);
    script(NULL);
    for (int round = 0; random_round(&random, &round, 36); round++) {
        weft_gemm p = product(round % PRECISIONS, (weft_major)random_between(&random, 0, 1),
                              (weft_major)random_between(&random, 0, 1));
        p.m = random_between(&random, 1, 150);
        p.n = 4 * random_between(&random, 1, 40);
        p.k = random_between(&random, 1, 150);
        p.lda = (p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + random_between(&random, 0, 5);
        p.ldb = (p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + random_between(&random, 0, 5);
        p.c_dtype = round % 4 == 1 ? WEFT_BF16 : WEFT_FP32;
        p.ldc = (p.n + 7) / 8 * 8;
        p.beta = round % 5 == 0 ? 1.5 : 0;
        if (round % 3 == round / 3 % 3) {
            p.extras = WEFT_GEMM_BIAS | WEFT_GEMM_COLUMN_SUMS;
            p.activation = WEFT_RELU;
        } else if (round % 4 == 0) {
            p.batch = 2;
        }
        const double tolerance = tolerances[p.precision] + (p.c_dtype == WEFT_BF16 ? 1e-2 : 0);
        compare(&random, &p, families[round % FAMILIES], tolerance);
    }
    assert_int_equal(counts()->allocations, 0);
}

static void refused(const weft_gemm *p, const weft_schedule *s, const char *family, const char *text) {
    const weft_device device = gpu(family);
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", message.text, text);
    }
}

/* Parts are added in one order. */
static void no_kernel_fits(void **state) {
    (void)state;
    script(NULL);
    for (int i = 0; i < FAMILIES; i++) {
        weft_gemm p = product(WEFT_PRECISION_BF16X3, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.sweep = WEFT_SWEEP_SAWTOOTH;
        refused(&p, &s, families[i], "it adds parts of fp32 from the smallest to the largest, forward only");
        p.precision = WEFT_PRECISION_TF32;
        weft_plan *plan = planned(&p, &s, families[i]);
        assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_SAWTOOTH);
        weft_plan_destroy(plan);
        p.precision = WEFT_PRECISION_FP32;
        p.k = INT64_C(1) << 29; /* six times that are too many */
        refused(&p, NULL, families[i], "it takes dimensions up to 2147479551");
    }
    weft_gemm p = product(WEFT_PRECISION_FP32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
    p.ldc = 138;
    refused(&p, NULL, "hopper_gemm", "ldc 138 is not a multiple of 4");
    p.m = INT64_C(1) << 30;
    p.k = 1;
    p.batch = INT64_C(1) << 16;
    p.ldc = p.n;
    refused(&p, NULL, "portable_gemm", "CTAs are more than a launch can have");
    assert_int_equal(counts()->allocations, 0);
}

/* What runs at the same time brings memory of its own. */
static void captured(void **state) {
    (void)state;
    const weft_gemm p = product(WEFT_PRECISION_FP32, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
    const weft_cuda_driver *d;
    const weft_gemm_extents sizes = gemm_sizes(&p);
    uint64_t a = 0, b = 0, c = 0;
    weft_message message = {""};
    script("capture=1");
    assert_int_equal(weft_cuda_driver_get(&d, NULL), WEFT_OK);
    assert_true(d->memory_new(&a, 4 * sizes.a) == 0 && d->memory_new(&b, 4 * sizes.b) == 0 &&
                d->memory_new(&c, 4 * sizes.c) == 0);
    const weft_gemm_data data = gemm_data((void *)(uintptr_t)a, (void *)(uintptr_t)b, (void *)(uintptr_t)c);
    weft_plan *plan = planned(&p, NULL, NULL);
    assert_int_equal(weft_plan_enqueue(plan, &data, NULL, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "workspace is null: a captured run brings"));
    weft_plan_destroy(plan);
    d->memory_free(a);
    d->memory_free(b);
    d->memory_free(c);
    script(NULL);
}

static weft_tune_key key_of(const weft_gemm *p, weft_tune_number *number) {
    weft_plan draft;
    weft_tune_key key;
    const weft_device device = gpu(NULL);
    assert_int_equal(weft_plan_draft(&draft, p, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_tune_key_make(&key, &draft, NULL), WEFT_OK);
    weft_tune_number_make(number, &draft);
    return key;
}

/* A precision that is not the usual one is named, and has tunings of its own. */
static void names(void **state) {
    (void)state;
    static const char *const told[] = {"fp32 in, fp32 out", "fp32 by bf16x3 in, fp32 out", "fp32 by tf32 in, fp32 out"};
    static const char *const fields[] = {NULL, "\"precision\": \"bf16x3\"", "\"precision\": \"tf32\""};
    weft_tune_key keys[PRECISIONS];
    weft_tune_number numbers[PRECISIONS];
    char text[4096];
    script(NULL);
    for (int32_t i = 0; i < PRECISIONS; i++) {
        const weft_gemm p = product(i, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
        weft_plan *plan = planned(&p, NULL, NULL);
        weft_plan_text(plan, text, sizeof text);
        assert_non_null(strstr(text, told[i]));
        weft_plan_json(plan, text, sizeof text);
        assert_true(fields[i] ? strstr(text, fields[i]) != NULL : strstr(text, "precision") == NULL);
        weft_plan_destroy(plan);
        keys[i] = key_of(&p, &numbers[i]);
        for (int32_t j = 0; j < i; j++) {
            assert_string_not_equal(keys[i].problem, keys[j].problem);
            assert_int_not_equal(numbers[i].hash, numbers[j].hash);
        }
    }
}

/* On an H200 that need not be here: six products, three, one of half the rate, and one. */
static void prices(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_device device = gpu(NULL);
    double seconds[PRECISIONS + 1];
    device.mode = WEFT_PAPER;
    weft_message message = {""};
    if (weft_machine_load(&machine, "h200", &message)) {
        fail_msg("%s", message.text);
    }
    for (int32_t i = 0; i <= PRECISIONS; i++) {
        weft_gemm p = product(i < PRECISIONS ? i : 0, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
        p.dtype = i < PRECISIONS ? WEFT_FP32 : WEFT_BF16;
        p.m = p.n = p.k = 4096;
        weft_plan *plan;
        weft_cost cost;
        if (plan_on(&plan, &p, NULL, &machine, &device, &message)) {
            fail_msg("%s", message.text);
        }
        assert_int_equal(weft_cost_of(plan, &cost, NULL), WEFT_OK);
        assert_string_equal(cost.source, "model");
        seconds[i] = cost.time;
        weft_simulation simulation = WEFT_SIMULATION_INIT;
        assert_int_equal(weft_simulate(plan, NULL, &simulation, NULL, NULL), WEFT_OK);
        assert_true(fabs(simulation.seconds / cost.time - 1) < 0.15);
        weft_plan_destroy(plan);
    }
    static const double least[] = {5.5, 2.9, 1.8}, most[] = {7.5, 4, 2.4}; /* times as long as bf16 */
    for (int i = 0; i < PRECISIONS; i++) {
        assert_true(seconds[i] > least[i] * seconds[PRECISIONS] && seconds[i] < most[i] * seconds[PRECISIONS]);
    }
}

/* Where no kernel is known: products of fp32 by the machine's rate of that, others by its rate of bf16. */
static void rates(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_simulation found[2][PRECISIONS];
    assert_int_equal(weft_machine_load(&machine, "a100", NULL), WEFT_OK);
    for (int faster = 0; faster < 2; faster++) {
        for (int32_t i = 0; i < PRECISIONS; i++) {
            weft_gemm p = product(i, WEFT_ROW_MAJOR, WEFT_COL_MAJOR);
            weft_plan *plan;
            p.m = p.n = p.k = 1024;
            found[faster][i] = (weft_simulation)WEFT_SIMULATION_INIT;
            assert_int_equal(plan_on(&plan, &p, NULL, &machine, NULL, NULL), WEFT_OK);
            assert_int_equal(weft_simulate(plan, NULL, &found[faster][i], NULL, NULL), WEFT_OK);
            weft_plan_destroy(plan);
        }
        machine.matrix_bf16 /= 8;
    }
    assert_true(found[0][WEFT_PRECISION_FP32].seconds == found[1][WEFT_PRECISION_FP32].seconds);
    assert_true(found[0][WEFT_PRECISION_BF16X3].seconds > found[0][WEFT_PRECISION_TF32].seconds);
    assert_true(found[1][WEFT_PRECISION_BF16X3].seconds > 1.3 * found[1][WEFT_PRECISION_TF32].seconds);
    assert_true(found[1][WEFT_PRECISION_TF32].seconds > 3 * found[0][WEFT_PRECISION_TF32].seconds);
    assert_int_equal(found[0][0].piece_visits, found[0][WEFT_PRECISION_TF32].piece_visits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(launches),       cmocka_unit_test(parameters),
                                       cmocka_unit_test(no_kernel_fits), cmocka_unit_test(captured),
                                       cmocka_unit_test(names),          cmocka_unit_test(prices),
                                       cmocka_unit_test(rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
