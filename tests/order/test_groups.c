/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tiles of groups: each found where a plain count finds it, from wherever the finger was; wrong bounds clamped.
 */
#include "../cmocka_all.h"

#include <stdlib.h>

#include "../random.h"
#include "order/groups.h"

enum { MOST = 50 };

static weft_groups draw(uint64_t *random, int32_t *bounds, int wrong) {
    weft_groups g = {.bounds = bounds,
                     .count = (int32_t)random_between(random, 1, MOST),
                     .rows = (int32_t)random_between(random, 1, 700),
                     .masked = (int32_t)random_between(random, 0, 1),
                     .tile = (int32_t)random_between(random, 1, 130),
                     .strip = (int32_t)random_between(random, 1, 3)};
    g.height = (uint32_t)(g.tile * g.strip);
    int32_t at = 0;
    for (int32_t i = 0; i <= g.count; i++) {
        const int32_t rows = (int32_t)(random_between(random, 0, 1) * random_between(random, 0, g.rows / g.count + 1));
        at = at + rows < g.rows ? at + rows : g.rows;
        bounds[i] = wrong ? (int32_t)weft_random(random) : g.masked ? rows : at;
    }
    return g;
}

/* All rows of tiles one after the other, as the header tells it. Returns how many there are. */
static int32_t list(const weft_groups *g, weft_group_rows *rows) {
    int32_t count = 0;
    for (int32_t i = 0; i < g->count; i++) {
        const weft_group_rows r = weft_group_at(g, i);
        for (int32_t y = 0; y < r.count; y += (int32_t)g->height) {
            for (int32_t t = 0; t < g->strip; t++) {
                const int32_t skipped = y + t * g->tile < r.count ? y + t * g->tile : r.count;
                rows[count++] = (weft_group_rows){i, r.first + skipped, r.count - skipped};
            }
        }
    }
    return count;
}

static void rows_are_found(void **state) {
    (void)state;
    uint64_t random = random_seed(3);
    weft_group_rows *rows = malloc(3 * MOST * 701 * sizeof *rows);
    assert_non_null(rows);
    for (int round = 0; random_round(&random, &round, 400); round++) {
        int32_t bounds[MOST + 1];
        const weft_groups g = draw(&random, bounds, round % 4 == 3);
        const int32_t count = list(&g, rows);
        if (round % 4 != 3) {
            assert_true(count <= weft_groups_most(g.count, g.rows, g.masked, g.tile, g.strip));
        }
        weft_group_finger finger = {0, 0};
        for (int i = 0; i < 60; i++) { /* forward row by row, then anywhere */
            const int32_t row = i < 30 ? i : (int32_t)random_between(&random, 0, count + 9);
            weft_group_rows found = {-1, -1, -1};
            const int is_there = weft_groups_find(&g, &finger, row, &found);
            assert_int_equal(is_there, row < count);
            if (is_there) {
                assert_memory_equal(&found, &rows[row], sizeof found);
                assert_true(found.first >= 0 && found.count >= 0 && found.first + found.count <= g.rows);
            }
        }
    }
    free(rows);
}

/* The bound is reached by one row in all groups but one. */
static void most_is_no_more_than_needed(void **state) {
    (void)state;
    assert_int_equal(weft_groups_most(8, 1000, 0, 128, 1), 15); /* seven groups of one row, and 993 rows in eight tiles */
    assert_int_equal(weft_groups_most(8, 3, 0, 128, 1), 3);
    assert_int_equal(weft_groups_most(8, 1000, 0, 128, 2), 2 * 11);
    assert_int_equal(weft_groups_most(8, 1000, 1, 128, 1), 64);
    assert_int_equal(weft_groups_most(1, 1, 0, 128, 1), 1);
}

/* Orders whose bands are rows, of which none comes back to an earlier one: by all of their positions. */
static void steps_are_of_orders_that_go_on(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    int known = 0;
    for (int round = 0; random_round(&random, &round, 300); round++) {
        const weft_grid grid = {1, random_between(&random, 1, 20), random_between(&random, 1, 20)};
        const weft_order_kind kind = (weft_order_kind)random_between(&random, 1, WEFT_ORDER_KINDS);
        if (kind == WEFT_ORDER_CUSTOM || weft_order_grid((int32_t)kind) == WEFT_GRID_HEADS) {
            continue;
        }
        weft_order order;
        weft_walk walk;
        assert_true(weft_order_init(&order, kind, grid, random_between(&random, 1, 7),
                                    random_between(&random, 0, 1) ? WEFT_AXIS_M : WEFT_AXIS_N, 2));
        const weft_reach reach = weft_reach_make(grid.cols, 4, 1, 1, weft_slice_full(grid.cols, 4));
        assert_true(weft_walk_init(&walk, &order, grid, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 1, 1, 3, reach));
        const int32_t step = weft_groups_step(&walk);
        int64_t least = 0;
        for (int64_t i = 0; i < order.count && step > 0; i++) {
            const int64_t row = weft_order_tile(&order, i).row;
            assert_true(row >= least);
            least = row / step * step;
        }
        known += step > 0;
    }
    assert_true(known > 0 || random_at()->only >= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_found), cmocka_unit_test(most_is_no_more_than_needed),
                                       cmocka_unit_test(steps_are_of_orders_that_go_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
