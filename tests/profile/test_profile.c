/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel profiles: the built-in ones, every error with its file and line, which one a plan gets, and what its numbers do.
 */
#include <math.h>
#include <stdio.h>

#include "../sim/problems.h"
#include "sim/recording.h"
#include "sim/sources.h"

/* A whole and right profile. Errors are made from it, so the line numbers below are those of this text. */
static const char *const right[] = {
    "[profile]",                   /* 1 */
    "name = mine",                 /* 2 */
    "title = My kernel",           /* 3 */
    "[request]",                   /* 4 */
    "stages = 3 | counted",        /* 5 */
    "early = 0.25 | counted",      /* 6 */
    "merge = 2.5 | measured",      /* 7 */
    "[spread]",                    /* 8 */
    "step = 0.05 | measured",      /* 9 */
    "tile = 0.065 | fitted: to x", /* 10 */
    "load = 0.25 | assumed",       /* 11 */
    "kept = 0.75 | measured",      /* 12 */
    "[step]",                      /* 13 */
    "matrix = 0.75 | measured",    /* 14 */
    "overlap = 0.5 | measured",    /* 15 */
    "cycles = 40 | measured",      /* 16 */
    "clock = 0.875 | measured",    /* 17 */
    "[tile]",                      /* 18 */
    "prologue = 1000 | measured",  /* 19 */
    "epilogue = 2000 | measured",  /* 20 */
    "hidden = 0.125 | measured",   /* 21 */
    "[launch]",                    /* 22 */
    "seconds = 2e-6 | measured",   /* 23 */
};
enum { LINES = sizeof right / sizeof *right };

/* The right text with one line replaced (0: none). */
static weft_status parse(int number, const char *line, weft_profile *profile, weft_message *message) {
    char text[2048];
    size_t used = 0;
    for (int i = 1; i <= LINES; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", i == number ? line : right[i - 1]);
    }
    memset(profile, 0x5a, sizeof *profile);
    profile->struct_size = sizeof *profile;
    message->text[0] = '\0';
    return weft_profile_parse(profile, text, used, "t.ini", message);
}

