/* SPDX-License-Identifier: Apache-2.0 */
/* Problems over ranks: what simulate, plan and run do with --ranks. */
#ifndef WEFT_CLI_RANKS_H
#define WEFT_CLI_RANKS_H

#include <weft/dist.h>

#include "sweep/rows.h"

/* Whether an option of ranks was given. */
int ranks_asked(const settings *s);

/* What the options say. EXIT_OK, or complains: of an option that needs --ranks, or that has nothing to do with them. */
int ranks_read(const settings *s, weft_ranks *ranks);

/* One simulation, one recommendation, one run. Return exit codes. */
int ranks_simulate(const settings *s);
int ranks_plan(const settings *s);
int ranks_run(const settings *s);

/* weft view: a page that plays ways to share a problem. */
int ranks_view(const settings *s);

/* Simulates what the options say and tells of every step. EXIT_OK and a dist, which the caller destroys; else complains.
 * One unit of the progress that is shown. */
int ranks_record(const settings *s, weft_dist_told told, void *user, weft_dist **dist, weft_dist_simulation *sim,
                 weft_machine *machine);

/* A simulation as JSON: a new object, or null when memory ran out. */
json_t *ranks_json(const weft_dist *dist, const weft_dist_simulation *sim);

/* The same at many points; and what a point takes, refused where it is wrong. */
int ranks_simulate_points(const settings *points, size_t count, sweep *out);
int ranks_plan_points(const settings *points, size_t count, sweep *out);
int ranks_weigh(const settings *s, double *weight);

#endif
