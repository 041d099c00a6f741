/** @file
 * A worker's view: my next tile, its first step, last step and direction.
 *
 * Steps are what a tile goes through: blocks of keys for attention, slices of k for a GEMM. This is all that a kernel or
 * the simulator asks; neither computes an order itself.
 *
 *   weft_worker me = weft_worker_start(&walk, blockIdx.x, counter);
 *   weft_visit visit;
 *   while (weft_worker_next(&walk, &me, &visit)) {
 *       for (int64_t i = 0, step = visit.first; i < visit.steps; i++, step += visit.direction) { ... }
 *   }
 */
#ifndef WEFT_ORDER_WALK_H
#define WEFT_ORDER_WALK_H

#include "../order.h"

typedef enum weft_sweep {
#define WEFT_SWEEP(ID, name, text) WEFT_SWEEP_##ID,
#include "../orders.def"
    WEFT_SWEEPS
} weft_sweep;

typedef enum weft_dispatch {
#define WEFT_DISPATCH(ID, name, text) WEFT_DISPATCH_##ID,
#include "../orders.def"
    WEFT_DISPATCHES
} weft_dispatch;

/** How far a tile's steps reach. */
typedef struct weft_reach {
    int64_t rows, columns; /**< queries and keys (GEMM: columns is k, rows is not used) */
    int64_t tile_rows;     /**< queries in a tile */
    int64_t tile_columns;  /**< keys, or k, in a step */
    int64_t offset;        /**< causal: query i sees keys 0 .. i + offset */
    int32_t causal;
    weft_divisor by_tile_columns;
} weft_reach;

/** The steps of one tile: 0 .. steps - 1, of which the first `unmasked` need no mask. */
typedef struct weft_range {
    int64_t steps, unmasked;
} weft_range;

/** A schedule, ready to be walked: a plain value, the same for all workers. Filled by weft_walk_init(). */
typedef struct weft_walk {
    weft_order order;                   /**< over positions; a position is `halves` times a cluster of tiles */
    int32_t sweep, dispatch;            /**< a weft_sweep, a weft_dispatch */
    int32_t halves;                     /**< tiles one after the other in a position: 2 for the pair sweep, else 1 */
    int64_t cluster_rows, cluster_cols; /**< tiles side by side in a position, one for each CTA of a cluster */
    int64_t cols;                       /**< columns of tiles in the grid */
    int64_t workers;                    /**< persistent workers (grid: workers in a wave), counted in clusters */
    weft_divisor by_workers;
    weft_reach reach;
} weft_walk;

/** One visit of a worker to a tile (with clusters: to the first tile of the cluster). */
typedef struct weft_visit {
    weft_tile tile;
    int64_t position;
    int64_t first, last; /**< first and last step in the order of visiting; meaningless when steps is 0 */
    int64_t steps;       /**< how many; 0 when no key is visible */
    int64_t unmasked;    /**< steps with a smaller index than this need no mask */
    int32_t direction;   /**< +1 or -1: what to add to a step to get the next */
} weft_visit;

/** A worker on its way. */
typedef struct weft_worker {
    int64_t position;  /**< the position in hand */
    int64_t turn;      /**< positions taken so far; for grid and dynamic, the number of the wave that the position is in, so
                            that a tile's direction does not depend on who takes it */
    int32_t half;      /**< the next tile inside the position */
    int32_t side;      /**< of the L2, 0 or 1, where positions are dealt out by side; else -1 */
    uint64_t *counter; /**< dynamic: the shared counter, 0 at the start */
} weft_worker;

/** Prepares how far tiles reach. All sizes at least 1; `offset` is used only when causal. */
WEFT_INLINE weft_reach weft_reach_make(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns, int causal,
                                       int64_t offset) {
    weft_reach r;
    r.rows = rows;
    r.columns = columns;
    r.tile_rows = tile_rows;
    r.tile_columns = tile_columns;
    r.offset = causal ? offset : 0;
    r.causal = causal != 0;
    r.by_tile_columns = weft_divisor_make((uint64_t)tile_columns);
    return r;
}

/** The steps that query block `block` sees: those not wholly masked. Only the diagonal and the ragged edge need a mask. */
WEFT_INLINE weft_range weft_reach_range(const weft_reach *r, int64_t block) {
    int64_t seen = r->columns; /* keys that the last query of the block sees */
    int64_t whole = seen;      /* keys that its first query, and so every query, sees */
    if (r->causal) {
        const int64_t begin = block * r->tile_rows;
        const int64_t end = begin + r->tile_rows < r->rows ? begin + r->tile_rows : r->rows;
        seen = end + r->offset < seen ? end + r->offset : seen;
        whole = begin + 1 + r->offset < whole ? begin + 1 + r->offset : whole;
    }
    weft_range range;
    range.steps = seen > 0 ? weft_divide(seen - 1, &r->by_tile_columns) + 1 : 0;
    range.unmasked = whole > 0 ? weft_divide(whole, &r->by_tile_columns) : 0;
    return range;
}

