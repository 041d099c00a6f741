/* SPDX-License-Identifier: Apache-2.0 */
/* Decode: the steps of all tiles, dealt out to the workers in runs, as a kernel of that kind does. */
#ifndef WEFT_SIM_RUNS_H
#define WEFT_SIM_RUNS_H

#include <weft/order/runs.h>

#include "plan/plan.h"

typedef struct weft_sim_runs {
    weft_runs of;
    int64_t cols; /* tiles of a sequence's queries */
    int32_t level;
    int32_t alike;   /* 1: sequences are, and whole runs are taken first */
    int64_t count;   /* of all runs; 0: a worker takes whole tiles */
    int64_t *before; /* (sequences + 1) runs of the sequences before each */
    int64_t *first;  /* likewise, those that are taken before all others */
} weft_sim_runs;

/* A run: its number, its tile's steps, and the sectors that it writes. */
typedef struct weft_sim_share {
    int64_t number;
    int64_t sectors; /* of its share of the result; 0: it is the tile's only run, and writes the result itself */
    int is_last;     /* of the tile: what merges the shares is taken to write with it */
} weft_sim_share;

/* The runs of a plan, to be released in any case. */
weft_status weft_sim_runs_make(weft_sim_runs *runs, const weft_plan *plan, weft_message *message);
void weft_sim_runs_release(weft_sim_runs *runs);

/* The run at a place of their order: a visit of some steps of a tile. */
weft_sim_share weft_sim_runs_visit(const weft_sim_runs *runs, const weft_plan *plan, int64_t place, weft_visit *visit);

/* Sectors of all shares. */
uint64_t weft_sim_runs_sectors(const weft_sim_runs *runs, const weft_plan *plan);

#endif
