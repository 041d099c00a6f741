/* SPDX-License-Identifier: Apache-2.0 */
/* Long launches in part: when one has settled, and what is forecast of the rest. */
#include "problems.h"

#include <math.h>

#include "sim/settle.h"

/* A launch that hits `rate` of 100 sectors a step, which takes `pace` seconds, after a beginning of 1000 misses. */
static weft_sim_mark mark_after(uint64_t steps, double rate, double pace) {
    weft_sim_mark mark = {steps, 5 + (double)steps * pace, WEFT_TRAFFIC_INIT};
    mark.traffic.hits = (uint64_t)(100 * rate * (double)steps);
    mark.traffic.misses = 1000 + 100 * steps - mark.traffic.hits;
    mark.traffic.dram_read_bytes = 32 * mark.traffic.misses;
    return mark;
}

/* What happened from `from` to `to` happens again, with so many of the misses hits instead, and at another pace. */
static weft_sim_mark go_on(const weft_sim_mark *from, const weft_sim_mark *to, int64_t more_hits, double pace) {
    weft_sim_mark next = *to;
    next.steps += to->steps - from->steps;
    next.seconds += (to->seconds - from->seconds) * pace;
    next.traffic.hits += to->traffic.hits - from->traffic.hits + (uint64_t)more_hits;
    next.traffic.misses += to->traffic.misses - from->traffic.misses - (uint64_t)more_hits;
    return next;
}

static void settled_is_a_point_of_hits_and_half_a_per_cent_of_the_pace(void **state) {
    (void)state;
    const weft_sim_mark begin = mark_after(1000, 0.5, 0.01), middle = mark_after(2000, 0.5, 0.01);
    const struct {
        int64_t more_hits; /* of 100000 */
        double pace;
        int settled;
    } cases[] = {{0, 1, 1},      {900, 1, 1},    {-900, 1, 1},   {1100, 1, 0},   {-1100, 1, 0},
                 {0, 1.0045, 1}, {0, 0.9955, 1}, {0, 1.0055, 0}, {0, 0.9945, 0}, {1100, 1.0055, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weft_sim_mark end = go_on(&begin, &middle, cases[i].more_hits, cases[i].pace);
        assert_int_equal(weft_sim_settled(&begin, &middle, &end), cases[i].settled);
    }
}

static void what_the_last_half_does_goes_on(void **state) {
    (void)state;
    const weft_sim_mark middle = mark_after(1000, 0.5, 0.01), end = mark_after(2000, 0.5, 0.01);
    const weft_sim_mark whole = weft_sim_forecast(&middle, &end, 10000), all = mark_after(10000, 0.5, 0.01);
    assert_int_equal(whole.steps, 10000);
    assert_int_equal(whole.traffic.hits, all.traffic.hits);
    assert_int_equal(whole.traffic.misses, all.traffic.misses);
    assert_int_equal(whole.traffic.sectors, all.traffic.hits + all.traffic.misses);
    assert_int_equal(whole.traffic.dram_read_bytes, all.traffic.dram_read_bytes);
    assert_true(fabs(whole.seconds - all.seconds) < 1e-9);
}

/* Block-first attention on eight dies: workers begin in step, and lose it over several waves. */
static weft_plan *slow_to_settle(int64_t heads) {
    const weft_machine machine = machine_named("mi300x");
    subject s = {.kind = WEFT_ATTENTION, .attention = WEFT_ATTENTION_INIT, .schedule = WEFT_SCHEDULE_INIT};
    s.attention.heads = s.attention.kv_heads = heads;
    s.attention.seq = s.attention.kv_seq = 32768;
    s.attention.head_dim = 128;
    s.attention.dtype = WEFT_BF16;
    s.schedule.tile_m = 256;
    s.schedule.tile_n = 256;
    s.schedule.order = WEFT_ORDER_BLOCK_FIRST;
    s.schedule.dispatch = WEFT_DISPATCH_GRID;
    return plan_of(&s, &machine);
}

static void a_trend_is_followed_to_its_end(void **state) {
    (void)state;
    weft_plan *plan = slow_to_settle(256);
    const weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_simulation part = WEFT_SIMULATION_INIT, whole = WEFT_SIMULATION_INIT;
    assert_int_equal(weft_simulate_settled(plan, &options, &part, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, &options, &whole, NULL, NULL), WEFT_OK);
    assert_true(part.simulated > 0.1 && part.simulated < 0.5);
    assert_true(fabs(weft_hit_rate(&part.total) - weft_hit_rate(&whole.total)) < 0.005);
    assert_true(fabs(part.seconds / whole.seconds - 1) < 0.01);
    assert_true(fabs(part.tflops * part.seconds / (whole.tflops * whole.seconds) - 1) < 1e-9);
    weft_plan_destroy(plan);
}

/* A launch that ends before it has settled is simulated whole, to the sector. */
static void a_short_launch_is_whole(void **state) {
    (void)state;
    weft_plan *plan = slow_to_settle(8);
    const weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_simulation part = WEFT_SIMULATION_INIT, whole = WEFT_SIMULATION_INIT;
    assert_int_equal(weft_simulate_settled(plan, &options, &part, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, &options, &whole, NULL, NULL), WEFT_OK);
    assert_true(part.simulated == 1 && part.seconds == whole.seconds);
    assert_int_equal(part.total.hits, whole.total.hits);
    assert_int_equal(part.total.misses, whole.total.misses);
    weft_plan_destroy(plan);
}

static void null_and_short_structs_are_refused(void **state) {
    (void)state;
    weft_plan *plan = slow_to_settle(8);
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    assert_int_equal(weft_simulate_settled(NULL, NULL, &simulation, NULL), WEFT_INVALID);
    assert_int_equal(weft_simulate_settled(plan, NULL, NULL, NULL), WEFT_INVALID);
    simulation.struct_size = 1;
    assert_int_equal(weft_simulate_settled(plan, NULL, &simulation, NULL), WEFT_INVALID);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_and_short_structs_are_refused),
        cmocka_unit_test(settled_is_a_point_of_hits_and_half_a_per_cent_of_the_pace),
        cmocka_unit_test(what_the_last_half_does_goes_on),
        cmocka_unit_test(a_trend_is_followed_to_its_end),
        cmocka_unit_test(a_short_launch_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