static void expect_error(int number, const char *line, const char *expected) {
    const weft_profile none = WEFT_PROFILE_INIT;
    weft_profile profile;
    weft_message message;
    assert_int_equal(parse(number, line, &profile, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);
    assert_memory_equal(&profile, &none, sizeof none);
}

static void test_right_text(void **state) {
    (void)state;
    weft_profile p;
    weft_message message;
    assert_int_equal(parse(0, "", &p, &message), WEFT_OK);
    assert_string_equal(p.name, "mine");
    assert_string_equal(p.title, "My kernel");
    assert_int_equal(p.stages, 3);
    assert_true(p.early == 0.25 && p.merge == 2.5 && p.spread_step == 0.05 && p.spread_tile == 0.065 &&
                p.spread_load == 0.25 && p.spread_kept == 0.75);
    assert_true(p.matrix == 0.75 && p.overlap == 0.5 && p.step_cycles == 40 && p.clock == 0.875);
    assert_true(p.prologue == 1000 && p.epilogue == 2000 && p.hidden == 0.125 && p.launch == 2e-6);
}

static void test_errors(void **state) {
    (void)state;
    expect_error(4, "[l2]", "t.ini:4: unknown section [l2]");
    expect_error(5, "", "t.ini:23: missing key stages in [request]");
    expect_error(5, "stages = 2", "t.ini:5: stages has no source: write stages = value | where it comes from");
    expect_error(5, "stages = 17 | x", "t.ini:5: stages = 17: must be 0 to 16");
    expect_error(5, "stages = -1 | x", "t.ini:5: stages = -1: must be 0 to 16");
    expect_error(5, "stages = 1.5 | x", "t.ini:5: stages = 1.5: must be a whole number");
    expect_error(7, "merge = 0.5 | x", "t.ini:7: merge = 0.5: must be 1 to 1000");
    expect_error(9, "spread = 0.1 | x", "t.ini:9: unknown key spread in [spread]");
    expect_error(10, "step = 0.1 | x", "t.ini:10: duplicate key step in [spread], first on line 9");
    expect_error(10, "tile = many | x", "t.ini:10: tile = many: must be a number");
    expect_error(14, "matrix = 0 | x", "t.ini:14: matrix = 0: must be 0.01 to 1");
    expect_error(16, "cycles = 1e7 | x", "t.ini:16: cycles = 1e7: must be 0 to 1000000 cycles");
    expect_error(23, "seconds = 2 | x", "t.ini:23: seconds = 2: must be 0 to 1 s");
    weft_profile p = WEFT_PROFILE_INIT;
    weft_message message = {""};
    assert_int_equal(weft_profile_load(&p, "./no/such.ini", &message), WEFT_NOT_FOUND);
    assert_string_equal(message.text, "./no/such.ini: no such file");
    assert_int_equal(weft_profile_load(&p, "nobody's", &message), WEFT_NOT_FOUND);
    assert_non_null(strstr(message.text, "no profile \"nobody's\"; there are cpu, "));
    assert_int_equal(weft_profile_load(&p, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the profile's name is null");
    assert_int_equal(weft_profile_parse(&p, NULL, 1, NULL, &message), WEFT_INVALID);
}

/* Every built-in profile is found by its name in any case, and every number has a source. */
static void test_built_in(void **state) {
    (void)state;
    weft_message message = {""};
    size_t count = 0;
    for (; weft_profile_name(count); count++) {
        weft_machine_value values[32] = {WEFT_MACHINE_VALUE_INIT};
        weft_profile p = WEFT_PROFILE_INIT, same = WEFT_PROFILE_INIT;
        size_t there = 0;
        char upper[32];
        snprintf(upper, sizeof upper, "%s", weft_profile_name(count));
        upper[0] = (char)(upper[0] - 'a' + 'A');
        assert_int_equal(weft_profile_values(weft_profile_name(count), &p, values, 32, &there, &message), WEFT_OK);
        assert_int_equal(weft_profile_load(&same, upper, &message), WEFT_OK);
        assert_memory_equal(&p, &same, sizeof p);
        assert_string_equal(p.name, weft_profile_name(count));
        assert_in_range(there, 15, 32);
        for (size_t i = 2; i < there; i++) {
            assert_true(values[i].value[0] && values[i].source[0]);
        }
    }
    assert_in_range(count, 11, 100);
    for (size_t i = 0; weft_machine_name(i); i++) {
        const weft_machine m = machine_named(weft_machine_name(i));
        const char *const names[] = {m.attention_profile, m.backward_profile, m.gemm_profile};
        for (size_t k = 0; k < 3; k++) {
            weft_profile p = WEFT_PROFILE_INIT;
            assert_int_equal(weft_profile_load(&p, names[k], &message), WEFT_OK);
        }
    }
}

static void assert_near(double value, double expected, double margin) {
    if (!(fabs(value - expected) <= margin)) {
        fail_msg("%g is not %g within %g", value, expected, margin);
    }
}

static subject attention_of(int64_t seq, int64_t tile_n) {
    const weft_attention attention = WEFT_ATTENTION_INIT;
    const weft_schedule schedule = WEFT_SCHEDULE_INIT;
    subject s;
    memset(&s, 0, sizeof s);
    s.kind = WEFT_ATTENTION;
    s.attention = attention;
    s.schedule = schedule;
    s.attention.seq = s.attention.kv_seq = seq;
    s.attention.heads = s.attention.kv_heads = 4;
    s.attention.head_dim = 64;
    s.schedule.tile_m = 16;
    s.schedule.tile_n = tile_n;
    s.schedule.order = WEFT_ORDER_HEAD_FIRST;
    s.schedule.sweep = WEFT_SWEEP_FORWARD;
    s.schedule.dispatch = WEFT_DISPATCH_STATIC;
    return s;
}

/* The machine's usual profile by operation; the caller's before it; generic where the machine names none. */
static void test_which_one(void **state) {
    (void)state;
    weft_machine m = machine_named("h200");
    subject s = attention_of(256, 64);
    assert_string_equal(simulate(plan_of(&s, &m), NULL, NULL).profile, m.attention_profile);
    m.attention_profile[0] = '\0';
    assert_string_equal(simulate(plan_of(&s, &m), NULL, NULL).profile, "generic");
    snprintf(m.attention_profile, sizeof m.attention_profile, "cudnn");
    weft_plan *plan = plan_of(&s, &m);
    assert_string_equal(weft_plan_profile(plan), "cudnn");
    weft_profile p = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_simulation r = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    snprintf(p.name, sizeof p.name, "mine");
    o.profile = &p;
    assert_int_equal(weft_simulate(plan, &o, &r, NULL, &message), WEFT_OK);
    assert_string_equal(r.profile, "mine");
    p.spread_tile = NAN;
    assert_int_equal(weft_simulate(plan, &o, &r, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "profile: [spread] tile nan is not 0 to 1");
    p.spread_tile = 0;
    memset(p.name, 'x', sizeof p.name);
    assert_int_equal(weft_simulate(plan, &o, &r, NULL, &message), WEFT_INVALID);
    weft_plan_destroy(plan);
    snprintf(m.attention_profile, sizeof m.attention_profile, "none-such");
    plan = plan_of(&s, &m);
    assert_int_equal(weft_simulate(plan, NULL, &r, NULL, &message), WEFT_NOT_FOUND);
    weft_plan_destroy(plan);
}

/* A machine whose memory is never waited for, so that times are the profile's. */
static weft_machine machine_of_compute(void) {
    weft_machine m = machine_in_step();
    m.clock = 1e9;
    m.near_latency = m.dram_latency = 1e-6;
    m.matrix_fp32 = 1e12;
    m.exp_rate = 1e11;
    return m;
}

/* Relative standard deviation of the tiles' times. */
static double spread_of(const weft_profile *profile, int64_t tile_n) {
    const weft_machine m = machine_of_compute();
    const subject s = attention_of(4096, tile_n);
    weft_plan *plan = plan_of(&s, &m);
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_message message = {""};
    const weft_sim_subject subject_of = weft_sim_subject_of_plan(plan);
    weft_recording recording;
    o.profile = profile;
    if (weft_recording_make(&recording, &subject_of, &o, 1, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    double sum = 0, squares = 0;
    for (size_t i = 0; i < recording.count; i++) {
        const double seconds = recording.visits[i].end - recording.visits[i].begin;
        sum += seconds;
        squares += seconds * seconds;
    }
    const double mean = sum / (double)recording.count;
    weft_recording_release(&recording);
    weft_plan_destroy(plan);
    return sqrt(squares / (double)1024 - mean * mean) / mean;
}

/* What steps vary by averages out over a tile, what the tile varies by does not: 16 steps against 256. */
static void test_spread(void **state) {
    (void)state;
    weft_profile step = WEFT_PROFILE_INIT, tile = WEFT_PROFILE_INIT;
    step.stages = tile.stages = 2;
    step.spread_step = 0.2;
    tile.spread_tile = 0.05;
    assert_near(spread_of(&step, 256), 0.2 / 4, 0.005);
    assert_near(spread_of(&step, 16), 0.2 / 16, 0.00125);
    assert_near(spread_of(&tile, 256), 0.05, 0.005);
    assert_near(spread_of(&tile, 16), 0.05, 0.005);
    step.spread_tile = 0.05; /* both */
    assert_near(spread_of(&step, 256), 0.05 * sqrt(2), 0.007);
}

static double seconds_of(const weft_profile *profile, int32_t dispatch) {
    const weft_machine m = machine_of_compute();
    subject s = attention_of(48 * 16, 16); /* 4 heads of 48 tiles of 48 steps on 48 workers */
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    s.schedule.dispatch = dispatch;
    o.profile = profile;
    return simulate(plan_of(&s, &m), &o, NULL).seconds;
}

/* Each term of time does what its key says. */
static void test_time(void **state) {
    (void)state;
    weft_profile p = WEFT_PROFILE_INIT;
    const double tiles = 4, steps = tiles * 48;
    const double products = 4.0 * 16 * 16 * 64 * 48 / 1e12, exponentials = 16.0 * 16 * 48 / 1e11; /* of a step */
    const double plain = steps * (products + exponentials), close = plain * 1e-9;
    p.stages = 2;
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain, close);
    p.overlap = 0.5;
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain - steps * fmin(products, exponentials) / 2, close);
    p.overlap = 0;
    p.matrix = 0.5;
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain + steps * products, close);
    p.matrix = 1;
    p.step_cycles = 100; /* of 1 GHz */
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain + steps * 1e-7, close);
    p.step_cycles = 0;
    p.clock = 0.5;
    const double busy = products / (products + exponentials);
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain / (1 - 0.5 * busy), close);
    p.clock = 1;
    p.prologue = 1000;
    p.epilogue = 3000;
    p.hidden = 0.75;
    p.launch = 1e-3;
    /* Persistent workers hide three quarters between tiles; a CTA of a grid ends before the next begins. */
    assert_near(seconds_of(&p, WEFT_DISPATCH_STATIC), plain + 1e-3 + 4e-6 + 3 * 1e-6, close);
    assert_near(seconds_of(&p, WEFT_DISPATCH_GRID), plain + 1e-3 + 4e-6 + 3 * 4e-6, close);
}

/* With no stages, a step waits for its pieces, but for what of the step before is left when they are requested. */
static void test_early(void **state) {
    (void)state;
    weft_machine m = machine_of_compute();
    const subject s = attention_of(16, 1); /* a tile of 16 steps for each of 4 workers */
    const double step = (4.0 * 16 * 1 * 64 * 48) / 1e12 + 16.0 * 48 / 1e11, latency = 0.75 * step;
    weft_profile p = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    m.near_latency = m.dram_latency = latency * m.clock;
    o.profile = &p;
    for (int i = 0; i <= 4; i++) {
        p.early = 0.25 * i;
        const double waits = fmax(0, latency - p.early * step);
        /* Q and the first step's pieces are waited for, one after the other; then 15 times what is late. */
        assert_near(simulate(plan_of(&s, &m), &o, NULL).seconds, 2 * latency + 16 * step + 15 * waits, 1e-9 * step);
    }
}

/* Steps that the L2 bounds take the time of the GPC's path: 2 GPCs of 6 workers and 6 of 4, or 1 of all. */
static void test_gpcs(void **state) {
    (void)state;
    weft_machine m = machine_of_compute();
    const subject s = attention_of(16 * 9, 16); /* one tile for each of 36 workers */
    weft_profile p = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    m.workers = 36;
    m.gpcs = 1;
    m.gpc_workers = 36;
    m.l2_bandwidth = 1e9;
    p.stages = 2;
    p.spread_load = 1e-12; /* workers that are held in step have equal paths */
    o.profile = &p;
    const double even = simulate(plan_of(&s, &m), &o, NULL).seconds;
    m.gpcs = 8;
    m.gpc_workers = 6;
    assert_near(simulate(plan_of(&s, &m), &o, NULL).seconds, even * 6 * 8 / 36, 1e-9 * even);
    m.l2_bandwidth = 1e300; /* what does not ask for much is not held up */
    const double free_of_it = simulate(plan_of(&s, &m), &o, NULL).seconds;
    m.gpcs = 1;
    assert_true(free_of_it == simulate(plan_of(&s, &m), &o, NULL).seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_text), cmocka_unit_test(test_errors), cmocka_unit_test(test_built_in),
        cmocka_unit_test(test_which_one),  cmocka_unit_test(test_spread), cmocka_unit_test(test_time),
        cmocka_unit_test(test_early),      cmocka_unit_test(test_gpcs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
