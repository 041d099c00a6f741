/* SPDX-License-Identifier: Apache-2.0 */
/* Slices: steps that are exactly the visible ones, for every small slice by counting and for large ones row by row. */
#include "../cmocka_all.h"
#include "../random.h"

#include <string.h>

#include <weft/order.h>

enum { ROWS = 4, COLUMNS = 5, BAND = 6, MAX_TILE = 6 };

/* Bit j: row i sees column j. */
typedef struct picture {
    uint32_t row[COLUMNS > ROWS ? COLUMNS : ROWS];
    int64_t rows, columns;
} picture;

static picture draw(const weft_slice *slice, int64_t rows, int64_t columns) {
    picture p = {.rows = rows, .columns = columns};
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            p.row[i] |= (uint32_t)weft_slice_sees(slice, i, j) << j;
        }
    }
    return p;
}

/* By the definition: what is visited, and what needs no mask. */
static void check_steps(weft_steps steps, const picture *p, int64_t begin, int64_t end, int64_t tile_columns) {
    uint32_t some = 0, all = UINT32_MAX;
    for (int64_t i = begin; i < end; i++) {
        some |= p->row[i];
        all &= p->row[i];
    }
    assert_true(0 <= steps.begin && steps.begin <= steps.full_begin && steps.full_begin <= steps.full_end &&
                steps.full_end <= steps.end);
    assert_true(steps.full_begin < steps.full_end || steps.full_begin == steps.begin);
    assert_true(steps.begin < steps.end || steps.end == 0);
    for (int64_t step = 0; step * tile_columns <= p->columns; step++) {
        const uint32_t columns = ((1u << tile_columns) - 1) << (step * tile_columns);
        assert_int_equal((some & columns) != 0, step >= steps.begin && step < steps.end);
        assert_int_equal((all & columns) == columns, step >= steps.full_begin && step < steps.full_end);
    }
    assert_true(steps.end * tile_columns < p->columns + tile_columns);
}

/* All tiles and steps of a slice. */
static void check_slice(const weft_slice *slice, int64_t rows, int64_t columns, const weft_divisor *by) {
    const picture p = draw(slice, rows, columns);
    for (int64_t tile_columns = 1; tile_columns <= MAX_TILE; tile_columns++) {
        for (int64_t begin = 0; begin < rows; begin++) {
            for (int64_t end = begin + 1; end <= rows; end++) {
                const weft_steps steps = weft_slice_steps(slice, begin, end, &by[tile_columns]);
                check_steps(steps, &p, begin, end, tile_columns);
                if (weft_slice_is_prefix(slice, rows)) {
                    const weft_steps prefix = weft_slice_steps_of(slice, begin, end, &by[tile_columns], 1);
                    assert_memory_equal(&prefix, &steps, sizeof steps);
                }
            }
        }
    }
}

/* The end of a band: open, or between -BAND and BAND. */
static int64_t edge(int64_t i, int64_t open) {
    return i > BAND ? open : i;
}

/* Every rectangle of a small sequence with every band, and its transpose. */
static void small_slices_are_exact(void **state) {
    (void)state;
    weft_divisor by[MAX_TILE + 1];
    int64_t prefixes = 0;
    for (int64_t i = 1; i <= MAX_TILE; i++) {
        by[i] = weft_divisor_make((uint64_t)i);
    }
    for (int64_t n = 0; n < (ROWS + 1) * (ROWS + 1) * (COLUMNS + 1) * (COLUMNS + 1); n++) {
        weft_slice s = {n % (ROWS + 1), n / (ROWS + 1) % (ROWS + 1), 0, 0, 0, 0};
        s.column_begin = n / (ROWS + 1) / (ROWS + 1) % (COLUMNS + 1);
        s.column_end = n / (ROWS + 1) / (ROWS + 1) / (COLUMNS + 1);
        for (int64_t low = -BAND; low <= BAND + 1; low++) {
            for (int64_t high = -BAND; high <= BAND + 1; high++) {
                s.low = edge(low, -WEFT_BAND_OPEN);
                s.high = edge(high, WEFT_BAND_OPEN);
                const weft_slice t = weft_slice_transpose(&s), back = weft_slice_transpose(&t);
                assert_memory_equal(&back, &s, sizeof s);
                for (int64_t i = 0; i < ROWS; i++) {
                    for (int64_t j = 0; j < COLUMNS; j++) {
                        assert_int_equal(weft_slice_sees(&s, i, j), weft_slice_sees(&t, j, i));
                    }
                }
                check_slice(&s, ROWS, COLUMNS, by);
                check_slice(&t, COLUMNS, ROWS, by);
                prefixes += weft_slice_is_prefix(&s, ROWS);
            }
        }
    }
    assert_true(prefixes > 0);
}

