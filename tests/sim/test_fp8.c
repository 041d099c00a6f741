/* SPDX-License-Identifier: Apache-2.0 */
/* fp8: simulated, on machines that have a rate for it, and refused by everything that would compute with it. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include <weft/check.h>
#include <weft/sim.h>

enum { SIZE = 1024 };

static weft_machine machine_of(const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, name, NULL), WEFT_OK);
    return machine;
}

static weft_gemm gemm_of(weft_dtype dtype) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = SIZE;
    p.dtype = dtype;
    p.c_dtype = WEFT_BF16;
    return p;
}

static weft_status plan_of(weft_plan **plan, const void *problem, const weft_machine *machine, weft_message *message) {
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.schedule = &schedule;
    options.machine = machine;
    return weft_plan_create(plan, problem, &options, message);
}

static weft_simulation simulated(weft_dtype dtype, weft_machine machine) {
    const weft_gemm p = gemm_of(dtype);
    weft_plan *plan = NULL;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    assert_int_equal(plan_of(&plan, &p, &machine, &message), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &result, NULL, &message), WEFT_OK);
    weft_plan_destroy(plan);
    return result;
}

static void has_half_the_bytes_and_its_own_rate(void **state) {
    (void)state;
    assert_int_equal(weft_dtype_bytes(WEFT_FP8), 1);
    assert_int_equal(weft_dtype_find("fp8"), WEFT_FP8);
    weft_machine machine = machine_of("gb10");
    const uint64_t out = SIZE * SIZE * 2 / 32; /* C, in bf16 both times */
    const weft_simulation fp8 = simulated(WEFT_FP8, machine), bf16 = simulated(WEFT_BF16, machine);
    assert_int_equal(2 * (fp8.total.sectors_from_sm - out), bf16.total.sectors_from_sm - out);
    machine.matrix_fp8 /= 8;
    assert_true(simulated(WEFT_FP8, machine).seconds > 2 * fp8.seconds);
    assert_true(simulated(WEFT_BF16, machine).seconds == bf16.seconds);
}

static void machines_without_a_rate_refuse_it(void **state) {
    (void)state;
    weft_machine machine = machine_of("gb10");
    const weft_gemm p = gemm_of(WEFT_FP8);
    weft_plan *plan = NULL;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    machine.matrix_fp8 = 0;
    assert_int_equal(plan_of(&plan, &p, &machine, &message), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &result, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "machine gb10 has no rate for fp8: give it [rate] fp8");
    weft_plan_destroy(plan);
}

/* A machine file may lack the key, and only that one. */
static void machine_files_may_lack_its_rate(void **state) {
    (void)state;
    weft_machine_value values[64];
    size_t count = 0, at = 0;
    values[0].struct_size = sizeof *values;
    assert_int_equal(weft_machine_values("host", NULL, values, 64, &count, NULL), WEFT_OK);
    assert_true(count > 0 && count <= 64);
    while (at < count && strcmp(values[at].key, "fp8") != 0) {
        at++;
    }
    assert_true(at < count);
    assert_string_equal(values[at].value, "0");
    assert_string_equal(values[at].source, "not given");
}

static void nothing_computes_with_it(void **state) {
    (void)state;
    const weft_machine machine = machine_of("gb10");
    const weft_gemm p = gemm_of(WEFT_FP8);
    weft_attention attention = WEFT_ATTENTION_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    weft_plan *plan = NULL;
    weft_check check = WEFT_CHECK_INIT;
    weft_message message = {""};
    attention.seq = attention.kv_seq = attention.head_dim = 64;
    attention.dtype = WEFT_FP8;
    assert_int_equal(plan_of(&plan, &p, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "fp8 is not supported by cpu yet: only the simulator takes it");
    message.text[0] = '\0';
    assert_int_equal(plan_of(&plan, &attention, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "fp8 is not supported by cpu yet: only the simulator takes it");
    message.text[0] = '\0';
    data.a = data.b = data.c = calloc(SIZE * SIZE, 2);
    assert_int_equal(plan_of(&plan, &p, &machine, &message), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "fp8 is not supported by cpu yet: only the simulator takes it");
    assert_int_equal(weft_plan_enqueue(plan, &data, NULL, &message), WEFT_UNSUPPORTED);
    assert_int_equal(weft_check_result(&p, &data, NULL, &check, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "fp8 is not supported by the reference yet: only the simulator takes it");
    free(data.c);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_half_the_bytes_and_its_own_rate),
        cmocka_unit_test(machines_without_a_rate_refuse_it),
        cmocka_unit_test(machine_files_may_lack_its_rate),
        cmocka_unit_test(nothing_computes_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
