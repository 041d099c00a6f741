/* Turns: in every query block each tile that reaches it has one, and waiting for them ends. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "../masks.h"
#include "../plans.h"
#include "../random.h"
#include "order/turns.h"

enum { MOST_COLS = 64, MOST_STEPS = 64, MOST_LINES = 8, MOST_WORKERS = 96 };

/* A backward problem of any mask and lengths; what is left to data is given at once. */
static weft_attention random_problem(uint64_t *random, drawn_lengths *lengths) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.heads = p.kv_heads = random_between(random, 1, 3);
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

/* A plan for it with any order and any sweep that it takes; null when its order does not let adds take turns. */
static weft_plan *random_plan(uint64_t *random, const weft_attention *p, weft_turns *turns) {
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
    if (weft_turns_make(turns, &plan->walk, &message) != WEFT_OK) {
        assert_non_null(strstr(message.text, "adds take no turns in order "));
        weft_plan_destroy(plan);
        return NULL;
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

/* In every query block of every head the turns are 0, 1, ... without a gap. */
static void every_turn_once(void **state) {
    (void)state;
    uint64_t random = random_seed(91);
    int made = 0;
    for (int round = 0; random_round(&random, &round, 1500); round++) {
        static int64_t counts[MOST_LINES][MOST_STEPS];
        static uint64_t taken[MOST_LINES][MOST_STEPS];
        drawn_lengths lengths;
        weft_turns turns;
        const weft_attention p = random_problem(&random, &lengths);
        weft_plan *plan = random_plan(&random, &p, &turns);
        if (!plan) {
            continue;
        }
        const weft_walk *walk = &plan->walk;
        memset(counts, 0, sizeof counts);
        memset(taken, 0, sizeof taken);
        made++;
        for (int64_t i = 0; i < walk->order.count * walk->visits; i++) {
            weft_visit v;
            if (!weft_walk_visit(walk, i / walk->visits, i % 3, (int32_t)(i % walk->visits), &v)) {
                continue;
            }
            check_ring(&v);
            const weft_turn turn = weft_turn_of_visit(&turns, &v);
            const int64_t line = v.tile.batch * walk->order.grid.rows + v.tile.row;
            for (int64_t k = 0, step = v.first; k < v.steps; k++, step = weft_visit_next(&v, step)) {
                const int64_t at = weft_turn_at(&turns, &walk->reach, &turn, step);
                assert_in_range(at, 0, MOST_COLS - 1);
                assert_false(taken[line][step] >> at & 1);
                taken[line][step] |= UINT64_C(1) << at;
                counts[line][step]++;
            }
        }
        for (int64_t line = 0; line < walk->order.grid.batch * walk->order.grid.rows; line++) {
            for (int64_t step = 0; step < turns.steps; step++) {
                const int64_t count = counts[line][step];
                assert_int_equal(taken[line][step], (UINT64_C(1) << count) - 1);
                assert_int_equal(weft_turns_count(&turns, &walk->reach, line / walk->order.grid.rows, step), count);
            }
        }
        weft_plan_destroy(plan);
    }
    assert_true(made >= random_rounds(1500) / 2);
}

/* A worker with a visit in hand. */
typedef struct waiter {
    weft_worker worker;
    weft_visit visit;
    weft_turn turn;
    int64_t done, step;
    int busy;
} waiter;

static void take_visit(const weft_walk *walk, const weft_turns *turns, waiter *w) {
    do {
        w->busy = weft_worker_next(walk, &w->worker, &w->visit);
    } while (w->busy && w->visit.steps == 0);
    if (w->busy) {
        w->turn = weft_turn_of_visit(turns, &w->visit);
        w->done = 0;
        w->step = w->visit.first;
    }
}

/* One step of a worker, if its turn has come. */
static int try_step(const weft_walk *walk, const weft_turns *turns, waiter *w, int64_t *adds) {
    int64_t *count = &adds[(w->visit.tile.batch * walk->order.grid.rows + w->visit.tile.row) * turns->steps + w->step];
    if (*count != weft_turn_at(turns, &walk->reach, &w->turn, w->step)) {
        return 0;
    }
    ++*count;
    w->step = weft_visit_next(&w->visit, w->step);
    if (++w->done == w->visit.steps) {
        take_visit(walk, turns, w);
    }
    return 1;
}

/* Runs all workers to the end and returns how many rounds that takes: in step, where a round is a step of everyone whose
 * turn has come before it; or, with `random`, of some of them, one after the other. Ends with a failure when nobody can go
 * on. */
static int64_t rounds_of(const weft_walk *walk, const weft_turns *turns, uint64_t *random) {
    const int64_t lines = walk->order.grid.batch * walk->order.grid.rows, all = lines * turns->steps;
    static waiter workers[MOST_WORKERS];
    int64_t *adds = calloc((size_t)all, sizeof *adds), *before = calloc((size_t)all, sizeof *before);
    uint64_t counter = 0;
    int64_t rounds = 0, busy = 0;
    assert_true(adds && before && walk->workers <= MOST_WORKERS);
    for (int64_t i = 0; i < walk->workers; i++) {
        workers[i].worker = weft_worker_start(walk, i, &counter);
        take_visit(walk, turns, &workers[i]);
        busy += workers[i].busy;
    }
    while (busy > 0) {
        const int64_t start = random ? random_between(random, 0, walk->workers - 1) : 0;
        int64_t moved = 0;
        memcpy(before, adds, (size_t)all * sizeof *adds);
        for (int64_t i = 0; i < walk->workers; i++) {
            waiter *w = &workers[(start + i) % walk->workers];
            const int64_t at = (w->visit.tile.batch * walk->order.grid.rows + w->visit.tile.row) * turns->steps + w->step;
            /* In step, a round begins for all at once: nobody finds what another adds in it. */
            const int rests = random ? moved > 0 && random_between(random, 0, 1) : w->busy && adds[at] != before[at];
            if (w->busy && !rests) {
                moved += try_step(walk, turns, w, adds);
                busy -= !w->busy;
            }
        }
        if (moved == 0) {
            fail_msg("%lld workers wait for ever under sweep %d, groups of %lld", (long long)busy, (int)turns->sweep,
                     (long long)turns->together);
        }
        rounds++;
    }
    for (int64_t i = 0; i < all; i++) {
        assert_int_equal(adds[i],
                         weft_turns_count(turns, &walk->reach, i / turns->steps / walk->order.grid.rows, i % turns->steps));
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
        weft_turns turns;
        const weft_attention p = random_problem(&random, &lengths);
        weft_plan *plan = random_plan(&random, &p, &turns);
        if (plan) {
            rounds_of(&plan->walk, &turns, NULL);
            rounds_of(&plan->walk, &turns, &random);
            weft_plan_destroy(plan);
        }
    }
}

/* Rounds of one head after the other in step: `blocks` blocks of keys and `steps` of queries. */
static int64_t rounds_in_step(int32_t sweep, int32_t order, weft_mask mask, int64_t heads, int64_t blocks, int64_t steps,
                              int64_t workers, int64_t *together) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_turns turns;
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.heads = p.kv_heads = heads;
    p.seq = p.kv_seq = blocks * steps;
    p.head_dim = 8;
    p.mask = mask;
    s.tile_m = blocks;
    s.tile_n = steps;
    s.order = order;
    s.sweep = sweep;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    s.workers = workers;
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    assert_int_equal(weft_turns_make(&turns, &plan->walk, NULL), WEFT_OK);
    const int64_t rounds = rounds_of(&plan->walk, &turns, NULL);
    weft_plan_destroy(plan);
    if (together) {
        *together = turns.together;
    }
    return rounds;
}

/* What the sweeps are for. With a worker for each tile, or for each pair, and every step as long as any other, nobody waits
 * under shift and shift-causal, head after head, also where the tiles of a head are in two waves of workers. Tiles that all
 * begin at one block wait for each other at every head, and under a causal mask tiles that come down wait less than tiles
 * that go up. */
static void shifted_tiles_do_not_wait(void **state) {
    (void)state;
    enum { N = 16, HEADS = 3 };
    const int32_t order = WEFT_ORDER_HEAD_FIRST;
    int64_t together;
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, order, WEFT_MASK_NONE, HEADS, N, N, N, &together), HEADS * N);
    assert_int_equal(together, N);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, order, WEFT_MASK_NONE, HEADS, N, 2 * N, N, NULL), HEADS * 2 * N);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, order, WEFT_MASK_NONE, HEADS, 2 * N, 2 * N, N, &together),
                     HEADS * 4 * N);
    assert_int_equal(together, N); /* more tiles than workers: two groups */
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, order, WEFT_MASK_NONE, 4, N, N, N / 2 + N, NULL), 3 * N);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT, order, WEFT_MASK_NONE, 4, 3 * N, 3 * N, 2 * N, NULL), 6 * 3 * N);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_SHIFT_CAUSAL, order, WEFT_MASK_CAUSAL, HEADS, N, N, N / 2, &together),
                     HEADS * (N + 1));
    assert_int_equal(together, N / 2);
    assert_int_equal(rounds_in_step(WEFT_SWEEP_FORWARD, order, WEFT_MASK_NONE, 1, N, N, N, &together), 2 * N - 1);
    assert_int_equal(together, 1);
    const int64_t up = rounds_in_step(WEFT_SWEEP_FORWARD, order, WEFT_MASK_CAUSAL, 1, N, N, N, NULL);
    const int64_t down = rounds_in_step(WEFT_SWEEP_DESCENDING, order, WEFT_MASK_CAUSAL, 1, N, N, N, NULL);
    const int64_t from_end = rounds_in_step(WEFT_SWEEP_FORWARD, WEFT_ORDER_REVERSE, WEFT_MASK_CAUSAL, 1, N, N, N, NULL);
    assert_int_equal(up, 2 * N - 1);
    assert_int_equal(down, N);
    assert_int_equal(from_end, N);
}

