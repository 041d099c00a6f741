/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: every tile exactly once, steps that are exactly the visible ones, directions that alternate. */
#include "../cmocka_all.h"
#include "../random.h"

#include <stdlib.h>
#include <string.h>

#include "order/deal.h"
#include "order/first.h"
#include "weft/order/turns.h"

enum { MAX_TILES = 4096, MAX_WORKERS = 64 };

/* A random schedule over a random grid. */
static weft_walk random_walk(uint64_t *random, weft_sweep sweep, weft_dispatch dispatch, weft_grid *tiles) {
    const int32_t kind = (int32_t)random_between(random, 1, WEFT_ORDER_KINDS);
    const int attention = weft_order_grid(kind) == WEFT_GRID_HEADS;
    const int64_t cluster_rows = random_between(random, 1, 2), cluster_cols = random_between(random, 1, 2);
    tiles->batch = attention ? random_between(random, 1, 3) : 1;
    tiles->rows = cluster_rows * random_between(random, 1, 12);
    tiles->cols = cluster_cols * random_between(random, 1, 14);
    const int64_t tile_rows = random_between(random, 1, 9), tile_columns = random_between(random, 1, 9);
    const int64_t rows = random_between(random, (tiles->cols - 1) * tile_rows + 1, tiles->cols * tile_rows);
    const int64_t columns = random_between(random, 1, 60), high = random_between(random, -70, 70);
    const weft_slice slices[] = {weft_slice_full(rows, columns), weft_slice_causal(rows, columns, high),
                                 weft_slice_band(rows, columns, high - random_between(random, -1, 40), high)};
    weft_reach reach =
        weft_reach_make(rows, columns, tile_rows, tile_columns, slices[attention ? random_between(random, 0, 2) : 0]);
    const int64_t spare = tiles->cols * tile_rows - rows; /* of the last tile, what the first may have less instead */
    reach.lead = attention ? random_between(random, 0, spare < tile_rows - 1 ? spare : tile_rows - 1) : 0;
    weft_order order;
    weft_walk walk;
    assert_true(weft_order_init(
        &order, (weft_order_kind)kind, weft_walk_positions(*tiles, sweep, cluster_rows, cluster_cols),
        random_between(random, 0, 10), (weft_axis)random_between(random, 0, 2), random_between(random, 1, 5)));
    assert_true(weft_walk_init(&walk, &order, *tiles, sweep, dispatch, cluster_rows, cluster_cols,
                               random_between(random, 4, MAX_WORKERS), reach));
    return walk;
}

/* A step must be visited when some query of the tile sees one of its keys, and needs a mask unless all see all of them. */
static void check_steps(const weft_walk *walk, const weft_visit *v) {
    const weft_reach *r = &walk->reach;
    const int64_t from = v->tile.col * r->tile_rows - r->lead, to = from + walk->cluster_cols * r->tile_rows;
    int64_t steps = 0, full = 0;
    for (int64_t step = 0; step * r->tile_columns < r->columns; step++) {
        int any = 0, all = 1;
        for (int64_t row = from < 0 ? 0 : from; row < to && row < r->rows; row++) {
            for (int64_t key = step * r->tile_columns; key < (step + 1) * r->tile_columns; key++) {
                any |= weft_slice_sees(&r->slice, row, key);
                all &= weft_slice_sees(&r->slice, row, key);
            }
        }
        const int64_t lowest = weft_smaller(v->wrap, v->edge);
        assert_int_equal(any, v->steps > 0 && step >= lowest && step < lowest + v->steps);
        assert_int_equal(all, step >= v->full_begin && step < v->full_end);
        steps += any;
        full += all;
    }
    assert_int_equal(v->steps, steps);
    assert_int_equal(v->full_end - v->full_begin, full);
    assert_int_equal(v->ranges, 1);
    int64_t last = v->first;
    for (int64_t i = 1; i < steps; i++) {
        last = weft_visit_next(v, last);
    }
    assert_true(steps == 0 || last == v->last);
}

/* Runs all workers to the end, one after the other at random, and checks every visit. Every other time workers begin with
 * the position of their number, under dynamic dispatch, too. */
