/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of orders.def is a bijection from positions to tiles, computed and from a table alike. */
#include "../cmocka_all.h"
#include "../random.h"

#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

typedef struct parameters {
    int64_t group, domains;
    weft_axis axis;
} parameters;

static weft_order make(int32_t kind, weft_grid grid, parameters p) {
    weft_order order;
    assert_true(weft_order_init(&order, (weft_order_kind)kind, grid, p.group, p.axis, p.domains));
    assert_int_equal(order.count, grid.batch * grid.rows * grid.cols);
    return order;
}

static void fail_at(const weft_order *o, int64_t position, const char *what) {
    fail_msg("%s: %s at position %lld of grid %lld x %lld x %lld, group %lld, domains %lld, axis %d",
             weft_order_describe(o->kind)->name, what, (long long)position, (long long)o->grid.batch,
             (long long)o->grid.rows, (long long)o->grid.cols, (long long)o->group, (long long)o->domains, (int)o->axis);
}

/* Checks one order on one grid; `seen` and `table` have room for every tile. */
static void check_order(int32_t kind, weft_grid grid, parameters p, unsigned char *seen, uint32_t *table) {
    weft_order order = make(kind, grid, p);
    memset(seen, 0, (size_t)order.count);
    assert_true(weft_order_fill_table(&order, table));
    weft_order from_table = order;
    from_table.table = table;
    for (int64_t position = 0; position < order.count; position++) {
        const weft_tile t = weft_order_tile(&order, position);
        if (t.batch < 0 || t.batch >= grid.batch || t.row < 0 || t.row >= grid.rows || t.col < 0 || t.col >= grid.cols) {
            fail_at(&order, position, "outside the grid");
        }
        const int64_t index = weft_tile_index(&order, t);
        if (seen[index]++) {
            fail_at(&order, position, "a tile visited twice");
        }
        const weft_tile same = weft_order_tile(&from_table, position);
        if (same.batch != t.batch || same.row != t.row || same.col != t.col) {
            fail_at(&order, position, "the table differs");
        }
    }
}

enum { SMALL = 13, LARGE = 1 << 20 };

static void all_small_grids(void **state) {
    (void)state;
    unsigned char seen[3 * SMALL * SMALL];
    uint32_t table[3 * SMALL * SMALL];
    for (int32_t kind = 1; kind <= WEFT_ORDER_KINDS; kind++) {
        for (int64_t batch = 1; batch <= 3; batch++) {
            for (int64_t rows = 1; rows <= SMALL; rows++) {
                for (int64_t cols = 1; cols <= SMALL; cols++) {
                    for (int64_t parameter = 1; parameter <= 9; parameter++) {
                        const weft_grid grid = {batch, rows, cols};
                        const parameters p = {parameter, parameter, (weft_axis)(parameter % 3)};
                        check_order(kind, grid, p, seen, table);
                    }
                }
            }
        }
    }
}

static void random_grids(void **state) {
    (void)state;
    unsigned char *seen = malloc(LARGE);
    uint32_t *table = malloc(LARGE * sizeof *table);
    assert_true(seen && table);
    uint64_t random = random_seed(2);
    for (int i = 0; random_round(&random, &i, 3000); i++) {
        /* Mostly thousands of tiles, now and then up to 2^20; one axis is often 1 or prime. */
        const int64_t most = i % 100 == 0 ? LARGE : 4000;
        static const int64_t awkward[] = {1, 2, 7, 13, 31, 61, 127, 251, 509, 1021};
        weft_grid grid;
        grid.batch = random_between(&random, 1, i % 3 == 0 ? 7 : 1);
        grid.rows = i % 4 == 0 ? awkward[random_between(&random, 0, 9)] : random_between(&random, 1, most / grid.batch);
        grid.rows = grid.rows > most / grid.batch ? 1 : grid.rows;
        grid.cols = random_between(&random, 1, most / grid.batch / grid.rows);
        const parameters p = {random_between(&random, 0, 40), random_between(&random, 1, 20), (weft_axis)(i % 3)};
        check_order((int32_t)(1 + i % WEFT_ORDER_KINDS), grid, p, seen, table);
    }
    free(seen);
    free(table);
}

/* Grids with far more than 2^32 tiles: positions are 64 bits wide all the way. */
static void huge_grids(void **state) {
    (void)state;
    uint64_t random = random_seed(3);
    for (int32_t kind = 1; kind <= WEFT_ORDER_KINDS; kind++) {
        for (int i = 0; random_round(&random, &i, 2000); i++) {
            const weft_grid grid = {random_between(&random, 1, 1000), random_between(&random, 1, 1 << 20),
                                    random_between(&random, 1, INT64_C(1) << 30)};
            const parameters p = {random_between(&random, 0, 64), random_between(&random, 1, 64), (weft_axis)(i % 3)};
            const weft_order order = make(kind, grid, p);
            const int64_t position = random_between(&random, 0, order.count - 1);
            const weft_tile t = weft_order_tile(&order, position);
            if (t.batch < 0 || t.batch >= grid.batch || t.row < 0 || t.row >= grid.rows || t.col < 0 ||
                t.col >= grid.cols) {
                fail_at(&order, position, "outside the grid");
            }
        }
    }
}

