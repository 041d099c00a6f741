/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * How far the tiles of a grid reach: the rows of each tile and the steps that those rows see.
 */
#ifndef WEFT_ORDER_REACH_H
#define WEFT_ORDER_REACH_H

#include "blocks.h"

/** What a kernel knows of every reach that it is given, so that what only others need is not compiled. */
typedef enum weft_reach_kind {
    WEFT_REACH_ANY = 0,
    WEFT_REACH_PREFIX = 1, /**< one slice, and every tile's steps begin at 0: see weft_slice_is_prefix() */
    WEFT_REACH_BAND = 2,   /**< a band over sequences */
    WEFT_REACH_BLOCKS = 3  /**< the same with a block mask, which may be known only when a plan runs */
} weft_reach_kind;

/** What the tiles of a grid see.
 *
 * One slice is held by value, and is the same for all batches and heads. A band over sequences takes its place where
 * sequences differ, share a batch, or see what is no slice. A mask that is neither is a table in compressed sparse rows:
 * the slices of tile column c are slices[first_slice[c]] .. slices[first_slice[c + 1] - 1], so first_slice has an entry
 * more than the grid has columns. The slices of one column are disjoint, so that no pair of row and column is visited
 * twice; each has a row in the tile, and they come in ascending order of their columns. Every one of them is a range of
 * steps of its own: a step in which two of them meet is visited once for each, under the mask of that one.
 *
 * Under a band, a block mask lists the steps that a tile visits of those that the band shows: see weft_blocks. The rows of
 * a tile are then of one block of queries, and the columns of a step of one block of keys. A tree mask masks the last
 * steps.
 *
 * The rows of a packed batch are cut into tiles in one of two ways. Sequence by sequence: sequence n has the columns of the
 * grid from starts[n] / tile_rows + n on, which are enough for it whatever its length, and of which the last may be empty.
 * So a tile's sequence is found by bisection, and nobody need count tiles. Or joined: every tile_rows rows are a tile,
 * whatever sequences they are of. That leaves no row of a tile empty, and pays where the keys of neighbouring sequences are
 * few or lie together.
 *
 * The steps of a tile of a backward pass may be cut into parts. Each part is a tile of its own: `parts` neighbouring rows
 * of the grid have the same tiles, and each a range of their steps.
 */
typedef struct weft_reach {
    int64_t rows, columns; /**< queries and keys (GEMM: n and k) */
    int64_t tile_rows;     /**< rows of a tile */
    int64_t tile_columns;  /**< columns of a step */
    int64_t lead;          /**< tile rows minus rows of the first tile: tile c begins at row c * tile_rows - lead */
    weft_slice slice;      /**< the mask, where there is no band and no table */
    int32_t kind;          /**< a weft_reach_kind */
    weft_divisor by_tile_columns, by_tile_rows;
    const weft_slice *slices;    /**< the table, or null */
    const uint32_t *first_slice; /**< (columns of the grid + 1), or null */
    weft_band band;              /**< WEFT_REACH_BAND and WEFT_REACH_BLOCKS */
    weft_sequences sequences;    /**< likewise */
    int32_t transposed;          /**< likewise, 1: rows are keys, and columns are queries */
    int32_t joined;              /**< likewise, packed: how rows are cut */
    int32_t turned;              /**< likewise, 1: what would go up through its steps comes down, and the other way round */
    weft_blocks blocks;          /**< likewise */
    int64_t parts;               /**< backward: parts of a tile's steps; 0 and 1: they are not cut */
    weft_divisor by_parts;
} weft_reach;

/** The rows of a tile, and where it is cut from. */
typedef struct weft_cut {
    weft_rows rows;
    int64_t sequence; /**< of its first row; without a band 0 */
} weft_cut;

/** Prepares the reach of tiles under one slice. All sizes are between 1 and 2^60. `lead` is 0 and may be set afterwards, to
 * less than tile_rows. */
WEFT_INLINE weft_reach weft_reach_make(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns,
                                       weft_slice slice) {
    weft_reach r = WEFT_ZERO;
    r.rows = rows;
    r.columns = columns;
    r.tile_rows = tile_rows;
    r.tile_columns = tile_columns;
    r.slice = weft_slice_clamp(slice);
    r.kind = weft_slice_is_prefix(&r.slice, rows) ? WEFT_REACH_PREFIX : WEFT_REACH_ANY;
    r.by_tile_columns = weft_divisor_make((uint64_t)tile_columns);
    r.by_tile_rows = weft_divisor_make((uint64_t)tile_rows);
    return r;
}

/** Gives a reach a table of slices, which the caller keeps. */
WEFT_INLINE void weft_reach_set_table(weft_reach *reach, const weft_slice *slices, const uint32_t *first_slice) {
    reach->slices = slices;
    reach->first_slice = first_slice;
    reach->kind = WEFT_REACH_ANY;
}

