/* SPDX-License-Identifier: Apache-2.0 */
/* A recording tells what weft_simulate() counts: visit by visit, frame by frame, and no tile is missing. */
#include <math.h>
#include <stdlib.h>

#include "problems.h"
#include "sim/recording.h"
#include "sim/sources.h"

enum { ROUNDS = 200, FRAMES = 37 };

static weft_recording recording_of(const weft_plan *plan, const weft_simulate_options *options) {
    weft_recording recording;
    weft_message message = {""};
    const weft_sim_subject subject = weft_sim_subject_of_plan(plan);
    if (weft_recording_make(&recording, &subject, options, FRAMES, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return recording;
}

static void assert_same_traffic(const weft_traffic *a, const weft_traffic *b) {
    assert_memory_equal(a, b, sizeof *a);
}

/* The counts of all visits are those of the whole, requests in flight merged by domain as the simulator merges them. */
static void check_visits(const weft_recording *t, const weft_machine *m, double merge, const weft_simulation *sim) {
    uint64_t hits = 0, misses = 0;
    double *in_flight = calloc((size_t)m->domains, sizeof *in_flight);
    for (size_t i = 0; i < t->count; i++) {
        const weft_recording_visit *v = &t->visits[i];
        hits += v->hits;
        misses += v->misses;
        in_flight[t->domain_of[v->worker]] += (double)v->in_flight;
        assert_true(v->begin <= v->end && v->end <= sim->seconds);
        assert_true(v->hits >= v->in_flight);
    }
    for (int64_t d = 0; d < m->domains; d++) {
        hits -= (uint64_t)llround(in_flight[d] * (1.0 - 1.0 / merge));
    }
    free(in_flight);
    assert_int_equal(misses, sim->total.misses);
    assert_int_equal(hits, sim->total.hits);
}

/* Every tile of the grid belongs to one visit, and no worker is in two places at once. */
static void check_tiles(const weft_recording *t, const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    const int64_t rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
    int *seen = calloc((size_t)(rows * walk->cols), sizeof *seen);
    double *busy_until = calloc((size_t)t->workers, sizeof *busy_until);
    for (size_t i = 0; i < t->count; i++) {
        const weft_recording_visit *v = &t->visits[i];
        for (int64_t c = 0; c < walk->cluster_rows * walk->cluster_cols; c++) {
            seen[v->tile + c / walk->cluster_cols * walk->cols + c % walk->cluster_cols]++;
        }
        assert_in_range(v->worker, 0, t->workers - 1);
        assert_true(v->begin >= busy_until[v->worker]);
        busy_until[v->worker] = v->end;
    }
    for (int64_t i = 0; i < rows * walk->cols; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
    free(busy_until);
}

/* Frames only ever count on, hold no more than fits, and end with the totals. */
static void check_frames(const weft_recording *t, const weft_machine *m, const weft_traffic *domains) {
    const int64_t capacity = (int64_t)((double)m->l2_bytes * m->l2_usable) / m->l2_sector;
    for (int64_t i = 0; i < t->frames * t->domains; i++) {
        assert_true(t->use[i].streams + t->use[i].others <= capacity);
        if (i >= t->domains) {
            assert_true(t->traffic[i].hits >= t->traffic[i - t->domains].hits);
            assert_true(t->traffic[i].misses >= t->traffic[i - t->domains].misses);
        }
    }
    for (int64_t d = 0; d < t->domains; d++) {
        assert_same_traffic(&t->traffic[(t->frames - 1) * t->domains + d], &domains[d]);
        assert_same_traffic(&t->totals[d], &domains[d]);
    }
    for (int64_t i = 0; i < t->frames * t->domains * t->rows * t->cols; i++) {
        assert_in_range(t->resident[i], 0, WEFT_RECORDING_FULL);
    }
    for (int64_t w = 0; w < t->workers; w++) {
        assert_int_equal(t->place[(t->frames - 1) * t->workers + w], -1); /* all done */
    }
}

/* Every sector that was read has a distance, or is a first touch. */
static void check_distances(const weft_recording *t, const weft_machine *m) {
    uint64_t counted = 0, read = 0;
    for (int64_t i = 0; i < t->frames * (WEFT_PROFILE_BINS + 1); i++) {
        counted += t->distances[i];
    }
    for (size_t i = 0; i < t->count; i++) {
        read += t->visits[i].hits + t->visits[i].misses;
    }
    const weft_traffic *sum = &t->sim.total; /* lookups: reads, writes, and both again where they crossed the fabric */
    assert_int_equal(counted + sum->dram_write_bytes / (uint64_t)m->l2_sector + sum->fabric_sectors, read);
}

static void test_replays_to_the_same_counters(void **state) {
    (void)state;
    static const char *const names[] = {"gb10", "h100", "h200", "mi300x", "b200"};
    uint64_t seed = random_seed(9);
    for (int round = 0; random_round(&seed, &round, ROUNDS); round++) {
        weft_machine machine = machine_named(names[round % 5]);
        const subject s = random_subject(&seed, SHAPE_ANY, round % 2);
        if (round % 3 == 0) { /* small enough to evict */
            machine.l2_bytes = machine.l2_line * random_between(&seed, 20, 200);
        }
        weft_simulate_options options = WEFT_SIMULATE_INIT;
        options.seed = (uint64_t)round;
        options.stages = stages_of(random_between(&seed, 0, 3));
        weft_traffic domains[8] = {WEFT_TRAFFIC_INIT};
        const weft_simulation sim = simulate(plan_of(&s, &machine), &options, domains);
        weft_plan *plan = plan_of(&s, &machine);
        weft_recording recording = recording_of(plan, &options);
        assert_same_traffic(&recording.sim.total, &sim.total);
        assert_true(recording.sim.seconds == sim.seconds);
        check_visits(&recording, &machine, profile_of(plan).merge, &sim);
        check_tiles(&recording, plan);
        check_frames(&recording, &machine, domains);
        check_distances(&recording, &machine);
        weft_recording_release(&recording);
        weft_plan_destroy(plan);
    }
}

/* Two passes over K and V that fit: all of it is there at the end, and nothing before the first frame's reads. */
static void test_what_is_held(void **state) {
    (void)state;
    const weft_machine machine = machine_named("gb10");
    subject s;
    memset(&s, 0, sizeof s);
    const weft_attention attention = WEFT_ATTENTION_INIT;
    const weft_schedule schedule = WEFT_SCHEDULE_INIT;
    s.kind = WEFT_ATTENTION;
    s.attention = attention;
    s.attention.seq = 128;
    s.attention.kv_seq = 4096;
    s.attention.head_dim = 64;
    s.schedule = schedule;
    s.schedule.tile_m = s.schedule.tile_n = 64;
    s.schedule.workers = 1;
    s.schedule.sweep = WEFT_SWEEP_FORWARD;
    weft_plan *plan = plan_of(&s, &machine);
    weft_recording t = recording_of(plan, NULL);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.rows * t.cols, 64);
    int64_t first = 0;
    for (int64_t c = 0; c < t.cols; c++) {
        first += t.resident[c] == WEFT_RECORDING_FULL;
        assert_int_equal(t.resident[(t.frames - 1) * t.cols + c], WEFT_RECORDING_FULL);
    }
    assert_in_range(first, 1, 12); /* a frame is 128 steps / 37 */
    assert_in_range(t.place[0], 0, first - 1);
    weft_recording_release(&t);
    weft_plan_destroy(plan);
}

/* Where workers sit: in runs that take turns over the domains, but one by one where the order places its tiles by domain,
 * and second CTAs where the first ones are. */
static void test_seats(void **state) {
    (void)state;
    enum { RUN = 8 };
    const weft_machine machine = machine_named("h200");
    subject s;
    memset(&s, 0, sizeof s);
    const weft_attention attention = WEFT_ATTENTION_INIT;
    const weft_schedule schedule = WEFT_SCHEDULE_INIT;
    s.kind = WEFT_ATTENTION;
    s.attention = attention;
    s.attention.heads = s.attention.kv_heads = 16;
    s.attention.seq = s.attention.kv_seq = 2048;
    s.attention.head_dim = 64;
    s.schedule = schedule;
    s.schedule.tile_m = s.schedule.tile_n = 64;
    s.schedule.dispatch = WEFT_DISPATCH_STATIC;
    s.schedule.workers = 2 * machine.workers;
    assert_int_equal(machine.handout_run, RUN);
    for (int placed = 0; placed < 2; placed++) {
        s.schedule.order = placed ? WEFT_ORDER_HEAD_FIRST_SWIZZLED : WEFT_ORDER_HEAD_FIRST;
        weft_plan *plan = plan_of(&s, &machine);
        weft_recording recording = recording_of(plan, NULL);
        int64_t swapped = 0;
        for (int64_t i = 0; i < recording.workers; i++) {
            const int64_t seat = i % machine.workers, domain = recording.domain_of[i];
            if (placed) {
                assert_int_equal(domain, seat % 2);
            } else {
                assert_int_equal(domain, recording.domain_of[seat / RUN * RUN]);
                assert_true(seat % (2 * RUN) < RUN || domain != recording.domain_of[seat - RUN]);
                swapped += seat % (2 * RUN) == 0 && domain != 0;
            }
        }
        assert_int_equal(recording.domain_of[0], 0);
        assert_true(placed || swapped > 0); /* not always the same domain first */
        weft_recording_release(&recording);
        weft_plan_destroy(plan);
    }
}

static void test_refusals(void **state) {
    (void)state;
    weft_recording t;
    weft_message message = {""};
    assert_int_equal(weft_recording_make(&t, NULL, NULL, 4, &message), WEFT_INVALID);
    assert_string_equal(message.text, "subject is null");
    weft_recording_release(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replays_to_the_same_counters),
                                       cmocka_unit_test(test_what_is_held), cmocka_unit_test(test_seats),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
