/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of one problem on one machine, run and recorded, ready to be shown. */
#ifndef WEFT_REPORT_VIEW_H
#define WEFT_REPORT_VIEW_H

#include <jansson.h>

#include <weft/report.h>

#include "plan/plan.h"
#include "sim/bound.h"
#include "sim/recording.h"

enum { WEFT_VIEW_TILES = 131072, WEFT_VIEW_POINTS = 48, WEFT_VIEW_FRAMES = 240 };

/* The grid as it is drawn: rows of tiles (batches and heads, or m), each folded into lines of `fold` columns. */
typedef struct weft_view_grid {
    int64_t rows, cols;
    int64_t fold, lines;                /* columns in a line, lines of a row */
    int64_t banks, rows_of_bank;        /* rows stand in so many banks side by side, each of so many */
    int64_t positions;                  /* in the order */
    int64_t cluster_rows, cluster_cols; /* tiles of a visit */
    int64_t rows_of_batch;
    const char *row, *col; /* what they are: "tile row m", "tile column n" */
} weft_view_grid;

typedef struct weft_view_schedule {
    char name[96];
    weft_sim_subject subject; /* the caller's */
    const weft_plan *plan;    /* it, or null: a source is shown */
    weft_recording recording;
    weft_view_grid grid;
    weft_bound bound; /* of a plan */
    int by_step;      /* what is held by column of the map through time tells more than the grid does */
    weft_curve_point curve[WEFT_VIEW_POINTS];
    size_t points;
} weft_view_schedule;

struct weft_view {
    size_t count;
    weft_machine machine;                    /* sources: theirs */
    weft_source source[WEFT_VIEW_SCHEDULES]; /* sources: copies of the caller's */
    char title[192];
    weft_view_schedule schedule[WEFT_VIEW_SCHEDULES];
};

/* The machine of all of them. */
static inline const weft_machine *weft_view_machine(const weft_view *view) {
    return view->schedule[0].subject.machine;
}

/* All of it; `command` is what made it. A new object (the caller's to release), or null when memory ran out. */
json_t *weft_view_json(const weft_view *view, const char *command);

#endif
