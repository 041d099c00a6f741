/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: in every query block each tile that reaches it has one, and waiting for them ends. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "../masks.h"
#include "../plans.h"
#include "../random.h"
#include "order/timetable.h"

enum { MOST_COLS = 64, MOST_STEPS = 64, MOST_LINES = 8, MOST_WORKERS = 96 };

/* A backward problem of any mask and lengths; what is left to data is given at once. */
static weft_attention random_problem(uint64_t *random, drawn_lengths *lengths) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 3);
    p.heads = p.kv_heads * random_between(random, 1, 3);
    p.seq = random_between(random, 1, 90);
    p.kv_seq = random_between(random, 0, 2) ? p.seq : random_between(random, 1, 90);
    p.head_dim = 8;
    draw_mask(random, &p);
    const int64_t kind = random_between(random, 0, 7);
    if (kind == 0) {
        draw_chunk(random, &p);
    } else if (kind == 1) {
        draw_prefix(random, &p);
    }
    if (kind >= 5) {
        draw_lengths(random, &p, kind == 5, lengths);
        p.lengths = lengths->all;
        p.extras = 0;
    }
    return p;
}

/* Gives a plan's walk its timetable, as if its lengths were known or not. */
static weft_status take_turns(weft_plan *plan, int known, weft_timetable *table, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_status status = weft_timetable_make(table, &plan->walk, known ? p->heads / p->kv_heads : 0, message);
    plan->walk.comings = table->comings;
    plan->walk.next = table->next;
    return status;
}

static void destroy(weft_plan *plan, weft_timetable *table) {
    weft_timetable_free(table);
    weft_plan_destroy(plan);
}

/* Rows of the grid that have parts of the same tiles. */
static int64_t parts_of(const weft_walk *walk) {
    return weft_larger(walk->reach.parts, 1);
}

/* Cuts the tiles of a plan into parts, each for one worker of a cluster, as plans for a GPU may have them. */
static void cut_tiles(weft_plan *plan, int64_t parts) {
    const weft_schedule *s = &plan->schedule;
    const weft_walk *walk = &plan->walk;
    const weft_grid tiles = {walk->order.grid.batch, walk->order.grid.rows * parts, walk->cols};
    weft_reach reach = walk->reach;
    weft_order order;
    weft_reach_set_parts(&reach, parts);
    assert_true(weft_order_init(&order, (weft_order_kind)s->order,
                                weft_walk_positions(tiles, (weft_sweep)s->sweep, parts, 1), s->group, s->axis, s->domains));
    assert_true(weft_walk_init(&plan->walk, &order, tiles, (weft_sweep)s->sweep, (weft_dispatch)s->dispatch, parts, 1,
                               weft_larger(s->workers, parts), reach));
}

