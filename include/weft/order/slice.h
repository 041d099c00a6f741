/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Slices: which columns a row sees, and which steps a tile therefore visits.
 *
 * Rows are queries and columns are keys; a backward pass over tiles of keys transposes them. A GEMM's rows are n and its
 * columns k. A step is tile_columns neighbouring columns: step s covers columns s * tile_columns and those behind it.
 */
#ifndef WEFT_ORDER_SLICE_H
#define WEFT_ORDER_SLICE_H

#include "base.h"

/** An open end of a band: `high` is this, or `low` is its negative. No row or column number is larger. */
#define WEFT_BAND_OPEN (INT64_C(1) << 60)

/** A rectangle of one sequence with a band: row i of the rectangle sees column j of it when low <= j - i <= high.
 *
 * | mask           | low             | high           |
 * | -------------- | --------------- | -------------- |
 * | none           | -WEFT_BAND_OPEN | WEFT_BAND_OPEN |
 * | causal         | -WEFT_BAND_OPEN | offset         |
 * | inverse causal | offset          | WEFT_BAND_OPEN |
 * | window         | offset - left   | offset + right |
 *
 * Row and column numbers are between 0 and 2^60. Any mask made of rectangles (prefixes, packed documents, trees, blocks)
 * is a list of slices: see weft_reach.
 */
typedef struct weft_slice {
    int64_t row_begin, row_end;       /**< rows row_begin .. row_end - 1 */
    int64_t column_begin, column_end; /**< columns column_begin .. column_end - 1 */
    int64_t low, high;                /**< the band, both ends included */
} weft_slice;

/** The steps that one tile visits: begin .. end - 1. Every row of the tile sees all of steps full_begin .. full_end - 1,
 * which therefore need no mask. Always begin <= full_begin <= full_end <= end; full_begin is begin when no step is full,
 * and all four are 0 when the tile sees nothing. */
typedef struct weft_steps {
    int64_t begin, end, full_begin, full_end;
} weft_steps;

WEFT_INLINE int64_t weft_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

WEFT_INLINE int64_t weft_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/** The same slice with the band's ends at most WEFT_BAND_OPEN from 0, so that they can be added to a row's number. */
WEFT_INLINE weft_slice weft_slice_clamp(weft_slice slice) {
    slice.low = weft_larger(weft_smaller(slice.low, WEFT_BAND_OPEN), -WEFT_BAND_OPEN);
    slice.high = weft_larger(weft_smaller(slice.high, WEFT_BAND_OPEN), -WEFT_BAND_OPEN);
    return slice;
}

/** All of rows x columns with a band, clamped. */
WEFT_INLINE weft_slice weft_slice_band(int64_t rows, int64_t columns, int64_t low, int64_t high) {
    weft_slice s;
    s.row_begin = s.column_begin = 0;
    s.row_end = rows;
    s.column_end = columns;
    s.low = low;
    s.high = high;
    return weft_slice_clamp(s);
}

/** Every row sees every column. */
WEFT_INLINE weft_slice weft_slice_full(int64_t rows, int64_t columns) {
    return weft_slice_band(rows, columns, -WEFT_BAND_OPEN, WEFT_BAND_OPEN);
}

/** Row i sees columns 0 .. i + offset. */
WEFT_INLINE weft_slice weft_slice_causal(int64_t rows, int64_t columns, int64_t offset) {
    return weft_slice_band(rows, columns, -WEFT_BAND_OPEN, offset);
}

/** The same mask with rows and columns exchanged, clamped. */
WEFT_INLINE weft_slice weft_slice_transpose(const weft_slice *slice) {
    const weft_slice s = weft_slice_clamp(*slice);
    weft_slice t;
    t.row_begin = slice->column_begin;
    t.row_end = slice->column_end;
    t.column_begin = slice->row_begin;
    t.column_end = slice->row_end;
    t.low = -s.high;
    t.high = -s.low;
    return t;
}

/** Whether row i sees column j. */
WEFT_INLINE int weft_slice_sees(const weft_slice *slice, int64_t i, int64_t j) {
    return i >= slice->row_begin && i < slice->row_end && j >= slice->column_begin && j < slice->column_end &&
           j - i >= slice->low && j - i <= slice->high;
}

/** Whether every tile of `rows` rows, cut anywhere, visits a prefix of the steps: the slice has all rows, begins at column
 * 0 and has no lower edge. So it is for full and causal slices. */
WEFT_INLINE int weft_slice_is_prefix(const weft_slice *slice, int64_t rows) {
    return slice->row_begin <= 0 && slice->row_end >= rows && slice->column_begin == 0 && slice->low <= -WEFT_BAND_OPEN;
}

/** weft_slice_steps() of a clamped slice. A kernel that takes nothing but prefixes
 * (see weft_slice_is_prefix) passes a constant 1, and what only other slices need is not compiled. */
WEFT_INLINE weft_steps weft_slice_steps_of(const weft_slice *slice, int64_t row_begin, int64_t row_end,
                                           const weft_divisor *by_tile_columns, int is_prefix) {
    const weft_steps none = {0, 0, 0, 0};
    weft_steps steps;
    /* Rows of the tile inside the slice. */
    const int64_t first = is_prefix ? row_begin : weft_larger(row_begin, slice->row_begin);
    const int64_t end = is_prefix ? row_end : weft_smaller(row_end, slice->row_end);
    /* Neighbouring rows see columns that overlap or touch, so what some row sees is one run of columns. */
    const int64_t some_begin = is_prefix ? 0 : weft_larger(first + slice->low, slice->column_begin);
    const int64_t some_end = weft_smaller(end + slice->high, slice->column_end);
    if (some_begin >= some_end || (!is_prefix && (first >= end || slice->low > slice->high))) {
        return none;
    }
    steps.begin = is_prefix ? 0 : weft_divide(some_begin, by_tile_columns);
    steps.end = weft_divide(some_end - 1, by_tile_columns) + 1;
    /* What every row sees lies between the last row's low edge and the first row's high edge. */
    const int64_t all_begin = is_prefix ? 0 : weft_larger(end - 1 + slice->low, slice->column_begin);
    const int64_t all_end = weft_smaller(first + 1 + slice->high, slice->column_end);
    steps.full_begin = all_begin > 0 ? weft_divide(all_begin - 1, by_tile_columns) + 1 : 0;
    steps.full_end = all_end > 0 ? weft_divide(all_end, by_tile_columns) : 0;
    const int has_rows_outside = !is_prefix && (row_begin < slice->row_begin || row_end > slice->row_end);
    if (has_rows_outside || steps.full_begin >= steps.full_end) {
        steps.full_begin = steps.full_end = steps.begin;
    }
    return steps;
}

/** The steps of the tile of rows row_begin .. row_end - 1, exactly: a step is visited when one of these rows sees one of
 * its columns, and is full when all of them see all of its tile_columns columns. Rows of the tile outside of the slice see
 * nothing of it.
 *
 * @param slice            the mask; any band, also one whose ends cannot be added to a row's number
 * @param row_begin, row_end  between 0 and 2^60; at least one row
 * @param by_tile_columns  from weft_divisor_make(tile_columns)
 */
WEFT_INLINE weft_steps weft_slice_steps(const weft_slice *slice, int64_t row_begin, int64_t row_end,
                                        const weft_divisor *by_tile_columns) {
    const weft_slice s = weft_slice_clamp(*slice);
    return weft_slice_steps_of(&s, row_begin, row_end, by_tile_columns, 0);
}

#endif
