/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, simulated: workers share the steps of all tiles in runs. */
#include <stdlib.h>

#include "problems.h"
#include "sim/runs.h"

static subject decode_subject(void) {
    subject s = {.kind = WEFT_ATTENTION, .attention = WEFT_ATTENTION_INIT, .schedule = WEFT_SCHEDULE_INIT};
    weft_attention *p = &s.attention;
    p->heads = p->kv_heads = 4;
    p->seq = 1;
    p->kv_seq = 32 << 10;
    p->head_dim = 64;
    p->dtype = WEFT_BF16;
    s.schedule.tile_m = 1;
    s.schedule.tile_n = WEFT_LEAF;
    s.schedule.dispatch = WEFT_DISPATCH_STATIC;
    s.schedule.sweep = WEFT_SWEEP_FORWARD;
    return s;
}

static weft_profile profile_named(const char *name) {
    weft_profile profile = WEFT_PROFILE_INIT;
    assert_int_equal(weft_profile_load(&profile, name, NULL), WEFT_OK);
    return profile;
}

/* Every step of every tile is in one run, and runs of a tile have no gaps. */
static void runs_have_every_step_once(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    const weft_machine m = machine_named("gb10");
    for (int i = 0; random_round(&seed, &i, 60); i++) {
        subject s = decode_subject();
        int32_t used[9];
        s.attention.batch = random_between(&seed, 1, 9);
        s.attention.seq = random_between(&seed, 1, 3);
        s.attention.kv_seq = 256 * random_between(&seed, 1, 60);
        s.attention.mask = random_between(&seed, 0, 1) ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE;
        s.attention.cache.page = random_between(&seed, 0, 1) ? 16 : 0;
        s.schedule.workers = random_between(&seed, 1, 300);
        for (int64_t b = 0; b < s.attention.batch; b++) {
            used[b] = (int32_t)random_between(&seed, 0, s.attention.kv_seq);
        }
        s.attention.lengths.kv_used = random_between(&seed, 0, 1) ? used : NULL;
        weft_plan *plan = plan_of(&s, &m);
        const int64_t steps = s.attention.kv_seq / 256, tiles = plan->walk.order.count;
        unsigned char *seen = calloc((size_t)(tiles * steps), 1);
        weft_sim_runs runs = {.count = 0};
        uint64_t found = 0;
        assert_non_null(seen);
        assert_int_equal(weft_sim_runs_make(&runs, plan, NULL), WEFT_OK);
        for (int64_t number = 0; number < runs.count; number++) {
            weft_visit visit;
            weft_sim_runs_visit(&runs, plan, number, &visit);
            found += (uint64_t)visit.steps;
            for (int64_t step = visit.first; step < visit.first + visit.steps; step++) {
                assert_in_range(step, 0, steps - 1);
                assert_int_equal(seen[visit.position * steps + step]++, 0);
            }
        }
        assert_int_equal(found, weft_simulate_steps(plan));
        weft_sim_runs_release(&runs);
        weft_plan_destroy(plan);
        free(seen);
    }
}

/* The steps of a tile that has any. */
static weft_steps steps_of(const weft_plan *plan, weft_tile tile) {
    weft_visit visit = {.tile = tile, .direction = 1};
    visit.ranges = weft_reach_ranges(&plan->walk.reach, tile.col);
    weft_visit_range(&plan->walk, &visit, 0);
    return (weft_steps){.begin = visit.first, .end = visit.first + visit.steps};
}

/* Packed queries over pages: a sequence has as many tiles as the longest takes; each run of a tile follows the one before,
 * and together they are the steps of the tile. Tiles without rows read what the sequence's last one with rows does. */
