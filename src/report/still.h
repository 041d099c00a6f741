/* SPDX-License-Identifier: Apache-2.0 */
/* What a still shows of a recording: who came when, and what was held through time, at any resolution. */
#ifndef WEFT_REPORT_STILL_H
#define WEFT_REPORT_STILL_H

#include "report/view.h"

/* A picture of the grid in cells of so many folded columns and lines. */
typedef struct weft_still_grid {
    int64_t cols, lines;          /* cells */
    int64_t col_tiles, row_lines; /* tiles across a cell, lines down a cell */
    double *share;                /* (lines, cols) when its first tile begins: 0 .. 1 of the positions; -1: no tile */
} weft_still_grid;

/* At most `cols` x `lines` cells. Returns 0 when memory ran out; the caller frees grid->share. */
int weft_still_grid_make(weft_still_grid *grid, const weft_view_schedule *s, int64_t cols, int64_t lines);

/* Where a tile lies in such a picture. */
void weft_still_place(const weft_still_grid *grid, const weft_view_schedule *s, int64_t tile, int64_t *col, int64_t *line);

/* How much is held, 0 .. 1, of a share of the steps in a share of the time, all domains and lines together: the most that
 * any line has. `col` of `cols`, `step` of `steps`. */
double weft_still_held(const weft_recording *recording, int64_t col, int64_t cols, int64_t step, int64_t steps);

/* The counters of all domains at the end of a frame; all zero before the first (-1). */
weft_traffic weft_still_traffic(const weft_recording *recording, int64_t frame);

/* Hits among the lookups of column `col` of `cols` columns of time; NaN when there were none. */
double weft_still_hits(const weft_recording *recording, int64_t col, int64_t cols);

#endif
