/* SPDX-License-Identifier: Apache-2.0 */
/* One file and one row add an operation that runs, is simulated and is tuned like any other. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>
#include <weft/tune.h>

#include "../random.h"
#include "row_sum.h"

static row_sum problem(int64_t rows, int64_t cols) {
    row_sum p = {sizeof p, ROW_SUM, 0, 0};
    p.rows = rows;
    p.columns = cols;
    return p;
}

/* Fails unless every sum is that of its row; 8 bits each, so that they are exact in any order. */
static void check_run(const weft_plan *plan, int64_t rows, int64_t cols, uint64_t *random) {
    float *matrix = malloc((size_t)(rows * cols) * sizeof *matrix), *sums = malloc((size_t)rows * sizeof *sums);
    assert_true(matrix && sums);
    for (int64_t i = 0; i < rows * cols; i++) {
        matrix[i] = (float)random_between(random, -128, 127);
    }
    memset(sums, 0xff, (size_t)rows * sizeof *sums);
    const row_sum_data data = {sizeof data, ROW_SUM, matrix, sums};
    assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
    for (int64_t row = 0; row < rows; row++) {
        float sum = 0;
        for (int64_t col = 0; col < cols; col++) {
            sum += matrix[row * cols + col];
        }
        assert_true(sum == sums[row]);
    }
    free(matrix);
    free(sums);
}

static void runs(void **state) {
    (void)state;
    uint64_t random = 17;
    for (int round = 0; round < 40; round++) {
        const int64_t rows = random_between(&random, 1, 300), cols = random_between(&random, 1, 700);
        const row_sum p = problem(rows, cols);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = random_between(&random, 1, rows);
        s.tile_n = random_between(&random, 1, cols);
        s.sweep = round % 2 ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
        s.dispatch = round % 3 ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_STATIC;
        weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
        options.schedule = round < 5 ? NULL : &s;
        weft_plan *plan;
        assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
        check_run(plan, rows, cols, &random);
        weft_plan_destroy(plan);
    }
}

static void is_checked(void **state) {
    (void)state;
    weft_message message;
    weft_plan *plan;
    const row_sum none = problem(0, 4), good = problem(4, 4);
    const weft_gemm_data wrong = WEFT_GEMM_DATA_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    assert_int_equal(weft_problem_check(&none, &message), WEFT_INVALID);
    assert_string_equal(message.text, "rows 0 is not between 1 and 2147483647");
    options.schedule = &s;
    s.tile_m = 5;
    assert_int_equal(weft_plan_create(&plan, &good, &options, &message), WEFT_INVALID);
    assert_string_equal(message.text, "tile_m 5 is larger than rows 4");
    assert_int_equal(weft_plan_create(&plan, &good, NULL, &message), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &wrong, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the plan is for row-sum, and the data for gemm");
    char text[1024];
    assert_true(weft_plan_json(plan, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\"kind\": \"row-sum\""));
    assert_non_null(strstr(text, "\"rows\": 4"));
    weft_plan_destroy(plan);
    assert_int_equal(weft_operation_find("row-sum"), ROW_SUM);
}

/* Nothing is read twice, so every sector of the matrix misses once, and the sums are written. */
static void is_simulated(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    const row_sum p = problem(4096, 1000);
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.machine = &machine;
    weft_plan *plan;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &simulation, NULL, NULL), WEFT_OK);
    assert_int_equal(simulation.total.dram_read_bytes, 4096 * 1000 * 4);
    assert_int_equal(simulation.total.dram_write_bytes, 4096 * 4);
    assert_true(simulation.seconds > 0);
    weft_plan_destroy(plan);
}

static void is_tuned(void **state) {
    (void)state;
    const row_sum p = problem(64, 64);
    weft_tune_options options = WEFT_TUNE_INIT;
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_tune_state went = WEFT_TUNE_STATE_INIT;
    options.forgetful = 1;
    options.seconds = 0.2;
    assert_int_equal(weft_tune(&p, NULL, NULL, &options, &tuned, &went, NULL), WEFT_OK);
    assert_true(tuned.seconds > 0 && went.candidates > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs),
        cmocka_unit_test(is_checked),
        cmocka_unit_test(is_simulated),
        cmocka_unit_test(is_tuned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