static void runs_of_packed_queries(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    const weft_machine m = machine_named("gb10");
    for (int i = 0; random_round(&seed, &i, 60); i++) {
        subject s = decode_subject();
        int32_t used[9], starts[10] = {0};
        weft_attention *p = &s.attention;
        int64_t most = 1;
        p->sequences = random_between(&seed, 1, 9);
        for (int64_t n = 0; n < p->sequences; n++) {
            starts[n + 1] = starts[n] + (int32_t)random_between(&seed, n == 0 ? 3 : 0, 5);
            most = weft_larger(most, starts[n + 1] - starts[n]);
        }
        p->cache.page = 16;
        p->kv_seq = 16 * random_between(&seed, 16, 900);
        for (int64_t n = 0; n < p->sequences; n++) {
            used[n] = (int32_t)random_between(&seed, 0, p->kv_seq);
        }
        p->seq = starts[p->sequences];
        p->lengths.q_starts = starts;
        p->lengths.kv_used = used;
        p->mask = random_between(&seed, 0, 1) ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE;
        s.schedule.tile_m = random_between(&seed, 1, 3);
        s.schedule.workers = random_between(&seed, 1, 300);
        weft_plan *plan = plan_of(&s, &m);
        weft_sim_runs runs = {.count = 0};
        assert_int_equal(weft_sim_runs_make(&runs, plan, NULL), WEFT_OK);
        const int64_t cols = (most + s.schedule.tile_m - 1) / s.schedule.tile_m, tiles = p->sequences * p->heads * cols;
        assert_int_equal(runs.of.tiles, p->heads * cols);
        int64_t *next = calloc((size_t)tiles, sizeof *next), *ends = calloc((size_t)tiles, sizeof *ends);
        assert_true(next && ends);
        for (int64_t place = 0; place < runs.count; place++) {
            weft_visit visit;
            const int64_t number = weft_sim_runs_visit(&runs, plan, place, &visit).number;
            int64_t n = 0;
            while (runs.before[n + 1] <= number) {
                n++;
            }
            const int64_t of = (number - runs.before[n]) % runs.of.tiles, tile = n * runs.of.tiles + of, col = of % cols;
            const weft_cut cut = weft_reach_cut(&plan->walk.reach, 0, visit.tile.col, 1);
            const int64_t row = starts[n] + col * s.schedule.tile_m;
            assert_in_range(visit.position, 0, plan->walk.order.count - 1);
            if (row < starts[n + 1]) {
                assert_int_equal(cut.rows.begin, row);
            }
            assert_int_equal(cut.sequence, n);
            const weft_steps all = steps_of(plan, visit.tile);
            ends[tile] = all.end;
            if (visit.steps > 0) {
                assert_int_equal(visit.first, next[tile] ? next[tile] : all.begin);
                next[tile] = visit.first + visit.steps;
            } else if (next[tile] == 0) {
                next[tile] = all.begin;
            }
        }
        for (int64_t tile = 0; tile < tiles; tile++) {
            assert_int_equal(next[tile], ends[tile]);
        }
        weft_sim_runs_release(&runs);
        weft_plan_destroy(plan);
        free(next);
        free(ends);
    }
}

/* A packed batch of sequences of one query each is simulated like the batch. */
static void packed_queries_are_like_batches(void **state) {
    (void)state;
    const int32_t starts[] = {0, 1, 2, 3, 4}, used[] = {8192, 100, 8192, 3000};
    const weft_machine m = machine_named("h200");
    const weft_profile profile = profile_named("decode");
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    subject s = decode_subject();
    o.profile = &profile;
    s.attention.batch = 4;
    s.attention.kv_seq = 8192;
    s.attention.cache.page = 16;
    s.attention.lengths.kv_used = used;
    const weft_simulation batch = simulate(plan_of(&s, &m), &o, NULL);
    s.attention.batch = 1;
    s.attention.sequences = s.attention.seq = 4;
    s.attention.lengths.q_starts = starts;
    const weft_simulation packed = simulate(plan_of(&s, &m), &o, NULL);
    assert_int_equal(packed.compulsory_misses, batch.compulsory_misses);
    assert_int_equal(packed.total.misses, batch.total.misses);
    assert_true(packed.total.dram_read_bytes == batch.total.dram_read_bytes);
    assert_true(packed.seconds > 0.99 * batch.seconds && packed.seconds < 1.01 * batch.seconds);
}

