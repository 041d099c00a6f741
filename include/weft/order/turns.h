/** @file
 * Turns: in which order the tiles of a backward pass add into a step's sums.
 *
 * A tile is a block of keys; at each of its steps, a block of queries, it adds to sums that other tiles of its head add to,
 * too. Whoever adds in a fixed order gets the same bits in every run: a counter for each query block of each head counts
 * the adds, and a tile waits until the counter has reached its turn.
 *
 *   weft_turn turn = weft_turn_of_visit(&turns, &visit);
 *   for (int64_t i = 0, step = visit.first; i < visit.steps; i++, step = weft_visit_next(&visit, step)) {
 *       wait until counter[head][step] == weft_turn_at(&turns, &walk.reach, &turn, step); add; counter[head][step]++;
 *   }
 *
 * Positions of a head (tiles, or pairs of them) form groups of `together` neighbouring columns, or of those that are in one
 * wave of workers. Groups add one after the other in the order in which they start. In a group, tiles add in the order in
 * which they come by when all of them start at once and every step takes equally long; so under shift and shift-causal
 * nobody waits.
 *
 * Nobody waits for ever if workers take positions in their order, the positions of a group are all among `workers`
 * neighbouring ones, and `workers` workers run at the same time: weft_turns_make() in src/order/turns.h sees to the first
 * two, the launch to the third. Under dynamic dispatch a worker must not take a position while its last one still waits for
 * its turns: it may be waiting for the very one it would take. Groups of one position (`together` is 1), which sweeps that
 * do not shift have wherever the order starts a head's tiles from one end to the other, need no worker beside the one that
 * works.
 */
#ifndef WEFT_ORDER_TURNS_H
#define WEFT_ORDER_TURNS_H

#include "walk.h"

/** The turns of all tiles of a walk: a plain value that can be passed to a kernel. */
typedef struct weft_turns {
    int64_t cols, steps; /**< tiles of a head, and steps that there are: blocks of keys and of queries */
    int64_t together;    /**< columns of positions in a group, at least 1; of waves, at most */
    int64_t workers;     /**< above 0: groups are waves of so many positions, heads being taken one after the other */
    int32_t sweep;       /**< a weft_sweep */
    int32_t from_end;    /**< 1: groups start, and add, from the last to the first */
    weft_divisor by_steps, by_workers, by_positions;
} weft_turns;

/** What the turns of one tile have in common. */
typedef struct weft_turn {
    int64_t batch, col;
    weft_rows group; /**< columns of tiles; where they fold, those of the long ones */
} weft_turn;

WEFT_INLINE weft_turns weft_turns_of(const weft_walk *walk, int64_t together, int64_t workers, int from_end) {
    weft_turns t;
    t.cols = walk->cols;
    t.steps = weft_divide(walk->reach.columns - 1, &walk->reach.by_tile_columns) + 1;
    t.together = together;
    t.workers = workers;
    t.sweep = walk->sweep;
    t.from_end = from_end;
    t.by_steps = weft_divisor_make((uint64_t)t.steps);
    t.by_workers = weft_divisor_make((uint64_t)(workers > 0 ? workers : 1));
    t.by_positions = weft_divisor_make((uint64_t)walk->order.grid.cols);
    return t;
}

/** Tile columns of one sequence with a key that one of these queries sees, under a band. */
WEFT_INLINE weft_rows weft_turns_reached(const weft_reach *reach, int64_t number, weft_rows queries) {
    const weft_sequence s = weft_sequence_at(&reach->sequences, number);
    const int32_t *starts = weft_reach_starts(reach);
    weft_rows cols = {0, 0};
    queries.begin = weft_larger(queries.begin, s.rows.begin);
    queries.end = weft_smaller(queries.end, s.used_end);
    if (queries.begin < queries.end) {
        const int64_t begin = weft_band_seen(&reach->band, &s, queries.begin).begin;
        const int64_t end = weft_band_seen(&reach->band, &s, queries.end - 1).end;
        const int64_t origin = starts ? weft_between(starts[number], 0, reach->rows) : 0;
        const int64_t first = starts ? weft_divide(origin, &reach->by_tile_rows) + number : 0;
        if (begin < end) {
            cols.begin = first + weft_divide(begin - origin, &reach->by_tile_rows);
            cols.end = first + weft_divide(end - 1 - origin, &reach->by_tile_rows) + 1;
        }
    }
    return cols;
}

