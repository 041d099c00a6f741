/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward whose adds take turns: who waits, for how long, and what is counted. */
#include <math.h>

#include "problems.h"
#include "sim/engine.h"
#include "sim/turns.h"

/* A list of those that wait at a piece: whoever has the next turn goes on, whenever it came. */
static void turns_pass_on(void **state) {
    (void)state;
    weft_sim_turns t;
    assert_true(weft_sim_turns_init(&t, 2, 4));
    assert_true(isinf(weft_sim_turns_take(&t, 0, 3, 3, 1.0)));
    assert_true(isinf(weft_sim_turns_take(&t, 0, 1, 1, 2.0)));
    assert_true(isinf(weft_sim_turns_take(&t, 0, 2, 2, 3.0)));
    assert_true(weft_sim_turns_take(&t, 1, 0, 0, 3.0) == 3.0); /* another piece */
    assert_int_equal(weft_sim_turns_pass(&t, 1, 9.0), -1);
    assert_true(weft_sim_turns_take(&t, 0, 0, 0, 4.0) == 4.0);
    for (int32_t turn = 1; turn <= 3; turn++) {
        assert_int_equal(t.count, 4 - turn);
        assert_int_equal(weft_sim_turns_pass(&t, 0, 4.0 + turn), turn);
    }
    assert_int_equal(t.count, 0);
    assert_true(t.seconds == (5.0 - 2.0) + (6.0 - 3.0) + (7.0 - 1.0));
    assert_int_equal(weft_sim_turns_pass(&t, 0, 8.0), -1);
    assert_true(weft_sim_turns_take(&t, 1, 2, 1, 7.0) == 9.0); /* its turn, when the add before is done */
    assert_true(weft_sim_turns_take(&t, 1, 2, 1, 9.0) == 9.0);
    assert_true(t.seconds == 12.0 + 2.0);
    weft_sim_turns_release(&t);
}

static int one_job(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    (void)worker;
    (void)domain;
    *job = (weft_sim_job){.steps = 2, .last_step = 1, .direction = 1, .sums = {0, 1, 1, NULL}, .step_seconds = 1e-6};
    return (*(int *)context)++ == 0;
}

static int64_t second_turn(void *context, int64_t worker, int64_t step) {
    (void)context;
    (void)worker;
    return step;
}

