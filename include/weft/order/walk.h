/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A worker's view: my next tile, its first step, last step and direction.
 *
 * Steps are what a tile goes through: blocks of keys for attention, blocks of k for a GEMM. This is all that a kernel or
 * the simulator asks; neither computes an order itself.
 *
 *   weft_worker me = weft_worker_start(&walk, blockIdx.x, counter);
 *   weft_visit visit;
 *   while (weft_worker_next(&walk, &me, &visit)) {
 *       for (int64_t i = 0, step = visit.first; i < visit.steps; i++, step += visit.direction) {
 *           const int needs_mask = step < visit.full_begin || step >= visit.full_end;
 *       }
 *   }
 *
 * Under a block mask (see weft_blocks) the steps of a visit are numbers of its list: weft_visit_step() says which step a
 * number is, and weft_visit_bits() whether its block has bits, and so needs a mask wherever it is.
 *
 * The sweeps of a backward pass wrap around: there, weft_visit_next() goes from a step to the next.
 *
 * A tile under a table of slices (see weft_reach) has visit.ranges ranges of steps, and weft_visit_range() goes on to the
 * next. A plan has one slice, so one range.
 */
#ifndef WEFT_ORDER_WALK_H
#define WEFT_ORDER_WALK_H

#include "kinds.h"
#include "reach.h"

/** The sweeps of orders.def; WEFT_SWEEPS is how many there are. The first WEFT_COMMON_SWEEPS are of every operation, those
 * behind them only of a backward pass. */
typedef enum weft_sweep {
    WEFT_SWEEP_CHOOSE = 0,
#define WEFT_SWEEP(ID, name, text) WEFT_SWEEP_##ID,
#define WEFT_BACKWARD_SWEEP(ID, name, text)
#include "../orders.def"
    WEFT_COMMON_SWEEPS_END,
    WEFT_COMMON_SWEEPS = WEFT_COMMON_SWEEPS_END - 1,
#define WEFT_BACKWARD_SWEEP(ID, name, text) WEFT_SWEEP_##ID,
#include "../orders.def"
    WEFT_SWEEP_END,
    WEFT_SWEEPS = WEFT_SWEEP_END - 1
} weft_sweep;

/** Whether a position is a long tile and a short one: the c-th column of a causal mask and the c-th from the end. */
WEFT_INLINE int weft_sweep_folds(int32_t sweep) {
    return sweep == WEFT_SWEEP_SHIFT_CAUSAL || sweep == WEFT_SWEEP_FOLD_CAUSAL;
}

/** Whether a position is two tiles (or clusters of tiles), one visit each. */
WEFT_INLINE int weft_sweep_pairs(int32_t sweep) {
    return sweep == WEFT_SWEEP_PAIR || weft_sweep_folds(sweep);
}

/** Whether the tiles of a head are at steps of their own, so that many of them can run at once and add in turn. */
WEFT_INLINE int weft_sweep_shifts(int32_t sweep) {
    return sweep == WEFT_SWEEP_SHIFT || sweep == WEFT_SWEEP_CLIMB || weft_sweep_folds(sweep);
}

/** Whether those tiles begin with the first step that they reach and go up. Under a mask who is ahead then stays ahead, for
 * all heads that a tile goes through. */
WEFT_INLINE int weft_sweep_climbs(int32_t sweep) {
    return sweep == WEFT_SWEEP_FOLD_CAUSAL || sweep == WEFT_SWEEP_CLIMB;
}

/** The dispatches of orders.def; WEFT_DISPATCHES is how many there are. */
typedef enum weft_dispatch {
    WEFT_DISPATCH_CHOOSE = 0,
#define WEFT_DISPATCH(ID, name, text) WEFT_DISPATCH_##ID,
#include "../orders.def"
    WEFT_DISPATCH_END,
    WEFT_DISPATCHES = WEFT_DISPATCH_END - 1
} weft_dispatch;

/** When a tile of a backward pass comes by, by a timetable: at step s of the h-th head that shares its keys at `at` +
 * `direction` * s + h * `steps`; and `steps` later, if by then it has wrapped around, since it began with step `first`. */
typedef struct weft_coming {
    int32_t at, steps, first, direction;
} weft_coming;