static void run_workers(const weft_walk *walk, weft_grid tiles, uint64_t *random) {
    const int numbered = (int)random_between(random, 0, 1);
    static unsigned char seen[MAX_TILES];
    memset(seen, 0, sizeof seen);
    uint64_t counter = 0;
    const int64_t workers = walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : walk->workers;
    weft_worker *all = malloc((size_t)workers * sizeof *all);
    int64_t *taken = calloc((size_t)workers, sizeof *taken); /* visits of each worker */
    assert_true(all && taken);
    for (int64_t w = 0; w < workers; w++) {
        all[w] = numbered ? weft_worker_start_at(walk, w, &counter) : weft_worker_start(walk, w, &counter);
        assert_int_equal(all[w].position, w);
    }
    assert_int_equal(counter, walk->dispatch == WEFT_DISPATCH_DYNAMIC && !numbered ? workers : 0);
    for (int64_t left = workers; left > 0;) {
        const int64_t w = random_between(random, 0, left - 1);
        weft_visit v;
        const weft_deal deal = {walk->workers, -1, walk->reach.kind, 1, 0};
        if (!(numbered ? weft_worker_next_dealt(walk, &all[w], deal, &v) : weft_worker_next(walk, &all[w], &v))) {
            all[w] = all[--left];
            taken[w] = taken[left];
            continue;
        }
        check_steps(walk, &v);
        if (walk->sweep == WEFT_SWEEP_FORWARD) {
            assert_int_equal(v.direction, 1);
        } else if (walk->sweep == WEFT_SWEEP_PAIR) {
            assert_int_equal(v.direction, v.tile.col / walk->cluster_cols % 2 == 0 ? 1 : -1);
        } else if (weft_sweep_folds(walk->sweep)) { /* what is mirrored comes down */
            const int64_t cols = weft_ceil_divide(walk->cols, walk->cluster_cols);
            assert_int_equal(v.direction, v.tile.col / walk->cluster_cols < cols - cols / 2 ? 1 : -1);
        } else if (walk->sweep != WEFT_SWEEP_SAWTOOTH) {
            assert_int_equal(v.direction, walk->sweep == WEFT_SWEEP_DESCENDING ? -1 : 1);
        } else {
            const int64_t wave = walk->dispatch == WEFT_DISPATCH_STATIC ? taken[w] : v.position / walk->workers;
            assert_int_equal(v.direction, wave % 2 == 0 ? 1 : -1);
        }
        taken[w]++;
        for (int64_t i = 0; i < walk->cluster_rows * walk->cluster_cols; i++) {
            const int64_t row = v.tile.row + i / walk->cluster_cols, col = v.tile.col + i % walk->cluster_cols;
            assert_true(row < tiles.rows && col < tiles.cols);
            assert_int_equal(seen[(v.tile.batch * tiles.rows + row) * tiles.cols + col]++, 0);
        }
    }
    for (int64_t i = 0; i < tiles.batch * tiles.rows * tiles.cols; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(all);
    free(taken);
}

static void every_tile_once(void **state) {
    (void)state;
    uint64_t random = random_seed(7);
    for (int i = 0; random_round(&random, &i, 4500); i++) {
        weft_grid tiles;
        const weft_walk walk = random_walk(&random, (weft_sweep)(1 + i % WEFT_SWEEPS),
                                           (weft_dispatch)(1 + i / WEFT_SWEEPS % WEFT_DISPATCHES), &tiles);
        run_workers(&walk, tiles, &random);
    }
}

static void assert_same_visit(const weft_visit *a, const weft_visit *b) {
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->tile.row, b->tile.row);
    assert_int_equal(a->tile.col, b->tile.col);
}

/* What is known of the first tiles is what the walk says, and so is what comes behind them. */
static void first_tiles(void **state) {
    (void)state;
    uint64_t random = random_seed(11);
    int64_t known = 0;
    for (int i = 0; random_round(&random, &i, 3000); i++) {
        weft_grid tiles;
        const weft_walk walk = random_walk(&random, (weft_sweep)(1 + i % WEFT_SWEEPS),
                                           (weft_dispatch)(1 + i / WEFT_SWEEPS % WEFT_DISPATCHES), &tiles);
        const weft_first first = weft_first_of(&walk);
        assert_true(first.count <= walk.workers && first.count <= walk.order.count);
        for (int32_t w = 0; w < first.count; w++, known++) {
            weft_worker worker = weft_worker_start(&walk, w, NULL), behind = weft_first_worker(w);
            weft_visit a = {0}, b = {0};
            int32_t m, n;
            weft_first_position(&first, w, &m, &n);
            assert_true(weft_worker_next(&walk, &worker, &a));
            assert_int_equal(a.tile.batch, 0);
            assert_int_equal(a.tile.row, m * walk.cluster_rows);
            assert_int_equal(a.tile.col, n * walk.cluster_cols);
            assert_true(walk.sweep > WEFT_COMMON_SWEEPS || (a.first == 0 && a.direction == 1));
            assert_int_equal(a.steps, first.steps);
            const int more = weft_worker_next(&walk, &worker, &a);
            assert_int_equal(weft_worker_next(&walk, &behind, &b), more);
            if (more) {
                assert_same_visit(&a, &b);
            }
        }
    }
    assert_true(known >= random_rounds(3000) / 2);
}

