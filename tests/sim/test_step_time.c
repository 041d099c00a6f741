/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of attention costs beside its products and exponentials, alone on an SM and beside another CTA. */
#include <math.h>

#include "problems.h"
#include "sim/sources.h"

enum { TILE = 64, DIM = 128, SMS = 148 };

/* Cycles of a step of TILE x TILE scores where `workers` CTAs share the SMs. */
static double cycles_of(double scores, double beside, double overlap, int64_t workers) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_machine m = machine_named("b200");
    weft_message message = {""};
    weft_sim_source source;
    weft_sim_walk walk;
    weft_sim_job job;
    weft_plan *plan;
    p.heads = p.kv_heads = 64;
    p.seq = p.kv_seq = 1024;
    p.head_dim = DIM;
    p.dtype = WEFT_FP16;
    schedule.tile_m = schedule.tile_n = TILE;
    schedule.workers = workers;
    schedule.dispatch = WEFT_DISPATCH_STATIC;
    profile.score_cycles = scores;
    profile.beside = beside;
    profile.overlap = overlap;
    const weft_sim_settings settings = {.profile = profile};
    m.l2_bandwidth = 1e18; /* loads take no time */
    assert_int_equal(m.workers, SMS);
    assert_int_equal(plan_for(&plan, &p, &schedule, &m, &message), WEFT_OK);
    assert_int_equal(weft_sim_walk_make(&source, &walk, plan, &settings, &message), WEFT_OK);
    assert_true(source.next(source.context, 0, 0, &job));
    weft_sim_walk_release(&walk);
    weft_plan_destroy(plan);
    return job.step_seconds * m.clock;
}

static void expect(double cycles, double expected) {
    assert_true(fabs(cycles - expected) < 1e-6 * expected);
}

static void scores_and_what_runs_beside(void **state) {
    (void)state;
    const weft_machine m = machine_named("b200");
    const double sm = m.clock * SMS, scores = 10.0 * TILE * TILE / 1024;
    const double products = 4.0 * TILE * TILE * DIM / m.matrix_fp16 * sm, exponentials = TILE * TILE / m.exp_rate * sm;
    expect(cycles_of(0, 0, 0, SMS), products + exponentials);
    expect(cycles_of(10, 0, 0, SMS), products + exponentials + scores);
    expect(cycles_of(10, 0.25, 0, SMS), products + exponentials + scores); /* nobody is beside it */
    expect(cycles_of(10, 0, 0, 2 * SMS), 2 * (products + exponentials + scores));
    expect(cycles_of(10, 0.25, 0, 2 * SMS), 2 * (0.75 * products + exponentials + scores));
    expect(cycles_of(10, 0.25, 1, SMS), fmax(products, exponentials) + scores);
    expect(cycles_of(10, 0.25, 1, 2 * SMS), 2 * (fmax(products, exponentials) + scores)); /* the larger of both */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_and_what_runs_beside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