/** A schedule, ready to be walked: a plain value, the same for all workers. Filled by weft_walk_init(). */
typedef struct weft_walk {
    weft_order order;                   /**< over positions; a position is one or two clusters of tiles */
    int32_t sweep, dispatch;            /**< a weft_sweep, a weft_dispatch */
    int32_t visits;                     /**< visits of a position: 2 where it is a pair of tiles, else 1 */
    int64_t cluster_rows, cluster_cols; /**< tiles of a visit, one for each CTA of a cluster */
    int64_t cols;                       /**< columns of tiles in the grid */
    int64_t workers;                    /**< persistent workers (grid: workers in a wave), counted in clusters */
    weft_divisor by_workers;
    weft_reach reach;
    /* Backward: a timetable, see order/turns.h. */
    const weft_coming *comings; /**< of each tile, line by line of heads; or null */
    const uint32_t *next;       /**< dynamic dispatch: the position behind each one of the same worker, or as many as there
                                     are; worker w begins with position w. Null: as they come */
    const struct weft_visit *firsts; /**< with `next`: what each CTA of each worker begins with, for kernels that have no
                                          time to work that out when they start; or null */
} weft_walk;

/** One visit of a worker to a tile (with clusters: to the first tile of the cluster) for one range of its steps. */
typedef struct weft_visit {
    weft_tile tile;
    int64_t position;
    int64_t first, last;          /**< first and last step in the order of visiting; meaningless when steps is 0 */
    int64_t steps;                /**< how many; 0 when no column is visible */
    int64_t full_begin, full_end; /**< steps full_begin .. full_end - 1 need no mask */
    int32_t direction;            /**< +1 or -1: what to add to a step to get the next */
    int32_t ranges;               /**< ranges of steps of the tile; others than the first: weft_visit_range() */
    weft_cut cut;                 /**< the tile's rows; of a packed batch it may have none */
    int64_t listed;               /**< under a block mask: the first entry of the tile's list; below 0: there is none */
    int64_t edge, wrap;           /**< backward: behind step `edge` comes step `wrap` */
} weft_visit;

/** Backward: the step behind a step. */
WEFT_INLINE int64_t weft_visit_next(const weft_visit *visit, int64_t step) {
    return step == visit->edge ? visit->wrap : step + visit->direction;
}

/** The step that a number from visit->first to visit->last stands for. */
WEFT_INLINE int64_t weft_visit_step(const weft_reach *reach, const weft_visit *visit, int64_t number) {
    return visit->listed < 0 ? number : weft_blocks_step(&reach->blocks, visit->listed, number);
}

/** The bits_at of the block that such a step is in; below 0: its block mask hides nothing. */
WEFT_INLINE int32_t weft_visit_bits(const weft_reach *reach, const weft_visit *visit, int64_t number) {
    return visit->listed < 0 ? -1 : weft_blocks_bits(&reach->blocks, visit->listed, number);
}

/** A worker on its way. */
typedef struct weft_worker {
    int64_t position;  /**< the position in hand */
    int64_t wave;      /**< position / walk->workers: a tile's direction depends on its wave, not on who takes it */
    int32_t visits;    /**< visits of the position that are done */
    uint64_t *counter; /**< dynamic: the shared counter, 0 at the start */
} weft_worker;

/** The grid of positions: tiles, gathered into clusters and, for sweeps that pair them, pairs of columns. */
WEFT_INLINE weft_grid weft_walk_positions(weft_grid tiles, weft_sweep sweep, int64_t cluster_rows, int64_t cluster_cols) {
    weft_grid g;
    g.batch = tiles.batch;
    g.rows = weft_ceil_divide(tiles.rows, cluster_rows);
    g.cols = weft_ceil_divide(tiles.cols, cluster_cols);
    if (weft_sweep_pairs((int32_t)sweep)) {
        g.cols = weft_ceil_divide(g.cols, 2);
    }
    return g;
}

/** Prepares a walk.
 *
 * @param walk     what is filled
 * @param order    over the positions of `tiles`: see weft_walk_positions()
 * @param tiles    the grid of tiles
 * @param sweep    the path through a tile's steps
 * @param dispatch how positions reach workers
 * @param cluster_rows, cluster_cols  tiles of one cluster; 1 and 1 without clusters
 * @param workers  CTAs (or cores) at work at a time; with clusters, whole clusters are counted
 * @param reach    from weft_reach_make()
 * @return 1, or 0 when the order's grid is not that of weft_walk_positions(), a size is below 1, a table of slices or a
 * packed batch meets clusters of several columns, a table of slices a sweep that wraps around, or a block mask clusters; or
 * where parts of a tile are not in one cluster, or are of a table of slices or a block mask. The walk is then empty.
 */
