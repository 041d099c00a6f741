/* SPDX-License-Identifier: Apache-2.0 */
/* Small schedules of any kind: their workers visit every tile once, and of each tile every step once that one of its rows
 * sees, and no other; alike with a table and without. */
#include <weft/order/walk.h>

#include "require.h"

enum { MOST_TILES = 2 * 8 * 12, MOST_STEPS = 32, MOST_WORKERS = 9 };

static weft_slice take_slice(bytes *in, int64_t rows, int64_t columns) {
    const int64_t high = next_between(in, 0, 80) - 40, wide = next_between(in, 0, 41) - 1;
    switch (next_byte(in) % 4) {
    case 0:
        return weft_slice_full(rows, columns);
    case 1:
        return weft_slice_causal(rows, columns, high);
    case 2:
        return weft_slice_band(rows, columns, high - wide, high);
    default:
        break;
    }
    /* A rectangle, and ends of a band that cannot be added to a row's number. */
    weft_slice s = {next_between(in, 0, rows), rows,           next_between(in, 0, columns), columns,
                    next_number(in),           next_number(in)};
    s.row_end = next_between(in, s.row_begin, rows);
    s.column_end = next_between(in, s.column_begin, columns);
    return s;
}

static weft_walk take_walk(bytes *in, weft_grid *tiles) {
    const int32_t kind = (int32_t)next_between(in, 1, WEFT_ORDER_KINDS);
    const weft_sweep sweep = (weft_sweep)next_between(in, 1, WEFT_SWEEPS);
    const weft_dispatch dispatch = (weft_dispatch)next_between(in, 1, WEFT_DISPATCHES);
    const int heads = weft_order_grid(kind) == WEFT_GRID_HEADS;
    const int64_t cluster_rows = next_between(in, 1, 2), cluster_cols = next_between(in, 1, 2);
    tiles->batch = heads ? next_between(in, 1, 2) : 1;
    tiles->rows = cluster_rows * next_between(in, 1, 4);
    tiles->cols = cluster_cols * next_between(in, 1, 6);
    const int64_t tile_rows = next_between(in, 1, 4), tile_columns = next_between(in, 1, 5);
    const int64_t rows = tiles->cols * tile_rows - next_between(in, 0, tile_rows - 1);
    const int64_t columns = next_between(in, 1, MOST_STEPS);
    const int64_t spare = tiles->cols * tile_rows - rows; /* of the last tile, what the first may have less instead */
    weft_reach reach = weft_reach_make(rows, columns, tile_rows, tile_columns,
                                       heads ? take_slice(in, rows, columns) : weft_slice_full(rows, columns));
    reach.lead = heads ? next_between(in, 0, spare) : 0;
    weft_order order;
    weft_walk walk;
    require(weft_order_init(&order, (weft_order_kind)kind, weft_walk_positions(*tiles, sweep, cluster_rows, cluster_cols),
                            next_between(in, 0, 10), (weft_axis)next_between(in, 0, 2), next_between(in, 1, 5)));
    require(weft_walk_init(&walk, &order, *tiles, sweep, dispatch, cluster_rows, cluster_cols,
                           next_between(in, 4, 4 * MOST_WORKERS), reach));
    return walk;
}

/* The steps of a tile, each on its own. */
static void check_steps(const weft_walk *walk, const weft_visit *v) {
    const weft_reach *r = &walk->reach;
    const int64_t begin = v->tile.col * r->tile_rows - r->lead;
    const int64_t from = weft_larger(begin, 0), to = weft_smaller(begin + walk->cluster_cols * r->tile_rows, r->rows);
    unsigned char visited[MOST_STEPS] = {0};
    for (int64_t i = 0, step = v->first; i < v->steps; i++, step = weft_visit_next(v, step)) {
        require(step >= 0 && step < MOST_STEPS && visited[step]++ == 0);
        require(i + 1 < v->steps || step == v->last);
    }
    for (int64_t step = 0; step < weft_ceil_divide(r->columns, r->tile_columns); step++) {
        int any = 0, all = 1;
        for (int64_t row = from; row < to; row++) {
            for (int64_t key = step * r->tile_columns; key < (step + 1) * r->tile_columns; key++) {
                const int sees = weft_slice_sees(&r->slice, row, key);
                any |= sees;
                all &= sees;
            }
        }
        require(any == visited[step]);
        require((any && all) == (step >= v->full_begin && step < v->full_end));
    }
}

/* All workers take turns. Returns a number that tells one order of visits from another. */
static uint64_t run_workers(const weft_walk *walk, weft_grid tiles) {
    unsigned char seen[MOST_TILES] = {0};
    weft_worker workers[MOST_TILES];
    uint64_t counter = 0, hash = 0;
    const int64_t count = walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : walk->workers;
    require(count <= MOST_TILES);
    for (int64_t w = 0; w < count; w++) {
        workers[w] = weft_worker_start(walk, w, &counter);
    }
    for (int64_t left = count, w = 0; left > 0; w = w + 1 < left ? w + 1 : 0) {
        weft_visit v;
        if (!weft_worker_next(walk, &workers[w], &v)) {
            workers[w] = workers[--left];
            continue;
        }
        check_steps(walk, &v);
        hash = hash * 31 + (uint64_t)((v.tile.batch * tiles.rows + v.tile.row) * tiles.cols + v.tile.col);
        for (int64_t i = 0; i < walk->cluster_rows * walk->cluster_cols; i++) {
            const int64_t row = v.tile.row + i / walk->cluster_cols, col = v.tile.col + i % walk->cluster_cols;
            require(row < tiles.rows && col < tiles.cols);
            require(seen[(v.tile.batch * tiles.rows + row) * tiles.cols + col]++ == 0);
        }
    }
    for (int64_t i = 0; i < tiles.batch * tiles.rows * tiles.cols; i++) {
        require(seen[i]);
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes in = {data, size};
    uint32_t table[MOST_TILES];
    const int again = next_byte(&in) % 8 == 0;
    weft_grid tiles;
    weft_walk walk = take_walk(&in, &tiles);
    const uint64_t computed = run_workers(&walk, tiles);
    if (again) {
        require(weft_order_fill_table(&walk.order, table));
        walk.order.table = table;
        require(run_workers(&walk, tiles) == computed);
    }
    return 0;
}