__extension__ typedef __int128 wide;

/* A number of any size up to `most`: as many small ones as large ones. */
static int64_t any_up_to(uint64_t *random, int64_t most) {
    const int64_t bits = random_between(random, 0, 62);
    const int64_t value = random_between(random, 0, INT64_MAX >> bits);
    return value <= most ? value : most < 3 ? most : most - value % 3;
}

static int64_t any_band(uint64_t *random) {
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -WEFT_BAND_OPEN - 1, -WEFT_BAND_OPEN,   -1, 0, 1,
                                    INT64_MAX, INT64_MAX - 1, WEFT_BAND_OPEN,      WEFT_BAND_OPEN + 1};
    const int64_t size = any_up_to(random, INT64_MAX);
    return random_between(random, 0, 3) == 0 ? edges[random_between(random, 0, 10)]
           : random_between(random, 0, 1)    ? size
                                             : -size;
}

static wide at_least(wide a, wide b) {
    return a > b ? a : b;
}

static wide at_most(wide a, wide b) {
    return a < b ? a : b;
}

/* Sizes and bands up to the limits, and beyond them for bands: row by row, in 128 bits. */
static void large_slices_do_not_overflow(void **state) {
    (void)state;
    const int64_t limit = WEFT_BAND_OPEN;
    uint64_t random = 5;
    int64_t visible = 0, full = 0;
    for (int n = 0; n < 200000; n++) {
        const int64_t rows = 1 + any_up_to(&random, limit - 1), columns = 1 + any_up_to(&random, limit - 1);
        weft_slice s = weft_slice_full(rows, columns);
        s.row_begin = random_between(&random, 0, 1) ? 0 : any_up_to(&random, rows);
        s.column_begin = random_between(&random, 0, 1) ? 0 : any_up_to(&random, columns);
        s.low = random_between(&random, 0, 2) ? -any_up_to(&random, INT64_MAX) : any_band(&random);
        s.high = random_between(&random, 0, 2) ? any_up_to(&random, INT64_MAX) : any_band(&random);
        const int64_t begin = any_up_to(&random, rows - 1), left = rows - begin;
        const int64_t end = begin + random_between(&random, 1, left < 4 ? left : 4);
        const int64_t tile_columns = 1 + any_up_to(&random, limit - 1);
        const weft_divisor by = weft_divisor_make((uint64_t)tile_columns);
        const weft_steps steps = weft_slice_steps(&s, begin, end, &by);
        const weft_slice transposed = weft_slice_transpose(&s), back = weft_slice_transpose(&transposed),
                         clamped = weft_slice_clamp(s);
        assert_memory_equal(&back, &clamped, sizeof back);
        wide first = INT64_MAX, last = -1, full_begin = 0, full_end = INT64_MAX;
        for (int64_t i = begin; i < end; i++) {
            const wide from = at_least((wide)i + s.low, s.column_begin), to = at_most((wide)i + s.high, s.column_end - 1);
            const int sees = i >= s.row_begin && from <= to;
            first = sees ? at_most(first, from / tile_columns) : first;
            last = sees ? at_least(last, to / tile_columns) : last;
            full_begin = at_least(full_begin, (from + tile_columns - 1) / tile_columns);
            full_end = sees ? at_most(full_end, (to + 1) / tile_columns) : 0;
        }
        if (last < 0) {
            assert_true(steps.begin == 0 && steps.end == 0 && steps.full_begin == 0 && steps.full_end == 0);
            continue;
        }
        visible++;
        assert_true(steps.begin == first && steps.end == last + 1);
        if (full_begin < full_end) {
            full++;
            assert_true(steps.full_begin == full_begin && steps.full_end == full_end);
        } else {
            assert_true(steps.full_begin == steps.begin && steps.full_end == steps.begin);
        }
    }
    assert_true(visible > 50000 && full > 10000);
}

