/* SPDX-License-Identifier: Apache-2.0 */
/* The simulations of studies: gathered once, run for each seed, long ones in part until the trend holds. */
#include "../cmocka_all.h"

#include <math.h>
#include <string.h>

#include "studies/simulations.h"

static weft_machine gb10(void) {
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, "gb10", NULL), WEFT_OK);
    return machine;
}

static weft_plan *plan_of(const weft_machine *machine, int64_t heads, int64_t seq, int32_t sweep) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = heads;
    p.seq = p.kv_seq = seq;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = schedule.tile_n = 128;
    schedule.sweep = sweep;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.schedule = &schedule;
    options.machine = machine;
    weft_plan *plan = NULL;
    assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
    return plan;
}

static void ask(simulations *s, int64_t heads, int64_t seq, int32_t sweep, int in_part) {
    const weft_machine machine = gb10();
    const weft_simulate_options options = WEFT_SIMULATE_INIT;
    assert_true(simulations_ask(s, plan_of(&machine, heads, seq, sweep), &machine, NULL, &options, in_part));
}

static weft_simulation simulated(int64_t heads, int64_t seq, int32_t sweep, uint64_t seed) {
    const weft_machine machine = gb10();
    weft_plan *plan = plan_of(&machine, heads, seq, sweep);
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_simulation result = WEFT_SIMULATION_INIT;
    options.seed = seed;
    assert_int_equal(weft_simulate(plan, &options, &result, NULL, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    return result;
}

static void each_is_run_once_for_every_seed(void **state) {
    (void)state;
    simulations s = {.seed = 7, .seeds = 3};
    const weft_machine machine = gb10();
    weft_stream stream = WEFT_STREAM_INIT;
    const weft_simulate_options plain = WEFT_SIMULATE_INIT;
    stream.buffer_bytes = 32 << 20;
    stream.passes = 3;
    ask(&s, 1, 16384, WEFT_SWEEP_FORWARD, 0);
    ask(&s, 1, 16384, WEFT_SWEEP_SAWTOOTH, 0);
    ask(&s, 1, 16384, WEFT_SWEEP_FORWARD, 0);
    assert_true(simulations_ask(&s, NULL, &machine, &stream, &plain, 0));
    assert_true(simulations_ask(&s, NULL, &machine, &stream, &plain, 0));
    assert_int_equal(s.count, 3);
    assert_int_equal(s.requests, 5);
    assert_true(simulations_run(&s));
    for (size_t n = 0; n < 3; n++) {
        for (int sweep = 0; sweep < 2; sweep++) {
            const weft_simulation one = simulated(1, 16384, sweep ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD, 7 + n);
            const weft_simulation *answer = simulations_answer(&s, (size_t)sweep, n);
            assert_true(answer->seconds == one.seconds && answer->seed == 7 + n);
            assert_int_equal(answer->total.misses, one.total.misses);
        }
        assert_ptr_equal(simulations_answer(&s, 2, n), simulations_answer(&s, 0, n));
        assert_int_equal(simulations_answer(&s, 3, n)->compulsory_misses, (32 << 20) / 32);
    }
    assert_true(simulations_answer(&s, 0, 0)->seconds != simulations_answer(&s, 0, 1)->seconds);
    simulations_release(&s);
}

static void a_launch_in_part_ends_where_it_has_settled(void **state) {
    (void)state;
    enum { HEADS = 256, SEQ = 8192 };
    simulations s = {.seed = 1, .seeds = 2};
    ask(&s, HEADS, SEQ, WEFT_SWEEP_SAWTOOTH, 1);
    ask(&s, HEADS, SEQ, WEFT_SWEEP_SAWTOOTH, 0);
    assert_int_equal(s.count, 2);
    assert_true(simulations_run(&s));
    for (size_t n = 0; n < 2; n++) {
        const weft_simulation *part = simulations_answer(&s, 0, n), *whole = simulations_answer(&s, 1, n);
        assert_true(part->simulated < 0.5 && whole->simulated == 1);
        assert_true(fabs((double)part->total.misses / (double)whole->total.misses - 1) < 0.05);
        assert_true(fabs(part->seconds / whole->seconds - 1) < 0.05);
        assert_true(fabs(part->tflops / whole->tflops - 1) < 0.05);
    }
    simulations_release(&s);
}

static void a_failure_is_told(void **state) {
    (void)state;
    simulations s = {.seed = 1, .seeds = 2};
    const weft_machine machine = gb10();
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    options.stages = 1000000;
    assert_true(simulations_ask(&s, plan_of(&machine, 1, 1024, WEFT_SWEEP_FORWARD), &machine, NULL, &options, 0));
    assert_false(simulations_run(&s));
    assert_int_equal(s.status, WEFT_INVALID);
    assert_non_null(strstr(s.message.text, "stages 1000000 is not at most"));
    simulations_release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_run_once_for_every_seed),
        cmocka_unit_test(a_launch_in_part_ends_where_it_has_settled),
        cmocka_unit_test(a_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
