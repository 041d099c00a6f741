/** @file
 * How far the tiles of a grid reach: the rows of each tile and the steps that those rows see.
 */
#ifndef WEFT_ORDER_REACH_H
#define WEFT_ORDER_REACH_H

#include "slice.h"

/** What the tiles of one column of the grid see; all batches and heads are alike.
 *
 * One slice is held by value. A mask that takes several is a table in compressed sparse rows: the slices of tile column c
 * are slices[first_slice[c]] .. slices[first_slice[c + 1] - 1], so first_slice has an entry more than the grid has columns.
 * The slices of one column are disjoint, so that no pair of row and column is visited twice; each has a row in the tile,
 * and they come in ascending order of their columns. Every one of them is a range of steps of its own: a step in which two
 * of them meet is visited once for each, under the mask of that one. A packed batch is such a table over one long sequence:
 * the slices of a tile are those of the documents whose rows it has.
 */
typedef struct weft_reach {
    int64_t rows, columns; /**< queries and keys (GEMM: n and k) */
    int64_t tile_rows;     /**< rows of a tile */
    int64_t tile_columns;  /**< columns of a step */
    int64_t lead;          /**< tile rows minus rows of the first tile: tile c begins at row c * tile_rows - lead */
    weft_slice slice;      /**< the mask, where there is no table */
    int32_t is_prefix;     /**< 1: no table, and every tile's steps begin at 0: see weft_slice_is_prefix() */
    weft_divisor by_tile_columns;
    const weft_slice *slices;    /**< the table, or null */
    const uint32_t *first_slice; /**< (columns of the grid + 1), or null */
} weft_reach;

/** Rows of a tile: begin .. end - 1. */
typedef struct weft_rows {
    int64_t begin, end;
} weft_rows;

/** Prepares the reach of tiles under one slice. All sizes are between 1 and 2^60. `lead` is 0 and may be set afterwards, to
 * less than tile_rows. */
WEFT_INLINE weft_reach weft_reach_make(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns,
                                       weft_slice slice) {
    weft_reach r;
    r.rows = rows;
    r.columns = columns;
    r.tile_rows = tile_rows;
    r.tile_columns = tile_columns;
    r.lead = 0;
    r.slice = weft_slice_clamp(slice);
    r.is_prefix = weft_slice_is_prefix(&r.slice, rows);
    r.by_tile_columns = weft_divisor_make((uint64_t)tile_columns);
    r.slices = 0;
    r.first_slice = 0;
    return r;
}

/** Gives a reach a table of slices, which the caller keeps. */
WEFT_INLINE void weft_reach_set_table(weft_reach *reach, const weft_slice *slices, const uint32_t *first_slice) {
    reach->slices = slices;
    reach->first_slice = first_slice;
    reach->is_prefix = 0;
}

/** How many tiles the rows are cut into. */
WEFT_INLINE int64_t weft_reach_tiles(const weft_reach *reach) {
    return weft_ceil_divide(reach->rows + reach->lead, reach->tile_rows);
}

/** The rows of `tiles` neighbouring tiles from tile column `block` on; what lies beyond the last row is left out. */
WEFT_INLINE weft_rows weft_reach_rows(const weft_reach *reach, int64_t block, int64_t tiles) {
    const int64_t begin = block * reach->tile_rows - reach->lead;
    weft_rows rows;
    rows.begin = weft_larger(begin, 0);
    rows.end = weft_smaller(begin + tiles * reach->tile_rows, reach->rows);
    return rows;
}

/** How many ranges of steps tile column `block` has: 1 without a table, though that one may be empty. */
WEFT_INLINE int32_t weft_reach_ranges(const weft_reach *reach, int64_t block) {
    return reach->first_slice ? (int32_t)(reach->first_slice[block + 1] - reach->first_slice[block]) : 1;
}

/** The i-th range of steps of tile column `block`, i below weft_reach_ranges(). */
WEFT_INLINE weft_steps weft_reach_steps(const weft_reach *reach, int64_t block, int32_t i) {
    const weft_rows rows = weft_reach_rows(reach, block, 1);
    const weft_slice *slice = reach->first_slice ? &reach->slices[reach->first_slice[block] + (uint32_t)i] : &reach->slice;
    return reach->first_slice ? weft_slice_steps(slice, rows.begin, rows.end, &reach->by_tile_columns)
                              : weft_slice_steps_of(slice, rows.begin, rows.end, &reach->by_tile_columns, reach->is_prefix);
}

#endif