/* Step 1 waits for an add that nobody makes: that is said, and the run ends. */
static void turns_that_never_come(void **state) {
    (void)state;
    const weft_machine m = machine_in_step();
    const weft_profile profile = WEFT_PROFILE_INIT;
    int jobs = 0;
    const weft_sim_source source = {
        .workers = 1, .seats = 1, .run = 1, .pieces = 4, .next = one_job, .context = &jobs, .turn = second_turn};
    const weft_sim_settings settings = {.profile = profile, .seed = 1};
    weft_sim_outcome outcome = {0, 0, 0, 0};
    weft_memory memory;
    weft_message message = {""};
    assert_true(weft_memory_init(&memory, &m, &profile, source.pieces, 1));
    assert_int_equal(weft_sim_run(&memory, &source, &settings, &outcome, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "1 workers wait for turns to add that never come");
    weft_memory_release(&memory);
}

/* As many blocks of keys as of queries, one worker for each tile or pair, one head; every step takes as long as any other.
 */
enum { N = 16, STEP_CYCLES = 1 << 19, ROW = 64, DIM = 64 };

static weft_simulation simulated_as(int32_t sweep, int32_t dispatch, weft_mask mask, int in_turn, double told,
                                    uint64_t limit) {
    weft_machine m = machine_in_step();
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    weft_plan *plan;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.seq = p.kv_seq = N * ROW;
    p.head_dim = DIM;
    p.dtype = WEFT_BF16;
    p.layout = WEFT_BHSD;
    p.mask = mask;
    s.tile_m = s.tile_n = ROW;
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = sweep;
    s.dispatch = dispatch;
    s.workers = N;
    profile.step_cycles = STEP_CYCLES;
    profile.in_turn = in_turn;
    profile.told = told;
    snprintf(profile.name, sizeof profile.name, "test");
    snprintf(profile.title, sizeof profile.title, "test");
    o.profile = &profile;
    o.limit = limit;
    if (plan_for(&plan, &p, &s, &m, &message) || weft_simulate(plan, &o, &result, NULL, &message)) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
    return result;
}

static weft_simulation simulated(int32_t sweep, int32_t dispatch, weft_mask mask, int in_turn, uint64_t limit) {
    return simulated_as(sweep, dispatch, mask, in_turn, 0, limit);
}

/* In steps, to the nearest: what is looked up takes a few cycles. */
static int64_t steps_of(double seconds) {
    return (int64_t)(seconds * 0x1p30 / STEP_CYCLES + 0.5);
}

/* Cycles that a worker waits, in the mean, to the nearest: waiting is told in nanoseconds, about as long. */
static double waited(int32_t sweep, int32_t dispatch, weft_mask mask, int64_t steps) {
    const weft_simulation s = simulated(sweep, dispatch, mask, 1, 0);
    assert_int_equal(steps_of(s.seconds), steps);
    return (double)s.total.waited * 1e-9 * 0x1p30;
}

static void assert_about(double value, double expected) {
    if (!(fabs(value - expected) <= 0.01 * expected + 2)) {
        fail_msg("%g is not about %g", value, expected);
    }
}

/* Tiles that all begin at one block wait for the adds of those before them, a round trip each; then they are apart. Under a
 * causal mask, tiles that go up from the diagonal do not meet, if those that are ahead add first; in the order of positions
 * they wait until the first tile has come there. Shifted tiles do not wait. */
static void waiting_is_priced(void **state) {
    (void)state;
    const int32_t timed = WEFT_DISPATCH_STATIC;
    const double apart = (N - 1) / 2.0 * 2 * 16; /* 16 cycles to the L2 */
    assert_int_equal(simulated(WEFT_SWEEP_FORWARD, timed, WEFT_MASK_NONE, 0, 0).total.waited, 0);
    assert_about(waited(WEFT_SWEEP_FORWARD, timed, WEFT_MASK_NONE, N), apart);
    assert_about(waited(WEFT_SWEEP_DESCENDING, timed, WEFT_MASK_CAUSAL, N), apart);
    assert_about(waited(WEFT_SWEEP_FORWARD, WEFT_DISPATCH_GRID, WEFT_MASK_CAUSAL, N), (N - 1) / 2.0 * STEP_CYCLES);
    assert_about(waited(WEFT_SWEEP_FORWARD, timed, WEFT_MASK_CAUSAL, N), 0);
    assert_about(waited(WEFT_SWEEP_SHIFT, timed, WEFT_MASK_NONE, N), 0);
    assert_true(waited(WEFT_SWEEP_SHIFT, WEFT_DISPATCH_DYNAMIC, WEFT_MASK_CAUSAL, N) < apart / 15);
    assert_about(waited(WEFT_SWEEP_SHIFT_CAUSAL, timed, WEFT_MASK_CAUSAL, N + 1), 0);
}

/* Tiles that all begin at one block are as far apart behind it as an add takes until it is told of; shifted ones are a step
 * apart from the start. */
static void adds_are_told_of(void **state) {
    (void)state;
    const int32_t timed = WEFT_DISPATCH_STATIC;
    for (int told = 0; told < 4; told++) {
        const weft_simulation s = simulated_as(WEFT_SWEEP_FORWARD, timed, WEFT_MASK_NONE, 1, told, 0);
        assert_int_equal(steps_of(s.seconds), N + (N - 1) * told);
        const weft_simulation shifted = simulated_as(WEFT_SWEEP_SHIFT, timed, WEFT_MASK_NONE, 1, told / 4.0, 0);
        assert_int_equal(steps_of(shifted.seconds), N);
    }
}

/* Who is first stores: the zeros are not fetched, and every block is written as often as before. */
static void the_first_stores(void **state) {
    (void)state;
    const uint64_t sums = (uint64_t)N * ROW * DIM * sizeof(float);
    for (int causal = 0; causal < 2; causal++) {
        const weft_mask mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
        const weft_simulation adds = simulated(WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, mask, 1, 0);
        const weft_simulation stores = simulated(WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, mask, 2, 0);
        assert_int_equal(adds.total.dram_read_bytes - stores.total.dram_read_bytes, sums);
        assert_int_equal(adds.total.dram_write_bytes, stores.total.dram_write_bytes);
        assert_int_equal((adds.total.added - stores.total.added) * 32, sums);
    }
}

/* Whatever the path and the turns, a tile asks for and adds to the same blocks; a part of a run ends, though others wait.
 */
static void sweeps_ask_for_the_same(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        const weft_mask mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
        const uint64_t steps = causal ? N * (N + 1) / 2 : N * N;
        const weft_simulation first = simulated(WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, mask, 0, 0);
        assert_int_equal(first.total.added, steps * ROW * DIM * sizeof(float) / 32); /* sectors of 32 bytes */
        for (int32_t sweep = 1; sweep <= WEFT_SWEEPS; sweep++) {
            if (weft_sweep_folds(sweep) && !causal) {
                continue;
            }
            const weft_simulation s = simulated(sweep, WEFT_DISPATCH_STATIC, mask, sweep % 2, 0);
            assert_int_equal(s.total.sectors_from_sm, first.total.sectors_from_sm);
            assert_int_equal(s.total.added, first.total.added);
            assert_int_equal(s.total.dram_read_bytes, first.total.dram_read_bytes);
            assert_int_equal(s.piece_visits, first.piece_visits);
            assert_true(simulated(sweep, WEFT_DISPATCH_STATIC, mask, 1, 5).seconds > 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_pass_on),     cmocka_unit_test(turns_that_never_come),
        cmocka_unit_test(waiting_is_priced), cmocka_unit_test(adds_are_told_of),
        cmocka_unit_test(the_first_stores),  cmocka_unit_test(sweeps_ask_for_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