/** Gives a reach a band over sequences in place of its slice. The lengths are the caller's. */
WEFT_INLINE void weft_reach_set_band(weft_reach *reach, weft_band band, weft_sequences sequences, int transposed) {
    reach->kind = WEFT_REACH_BAND;
    reach->band = band;
    reach->sequences = sequences;
    reach->transposed = transposed;
}

/** Whether a reach has a band. */
WEFT_INLINE int weft_reach_has_band(const weft_reach *reach) {
    return reach->kind == WEFT_REACH_BAND || reach->kind == WEFT_REACH_BLOCKS;
}

/** Gives a reach with a band a tree mask, and, where blocks.rows is above 0, a block mask, for tiles and steps that do not
 * cross its blocks. Its `last` and its divisors follow from the rest. */
WEFT_INLINE void weft_reach_set_blocks(weft_reach *reach, weft_blocks blocks) {
    const int64_t columns = weft_smaller(blocks.columns, reach->columns);
    reach->blocks = blocks;
    if (blocks.rows > 0) {
        reach->kind = WEFT_REACH_BLOCKS;
        reach->blocks.by_rows = weft_divisor_make((uint64_t)blocks.rows);
        reach->blocks.by_steps = weft_divisor_make((uint64_t)weft_ceil_divide(columns, reach->tile_columns));
        reach->blocks.last = weft_ceil_divide(reach->columns, blocks.columns) - 1;
    }
}

/** Cuts the steps of every tile into parts, at least 1. The grid has so many times as many rows. */
WEFT_INLINE void weft_reach_set_parts(weft_reach *reach, int64_t parts) {
    reach->parts = parts;
    reach->by_parts = weft_divisor_make((uint64_t)parts);
}

/** Where the sequences of a packed batch begin among the rows; null: there is none. */
WEFT_INLINE const int32_t *weft_reach_starts(const weft_reach *reach) {
    const weft_lengths *l = &reach->sequences.lengths;
    return reach->transposed && l->kv_starts ? l->kv_starts : l->q_starts;
}

/** How many tiles the rows are cut into, at most. */
WEFT_INLINE int64_t weft_reach_tiles(const weft_reach *reach) {
    if (reach->kind == WEFT_REACH_BAND && reach->sequences.packed && !reach->joined) {
        return weft_divide(reach->rows, &reach->by_tile_rows) + reach->sequences.count;
    }
    return weft_ceil_divide(reach->rows + reach->lead, reach->tile_rows);
}

/** The rows of `tiles` neighbouring tiles from tile column `block` on; what lies beyond the last row is left out. Not for
 * packed batches. */
WEFT_INLINE weft_rows weft_reach_rows(const weft_reach *reach, int64_t block, int64_t tiles) {
    const int64_t begin = block * reach->tile_rows - reach->lead;
    weft_rows rows;
    rows.begin = weft_larger(begin, 0);
    rows.end = weft_smaller(begin + tiles * reach->tile_rows, reach->rows);
    return rows;
}

/** The rows of a sequence, as this reach has them. */
WEFT_INLINE weft_rows weft_reach_sequence_rows(const weft_reach *reach, const weft_sequence *s) {
    return reach->transposed ? s->columns : s->rows;
}

/** What `tiles` neighbouring tiles from tile column `block` on are cut from, under a band; of a packed batch only one. It
 * may have no row. */
WEFT_INLINE weft_cut weft_reach_cut(const weft_reach *reach, int64_t batch, int64_t block, int64_t tiles) {
    const int32_t *starts = weft_reach_starts(reach);
    weft_cut cut;
    cut.sequence = batch;
    cut.rows = weft_reach_rows(reach, block, tiles);
    if (!starts) { /* a packed batch whose lengths are not known yet is taken for one sequence */
        cut.rows.begin = weft_smaller(cut.rows.begin, cut.rows.end);
        return cut;
    }
    if (reach->joined) {
        cut.rows.end = weft_smaller(cut.rows.end, starts[reach->sequences.count]);
        cut.sequence = weft_sequence_search(starts, reach->sequences.count, cut.rows.begin, 0, 0);
    } else {
        cut.sequence = weft_sequence_search(starts, reach->sequences.count, block, &reach->by_tile_rows, 1);
        const int64_t begin = weft_between(starts[cut.sequence], 0, reach->rows);
        const int64_t end = weft_between(starts[cut.sequence + 1], begin, reach->rows);
        const int64_t first = block - weft_divide(begin, &reach->by_tile_rows) - cut.sequence;
        cut.rows.begin = weft_smaller(begin + weft_larger(first, 0) * reach->tile_rows, end);
        cut.rows.end = weft_smaller(cut.rows.begin + reach->tile_rows, end);
    }
    cut.rows.end = weft_larger(cut.rows.end, cut.rows.begin);
    return cut;
}

