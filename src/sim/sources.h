/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as what is simulated: jobs are the tiles of the plan, in the plan's order. */
#ifndef WEFT_SIM_SOURCES_H
#define WEFT_SIM_SOURCES_H

#include "order/deal.h"
#include "order/timetable.h"
#include "plan/plan.h"
#include "sim/runs.h"
#include "sim/subject.h"

/* A visit, and which of its passes a worker has taken. */
typedef struct weft_sim_pass {
    weft_visit visit;
    int64_t pass;
    weft_sim_share run; /* which it is, where workers take runs; else zeros */
} weft_sim_pass;

/* The walk of a plan, dealt out to the machine's workers. */
typedef struct weft_sim_walk {
    const weft_plan *plan;
    weft_walk walk; /* the plan's, with the timetable */
    const weft_profile *profile;
    weft_tiling tiling;       /* of the plan, in the form of the profile's kernel */
    weft_kernel_facts kernel; /* what is known of it beyond the profile */
    weft_worker *workers;     /* (workers) persistent ones */
    int has_parts;            /* 1: CTAs that share a tile have each a row of the walk's clusters */
    int by_side;              /* 1: dynamic dispatch deals positions out by side of the L2 */
    int64_t *next_of_domain;  /* (domains) grid dispatch handed out in turn: each domain's next position */
    int64_t lanes;            /* domains that have a worker */
    int32_t *visits;          /* (workers) grid dispatch: visits of the position in hand that are done */
    int64_t *positions;       /* (workers) grid dispatch: the position in hand */
    int64_t *ranks;           /* (workers) grid dispatch: which CTA of a cluster that shares out the steps; 0 elsewhere */
    weft_sim_pass *passes;    /* (workers) the pass in hand */
    weft_timetable timetable; /* where adds take turns */
    uint64_t counter;         /* dynamic dispatch, and grid dispatch to whoever is free */
    uint32_t first_out, first_lead; /* numbers of the pieces that are written, and read once */
    weft_pieces pieces;             /* what the operation's tiles read and write */
    weft_place *places;             /* where those lie that pages hold, or null */
    weft_sim_runs runs;             /* where the profile says so; then `positions` are the workers' next ones */
} weft_sim_walk;

weft_sim_subject weft_sim_subject_of_plan(const weft_plan *plan);

/* The walk of a plan with a kernel of the settings' profile, which must stay, as weft_sim_subject.open() makes it; release
 * it in any case. */
weft_status weft_sim_walk_make(weft_sim_source *source, weft_sim_walk *walk, const weft_plan *plan,
                               const weft_sim_settings *settings, weft_message *message);
void weft_sim_walk_release(weft_sim_walk *walk);

/* The job of a pass of a worker's visit; -1: of a worker with the mean share of the L2. */
void weft_sim_walk_job(const weft_sim_walk *walk, int64_t worker, const weft_visit *visit, int64_t pass, weft_sim_job *job);

/* The workers that share the path of a worker's GPC, over those of a GPC in the mean. CTAs go to the GPCs in turn, two SMs
 * of a TPC at a time; the last ones find room in the large GPCs alone. */
double weft_sim_gpc_load(const weft_machine *machine, const weft_profile *profile, int64_t worker);

/* FLOP per second of a machine's products in a dtype. */
double weft_sim_matrix_rate(const weft_machine *m, weft_dtype dtype);

#endif
