/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that a problem could take on a device: the backend's kernels times the orders, sweeps and dispatches. */
#ifndef WEFT_TUNE_CANDIDATES_H
#define WEFT_TUNE_CANDIDATES_H

#include <weft/tune.h>

#include "plan/plan.h"

/* One of them. */
typedef struct weft_candidate {
    weft_schedule schedule; /* as it is stored: what is open in it the plan chooses */
    weft_plan *plan;
    double model;       /* time by the model, in any unit; 0: not asked, or it cannot tell */
    weft_status priced; /* how asking it went */
    size_t rank;        /* how many of the same tile come before it */
    double rough;       /* seconds of its first run; 0: none yet */
    double *times;      /* seconds, `count` of them */
    size_t count;
    int racing;   /* 1: still being timed */
    int stays;    /* 1: to the end, however slow it is */
    int is_also;  /* the caller asked for it */
    int is_final; /* its times are those of the final */
} weft_candidate;

/* The first is the one that WEFT_ESTIMATE takes. */
typedef struct weft_candidates {
    weft_candidate *list;
    size_t count, room;
    size_t same, refused, dropped; /* that are not in the list: see weft_tune_state */
    double dropped_from;
} weft_candidates;

/* Every distinct candidate, its plan made. The schedule of `draft` says what is open; those of `also` come besides. */
weft_status weft_candidates_make(weft_candidates *c, const weft_plan *draft, const weft_schedule *also, size_t also_count,
                                 weft_message *message);

/* A schedule that was tuned for a class: tiles that are larger than this problem are cut, where kernels do not do that. */
void weft_candidates_fit(weft_plan *draft);

/* Asks the model about each, drops what is further behind its best than `behind` times, and puts the rest in the order in
 * which they are to be timed: those that stay first, then the likeliest of each tile, then the next of each. What the model
 * cannot price is kept, and comes after what it can, in each of these rounds. WEFT_NO_MEMORY leaves all of them. */
weft_status weft_candidates_drop(weft_candidates *c, double behind, weft_message *message);

void weft_candidates_free(weft_candidates *c);

#endif
