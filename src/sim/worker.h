/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a run, and the run. */
#ifndef WEFT_SIM_WORKER_H
#define WEFT_SIM_WORKER_H

#include "sim/engine.h"
#include "sim/turns.h"
#include "sim/wheel.h"

typedef struct weft_sim_worker {
    /* what a plain step needs, close together */
    int64_t done;           /* steps begun */
    int64_t plain;          /* steps after the first that are plain: see weft_sim_run_plain() */
    weft_memory_domain *at; /* where it sits */
    int64_t domain;         /* the number of that */
    double seconds;         /* a step, this tile's drift included */
    double spread;          /* of the steps, which then draw for themselves */
    uint32_t piece, weight; /* what plain steps ask for; `piece` is that of step 0 */
    int32_t direction;
    int32_t stage; /* of the next step: its place in `ready` */
    double ready[WEFT_SIM_STAGES];

    double factor;  /* this tile's drift, on the time of a step */
    int64_t asking; /* so many steps ask for pieces when they begin; what the others need was asked for ahead */
    int32_t busy;   /* has a job */
    weft_sim_job job;
} weft_sim_worker;

typedef struct weft_sim_engine {
    weft_memory *memory;
    const weft_sim_source *source;
    weft_sim_worker *workers;
    weft_wheel wheel;
    int64_t stages;
    int ahead; /* steps are requested ahead */
    double early, spread_step, spread_tile;
    uint64_t limit, random;
    weft_sim_outcome *outcome;
    const weft_sim_observer *observer; /* or null */
    const weft_sim_settings *settings;
    uint64_t next_told;   /* the number of steps to tell of progress at */
    weft_sim_turns turns; /* where the source has turns */
    uint64_t next_stop;   /* the same to do either: tell of it, or let the watch look */
} weft_sim_engine;

/* When a worker is done with a step that begins now, and whose pieces, asked for now, are there at `ready`. */
static inline double weft_sim_end_of_step(const weft_sim_engine *e, weft_sim_worker *w, double now, double ready,
                                          double seconds, int first, int last) {
    if (e->stages == 0) { /* now is `early` of a step before the last one ends */
        const double free_at = now + (first ? 0.0 : e->early * seconds);
        return weft_later(ready, free_at) + (last ? 1.0 : 1.0 - e->early) * seconds;
    }
    w->ready[w->stage] = ready;
    w->stage = w->stage + 1 == e->stages ? 0 : w->stage + 1;
    return weft_later(w->ready[w->stage], now + seconds);
}

/* Takes plain steps as long as one follows the other in the wheel's bucket at hand. Such a step is in the middle of a tile,
 * and asks for one piece; nobody watches. */
void weft_sim_run_plain(weft_sim_engine *e);

#endif
