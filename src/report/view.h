/* Schedules of one problem on one machine, run and recorded, ready to be shown. */
#ifndef WEFT_REPORT_VIEW_H
#define WEFT_REPORT_VIEW_H

#include <jansson.h>

#include <weft/report.h>

#include "plan/plan.h"
#include "sim/recording.h"

enum { WEFT_VIEW_TILES = 131072, WEFT_VIEW_POINTS = 48, WEFT_VIEW_FRAMES = 240 };

/* The grid as it is drawn: rows of tiles (batches and heads, or m), each folded into lines of `fold` columns. */
typedef struct weft_view_grid {
    int64_t rows, cols;
    int64_t fold, lines; /* columns in a line, lines of a row */
} weft_view_grid;

typedef struct weft_view_schedule {
    char name[96];
    const weft_plan *plan; /* the caller's */
    weft_recording recording;
    weft_view_grid grid;
    weft_curve_point curve[WEFT_VIEW_POINTS];
    size_t points;
} weft_view_schedule;

struct weft_view {
    size_t count;
    weft_view_schedule schedule[WEFT_VIEW_SCHEDULES];
};

/* All of it; `command` is what made it. A new object (the caller's to release), or null when memory ran out. */
json_t *weft_view_json(const weft_view *view, const char *command);

#endif