/* A plan for it with any order and any sweep that it takes, and tiles in any number of parts. */
static weft_plan *random_plan(uint64_t *random, const weft_attention *p, weft_timetable *table) {
    static const int32_t orders[] = {WEFT_ORDER_HEAD_FIRST, WEFT_ORDER_BLOCK_FIRST,         WEFT_ORDER_REVERSE,
                                     WEFT_ORDER_CUSTOM,     WEFT_ORDER_HEAD_FIRST_SWIZZLED, WEFT_ORDER_LONGEST_FIRST,
                                     WEFT_ORDER_HEAD_FIRST, WEFT_ORDER_BLOCK_FIRST_SWIZZLED};
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    s.tile_m = random_between(random, 1 + p->seq / 20, 1 + p->seq / 3 < p->seq ? 1 + p->seq / 3 : p->seq);
    s.tile_n = random_between(random, 1 + p->kv_seq / 20, 1 + p->kv_seq / 3 < p->kv_seq ? 1 + p->kv_seq / 3 : p->kv_seq);
    s.order = orders[random_between(random, 0, 7)];
    s.group = random_between(random, 1, 3);
    s.domains = random_between(random, 1, 3);
    s.dispatch = (int32_t)random_between(random, WEFT_DISPATCH_STATIC, WEFT_DISPATCH_DYNAMIC);
    s.workers = random_between(random, 0, 2) ? random_between(random, 1, 12) : random_between(random, 1, MOST_WORKERS);
    const int causal = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    do {
        s.sweep = (int32_t)random_between(random, 1, WEFT_SWEEPS);
    } while (weft_sweep_folds(s.sweep) && (!causal || p->sequences > 0));
    if (plan_for(&plan, p, &s, &machine, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    if (s.order != WEFT_ORDER_CUSTOM && random_between(random, 0, 1)) {
        cut_tiles(plan, random_between(random, 1, random_between(random, 0, 3) ? 5 : 30));
    }
    const int varied = weft_reach_has_band(&plan->walk.reach) && weft_sequences_vary(&plan->walk.reach.sequences);
    if (take_turns(plan, !varied && random_between(random, 0, 3), table, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return plan;
}

/* All steps of a visit, each once, from `first` to `last`, and all of them between the ends of its ring. */
static void check_ring(const weft_visit *v) {
    unsigned char seen[MOST_STEPS] = {0};
    int64_t step = v->first, last = -1;
    for (int64_t i = 0; i < v->steps; i++, step = weft_visit_next(v, step)) {
        assert_in_range(step, weft_smaller(v->wrap, v->edge), weft_larger(v->wrap, v->edge));
        assert_int_equal(seen[step]++, 0);
        last = step;
    }
    assert_true(v->steps == 0 ||
                (last == v->last && weft_larger(v->wrap, v->edge) - weft_smaller(v->wrap, v->edge) + 1 == v->steps));
}

/* Blocks of queries. */
static int64_t steps_of(const weft_walk *walk) {
    return weft_ceil_divide(walk->reach.columns, walk->reach.tile_columns);
}

/* In every query block of every head the turns are 0, 1, ... without a gap. A column of tiles comes by once: one part of
 * it.
 */
static void every_turn_once(void **state) {
    (void)state;
    uint64_t random = random_seed(91);
    for (int round = 0; random_round(&random, &round, 1500); round++) {
        static int64_t counts[MOST_LINES][MOST_STEPS];
        static uint64_t taken[MOST_LINES][MOST_STEPS], met[MOST_LINES][MOST_STEPS];
        drawn_lengths lengths;
        weft_timetable table;
        const weft_attention p = random_problem(&random, &lengths);
        weft_plan *plan = random_plan(&random, &p, &table);
        const weft_walk *walk = &plan->walk;
        const int64_t steps = steps_of(walk), member = random_between(&random, 0, p.heads / p.kv_heads - 1);
        memset(counts, 0, sizeof counts);
        memset(taken, 0, sizeof taken);
        memset(met, 0, sizeof met);
        for (int64_t i = 0; i < walk->order.count * walk->visits * walk->cluster_rows; i++) {
            weft_visit v;
            const int64_t position = i / walk->cluster_rows / walk->visits;
            if (!weft_walk_visit_of(walk, position, position / walk->workers,
                                    (int32_t)(i / walk->cluster_rows % walk->visits), walk->reach.kind, 1,
                                    i % walk->cluster_rows, &v)) {
                continue;
            }
            check_ring(&v);
            const int64_t line = weft_walk_line(walk, v.tile.batch, v.tile.row) / parts_of(walk);
            for (int64_t k = 0, step = v.first; k < v.steps; k++, step = weft_visit_next(&v, step)) {
                const int64_t at = weft_turn_at(walk, v.tile, member, step);
                assert_in_range(at, 0, MOST_COLS - 1);
                assert_false(taken[line][step] >> at & 1);
                taken[line][step] |= UINT64_C(1) << at;
                assert_false(met[line][step] >> v.tile.col & 1);
                met[line][step] |= UINT64_C(1) << v.tile.col;
                counts[line][step]++;
            }
        }
        const int64_t lines = weft_walk_line(walk, 1, 0) / parts_of(walk);
        for (int64_t line = 0; line < walk->order.grid.batch * lines; line++) {
            for (int64_t step = 0; step < steps; step++) {
                const int64_t count = counts[line][step];
                assert_int_equal(taken[line][step], (UINT64_C(1) << count) - 1);
                assert_int_equal(weft_turns_count(walk, line / lines, step), count);
            }
        }
        destroy(plan, &table);
    }
}

/* One of a cluster, with a visit in hand, its part of a tile. */
typedef struct waiter {
    weft_worker worker; /* of the first one, for all */
    weft_visit visit;
    int64_t member, done, step;
    int busy;
} waiter;

/* Whether one of a cluster has something to do. */
static int is_busy(const weft_walk *walk, const waiter *cluster) {
    int busy = 0;
    for (int64_t rank = 0; rank < walk->cluster_rows; rank++) {
        busy |= cluster[rank].busy;
    }
    return busy;
}

/* The next tile of a cluster. */
static void take_visit(const weft_walk *walk, waiter *cluster) {
    weft_worker *worker = &cluster->worker;
    weft_visit visit;
    while (!is_busy(walk, cluster) && weft_worker_next(walk, worker, &visit)) {
        for (int64_t rank = 0; rank < walk->cluster_rows; rank++) {
            waiter *w = &cluster[rank];
            weft_walk_visit_of(walk, worker->position, worker->wave, worker->visits - 1, walk->reach.kind, 1, rank,
                               &w->visit);
            w->busy = w->visit.steps > 0;
            w->member = w->done = 0;
            w->step = w->visit.first;
        }
    }
}

/* The number of the sums that a worker is about to add to. */
static int64_t sums_of(const weft_walk *walk, int64_t members, const waiter *w) {
    const int64_t line = weft_walk_line(walk, w->visit.tile.batch, w->visit.tile.row) / parts_of(walk);
    return (line * members + w->member) * steps_of(walk) + w->step;
}

/* One step of a worker, if its turn has come. When all of its cluster are done, they take the next tile. */
static int try_step(const weft_walk *walk, int64_t members, waiter *w, waiter *cluster, int64_t *adds) {
    int64_t *count = &adds[sums_of(walk, members, w)];
    if (*count != weft_turn_at(walk, w->visit.tile, w->member, w->step)) {
        return 0;
    }
    ++*count;
    w->step = weft_visit_next(&w->visit, w->step);
    if (++w->done == w->visit.steps) {
        w->done = 0;
        w->step = w->visit.first;
        w->busy = ++w->member < members;
        take_visit(walk, cluster);
    }
    return 1;
}

/* Runs all workers to the end and returns how many rounds that takes: in step, where a round is a step of everyone whose
 * turn has come before it; or, with `random`, of some of them, one after the other. Ends with a failure when nobody can go
 * on. */
static int64_t rounds_of(const weft_walk *walk, int64_t members, uint64_t *random) {
    const int64_t steps = steps_of(walk);
    const int64_t lines = weft_walk_line(walk, 1, 0) / parts_of(walk),
                  all = walk->order.grid.batch * lines * members * steps;
    const int64_t rows = walk->cluster_rows, everybody = walk->workers * rows;
    static waiter workers[MOST_WORKERS];
    int64_t *adds = calloc((size_t)all, sizeof *adds), *before = calloc((size_t)all, sizeof *before);
    uint64_t counter = 0;
    int64_t rounds = 0, busy = 1;
    assert_true(adds && before && everybody <= MOST_WORKERS);
    memset(workers, 0, sizeof workers);
    for (int64_t i = 0; i < everybody; i += rows) {
        workers[i].worker = weft_worker_start(walk, i / rows, &counter);
        take_visit(walk, &workers[i]);
    }
    while (busy > 0) {
        const int64_t start = random ? random_between(random, 0, everybody - 1) : 0;
        int64_t moved = 0;
        busy = 0;
        memcpy(before, adds, (size_t)all * sizeof *adds);
        for (int64_t i = 0; i < everybody; i++) {
            waiter *w = &workers[(start + i) % everybody];
            const int64_t at = w->busy ? sums_of(walk, members, w) : 0;
            /* In step, a round begins for all at once: nobody finds what another adds in it. */
            const int rests = random ? moved > 0 && random_between(random, 0, 1) : adds[at] != before[at];
            busy += w->busy;
            if (w->busy && !rests) {
                moved += try_step(walk, members, w, w - (w - workers) % rows, adds);
            }
        }
        if (busy > 0 && moved == 0) {
            fail_msg("%lld workers wait for ever under sweep %d", (long long)busy, (int)walk->sweep);
        }
        rounds += busy > 0;
    }
    for (int64_t i = 0; i < all; i++) {
        const int64_t batch = i / steps / members / lines;
        assert_int_equal(adds[i], weft_turns_count(walk, batch, i % steps));
    }
    free(adds);
    free(before);
    return rounds;
}

/* Any order, mask, lengths and number of workers, in step and in any other pace. */
static void nobody_waits_for_ever(void **state) {
    (void)state;
    uint64_t random = random_seed(92);
    for (int round = 0; random_round(&random, &round, 600); round++) {
        drawn_lengths lengths;
        weft_timetable table;
        const weft_attention p = random_problem(&random, &lengths);
        weft_plan *plan = random_plan(&random, &p, &table);
        rounds_of(&plan->walk, p.heads / p.kv_heads, NULL);
        rounds_of(&plan->walk, p.heads / p.kv_heads, &random);
        destroy(plan, &table);
    }
}

/* Rounds in step, of dynamic dispatch: `blocks` blocks of keys and `steps` of queries, tiles in `parts`. */
static int64_t rounds_in_parts(int32_t sweep, int32_t order, weft_mask mask, int64_t heads, int64_t members, int64_t blocks,
                               int64_t steps, int64_t workers, int64_t parts) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_timetable table;
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.kv_heads = heads;
    p.heads = heads * members;
    p.seq = p.kv_seq = blocks * steps;
    p.head_dim = 8;
    p.mask = mask;
    s.tile_m = blocks;
    s.tile_n = steps;
    s.order = order;
    s.sweep = sweep;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    s.workers = workers;
    s.group = parts > 1 ? heads : 0; /* all of them at a time */
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    if (parts > 1) {
        cut_tiles(plan, parts);
    }
    assert_int_equal(take_turns(plan, 1, &table, NULL), WEFT_OK);
    const int64_t rounds = rounds_of(&plan->walk, members, NULL);
    destroy(plan, &table);
    return rounds;
}

static int64_t rounds_in_step(int32_t sweep, int32_t order, weft_mask mask, int64_t heads, int64_t members, int64_t blocks,
                              int64_t steps, int64_t workers) {
    return rounds_in_parts(sweep, order, mask, heads, members, blocks, steps, workers, 1);
}

/* What timetables are for: with every step as long as any other hardly anybody waits, whatever the order, if tiles may
 * begin where they meet no others. The steps of all tiles, over the workers, are the least that it can take. */
static void tiles_on_time_do_not_wait(void **state) {
    (void)state;
    enum { N = 16, HEADS = 12, WORKERS = 32 };
    static const int32_t orders[] = {WEFT_ORDER_HEAD_FIRST, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_LONGEST_FIRST};
    const int64_t full = (int64_t)HEADS * N * N / WORKERS, causal = (int64_t)HEADS * N * (N + 1) / 2 / WORKERS;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (int64_t members = 1; members <= 3; members += 2) {
            const int64_t wide = rounds_in_step(WEFT_SWEEP_SHIFT, orders[i], WEFT_MASK_NONE, HEADS, members, N, N, WORKERS);
            assert_in_range(wide, members * full, members * full * 5 / 4 + N);
        }
    }
    const int64_t longest =
        rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_LONGEST_FIRST, WEFT_MASK_CAUSAL, HEADS, 1, N, N, WORKERS);
    assert_in_range(longest, causal, causal * 5 / 4);
    /* 16 tiles at a time add to the same blocks: some meet wherever they begin, but few. 66 would be the least. */
    assert_in_range(rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_LONGEST_FIRST, WEFT_MASK_CAUSAL, 4, 1, 32, 64, 64), 66, 71);
    /* Tiles that all begin at one block wait for each other once. */
    assert_int_equal(rounds_in_step(WEFT_SWEEP_FORWARD, WEFT_ORDER_HEAD_FIRST, WEFT_MASK_NONE, 1, 1, N, N, N), 2 * N - 1);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_HEAD_FIRST, WEFT_MASK_NONE, 1, 1, N, N, N), N);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT_CAUSAL, WEFT_ORDER_HEAD_FIRST, WEFT_MASK_CAUSAL, 1, 1, N, N, N / 2),
                     N + 1);
}

