/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against a replay, sector by sector, through the plainest LRU there is; and against itself over many sizes
 * of the L2. All of it on a machine whose workers keep step. */
#include <math.h>
#include <stdlib.h>

#include <weft/model.h>
#include <weft/stream.h>

#include "replay.h"

static void sector_by_sector(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int i = 0; random_round(&seed, &i, 300); i++) {
        replay_one(&seed, i);
    }
}

static void more_never_misses_more(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    for (int i = 0; random_round(&seed, &i, 60); i++) {
        weft_machine m = machine_in_step();
        const subject s = random_subject(&seed, SHAPE_ANY, i % 2);
        weft_simulate_options o = WEFT_SIMULATE_INIT;
        o.stages = stages_of(random_between(&seed, 0, 4));
        uint64_t before = UINT64_MAX;
        const int64_t step = m.l2_line * random_between(&seed, 1, 40);
        for (m.l2_bytes = m.l2_line; m.l2_bytes < 12 * step; m.l2_bytes += step) {
            const weft_simulation r = simulate(plan_of(&s, &m), &o, NULL);
            assert_true(r.total.misses <= before);
            before = r.total.misses;
        }
    }
}

enum { POINTS = 9 };

/* Each point of the curve is what a simulation with an L2 of that size misses. */
static void check_curve(const subject *s, weft_machine m, weft_curve_point *points) {
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.drift = -1;
    weft_plan *plan = plan_of(s, &m);
    assert_int_equal(weft_simulate_curve(plan, &o, points, POINTS, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    for (int i = 0; i < POINTS; i++) {
        m.l2_bytes = points[i].l2_bytes;
        assert_true(i == 0 || points[i].l2_bytes > points[i - 1].l2_bytes);
        assert_int_equal(points[i].misses, simulate(plan_of(s, &m), &o, NULL).total.misses);
    }
}

static subject curve_subject(uint64_t *seed) {
    subject s = random_subject(seed, SHAPE_ALIGNED, 0);
    s.attention.dtype = WEFT_FP32; /* rows of 8 sectors: the curve keeps distances in units of 8 */
    s.gemm.beta = 0;
    return s;
}

static void curve_of_one_domain(void **state) {
    (void)state;
    uint64_t seed = random_seed(3);
    for (int i = 0; random_round(&seed, &i, 40); i++) {
        const weft_machine m = machine_in_step();
        const subject s = curve_subject(&seed);
        weft_curve_point points[POINTS];
        check_curve(&s, m, points);
        for (int n = 1; n < POINTS; n++) {
            assert_true(points[n].misses <= points[n - 1].misses);
        }
        assert_int_equal(points[POINTS - 1].misses, simulate(plan_of(&s, &m), NULL, NULL).compulsory_misses);
    }
}

/* Writes count on the curve as they do in a simulation: all as misses, even of what was just read, or all as hits. */
static void curve_counts_writes(void **state) {
    (void)state;
    uint64_t seed = random_seed(4);
    for (int i = 0; random_round(&seed, &i, 20); i++) {
        weft_machine m = machine_in_step();
        subject s = curve_subject(&seed);
        s.gemm.beta = i % 2;
        m.l2_write = i % 4 < 2 ? WEFT_WRITE_HIT : WEFT_WRITE_MISS;
        weft_curve_point points[POINTS];
        check_curve(&s, m, points);
    }
}

static void curve_of_two_domains(void **state) {
    (void)state;
    uint64_t seed = random_seed(5);
    for (int i = 0; random_round(&seed, &i, 20); i++) {
        weft_machine m = i % 2 ? machine_in_step() : machine_named("h200");
        m.domains = 2;
        m.l2_home = i % 2 ? WEFT_HOME_PRIVATE : WEFT_HOME_SPLIT;
        m.l2_slack = m.l2_crowded = 0;
        m.l2_usable = 1;
        const subject s = curve_subject(&seed);
        weft_curve_point points[POINTS];
        check_curve(&s, m, points);
    }
}

/* Streams that all workers read in step: the closed forms, and one miss for all workers where nothing is kept. */
static void streams(void **state) {
    (void)state;
    weft_machine m = machine_in_step();
    weft_stream s = {sizeof s, 1, 64 * 4096, 4096, 8, WEFT_STREAM_SHARED, 0, 0.0};
    const weft_profile every_request_counts = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.profile = &every_request_counts;
    for (int i = 0; i < 2 * 70; i++) {
        s.sawtooth = i % 2;
        o.stages = stages_of(least(i % 5, i / 2)); /* what is asked for ahead must fit */
        m.l2_bytes = (i / 2 + 1) * s.block_bytes;
        weft_traffic t = WEFT_TRAFFIC_INIT;
        uint64_t distinct;
        assert_int_equal(weft_simulate_stream(&m, &s, &o, &t, &distinct, NULL), WEFT_OK);
        const double form = weft_model_passes((double)s.buffer_bytes, (double)m.l2_bytes, 8, s.sawtooth);
        assert_int_equal(distinct, s.buffer_bytes / m.l2_sector);
        assert_int_equal(t.sectors, distinct * 8 * (uint64_t)m.workers);
        assert_int_equal(t.misses, llround(form * (double)distinct));
        if (!s.sawtooth && m.l2_bytes < s.buffer_bytes) {
            const double hits = (double)t.hits / (double)t.sectors;
            assert_true(fabs(hits - weft_model_wavefront_hits((double)m.workers)) < 1e-12);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sector_by_sector),     cmocka_unit_test(more_never_misses_more),
        cmocka_unit_test(curve_of_one_domain),  cmocka_unit_test(curve_counts_writes),
        cmocka_unit_test(curve_of_two_domains), cmocka_unit_test(streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