WEFT_INLINE int weft_walk_init(weft_walk *walk, const weft_order *order, weft_grid tiles, weft_sweep sweep,
                               weft_dispatch dispatch, int64_t cluster_rows, int64_t cluster_cols, int64_t workers,
                               weft_reach reach) {
    walk->order = *order;
    walk->sweep = (int32_t)sweep;
    walk->dispatch = (int32_t)dispatch;
    walk->visits = weft_sweep_pairs((int32_t)sweep) ? 2 : 1;
    walk->cluster_rows = cluster_rows;
    walk->cluster_cols = cluster_cols;
    walk->cols = tiles.cols;
    walk->workers = 1;
    walk->reach = reach;
    walk->next = 0;
    walk->comings = 0;
    walk->firsts = 0;
    int fits =
        cluster_rows >= 1 && cluster_cols >= 1 && workers / cluster_rows >= cluster_cols &&
        (cluster_cols == 1 || (!reach.first_slice && !reach.sequences.packed)) &&
        (!reach.first_slice || !weft_sweep_shifts((int32_t)sweep)) &&
        (cluster_rows * cluster_cols == 1 || reach.kind != WEFT_REACH_BLOCKS) &&
        (reach.parts <= 1 || (cluster_rows % reach.parts == 0 && cluster_cols == 1 && tiles.rows % cluster_rows == 0 &&
                              !reach.first_slice && reach.kind != WEFT_REACH_BLOCKS));
    if (fits) {
        const weft_grid g = weft_walk_positions(tiles, sweep, cluster_rows, cluster_cols);
        walk->workers = workers / (cluster_rows * cluster_cols);
        fits = order->grid.batch == g.batch && order->grid.rows == g.rows && order->grid.cols == g.cols;
    }
    walk->by_workers = weft_divisor_make((uint64_t)walk->workers);
    walk->order.count = fits ? order->count : 0;
    return fits;
}

/** weft_visit_range(), where `kind` is walk->reach.kind, or a constant in a kernel that takes no other. */
WEFT_INLINE void weft_visit_range_of(const weft_walk *walk, weft_visit *visit, int32_t i, int kind) {
    const weft_reach *reach = &walk->reach;
    const int down = visit->direction < 0;
    weft_steps steps;
    visit->listed = -1;
    if (kind == WEFT_REACH_BAND || kind == WEFT_REACH_BLOCKS) {
        visit->cut = weft_reach_cut(reach, visit->tile.batch, visit->tile.col, walk->cluster_cols);
        steps = weft_reach_band_steps(reach, &visit->cut);
        if (kind == WEFT_REACH_BLOCKS && reach->blocks.pairs.block_starts) {
            const weft_rows entries =
                weft_blocks_entries(&reach->blocks, visit->tile.batch, visit->tile.row, visit->cut.rows.begin);
            const weft_rows numbers = weft_blocks_steps(&reach->blocks, entries, steps.begin, steps.end);
            visit->listed = entries.begin;
            steps.begin = numbers.begin;
            steps.end = numbers.end;
        }
    } else {
        /* The tiles of a cluster go through the same steps: those of all their rows. */
        visit->cut.rows = weft_reach_rows(reach, visit->tile.col, walk->cluster_cols);
        visit->cut.sequence = 0;
        if (kind == WEFT_REACH_PREFIX || !reach->first_slice) {
            steps = weft_slice_steps_of(&reach->slice, visit->cut.rows.begin, visit->cut.rows.end, &reach->by_tile_columns,
                                        kind == WEFT_REACH_PREFIX);
        } else {
            steps = weft_reach_steps(reach, visit->tile.col, down ? visit->ranges - 1 - i : i);
        }
    }
    visit->steps = steps.end - steps.begin;
    visit->full_begin = steps.full_begin;
    visit->full_end = steps.full_end;
    visit->first = down ? steps.end - 1 : steps.begin;
    visit->last = down ? steps.begin : steps.end - 1;
}

/** Which part of its tiles' steps a row of the grid has, or which of the rows of a tile has a part. Tiles that climb begin
 * with the last part, those that come down with the first: who begins earlier is ahead then, and others that add into the
 * same sums find its adds there. */
