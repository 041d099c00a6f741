/* SPDX-License-Identifier: Apache-2.0 */
/* What a parameter sweep has collected, as verbs fill it in and as it is printed. */
#ifndef WEFT_CLI_SWEEP_ROWS_H
#define WEFT_CLI_SWEEP_ROWS_H

#include <jansson.h>

#include <weft/dist.h>
#include <weft/search.h>

#include "options/axes.h"

/* What --plot names, in its order. */
enum { PLOT_TIME, PLOT_TFLOPS, PLOT_DRAM, PLOT_MISSES, PLOT_HITS, PLOT_EFFICIENCY };

/* A schedule at a point, and what it would cost; or with --ranks a way to share the problem. */
typedef struct sweep_row {
    size_t point;
    weft_ranked ranked;
    weft_dist_ranked over; /* zeros without --ranks */
} sweep_row;

/* What came out, point by point. */
typedef struct sweep {
    const settings *settings;
    const axes *axes;
    int by_schedule; /* a point has several schedules, side by side */
    size_t first;    /* the point that the verb's list begins with */
    sweep_row *rows;
    size_t count, room;
    json_t *objects; /* with --json: what the verb prints for each point, and "point"; null when memory ran out */
} sweep;

/* Takes a row, or what the verb prints with --json, for the i-th point of the verb's list. */
int sweep_put(sweep *out, size_t i, const weft_ranked *row);
int sweep_put_ranks(sweep *out, size_t i, const weft_dist_ranked *row);
void sweep_put_json(sweep *out, size_t i, json_t *object);

/* The results on standard output, or the plot in --output. Return an exit code, with the message printed. */
int sweep_print(const sweep *out);
int sweep_plot(const sweep *out);

/* How a verb takes many points: it fills in the rows of `count` points, and with --json their objects. Returns an exit
 * code, with the message printed. */
int simulate_points(const settings *points, size_t count, sweep *out);
int compare_points(const settings *points, size_t count, sweep *out);
int plan_points(const settings *points, size_t count, sweep *out);

#endif