static void hilbert_steps_to_neighbours(void **state) {
    (void)state;
    uint64_t random = random_seed(4);
    const parameters none = {0, 1, WEFT_AXIS_N};
    for (int i = 0; i < 100 * 100 + 40; i++) {
        const int64_t large = INT64_C(1) << random_between(&random, 5, 10);
        const weft_grid grid = i < 100 * 100
                                   ? (weft_grid){1, 1 + i / 100, 1 + i % 100}
                                   : (weft_grid){1, random_between(&random, 1, large), random_between(&random, 1, 1023)};
        const weft_order order = make(WEFT_ORDER_HILBERT, grid, none);
        weft_tile last = weft_order_tile(&order, 0);
        assert_true(last.row == 0 && last.col == 0);
        for (int64_t position = 1; position < order.count; position++) {
            const weft_tile t = weft_order_tile(&order, position);
            if (llabs(t.row - last.row) + llabs(t.col - last.col) != 1) {
                fail_at(&order, position, "not a neighbour");
            }
            last = t;
        }
    }
}

/* Every domain's tiles, in the line of heads, are one run; runs differ by at most a tile; so a head, or a group of heads
 * that shares K and V, is cut only where an even split has to. */
static void swizzled_orders_keep_heads_together(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        const int by_batch = i % 2; /* block-first splits each batch on its own */
        const weft_grid grid = {by_batch ? 1 : random_between(&random, 1, 4), random_between(&random, 1, 40),
                                random_between(&random, 1, 30)};
        const parameters p = {0, random_between(&random, 1, 12), WEFT_AXIS_N};
        const weft_order order = make(by_batch ? WEFT_ORDER_BLOCK_FIRST_SWIZZLED : WEFT_ORDER_HEAD_FIRST_SWIZZLED, grid, p);
        int64_t begin = 0;
        for (int64_t domain = 0; domain < p.domains; domain++) {
            int64_t count = 0, low = INT64_MAX, high = -1;
            for (int64_t position = domain; position < order.count; position += p.domains, count++) {
                const int64_t index = weft_tile_index(&order, weft_order_tile(&order, position));
                low = index < low ? index : low;
                high = index > high ? index : high;
            }
            if (count > 0) {
                assert_int_equal(low, begin);
                assert_int_equal(high, begin + count - 1);
            }
            assert_in_range(count, order.count / p.domains, (order.count + p.domains - 1) / p.domains);
            begin += count;
        }
        assert_int_equal(begin, order.count);
    }
}

/* Every domain walks whole lines of its own in bands of the group, and at any time all of them are at the same place along
 * the walk; only what an even split leaves over, fewer lines than there are domains, is shared. */
static void serpentine_swizzled_keeps_lines_apart(void **state) {
    (void)state;
    uint64_t random = random_seed(8);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        const weft_grid grid = {1, random_between(&random, 1, 40), random_between(&random, 1, 40)};
        const parameters p = {random_between(&random, 1, 9), random_between(&random, 1, 5), (weft_axis)(1 + i % 2)};
        const weft_order order = make(WEFT_ORDER_SERPENTINE_SWIZZLED, grid, p);
        const int64_t lines = p.axis == WEFT_AXIS_N ? grid.cols : grid.rows, share = lines / p.domains;
        const int64_t placed = order.count / lines * share * p.domains;
        for (int64_t position = 0; position < placed; position++) {
            const weft_tile t = weft_order_tile(&order, position);
            const weft_tile first = weft_order_tile(&order, position - position % p.domains);
            const int64_t across = p.axis == WEFT_AXIS_N ? t.col : t.row, along = p.axis == WEFT_AXIS_N ? t.row : t.col;
            assert_int_equal(across / share, position % p.domains);
            assert_int_equal(along, p.axis == WEFT_AXIS_N ? first.row : first.col);
            assert_int_equal(across % share, p.axis == WEFT_AXIS_N ? first.col : first.row);
            assert_int_equal(across % share / order.group, position / p.domains / (order.group * order.count / lines));
        }
        for (int64_t position = placed; position < order.count; position++) {
            const weft_tile t = weft_order_tile(&order, position);
            assert_true((p.axis == WEFT_AXIS_N ? t.col : t.row) >= share * p.domains);
        }
        if (p.domains == 1) {
            const weft_order plain = make(WEFT_ORDER_SERPENTINE, grid, p);
            for (int64_t position = 0; position < order.count; position++) {
                assert_int_equal(weft_tile_index(&order, weft_order_tile(&order, position)),
                                 weft_tile_index(&plain, weft_order_tile(&plain, position)));
            }
        }
    }
}

