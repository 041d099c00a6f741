/* Problems over ranks: what simulate, plan and run do with --ranks. */
#ifndef WEFT_CLI_RANKS_H
#define WEFT_CLI_RANKS_H

#include <weft/dist.h>

#include "sweep/sweep.h"

/* Whether an option of ranks was given. */
int ranks_asked(const settings *s);

/* What the options say. EXIT_OK, or complains: of an option that needs --ranks, or that has nothing to do with them. */
int ranks_read(const settings *s, weft_ranks *ranks);

/* One simulation, one recommendation, one run. Return exit codes. */
int ranks_simulate(const settings *s);
int ranks_plan(const settings *s);
int ranks_run(const settings *s);

/* The same at many points; and what a point takes, refused where it is wrong. */
int ranks_simulate_points(const settings *points, size_t count, sweep *out);
int ranks_plan_points(const settings *points, size_t count, sweep *out);
int ranks_weigh(const settings *s, double *weight);

#endif
