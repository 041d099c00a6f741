/* Sweeps: a verb at every point of the axes, its results as a table, CSV, JSON or a plot. */
#ifndef WEFT_CLI_SWEEP_H
#define WEFT_CLI_SWEEP_H

#include <jansson.h>

#include <weft/search.h>

#include "options/axes.h"

/* A schedule at a point, and what it would cost. */
typedef struct sweep_row {
    size_t point;
    weft_ranked ranked;
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
void sweep_put_json(sweep *out, size_t i, json_t *object);

/* Whether the options describe more than one point, or ask for what only sweeps have. */
int sweep_is_asked(const settings *s);

/* Runs a verb at every point. Returns an exit code, with the message printed. */
int sweep_run(const char *verb, const settings *s, const char *const *words, size_t count);

/* The results on standard output, or the plot in --output. Return an exit code, with the message printed. */
int sweep_print(const sweep *out);
int sweep_plot(const sweep *out);

/* How a verb takes many points: it fills in the rows of `count` points, and with --json their objects. Returns an exit
 * code, with the message printed. */
int simulate_points(const settings *points, size_t count, sweep *out);
int compare_points(const settings *points, size_t count, sweep *out);
int plan_points(const settings *points, size_t count, sweep *out);

#endif