WEFT_INLINE int64_t weft_walk_part(const weft_walk *walk, int64_t row) {
    const int64_t turn = row - weft_divide(row, &walk->reach.by_parts) * walk->reach.parts;
    return walk->sweep == WEFT_SWEEP_DESCENDING ? turn : walk->reach.parts - 1 - turn;
}

/** Where the steps of a part begin, counted from the first of the tile's `steps`. Parts are as long as each other, the
 * first ones a step longer than the last ones; where there are fewer steps than parts the last ones are empty. */
WEFT_INLINE int64_t weft_part_begin(const weft_reach *reach, int64_t steps, int64_t part) {
    const int64_t each = weft_divide(steps, &reach->by_parts), more = steps - each * reach->parts;
    return part * each + weft_smaller(part, more);
}

/** Backward: leaves a visit that has all steps of its tile those of its part. */
WEFT_INLINE void weft_visit_cut(const weft_walk *walk, weft_visit *visit) {
    const weft_reach *reach = &walk->reach;
    if (reach->parts > 1) {
        const int64_t part = weft_walk_part(walk, visit->tile.row), down = visit->direction < 0;
        const int64_t low = down ? visit->last : visit->first;
        const int64_t begin = low + weft_part_begin(reach, visit->steps, part);
        const int64_t end = low + weft_part_begin(reach, visit->steps, part + 1);
        visit->steps = end - begin;
        visit->first = down ? end - 1 : begin;
        visit->last = down ? begin : end - 1;
        visit->full_begin = weft_between(visit->full_begin, begin, end);
        visit->full_end = weft_between(visit->full_end, begin, end);
    }
}

/** Sets a visit to the i-th range of its tile's steps in the order of visiting, i below visit->ranges: a visit that comes
 * down begins with the last range. */
WEFT_INLINE void weft_visit_range(const weft_walk *walk, weft_visit *visit, int32_t i) {
    weft_visit_range_of(walk, visit, i, walk->reach.kind);
    weft_visit_cut(walk, visit);
}

/** The line of a row of a batch: tiles are numbered line by line, for all rows of all clusters. */
WEFT_INLINE int64_t weft_walk_line(const weft_walk *walk, int64_t batch, int64_t row) {
    return batch * walk->order.grid.rows * walk->cluster_rows + row;
}

/** Where tile column `col` begins in a ring of all steps: step col, scaled to `steps` for `cols` columns; under
 * shift-causal half of the ring further on, for the first half of the columns. Grows from column to column. Tiles
 * that climb begin with the first step that they reach. */
WEFT_INLINE int64_t weft_shift_start(int32_t sweep, int64_t cols, int64_t steps, int64_t col) {
    return weft_sweep_climbs(sweep) ? 0 : (col + (sweep == WEFT_SWEEP_SHIFT_CAUSAL ? cols / 2 : 0)) * steps / cols;
}

/** Lets a visit of a backward pass begin where its sweep says and wrap around. A tile that does not reach the step where it
 * would begin begins with the next one that it reaches. */
WEFT_INLINE void weft_visit_shift(const weft_walk *walk, weft_visit *visit) {
    visit->edge = visit->last;
    visit->wrap = visit->first;
    if (weft_sweep_shifts(walk->sweep) && visit->direction > 0) {
        const weft_reach *reach = &walk->reach;
        const int64_t steps = weft_divide(reach->columns - 1, &reach->by_tile_columns) + 1;
        const int64_t line = weft_walk_line(walk, visit->tile.batch, visit->tile.row);
        const int64_t start = walk->comings ? walk->comings[line * walk->cols + visit->tile.col].first
                                            : weft_shift_start(walk->sweep, walk->cols, steps, visit->tile.col);
        if (start > visit->first && start <= visit->last) {
            visit->first = start;
            visit->last = start - 1;
        }
    }
}

/** weft_walk_visit(), where `kind` is as in weft_visit_range_of(). A kernel that takes no sweep of a backward pass passes a
 * constant 0 as `backward`, and what only these need is not compiled. rank: the row of the cluster whose tile is meant,
 * where each has another part of it; else 0. */