/** The least row of a sequence that counts and sees a column from `column` on (`past` 0: the run it sees ends behind it),
 * or sees none up to it (`past` 1: the run begins behind it); its last such row + 1 when there is none. */
WEFT_INLINE int64_t weft_band_search(const weft_band *band, const weft_sequence *s, int64_t column, int past) {
    int64_t low = s->rows.begin, high = s->used_end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const weft_rows seen = weft_band_seen(band, s, middle);
        if ((past ? seen.begin : seen.end) > column) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/** The steps that visit columns some_begin .. some_end - 1, of which all rows see all_begin .. all_end - 1. */
WEFT_INLINE weft_steps weft_steps_of(int64_t some_begin, int64_t some_end, int64_t all_begin, int64_t all_end,
                                     const weft_divisor *by_tile_columns) {
    const weft_steps none = {0, 0, 0, 0};
    weft_steps steps;
    if (some_begin >= some_end) {
        return none;
    }
    steps.begin = weft_divide(some_begin, by_tile_columns);
    steps.end = weft_divide(some_end - 1, by_tile_columns) + 1;
    steps.full_begin = all_begin > 0 ? weft_divide(all_begin - 1, by_tile_columns) + 1 : 0;
    steps.full_end = all_end > 0 ? weft_divide(all_end, by_tile_columns) : 0;
    if (steps.full_begin >= steps.full_end) {
        steps.full_begin = steps.full_end = steps.begin;
    }
    return steps;
}

/** The steps of a tile of a sequence under a band. A joined tile's are those from the first that its first row sees to the
 * last that its last row sees, whatever lies between. */
WEFT_INLINE weft_steps weft_reach_band_steps(const weft_reach *reach, const weft_cut *cut) {
    const weft_steps none = {0, 0, 0, 0};
    const weft_sequences *all = &reach->sequences;
    const weft_sequence s = weft_sequence_at(all, cut->sequence);
    weft_rows rows = cut->rows;
    if (reach->transposed) {
        const int64_t plain_end = reach->blocks.pairs.tree ? weft_tree_begin(&s) : s.columns.end;
        const int whole = rows.begin >= s.columns.begin && rows.end <= plain_end;
        rows.begin = weft_larger(rows.begin, s.columns.begin);
        rows.end = weft_smaller(rows.end, s.columns.end);
        if (rows.begin >= rows.end) {
            return none;
        }
        const int64_t first = weft_band_search(&reach->band, &s, rows.begin, 0);
        const int64_t last = weft_band_search(&reach->band, &s, rows.end - 1, 1);
        const int64_t all_first = whole ? weft_band_search(&reach->band, &s, rows.end - 1, 0) : last;
        const int64_t all_last = whole ? weft_band_search(&reach->band, &s, rows.begin, 1) : last;
        return weft_steps_of(first, last, all_first, all_last, &reach->by_tile_columns);
    }
    weft_sequence end = s;
    if (reach->joined && rows.end > s.rows.end) {
        end = weft_sequence_at(all, weft_sequence_search(all->lengths.q_starts, all->count, rows.end - 1, 0, 0));
    } else {
        rows.end = weft_smaller(rows.end, s.used_end);
    }
    if (rows.begin >= rows.end) {
        return none;
    }
    const weft_rows first = weft_band_seen(&reach->band, &s, rows.begin);
    const weft_rows last = weft_band_seen(&reach->band, &end, rows.end - 1);
    const int whole = rows.end == cut->rows.end && !(reach->joined && all->lengths.q_used);
    const int64_t plain_end = reach->blocks.pairs.tree ? weft_smaller(first.end, weft_tree_begin(&s)) : first.end;
    return weft_steps_of(first.begin, last.end, last.begin, whole ? plain_end : 0, &reach->by_tile_columns);
}

/** How many ranges of steps tile column `block` has: 1 without a table, though that one may be empty. */
WEFT_INLINE int32_t weft_reach_ranges(const weft_reach *reach, int64_t block) {
    return reach->first_slice ? (int32_t)(reach->first_slice[block + 1] - reach->first_slice[block]) : 1;
}

/** The i-th range of steps of tile column `block`, i below weft_reach_ranges(). Not under a band. */
WEFT_INLINE weft_steps weft_reach_steps(const weft_reach *reach, int64_t block, int32_t i) {
    const weft_rows rows = weft_reach_rows(reach, block, 1);
    const weft_slice *slice = reach->first_slice ? &reach->slices[reach->first_slice[block] + (uint32_t)i] : &reach->slice;
    return reach->first_slice ? weft_slice_steps(slice, rows.begin, rows.end, &reach->by_tile_columns)
                              : weft_slice_steps_of(slice, rows.begin, rows.end, &reach->by_tile_columns,
                                                    reach->kind == WEFT_REACH_PREFIX);
}

#endif