/* What parts are for: 32 tiles of 64 steps for 64 workers take half as long in halves, though all of a head's tiles add to
 * the same sums; and the longest of 64 tiles under a causal mask are no longer all that is waited for. But a block of
 * queries has the adds of its 16 tiles one after the other, in any number of parts. */
static void parts_fill_idle_workers(void **state) {
    (void)state;
    const int32_t shift = WEFT_SWEEP_SHIFT, first = WEFT_ORDER_LONGEST_FIRST;
    assert_int_equal(rounds_in_parts(shift, first, WEFT_MASK_NONE, 2, 1, 16, 64, 64, 1), 64);
    assert_in_range(rounds_in_parts(shift, first, WEFT_MASK_NONE, 2, 1, 16, 64, 64, 2), 32, 36);
    assert_int_equal(rounds_in_parts(shift, first, WEFT_MASK_CAUSAL, 4, 1, 16, 64, 64, 1), 64);
    assert_in_range(rounds_in_parts(shift, first, WEFT_MASK_CAUSAL, 4, 1, 16, 64, 64, 2), 35, 50);
    assert_in_range(rounds_in_parts(shift, first, WEFT_MASK_NONE, 1, 1, 16, 16, 64, 4), 16, 32);
}

/* Under dynamic dispatch, too, a worker has the positions of one domain where the order has domains. */
static void domains_are_kept(void **state) {
    (void)state;
    uint64_t random = random_seed(93);
    int64_t kept = 0;
    for (int round = 0; random_round(&random, &round, 600); round++) {
        drawn_lengths lengths;
        weft_timetable table;
        const weft_attention p = random_problem(&random, &lengths);
        weft_plan *plan = random_plan(&random, &p, &table);
        const weft_walk *walk = &plan->walk;
        const int by_domain = walk->order.kind == WEFT_ORDER_HEAD_FIRST_SWIZZLED ||
                              walk->order.kind == WEFT_ORDER_BLOCK_FIRST_SWIZZLED || walk->order.kind == WEFT_ORDER_CUSTOM;
        const int64_t domains = by_domain ? walk->order.domains : 1;
        for (int64_t i = 0; walk->next && domains <= walk->workers && i < walk->order.count; i++) {
            assert_true(walk->next[i] == walk->order.count || walk->next[i] % domains == i % domains);
            kept += domains > 1 && walk->next[i] < walk->order.count;
        }
        destroy(plan, &table);
    }
    assert_true(kept > 0 || random_rounds(600) < 100);
}

/* Turns are of single tiles, and of so many. */
static void others_take_no_turns(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_timetable table;
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.seq = p.kv_seq = 64;
    p.head_dim = 8;
    s.tile_m = s.tile_n = 16;
    s.cluster_n = 2;
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    assert_int_equal(take_turns(plan, 1, &table, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text,
                        "adds take no turns with clusters of several columns, nor with more than 8388608 tiles");
    destroy(plan, &table);
    s.cluster_n = 0;
    p.heads = p.kv_heads = 1 << 30;
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    assert_int_equal(take_turns(plan, 1, &table, &message), WEFT_UNSUPPORTED);
    destroy(plan, &table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_turn_once),           cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(tiles_on_time_do_not_wait), cmocka_unit_test(parts_fill_idle_workers),
        cmocka_unit_test(domains_are_kept),          cmocka_unit_test(others_take_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