/** The grid of positions: tiles, gathered into clusters and, for the pair sweep, pairs of columns. */
WEFT_INLINE weft_grid weft_walk_positions(weft_grid tiles, weft_sweep sweep, int64_t cluster_rows, int64_t cluster_cols) {
    weft_grid g;
    g.batch = tiles.batch;
    g.rows = weft_ceil_divide(tiles.rows, cluster_rows);
    g.cols = weft_ceil_divide(tiles.cols, cluster_cols);
    if (sweep == WEFT_SWEEP_PAIR) {
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
 * @return 1, or 0 when the order's grid is not that of weft_walk_positions() or a size is below 1; the walk is then empty.
 */
WEFT_INLINE int weft_walk_init(weft_walk *walk, const weft_order *order, weft_grid tiles, weft_sweep sweep,
                               weft_dispatch dispatch, int64_t cluster_rows, int64_t cluster_cols, int64_t workers,
                               weft_reach reach) {
    walk->order = *order;
    walk->sweep = (int32_t)sweep;
    walk->dispatch = (int32_t)dispatch;
    walk->halves = sweep == WEFT_SWEEP_PAIR ? 2 : 1;
    walk->cluster_rows = cluster_rows;
    walk->cluster_cols = cluster_cols;
    walk->cols = tiles.cols;
    walk->workers = 1;
    walk->reach = reach;
    int fits = cluster_rows >= 1 && cluster_cols >= 1 && workers / cluster_rows >= cluster_cols;
    if (fits) {
        const weft_grid g = weft_walk_positions(tiles, sweep, cluster_rows, cluster_cols);
        walk->workers = workers / (cluster_rows * cluster_cols);
        fits = order->grid.batch == g.batch && order->grid.rows == g.rows && order->grid.cols == g.cols;
    }
    walk->by_workers = weft_divisor_make((uint64_t)walk->workers);
    walk->order.count = fits ? order->count : 0;
    return fits;
}

/** The visit for one half of a position, on a worker's given turn: a pure function, for kernels that fetch positions
 * themselves. `half` is 0, or 0 and 1 under the pair sweep; returns 0 when that half lies beyond the last column. */
WEFT_INLINE int weft_walk_visit(const weft_walk *walk, int64_t position, int64_t turn, int32_t half, weft_visit *visit) {
    const weft_tile t = weft_order_tile(&walk->order, position);
    visit->tile.batch = t.batch;
    visit->tile.row = t.row * walk->cluster_rows;
    visit->tile.col = (t.col * walk->halves + half) * walk->cluster_cols;
    if (visit->tile.col >= walk->cols) {
        return 0;
    }
    weft_range range = weft_reach_range(&walk->reach, visit->tile.col);
    if (walk->reach.causal && walk->cluster_cols > 1) { /* a cluster goes as far as its last tile */
        const int64_t last = visit->tile.col + walk->cluster_cols - 1;
        range.steps = weft_reach_range(&walk->reach, last < walk->cols ? last : walk->cols - 1).steps;
    }
    const int down = walk->sweep == WEFT_SWEEP_SAWTOOTH ? turn % 2 != 0 : half;
    visit->position = position;
    visit->steps = range.steps;
    visit->unmasked = range.unmasked;
    visit->first = down ? range.steps - 1 : 0;
    visit->last = down ? 0 : range.steps - 1;
    visit->direction = down ? -1 : 1;
    return 1;
}

WEFT_INLINE uint64_t weft_take_ticket(uint64_t *counter) {
#if defined(__CUDA_ARCH__)
    return atomicAdd((unsigned long long *)counter, 1ull);
#else
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#endif
}

/** Takes the next of the numbers 0 .. count - 1 that are dealt out by side, the even ones to side 0 and the odd ones to
 * side 1; a side that has none left takes from the other. `counter` counts both: 32 bits each, below 2^31 takers.
 * @return the number, or `count` when there is none. */
WEFT_INLINE int64_t weft_take_by_side(uint64_t *counter, int64_t count, int32_t side) {
    for (int32_t i = 0; i < 2; i++) {
        const int32_t from = i ? 1 - side : side;
#if defined(__CUDA_ARCH__)
        const uint64_t before = atomicAdd((unsigned long long *)counter, 1ull << (32 * from));
#else
        const uint64_t before = __atomic_fetch_add(counter, 1ull << (32 * from), __ATOMIC_RELAXED);
#endif
        const int64_t number = 2 * (int64_t)(uint32_t)(before >> (32 * from)) + from;
        if (number < count) {
            return number;
        }
    }
    return count;
}

/** Starts a worker.
 *
 * @param walk     the schedule
 * @param index    which worker: 0 .. walk->workers - 1, or for grid dispatch which CTA: 0 .. positions - 1
 * @param counter  dynamic dispatch only: a counter shared by all workers, 0 before the first starts; null otherwise
 */
WEFT_INLINE weft_worker weft_worker_start(const weft_walk *walk, int64_t index, uint64_t *counter) {
    weft_worker w;
    w.position = index;
    w.turn = 0;
    w.half = 0;
    w.side = -1;
    w.counter = counter;
    if (walk->dispatch == WEFT_DISPATCH_DYNAMIC) {
        w.position = (int64_t)weft_take_ticket(counter);
    }
    if (walk->dispatch != WEFT_DISPATCH_STATIC) {
        w.turn = weft_divide(w.position, &walk->by_workers);
    }
    return w;
}

/** Starts a worker on a side of the L2, for an order whose position p belongs to domain p mod 2: static dispatch gives it a
 * number that is even on side 0 and odd on side 1, dynamic dispatch the positions of its side. There may be more such
 * workers than walk->workers: those that find no number left have nothing to do. Not for grid dispatch.
 *
 * @param walk     the schedule
 * @param side     0 or 1
 * @param counter  shared by all workers, 0 before the first starts
 */
WEFT_INLINE weft_worker weft_worker_start_by_side(const weft_walk *walk, int32_t side, uint64_t *counter) {
    const int dynamic = walk->dispatch == WEFT_DISPATCH_DYNAMIC;
    weft_worker w;
    w.position = weft_take_by_side(counter, dynamic ? walk->order.count : walk->workers, side);
    w.position = !dynamic && w.position == walk->workers ? walk->order.count : w.position;
    w.turn = dynamic ? weft_divide(w.position, &walk->by_workers) : 0;
    w.half = 0;
    w.side = side;
    w.counter = counter;
    return w;
}

/** Starts a worker whose first position is its own number, under dynamic dispatch, too, so that the first is there without
 * a draw. All workers of a launch start so, or none, and go on by weft_worker_next_after() with walk->workers. */
WEFT_INLINE weft_worker weft_worker_start_at(const weft_walk *walk, int64_t index, uint64_t *counter) {
    weft_worker w;
    w.position = index;
    w.turn = walk->dispatch == WEFT_DISPATCH_GRID ? weft_divide(index, &walk->by_workers) : 0;
    w.half = 0;
    w.side = -1;
    w.counter = counter;
    return w;
}

WEFT_INLINE int64_t weft_next_position(const weft_walk *walk, const weft_worker *worker, int64_t given) {
    if (walk->dispatch == WEFT_DISPATCH_STATIC) {
        return worker->position + walk->workers;
    }
    if (walk->dispatch == WEFT_DISPATCH_GRID) {
        return walk->order.count;
    }
    return worker->side < 0 ? given + (int64_t)weft_take_ticket(worker->counter)
                            : weft_take_by_side(worker->counter, walk->order.count, worker->side);
}

/** As weft_worker_next(), where the first `given` positions were handed out without tickets. */
WEFT_INLINE int weft_worker_next_after(const weft_walk *walk, weft_worker *worker, int64_t given, weft_visit *visit) {
    for (;;) {
        if (worker->position >= walk->order.count) {
            return 0;
        }
        if (worker->half < walk->halves && weft_walk_visit(walk, worker->position, worker->turn, worker->half, visit)) {
            worker->half++;
            return 1;
        }
        worker->half = 0;
        worker->position = weft_next_position(walk, worker, given);
        worker->turn =
            walk->dispatch == WEFT_DISPATCH_STATIC ? worker->turn + 1 : weft_divide(worker->position, &walk->by_workers);
    }
}

/** The worker's next visit. Under dynamic dispatch one thread of the worker calls this and shares the result.
 * @return 1 with *visit filled, or 0 when the worker is done. */
WEFT_INLINE int weft_worker_next(const weft_walk *walk, weft_worker *worker, weft_visit *visit) {
    return weft_worker_next_after(walk, worker, 0, visit);
}

#endif
