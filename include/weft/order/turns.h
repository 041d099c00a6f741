/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Turns: in which order the tiles of a backward pass add into a step's sums.
 *
 * A tile is a block of keys; at each of its steps, a block of queries, it adds to sums that other tiles of its head add to,
 * too. Whoever adds in a fixed order gets the same bits in every run: a counter for each query block of each head counts
 * the adds, and a tile waits until the counter has reached its turn.
 *
 *   for (int64_t i = 0, step = visit.first; i < visit.steps; i++, step = weft_visit_next(&visit, step)) {
 *       wait until counter[head][step] == weft_turn_at(&walk, visit.tile, member, step); add; counter[head][step]++;
 *   }
 *
 * Turns are by a timetable, which a plan makes (src/order/timetable.h), or a launch of its run where the device alone knows
 * the lengths (src/cuda/sm90/backward/deal.cuh): positions go to whoever would be free first if every step took equally
 * long, and tiles add into a step in the order in which they would come by then. So who keeps to the timetable hardly
 * waits, whatever the order of tiles; and nobody waits for ever if all workers run at the same time, since a worker's adds
 * are in the order of their times, and each waits for earlier ones only.
 *
 * Where nobody makes a timetable, tiles add in the order of their positions, or in groups of neighbours that climb
 * together. Then a worker must not take a position while its last one still waits for its turns: it may be waiting for the
 * very one it would take.
 */
#ifndef WEFT_ORDER_TURNS_H
#define WEFT_ORDER_TURNS_H

#include "walk.h"

/** When a tile comes by a step of the member-th head that shares its keys. */
WEFT_INLINE int32_t weft_coming_at(const weft_coming *tile, int32_t member, int32_t step) {
    const int late = tile->direction < 0 ? step > tile->first : step < tile->first;
    return tile->at + tile->direction * step + (member + late) * tile->steps;
}

/** Which of the rows with the parts of a tile has a step of it, counted from the first of its `steps`, of which there are
 * less than 2^31. */
WEFT_INLINE int64_t weft_walk_row(const weft_walk *walk, int64_t steps, int64_t step) {
    const uint32_t parts = (uint32_t)walk->reach.parts, each = (uint32_t)steps / parts, more = (uint32_t)steps % parts;
    const uint32_t at = (uint32_t)step, in_longer = more * (each + 1);
    return weft_walk_part(walk, at < in_longer ? at / (each + 1) : more + (at - in_longer) / each);
}

/** The row with the part of a tile column that has a step, which the column reaches: `row`, or another of the rows with the
 * same tiles. `kind` is as in weft_visit_range_of(). */
WEFT_INLINE int64_t weft_turns_row(const weft_walk *walk, int64_t batch, int64_t row, int64_t col, int64_t step, int kind) {
    const weft_reach *reach = &walk->reach;
    if (reach->parts <= 1) {
        return row;
    }
    weft_visit visit;
    visit.tile = weft_tile_at(batch, row, col);
    visit.direction = 1;
    visit.ranges = 1;
    weft_visit_range_of(walk, &visit, 0, kind);
    return weft_divide(row, &reach->by_parts) * reach->parts + weft_walk_row(walk, visit.steps, step - visit.first);
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

/** The next tile columns of a head that reach a step, and so add into it; none where there are no more. In a packed batch
 * they are in several places: *sequence, below 0 at first, is where to go on. */
WEFT_INLINE weft_rows weft_turns_next(const weft_reach *reach, int64_t batch, int64_t step, int64_t *sequence) {
    const weft_sequences *all = &reach->sequences;
    const int packed = weft_reach_has_band(reach) && all->lengths.q_starts; /* those of keys may be known before */
    const int is_first = *sequence < 0;
    weft_rows queries, cols = {0, 0};
    queries.begin = step * reach->tile_columns;
    queries.end = weft_smaller(queries.begin + reach->tile_columns, reach->columns);
    *sequence = is_first ? packed ? weft_sequence_of_row(all, queries.begin) : batch : *sequence + 1;
    if (!is_first && (!packed || *sequence >= all->count || all->lengths.q_starts[*sequence] >= queries.end)) {
        return cols;
    }
    if (!weft_reach_has_band(reach)) {
        const weft_slice slice = weft_slice_transpose(&reach->slice);
        const weft_steps tiles = weft_slice_steps_of(&slice, queries.begin, queries.end, &reach->by_tile_rows, 0);
        cols.begin = tiles.begin;
        cols.end = tiles.end;
        return cols;
    }
    do {
        cols = weft_turns_reached(reach, *sequence, queries);
    } while (packed && cols.begin >= cols.end && ++*sequence < all->count &&
             all->lengths.q_starts[*sequence] < queries.end);
    return cols;
}

/** How many tiles of a head add into a step. */
WEFT_INLINE int64_t weft_turns_count(const weft_walk *walk, int64_t batch, int64_t step) {
    int64_t sequence = -1, count = 0;
    weft_rows cols = weft_turns_next(&walk->reach, batch, step, &sequence);
    while (cols.begin < cols.end) {
        count += cols.end - cols.begin;
        cols = weft_turns_next(&walk->reach, batch, step, &sequence);
    }
    return count;
}

/** The turn of a tile at a step that it visits, for the member-th head that shares its keys: how many tiles come by before
 * it. Of a tile whose steps are cut, one part comes by. */
WEFT_INLINE int64_t weft_turn_at(const weft_walk *walk, weft_tile tile, int64_t member, int64_t step) {
    const weft_coming *batch = walk->comings + weft_walk_line(walk, tile.batch, 0) * walk->cols;
    const int32_t mine = weft_coming_at(&batch[tile.row * walk->cols + tile.col], (int32_t)member, (int32_t)step);
    int64_t sequence = -1, before = 0;
    weft_rows cols = weft_turns_next(&walk->reach, tile.batch, step, &sequence);
    while (cols.begin < cols.end) {
        for (int64_t i = cols.begin; i < cols.end; i++) {
            const int64_t row = weft_turns_row(walk, tile.batch, tile.row, i, step, walk->reach.kind);
            before += weft_coming_at(&batch[row * walk->cols + i], (int32_t)member, (int32_t)step) < mine + (i < tile.col);
        }
        cols = weft_turns_next(&walk->reach, tile.batch, step, &sequence);
    }
    return before;
}

#endif