/** Tiles of a head before column `col` that reach a step, and so add into it. */
WEFT_INLINE int64_t weft_turns_before(const weft_reach *reach, int64_t batch, int64_t step, int64_t col) {
    weft_rows queries, cols;
    queries.begin = step * reach->tile_columns;
    queries.end = weft_smaller(queries.begin + reach->tile_columns, reach->columns);
    if (!weft_reach_has_band(reach)) {
        const weft_slice slice = weft_slice_transpose(&reach->slice);
        const weft_steps tiles = weft_slice_steps_of(&slice, queries.begin, queries.end, &reach->by_tile_rows, 0);
        return weft_between(col - tiles.begin, 0, tiles.end - tiles.begin);
    }
    if (!weft_reach_starts(reach)) {
        cols = weft_turns_reached(reach, batch, queries);
        return weft_between(col - cols.begin, 0, cols.end - cols.begin);
    }
    const weft_sequences *all = &reach->sequences; /* a step may have queries of several sequences */
    int64_t before = 0;
    for (int64_t i = weft_sequence_of_row(all, queries.begin); i < all->count && all->lengths.q_starts[i] < queries.end;
         i++) {
        cols = weft_turns_reached(reach, i, queries);
        before += weft_between(col - cols.begin, 0, cols.end - cols.begin);
    }
    return before;
}

/** How many tiles add into a step: who has the last turn finds all others' adds there. */
WEFT_INLINE int64_t weft_turns_count(const weft_turns *turns, const weft_reach *reach, int64_t batch, int64_t step) {
    return weft_turns_before(reach, batch, step, turns->cols);
}

/** The long tiles of sweeps that fold are the first so many; the others are short. */
WEFT_INLINE int64_t weft_turns_long(const weft_turns *turns) {
    return weft_sweep_folds(turns->sweep) ? turns->cols - turns->cols / 2 : turns->cols;
}

/** The turns of a tile. */
WEFT_INLINE weft_turn weft_turn_of_visit(const weft_turns *turns, const weft_visit *visit) {
    const int64_t each = turns->sweep == WEFT_SWEEP_PAIR ? 2 * turns->together : turns->together;
    const int64_t col = visit->tile.col, most = weft_turns_long(turns);
    weft_turn t;
    t.batch = visit->tile.batch;
    t.col = col;
    if (turns->workers > 0) {
        const int64_t head = weft_divide(visit->position, &turns->by_positions) * (int64_t)turns->by_positions.value;
        const int64_t wave = weft_divide(visit->position, &turns->by_workers) * turns->workers;
        t.group.begin = weft_larger(wave - head, 0);
        t.group.end = weft_smaller(wave + turns->workers - head, most);
        return t;
    }
    t.group.begin = (col < most ? col : turns->cols - 1 - col) / each * each;
    t.group.end = weft_smaller(t.group.begin + each, most);
    return t;
}

/** The turn of a tile at a step that it visits: how many tiles add into the step before it. No division. */
WEFT_INLINE int64_t weft_turn_at(const weft_turns *turns, const weft_reach *reach, const weft_turn *turn, int64_t step) {
#define WEFT_BEFORE(column) weft_turns_before(reach, turn->batch, step, column)
    const int64_t cols = turns->cols, col = turn->col, begin = turn->group.begin, end = turn->group.end;
    const int paired = weft_sweep_folds(turns->sweep);
    /* Groups that add before this one; where they fold, with the short tiles of their long ones. */
    int64_t before = turns->from_end ? WEFT_BEFORE(paired ? weft_larger(cols - end, end) : cols) - WEFT_BEFORE(end)
                                     : WEFT_BEFORE(begin) + (paired ? WEFT_BEFORE(cols) - WEFT_BEFORE(cols - begin) : 0);
    if (!weft_sweep_shifts(turns->sweep)) {
        return before + WEFT_BEFORE(col) - WEFT_BEFORE(begin);
    }
    const int64_t most = weft_turns_long(turns);
    if (col >= most) { /* the short tiles, in their order, when all long ones have passed */
        return before + WEFT_BEFORE(end) - WEFT_BEFORE(begin) + WEFT_BEFORE(col) -
               WEFT_BEFORE(weft_larger(cols - end, most));
    }
    /* First those that begin at this step or before it, the nearest first; then those that come round to it. Nobody comes
     * round who climbs. */
    const int64_t started = weft_divide((step + 1) * cols + turns->steps - 1, &turns->by_steps) - (paired ? cols / 2 : 0);
    const int64_t middle = weft_sweep_climbs(turns->sweep) ? end : weft_between(started, begin, end);
    if (col >= middle) {
        before += WEFT_BEFORE(middle) - WEFT_BEFORE(begin);
    }
    return before + WEFT_BEFORE(col < middle ? middle : end) - WEFT_BEFORE(col + 1);
#undef WEFT_BEFORE
}

#endif
