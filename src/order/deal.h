/* SPDX-License-Identifier: Apache-2.0 */
/* How the GPU's kernels deal out positions to workers: weft_worker_next() with what a kernel knows beforehand, tickets that
 * begin behind the first wave, and tickets by side of the L2. The simulator deals them out likewise. */
#ifndef WEFT_ORDER_DEAL_H
#define WEFT_ORDER_DEAL_H

#include <weft/order.h>

typedef struct weft_deal {
    int64_t given; /* positions that were handed out without tickets: walk->workers after weft_worker_start_at(), else 0 */
    int32_t side;  /* dynamic dispatch: the worker's side of the L2, 0 or 1, after weft_worker_start_by_side(), else -1 */
    int32_t kind;  /* walk->reach.kind; a constant keeps what other reaches need out of a kernel: see weft_reach_kind */
    int32_t backward; /* 1: the sweeps of a backward pass, too; a constant 0 keeps them out of a kernel */
    int32_t rank;     /* the row of the worker in its cluster, where each has a part of a tile; else 0 */
} weft_deal;

/* Takes the next of the numbers 0 .. count - 1 that are dealt out by side, the even ones to side 0 and the odd ones to side
 * 1; a side that has none left takes from the other. `counter` counts both: 32 bits each, below 2^31 takers. Returns
 * `count` when no number is left. */
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

/* Takes a worker's number by side, even on side 0 and odd on side 1, for workers that know their positions by their number.
 * There may be more such workers than walk->workers: those that find no number left have no position. */
WEFT_INLINE int64_t weft_worker_by_side(const weft_walk *walk, int32_t side, uint64_t *counter) {
    const int64_t workers = walk->workers < walk->order.count ? walk->workers : walk->order.count;
    const int64_t number = weft_take_by_side(counter, workers, side);
    return number < workers ? number : walk->order.count;
}

/* Starts a worker on a side of the L2, for an order whose position p belongs to domain p mod 2: static dispatch gives it a
 * number that is even on side 0 and odd on side 1, dynamic dispatch the positions of its side. There may be more such
 * workers than walk->workers: those that find no number left have nothing to do. Not for grid dispatch. `counter` is shared
 * by all workers, and 0 before the first starts. */
WEFT_INLINE weft_worker weft_worker_start_by_side(const weft_walk *walk, int32_t side, uint64_t *counter) {
    const int dynamic = walk->dispatch == WEFT_DISPATCH_DYNAMIC;
    weft_worker w;
    w.position = dynamic ? weft_take_by_side(counter, walk->order.count, side) : weft_worker_by_side(walk, side, counter);
    w.wave = dynamic ? weft_divide(w.position, &walk->by_workers) : 0;
    w.visits = 0;
    w.counter = counter;
    return w;
}

/* Starts a worker whose first position is its own number, also under dynamic dispatch, so that it needs no ticket for the
 * first. All workers of a launch start so, or none. */
WEFT_INLINE weft_worker weft_worker_start_at(const weft_walk *walk, int64_t index, uint64_t *counter) {
    weft_worker w;
    w.position = index;
    w.wave = walk->dispatch == WEFT_DISPATCH_GRID ? weft_divide(index, &walk->by_workers) : 0;
    w.visits = 0;
    w.counter = counter;
    return w;
}

WEFT_INLINE int64_t weft_next_position(const weft_walk *walk, const weft_worker *worker, weft_deal deal) {
    if (walk->dispatch == WEFT_DISPATCH_STATIC) {
        return worker->position + walk->workers;
    }
    if (walk->dispatch == WEFT_DISPATCH_GRID) {
        return walk->order.count;
    }
    if (deal.backward && walk->next) {
        return walk->next[worker->position];
    }
    return deal.side < 0 ? deal.given + (int64_t)weft_take_ticket(worker->counter)
                         : weft_take_by_side(worker->counter, walk->order.count, deal.side);
}

/* The worker's next visit, as weft_worker_next() returns it. */
WEFT_INLINE int weft_worker_next_dealt(const weft_walk *walk, weft_worker *worker, weft_deal deal, weft_visit *visit) {
    for (;;) {
        if (worker->position >= walk->order.count) {
            return 0;
        }
        if (worker->visits < walk->visits && weft_walk_visit_of(walk, worker->position, worker->wave, worker->visits,
                                                                deal.kind, deal.backward, deal.rank, visit)) {
            worker->visits++;
            return 1;
        }
        worker->visits = 0;
        worker->position = weft_next_position(walk, worker, deal);
        worker->wave =
            walk->dispatch == WEFT_DISPATCH_STATIC ? worker->wave + 1 : weft_divide(worker->position, &walk->by_workers);
    }
}

#endif