/* One long sequence keeps all workers busy, and reads no more. */
static void runs_share_a_sequence(void **state) {
    (void)state;
    const weft_machine m = machine_named("h200");
    const subject s = decode_subject();
    const weft_profile shared = profile_named("decode"), whole = profile_named("generic");
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.profile = &shared;
    const weft_simulation by_runs = simulate(plan_of(&s, &m), &o, NULL);
    o.profile = &whole;
    const weft_simulation by_tiles = simulate(plan_of(&s, &m), &o, NULL);
    assert_true(by_runs.seconds < by_tiles.seconds / 8);
    assert_int_equal(by_runs.compulsory_misses, by_tiles.compulsory_misses); /* writes hit there */
    assert_true(by_runs.total.dram_read_bytes == by_tiles.total.dram_read_bytes);
}

/* What workers write counts once: their shares, and the result. */
static void shares_are_written(void **state) {
    (void)state;
    enum { SHARE = (64 + 2) * 4 / 32 + 1, ROW = 64 * 2 / 32 };
    const weft_machine m = machine_named("gb10");
    const weft_profile profile = profile_named("decode");
    subject s = decode_subject();
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.profile = &profile;
    weft_plan *plan = plan_of(&s, &m);
    weft_sim_runs runs = {.count = 0};
    assert_int_equal(weft_sim_runs_make(&runs, plan, NULL), WEFT_OK);
    assert_true(runs.count > 4);
    const weft_simulation r = simulate(plan, &o, NULL);
    assert_int_equal(r.total.misses, r.compulsory_misses);
    assert_int_equal(r.compulsory_misses, 4 * ((2 * (32 << 10) + 2) * ROW) + runs.count * SHARE);
    weft_sim_runs_release(&runs);
}

static void expect_refused(const subject *s, const char *what) {
    const weft_machine m = machine_named("gb10");
    const weft_profile profile = profile_named("decode");
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    weft_plan *plan = plan_of(s, &m);
    o.profile = &profile;
    assert_int_equal(weft_simulate(plan, &o, &simulation, NULL, &message), WEFT_UNSUPPORTED);
    assert_memory_equal(message.text, "a profile with runs does not take ", 34);
    assert_string_equal(message.text + 34, what);
    weft_plan_destroy(plan);
}

static void refusals(void **state) {
    (void)state;
    const int32_t starts[] = {0, 1, 2};
    subject s = decode_subject();
    s.schedule.tile_n = 128;
    expect_refused(&s, "a tile_n other than 256");
    s = decode_subject();
    s.schedule.dispatch = WEFT_DISPATCH_GRID;
    expect_refused(&s, "a dispatch other than static");
    s = decode_subject();
    s.schedule.sweep = WEFT_SWEEP_SAWTOOTH;
    expect_refused(&s, "a sweep other than forward");
    s = decode_subject();
    s.attention.sequences = s.attention.seq = s.attention.kv_seq = 2;
    s.attention.lengths.q_starts = starts;
    s.schedule.tile_n = 0;
    expect_refused(&s, "packed keys");
    subject g = {.kind = WEFT_GEMM, .gemm = WEFT_GEMM_INIT, .schedule = WEFT_SCHEDULE_INIT};
    g.gemm.m = g.gemm.n = g.gemm.k = 64;
    expect_refused(&g, "anything but a forward attention");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_every_step_once),
        cmocka_unit_test(runs_of_packed_queries),
        cmocka_unit_test(packed_queries_are_like_batches),
        cmocka_unit_test(runs_share_a_sequence),
        cmocka_unit_test(shares_are_written),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
