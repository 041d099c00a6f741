/* Sectors under a piece of a tensor. */
#ifndef WEFT_PROBLEM_SECTORS_H
#define WEFT_PROBLEM_SECTORS_H

#include <weft/weft.h>

/* Under `rows` rows of `row_bytes`, which begin `pitch` bytes apart: rows end to end share the sectors at their seams. */
static inline int64_t weft_sectors(int64_t rows, int64_t row_bytes, int64_t pitch, int64_t sector) {
    return pitch == row_bytes ? weft_ceil_divide(rows * row_bytes, sector) : rows * weft_ceil_divide(row_bytes, sector);
}

#endif