/* Tiles cover the rows, each once, the first one `lead` rows short. */
static void first_tiles_may_be_short(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 30; rows++) {
        for (int64_t tile_rows = 1; tile_rows <= 9; tile_rows++) {
            weft_reach r = weft_reach_make(rows, 64, tile_rows, 8, weft_slice_causal(rows, 64, 0));
            for (r.lead = 0; r.lead < tile_rows; r.lead++) {
                int64_t next = 0;
                for (int64_t block = 0; block < weft_reach_tiles(&r); block++) {
                    const weft_rows tile = weft_reach_rows(&r, block, 1);
                    assert_int_equal(tile.begin, next);
                    assert_true(tile.end > tile.begin);
                    assert_true(tile.end == rows || tile.end - tile.begin == tile_rows - (block == 0 ? r.lead : 0));
                    const weft_steps steps = weft_reach_steps(&r, block, 0);
                    assert_int_equal(steps.end, weft_ceil_divide(tile.end, 8));
                    next = tile.end;
                }
                assert_int_equal(next, rows);
            }
        }
    }
}

/* Documents end to end, and for every tile the slices of the documents whose rows it has. */
enum { MAX_ROWS = 64, MAX_SLICES = 256 };

typedef struct table {
    weft_slice slices[MAX_SLICES];
    uint32_t first[MAX_ROWS + 1];
    int64_t document[MAX_ROWS], begin[MAX_ROWS]; /* of each row, and where that begins */
    int64_t rows;
} table;

static void pack_documents(table *t, uint64_t *random) {
    memset(t, 0, sizeof *t);
    for (int64_t document = 0; t->rows < MAX_ROWS - 16; document++) {
        const int64_t begin = t->rows, length = random_between(random, 1, 15);
        for (; t->rows < begin + length; t->rows++) {
            t->document[t->rows] = document;
            t->begin[t->rows] = begin;
        }
    }
}

/* Row i sees the columns of its own document up to `high` behind it, but none more than `low` before it. */
static void list_slices(table *t, const weft_reach *reach, int64_t low, int64_t high) {
    uint32_t count = 0;
    for (int64_t block = 0; block < weft_reach_tiles(reach); block++) {
        const weft_rows rows = weft_reach_rows(reach, block, 1);
        t->first[block] = count;
        for (int64_t row = rows.begin; row < rows.end; row++) {
            if (row > rows.begin && t->document[row] == t->document[row - 1]) {
                continue;
            }
            int64_t end = row;
            while (end < t->rows && t->document[end] == t->document[row]) {
                end++;
            }
            const weft_slice s = {t->begin[row], end, t->begin[row], end, low, high};
            t->slices[count++] = s;
        }
    }
    t->first[weft_reach_tiles(reach)] = count;
    assert_true(count <= MAX_SLICES);
}