/* Static dispatch: worker w takes positions w, w + workers, ... */
static void static_workers_stride(void **state) {
    (void)state;
    const weft_grid tiles = {1, 64, 64};
    weft_order order;
    weft_walk walk;
    assert_true(weft_order_init(&order, WEFT_ORDER_HILBERT, tiles, 0, WEFT_AXIS_N, 1));
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 1, 132,
                               weft_reach_make(8192, 8192, 128, 64, weft_slice_full(8192, 8192))));
    for (int64_t w = 0; w < 132; w++) {
        weft_worker worker = weft_worker_start(&walk, w, NULL);
        weft_visit v;
        int64_t wave = 0;
        while (weft_worker_next(&walk, &worker, &v)) {
            assert_int_equal(v.position, w + 132 * wave++);
            assert_int_equal(v.steps, 128);
        }
        assert_int_equal(wave, w < 4 ? 32 : 31); /* 4096 tiles: 31 full waves and four tiles */
    }
}

/* Workers that take their places by side, more of them than there are places, in any order and on either side: every tile
 * once; and as long as a side has workers for its places, nobody works for the other. */
static void workers_by_side(void **state) {
    (void)state;
    uint64_t random = random_seed(9);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        const weft_grid tiles = {1, random_between(&random, 1, 20), random_between(&random, 1, 20)};
        const int64_t places = 2 * random_between(&random, 1, MAX_WORKERS / 4), count = tiles.rows * tiles.cols;
        const int64_t takers = (places < count ? places : count) + random_between(&random, 0, 9);
        const weft_dispatch dispatch = i % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
        const int lopsided = i % 3 == 0;
        static unsigned char seen[MAX_TILES];
        weft_worker all[MAX_WORKERS];
        int32_t sides[MAX_WORKERS];
        int64_t left = takers, found = 0;
        uint64_t counter = 0;
        weft_order order;
        weft_walk walk;
        memset(seen, 0, sizeof seen);
        assert_true(
            weft_order_init(&order, WEFT_ORDER_SERPENTINE_SWIZZLED, tiles, random_between(&random, 1, 4), WEFT_AXIS_N, 2));
        assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_SAWTOOTH, dispatch, 1, 1, places,
                                   weft_reach_make(tiles.cols, 64, 1, 8, weft_slice_full(tiles.cols, 64))));
        for (int64_t w = 0; w < takers; w++) { /* even numbers first on one side: no side is short of workers */
            sides[w] = (int32_t)(lopsided ? w % 5 == 0 : w % 2);
            all[w] = weft_worker_start_by_side(&walk, sides[w], &counter);
        }
        while (left > 0) {
            const int64_t w = random_between(&random, 0, left - 1);
            weft_visit v;
            const weft_deal deal = {0, sides[w], walk.reach.kind, 0, 0};
            if (!weft_worker_next_dealt(&walk, &all[w], deal, &v)) {
                all[w] = all[--left];
                sides[w] = sides[left];
                continue;
            }
            assert_int_equal(seen[weft_tile_index(&order, v.tile)]++, 0);
            assert_true(dispatch != WEFT_DISPATCH_STATIC || lopsided || v.position % 2 == sides[w]);
            found++;
        }
        assert_int_equal(found, order.count);
    }
}

/* Parts of a tile share its steps: each step has one of them, the one that weft_turns_row() names, and they are as long as
 * each other but for a step. Those that need no mask are the same ones. */