/* A tile of a head that few workers cannot run at once: the groups are as large as the order lets them be. */
static void groups_follow_the_order(void **state) {
    (void)state;
    int64_t together;
    rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_HEAD_FIRST, WEFT_MASK_NONE, 4, 16, 16, 5, &together);
    assert_int_equal(together, 5); /* groups are waves of workers */
    rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_REVERSE, WEFT_MASK_NONE, 4, 16, 16, 8, &together);
    assert_int_equal(together, 8);
    rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_BLOCK_FIRST, WEFT_MASK_NONE, 4, 16, 16, 8, &together);
    assert_int_equal(together, 2); /* neighbours of a head are four positions apart */
    rounds_in_step(WEFT_SWEEP_SHIFT, WEFT_ORDER_HEAD_FIRST, WEFT_MASK_NONE, 4, 16, 16, 1, &together);
    assert_int_equal(together, 1);
}

/* Turns are of single tiles, and of orders that start a head's tiles one after the other or all at once. */
static void others_take_no_turns(void **state) {
    (void)state;
    static const uint32_t mixed[] = {0, 2, 1, 3};
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_turns turns;
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.seq = p.kv_seq = 64;
    p.head_dim = 8;
    s.tile_m = s.tile_n = 16;
    s.order = WEFT_ORDER_CUSTOM;
    s.order_table = mixed;
    s.order_count = 4;
    for (s.workers = 1; s.workers <= 4; s.workers++) {
        assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
        assert_int_equal(weft_turns_make(&turns, &plan->walk, &message), s.workers < 4 ? WEFT_UNSUPPORTED : WEFT_OK);
        weft_plan_destroy(plan);
    }
    assert_string_equal(message.text, "adds take no turns in order custom: 3 workers do not run a head at once");
    assert_int_equal(turns.together, 4);
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = 16;
    s.cluster_n = 2;
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    assert_int_equal(weft_turns_make(&turns, &plan->walk, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "adds take no turns with clusters, nor in order "));
    weft_plan_destroy(plan);
    /* Orders that take one head after the other are looked at for one head, whatever their number. */
    s.cluster_n = 0;
    s.sweep = WEFT_SWEEP_SHIFT;
    p.heads = p.kv_heads = 1 << 30;
    for (s.order = WEFT_ORDER_BLOCK_FIRST; s.order <= WEFT_ORDER_REVERSE; s.order++) {
        const int one_by_one = s.order == WEFT_ORDER_HEAD_FIRST || s.order == WEFT_ORDER_REVERSE;
        assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
        assert_int_equal(weft_turns_make(&turns, &plan->walk, &message), one_by_one ? WEFT_OK : WEFT_UNSUPPORTED);
        assert_true(!one_by_one || (turns.together == 4 && !turns.from_end));
        weft_plan_destroy(plan);
    }
    assert_non_null(strstr(message.text, "with more than 1048576 positions"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_turn_once),           cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(shifted_tiles_do_not_wait), cmocka_unit_test(groups_follow_the_order),
        cmocka_unit_test(others_take_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