/* Within a section of longest-first the blocks never get longer, and sections come one after the other. */
static void longest_first_descends(void **state) {
    (void)state;
    uint64_t random = random_seed(6);
    for (int i = 0; random_round(&random, &i, 500); i++) {
        const weft_grid grid = {random_between(&random, 1, 3), random_between(&random, 1, 20),
                                random_between(&random, 1, 20)};
        const parameters p = {random_between(&random, 1, 25), 1, WEFT_AXIS_N};
        const weft_order order = make(WEFT_ORDER_LONGEST_FIRST, grid, p);
        int64_t section = -1, block = 0;
        for (int64_t position = 0; position < order.count; position++) {
            const weft_tile t = weft_order_tile(&order, position);
            const int64_t now = (t.batch * grid.rows + t.head) / order.group;
            assert_true(now == section || now == section + 1);
            assert_true(now != section || t.block <= block);
            section = now;
            block = t.block;
        }
    }
}

static void bad_grids_are_refused(void **state) {
    (void)state;
    weft_order order;
    const int64_t large = INT64_C(1) << 32;
    const weft_grid bad[] = {{0, 1, 1},        {1, 0, 1},         {1, 1, 0},         {-1, 1, 1},
                             {1, -5, 1},       {large, large, 1}, {4, large, large}, {INT64_MAX, INT64_MAX, INT64_MAX},
                             {1, INT64_MIN, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(weft_order_init(&order, WEFT_ORDER_HILBERT, bad[i], 0, WEFT_AXIS_N, 1));
        assert_int_equal(order.count, 0);
    }
    const weft_grid good = {1, 2, 3};
    assert_false(weft_order_init(&order, (weft_order_kind)(WEFT_ORDER_KINDS + 1), good, 0, WEFT_AXIS_N, 1));
    assert_false(weft_order_init(&order, WEFT_ORDER_CHOOSE, good, 0, WEFT_AXIS_N, 1));
    assert_false(weft_order_init(&order, (weft_order_kind)-1, good, 0, WEFT_AXIS_N, 1));
    assert_false(weft_order_init(&order, WEFT_ORDER_GROUP, good, -1, WEFT_AXIS_N, 1));
    assert_false(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST_SWIZZLED, good, 0, WEFT_AXIS_N, 0));
    assert_true(weft_order_init(&order, WEFT_ORDER_GROUP, good, INT64_MAX, WEFT_AXIS_N, INT64_C(1) << 62));
    const weft_grid many = {1, INT64_C(1) << 31, INT64_C(1) << 31};
    assert_true(weft_order_init(&order, WEFT_ORDER_HILBERT, many, 0, WEFT_AXIS_N, 1));
    assert_false(weft_order_fill_table(&order, NULL));
}

static void names_round_trip(void **state) {
    (void)state;
    for (int32_t i = 1; i <= WEFT_ORDER_KINDS; i++) {
        assert_int_equal(weft_order_find(weft_order_describe(i)->name), i);
        assert_int_equal(weft_order_describe(i)->grid, weft_order_grid(i));
    }
    for (int32_t i = 1; i <= WEFT_SWEEPS; i++) {
        assert_int_equal(weft_sweep_find(weft_sweep_describe(i)->name), i);
    }
    for (int32_t i = 1; i <= WEFT_DISPATCHES; i++) {
        assert_int_equal(weft_dispatch_find(weft_dispatch_describe(i)->name), i);
    }
    assert_int_equal(weft_order_find("hilbrt"), WEFT_ORDER_CHOOSE);
    assert_int_equal(weft_order_find(NULL), WEFT_ORDER_CHOOSE);
    assert_int_equal(weft_sweep_find("forwards"), WEFT_SWEEP_CHOOSE);
    assert_int_equal(weft_dispatch_find(""), WEFT_DISPATCH_CHOOSE);
    for (int32_t i = -1; i <= 0; i++) {
        assert_null(weft_order_describe(i));
        assert_null(weft_sweep_describe(i));
        assert_null(weft_dispatch_describe(i));
    }
    assert_null(weft_order_describe(WEFT_ORDER_KINDS + 1));
    assert_null(weft_sweep_describe(WEFT_SWEEPS + 1));
    assert_null(weft_dispatch_describe(WEFT_DISPATCHES + 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_small_grids),
                                       cmocka_unit_test(random_grids),
                                       cmocka_unit_test(huge_grids),
                                       cmocka_unit_test(hilbert_steps_to_neighbours),
                                       cmocka_unit_test(swizzled_orders_keep_heads_together),
                                       cmocka_unit_test(serpentine_swizzled_keeps_lines_apart),
                                       cmocka_unit_test(longest_first_descends),
                                       cmocka_unit_test(bad_grids_are_refused),
                                       cmocka_unit_test(names_round_trip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
