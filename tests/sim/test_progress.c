/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a simulation: steps done of those in all, told in order, for whole runs, limited ones and curves. */
#include "problems.h"

#include "sim/recording.h"
#include "sim/sources.h"

typedef struct tellings {
    int64_t count, last, total;
} tellings;

static void tell(void *user, int64_t done, int64_t total) {
    tellings *t = user;
    assert_true(done > t->last && done <= total);
    assert_true(t->count == 0 || total == t->total);
    *t = (tellings){t->count + 1, done, total};
}

static weft_plan *long_plan(const char *name) {
    const weft_machine machine = machine_named(name);
    subject s = {.kind = WEFT_ATTENTION, .attention = WEFT_ATTENTION_INIT, .schedule = WEFT_SCHEDULE_INIT};
    s.attention.seq = s.attention.kv_seq = 32768;
    s.attention.head_dim = 64;
    s.attention.dtype = WEFT_BF16;
    s.schedule.tile_m = s.schedule.tile_n = 32;
    return plan_of(&s, &machine);
}

enum { STEPS = 1024 * 1024 };

static void whole_and_limited_runs(void **state) {
    (void)state;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    tellings t = {0, 0, 0};
    o.progress = tell;
    o.progress_user = &t;
    const weft_simulation told = simulate(long_plan("h200"), &o, NULL), plain = simulate(long_plan("h200"), NULL, NULL);
    assert_int_equal(t.total, STEPS);
    assert_in_range(t.count, 8, 16); /* every 65536 steps, when a tile ends */
    assert_int_equal(told.total.misses, plain.total.misses);
    o.limit = STEPS / 4;
    t = (tellings){0, 0, 0};
    simulate(long_plan("h200"), &o, NULL);
    assert_int_equal(t.total, STEPS / 4);
    assert_in_range(t.count, 2, 4);
}

static void curves(void **state) {
    (void)state;
    static const struct {
        const char *machine;
        int64_t runs;
    } kinds[] = {{"gb10", 1}, {"h200", 3}}; /* one pass, or one for each size */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        weft_simulate_options o = WEFT_SIMULATE_INIT;
        tellings t = {0, 0, 0};
        weft_curve_point points[3];
        weft_plan *plan = long_plan(kinds[i].machine);
        o.progress = tell;
        o.progress_user = &t;
        assert_int_equal(weft_simulate_curve(plan, &o, points, 3, NULL), WEFT_OK);
        assert_int_equal(t.total, kinds[i].runs * STEPS);
        assert_true(t.last > (kinds[i].runs - 1) * STEPS);
        weft_plan_destroy(plan);
    }
}

/* A recording simulates twice. */
static void recordings(void **state) {
    (void)state;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    tellings t = {0, 0, 0};
    weft_recording recording;
    weft_plan *plan = long_plan("gb10");
    const weft_sim_subject of = weft_sim_subject_of_plan(plan);
    o.progress = tell;
    o.progress_user = &t;
    assert_int_equal(weft_recording_make(&recording, &of, &o, 4, NULL), WEFT_OK);
    assert_int_equal(t.total, 2 * STEPS);
    assert_in_range(t.count, 16, 32);
    weft_recording_release(&recording);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_and_limited_runs), cmocka_unit_test(curves),
                                       cmocka_unit_test(recordings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