WEFT_INLINE int weft_walk_visit_of(const weft_walk *walk, int64_t position, int64_t wave, int32_t which, int kind,
                                   int backward, int64_t rank, weft_visit *visit) {
    const weft_tile t = weft_order_tile(&walk->order, position);
    int64_t col = t.col * walk->visits + which;
    if (backward && weft_sweep_folds(walk->sweep)) { /* the c-th column and the c-th from the end */
        col = which ? weft_ceil_divide(walk->cols, walk->cluster_cols) - 1 - t.col : t.col;
        if (which && col == t.col) {
            return 0;
        }
    }
    visit->tile.batch = t.batch;
    visit->tile.row = t.row * walk->cluster_rows + rank;
    visit->tile.col = col * walk->cluster_cols;
    if (visit->tile.col >= walk->cols) {
        return 0;
    }
    visit->position = position;
    const int down = walk->sweep == WEFT_SWEEP_SAWTOOTH                 ? wave % 2 != 0
                     : backward && walk->sweep == WEFT_SWEEP_DESCENDING ? 1
                                                                        : which;
    visit->direction = down != (kind == WEFT_REACH_BAND && walk->reach.turned) ? -1 : 1;
    visit->ranges = kind != WEFT_REACH_ANY ? 1 : weft_reach_ranges(&walk->reach, visit->tile.col);
    if (visit->ranges > 0) {
        weft_visit_range_of(walk, visit, 0, kind);
    } else { /* the tile has no slice */
        visit->first = visit->last = visit->steps = visit->full_begin = visit->full_end = 0;
        visit->listed = -1;
        visit->cut.rows = weft_reach_rows(&walk->reach, visit->tile.col, 1);
        visit->cut.sequence = 0;
    }
    if (backward) {
        weft_visit_cut(walk, visit);
        weft_visit_shift(walk, visit);
    }
    return 1;
}

/** A visit of a position that is in a given wave: a pure function, for kernels that fetch positions themselves. `which` is
 * 0, or 0 and 1 where a position is a pair.
 * @return 1, or 0 when a pair has no second tile. */
WEFT_INLINE int weft_walk_visit(const weft_walk *walk, int64_t position, int64_t wave, int32_t which, weft_visit *visit) {
    return weft_walk_visit_of(walk, position, wave, which, walk->reach.kind, 1, 0, visit);
}

/** Takes the next number from a counter that workers share. */
WEFT_INLINE uint64_t weft_take_ticket(uint64_t *counter) {
#if defined(__CUDA_ARCH__)
    return atomicAdd((unsigned long long *)counter, 1ull);
#else
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#endif
}

/** Starts a worker.
 *
 * @param walk     the schedule
 * @param index    which worker: 0 .. walk->workers - 1, or for grid dispatch which CTA: 0 .. positions - 1
 * @param counter  dynamic dispatch only: a counter shared by all workers, 0 before the first starts; null otherwise
 */
WEFT_INLINE weft_worker weft_worker_start(const weft_walk *walk, int64_t index, uint64_t *counter) {
    weft_worker w;
    w.position = walk->dispatch == WEFT_DISPATCH_DYNAMIC && !walk->next ? (int64_t)weft_take_ticket(counter) : index;
    w.wave = walk->dispatch == WEFT_DISPATCH_STATIC ? 0 : weft_divide(w.position, &walk->by_workers);
    w.visits = 0;
    w.counter = counter;
    return w;
}

/** The worker's next visit. Under dynamic dispatch one thread of the worker calls this and shares the result.
 * @return 1 with *visit filled, or 0 when the worker is done. */
WEFT_INLINE int weft_worker_next(const weft_walk *walk, weft_worker *worker, weft_visit *visit) {
    while (worker->position < walk->order.count) {
        if (worker->visits < walk->visits && weft_walk_visit(walk, worker->position, worker->wave, worker->visits, visit)) {
            worker->visits++;
            return 1;
        }
        worker->visits = 0;
        worker->position = walk->dispatch == WEFT_DISPATCH_STATIC    ? worker->position + walk->workers
                           : walk->next                              ? walk->next[worker->position]
                           : walk->dispatch == WEFT_DISPATCH_DYNAMIC ? (int64_t)weft_take_ticket(worker->counter)
                                                                     : walk->order.count;
        worker->wave =
            walk->dispatch == WEFT_DISPATCH_STATIC ? worker->wave + 1 : weft_divide(worker->position, &walk->by_workers);
    }
    return 0;
}

#endif