static void parts_share_the_steps(void **state) {
    (void)state;
    uint64_t random = random_seed(23);
    for (int round = 0; random_round(&random, &round, 400); round++) {
        const weft_sweep sweep = (weft_sweep)(1 + round % WEFT_SWEEPS);
        const int64_t parts = random_between(&random, 1, random_between(&random, 0, 3) ? 6 : 70);
        const int64_t rows = random_between(&random, 1, 60), columns = random_between(&random, 1, 60);
        const int64_t tile_rows = random_between(&random, 1, 9), high = random_between(&random, -70, 70);
        const weft_slice slices[] = {weft_slice_full(rows, columns), weft_slice_causal(rows, columns, high),
                                     weft_slice_band(rows, columns, high - random_between(&random, -1, 40), high)};
        weft_reach reach =
            weft_reach_make(rows, columns, tile_rows, random_between(&random, 1, 5), slices[random_between(&random, 0, 2)]);
        const weft_grid whole = {2, 3, weft_reach_tiles(&reach)}, tiles = {2, 3 * parts, whole.cols};
        weft_order order;
        weft_walk walk, uncut;
        assert_true(
            weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, weft_walk_positions(whole, sweep, 1, 1), 0, WEFT_AXIS_N, 1));
        assert_true(weft_walk_init(&uncut, &order, whole, sweep, WEFT_DISPATCH_GRID, 1, 1, 5, reach));
        weft_reach_set_parts(&reach, parts);
        assert_true(
            weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, weft_walk_positions(tiles, sweep, parts, 1), 0, WEFT_AXIS_N, 1));
        assert_true(weft_walk_init(&walk, &order, tiles, sweep, WEFT_DISPATCH_GRID, parts, 1, 5 * parts, reach));
        static int64_t steps[MAX_TILES], full[MAX_TILES], seen[MAX_TILES][64], row_of[MAX_TILES][64];
        memset(steps, 0, sizeof steps);
        memset(full, 0, sizeof full);
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < walk.order.count * walk.visits * parts; i++) {
            weft_visit v;
            const int64_t position = i / parts / walk.visits;
            if (!weft_walk_visit_of(&walk, position, position % 3, (int32_t)(i / parts % walk.visits), reach.kind, 1,
                                    i % parts, &v)) {
                continue;
            }
            const int64_t tile = (v.tile.batch * 3 + v.tile.row / parts) * walk.cols + v.tile.col;
            for (int64_t k = 0, step = v.first; k < v.steps; k++, step = weft_visit_next(&v, step)) {
                assert_int_equal(seen[tile][step]++, 0);
                row_of[tile][step] = v.tile.row;
                assert_int_equal(weft_turns_row(&walk, v.tile.batch, v.tile.row, v.tile.col, step, reach.kind), v.tile.row);
            }
            steps[tile] += v.steps;
            full[tile] += v.full_end - v.full_begin;
            assert_true(v.full_begin >= v.full_end ||
                        (v.full_begin >= weft_smaller(v.edge, v.wrap) && v.full_end <= weft_larger(v.edge, v.wrap) + 1));
            weft_visit again = v;
            weft_visit_range(&walk, &again, 0);
            assert_int_equal(again.steps, v.steps);
        }
        for (int64_t i = 0; i < uncut.order.count * uncut.visits; i++) {
            weft_visit v;
            if (weft_walk_visit(&uncut, i / uncut.visits, i / uncut.visits % 3, (int32_t)(i % uncut.visits), &v)) {
                const int64_t tile = (v.tile.batch * 3 + v.tile.row) * walk.cols + v.tile.col;
                int64_t each[70] = {0};
                for (int64_t k = 0, step = v.first; k < v.steps; k++, step = weft_visit_next(&v, step)) {
                    assert_int_equal(seen[tile][step], 1);
                    each[row_of[tile][step] % parts]++;
                }
                assert_int_equal(steps[tile], v.steps);
                assert_int_equal(full[tile], v.full_end - v.full_begin);
                for (int64_t part = 0; part < parts; part++) {
                    assert_in_range(each[part], v.steps / parts, (v.steps + parts - 1) / parts);
                }
            }
        }
    }
}

static void bad_walks_are_refused(void **state) {
    (void)state;
    const weft_grid tiles = {1, 4, 4};
    weft_reach reach = weft_reach_make(16, 16, 4, 4, weft_slice_full(16, 16));
    weft_order order;
    weft_walk walk;
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, tiles, 0, WEFT_AXIS_N, 1));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 1, 0, reach));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 0, 1, 4, reach));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2, 2, 8, reach));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_PAIR, WEFT_DISPATCH_STATIC, 1, 1, 4, reach));
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_GRID, 1, 1, 4, reach));
    const weft_grid halves = {1, 4, 2};
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, halves, 0, WEFT_AXIS_N, 1));
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 2, 4, reach));
    const uint32_t first_slice[] = {0, 1, 1, 1, 1}; /* a table has no clusters of several columns */
    weft_reach_set_table(&reach, &reach.slice, first_slice);
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 2, 4, reach));
    /* Parts of a tile are in one cluster, of one column, and there is no table. */
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, tiles, 0, WEFT_AXIS_N, 1));
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 1, 4, reach));
    const weft_grid pairs = {1, 2, 4}, quarters = {1, 2, 2};
    weft_reach_set_parts(&reach, 2);
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, pairs, 0, WEFT_AXIS_N, 1));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2, 1, 4, reach));
    reach.first_slice = NULL;
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2, 1, 4, reach));
    weft_reach_set_parts(&reach, 3);
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2, 1, 4, reach));
    weft_reach_set_parts(&reach, 2);
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, tiles, 0, WEFT_AXIS_N, 1));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 1, 4, reach));
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, quarters, 0, WEFT_AXIS_N, 1));
    assert_false(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2, 2, 4, reach));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_tile_once),       cmocka_unit_test(first_tiles),
                                       cmocka_unit_test(static_workers_stride), cmocka_unit_test(workers_by_side),
                                       cmocka_unit_test(parts_share_the_steps), cmocka_unit_test(bad_walks_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
