/* SPDX-License-Identifier: Apache-2.0 */
/* Sectors under a piece of a tensor. */
#ifndef WEFT_PROBLEM_SECTORS_H
#define WEFT_PROBLEM_SECTORS_H

#include <weft/weft.h>

/* Under `rows` rows of `row_bytes`, which begin `pitch` bytes apart: rows end to end share the sectors at their seams. */
static inline int64_t weft_sectors(int64_t rows, int64_t row_bytes, int64_t pitch, int64_t sector) {
    return pitch == row_bytes ? weft_ceil_divide(rows * row_bytes, sector) : rows * weft_ceil_divide(row_bytes, sector);
}

/* Bytes of the granules under a row to its own, in the mean over rows that begin `apart` bytes after each other. */
static inline double weft_granules(int64_t row_bytes, int64_t apart, int64_t granule) {
    int64_t covered = 0, at = 0, rows = 0;
    do {
        covered += weft_ceil_divide(at + row_bytes, granule) * granule;
        at = (at + apart) % granule;
    } while (++rows < granule && at != 0);
    return (double)covered / (double)(rows * row_bytes);
}

#endif