/* Visits under a table: every visible pair once, in the range of its own slice, and ranges in the order of the sweep. */
static void packed_documents(void **state) {
    (void)state;
    static unsigned char seen[MAX_ROWS][MAX_ROWS];
    static table t;
    uint64_t random = 3;
    int64_t ranges = 0;
    for (int n = 0; n < 500; n++) {
        pack_documents(&t, &random);
        const int64_t high = n % 3 ? random_between(&random, -3, 5) : WEFT_BAND_OPEN;
        const int64_t low = n % 2 ? high - random_between(&random, 0, 9) : -WEFT_BAND_OPEN;
        weft_reach reach = weft_reach_make(t.rows, t.rows, random_between(&random, 1, 20), random_between(&random, 1, 9),
                                           weft_slice_full(t.rows, t.rows));
        reach.lead = random_between(&random, 0, reach.tile_rows - 1);
        list_slices(&t, &reach, low, high);
        weft_reach_set_table(&reach, t.slices, t.first);
        const weft_grid tiles = {1, 1, weft_reach_tiles(&reach)};
        const weft_sweep sweep = n % 4 < 2 ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_PAIR;
        weft_order order;
        weft_walk walk;
        weft_visit v;
        assert_true(
            weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, weft_walk_positions(tiles, sweep, 1, 1), 0, WEFT_AXIS_N, 1));
        assert_true(weft_walk_init(&walk, &order, tiles, sweep, WEFT_DISPATCH_STATIC, 1, 1, 1, reach));
        weft_worker worker = weft_worker_start(&walk, 0, NULL);
        memset(seen, 0, sizeof seen);
        while (weft_worker_next(&walk, &worker, &v)) {
            const weft_rows rows = weft_reach_rows(&reach, v.tile.block, 1);
            assert_int_equal(v.ranges, weft_reach_ranges(&reach, v.tile.block));
            for (int32_t i = 0; i < v.ranges; i++, ranges++) {
                const int32_t number = v.direction > 0 ? i : v.ranges - 1 - i;
                const weft_slice *slice = &t.slices[t.first[v.tile.block] + (uint32_t)number];
                if (i > 0) {
                    weft_visit_range(&walk, &v, i);
                }
                for (int64_t k = 0, step = v.first; k < v.steps; k++, step += v.direction) {
                    for (int64_t row = rows.begin; row < rows.end; row++) {
                        for (int64_t c = step * reach.tile_columns; c < (step + 1) * reach.tile_columns; c++) {
                            const int sees = weft_slice_sees(slice, row, c);
                            assert_true(sees || step < v.full_begin || step >= v.full_end);
                            if (sees) {
                                seen[row][c]++;
                            }
                        }
                    }
                }
            }
        }
        for (int64_t row = 0; row < t.rows; row++) {
            for (int64_t c = 0; c < t.rows; c++) {
                const int sees = t.document[row] == t.document[c] && c - row >= low && c - row <= high;
                assert_int_equal(seen[row][c], sees);
            }
        }
    }
    assert_true(ranges > 5000);
}

/* A block mask: a tile may see nothing at all. */
static void tiles_without_slices(void **state) {
    (void)state;
    const weft_slice blocks[] = {{0, 4, 8, 12, -WEFT_BAND_OPEN, WEFT_BAND_OPEN}};
    const uint32_t first[] = {0, 1, 1};
    const weft_grid tiles = {1, 1, 2};
    weft_reach reach = weft_reach_make(8, 16, 4, 4, weft_slice_full(8, 16));
    weft_order order;
    weft_walk walk;
    weft_visit v = {0};
    weft_reach_set_table(&reach, blocks, first);
    assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, tiles, 0, WEFT_AXIS_N, 1));
    assert_true(weft_walk_init(&walk, &order, tiles, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_GRID, 1, 1, 1, reach));
    assert_true(weft_walk_visit(&walk, 0, 0, 0, &v));
    assert_true(v.ranges == 1 && v.first == 2 && v.steps == 1 && v.full_begin == 2 && v.full_end == 3);
    assert_true(weft_walk_visit(&walk, 1, 0, 0, &v));
    assert_true(v.ranges == 0 && v.steps == 0 && v.full_begin == v.full_end);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_slices_are_exact),
                                       cmocka_unit_test(large_slices_do_not_overflow),
                                       cmocka_unit_test(first_tiles_may_be_short), cmocka_unit_test(packed_documents),
                                       cmocka_unit_test(tiles_without_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
