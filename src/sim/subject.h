/* SPDX-License-Identifier: Apache-2.0 */
/* What is simulated: a plan, or a source of the caller's. */
#ifndef WEFT_SIM_SUBJECT_H
#define WEFT_SIM_SUBJECT_H

#include "sim/engine.h"

typedef struct weft_sim_subject {
    const void *of; /* the plan or the source */
    const weft_machine *machine;
    const char *profile; /* the name of its kernel's, where the caller gives none */
    double flops;        /* 0: not known */
    uint64_t (*steps)(const void *of);
    /* Makes what the engine takes jobs from, anew for each run. Close the source in any case. */
    weft_status (*open)(const struct weft_sim_subject *subject, const weft_sim_settings *settings, weft_sim_source *source,
                        weft_message *message);
} weft_sim_subject;

static inline void weft_sim_close(weft_sim_source *source) {
    if (source->release) {
        source->release(source->context);
    }
}

/* Sets what a tile takes beside its steps. A CTA of a grid ends before the next begins, so nothing is hidden between them
 * unless several share an SM. */
static inline void weft_sim_set_edges(weft_sim_source *source, const weft_machine *machine, const weft_profile *profile,
                                      int grid, int64_t workers) {
    const double exposed = grid && workers <= machine->workers ? 1.0 : 1.0 - profile->hidden;
    source->edges = profile->launch + (profile->prologue + profile->epilogue) / machine->clock;
    source->between = exposed * (profile->prologue + profile->epilogue) / machine->clock;
}

/* weft_simulate() with settings and structs of this library. */
weft_status weft_sim_simulate(const weft_sim_subject *subject, const weft_sim_settings *settings,
                              weft_simulation *simulation, weft_traffic *domains, weft_message *message);

/* The same with the caller's options and structs. */
weft_status weft_sim_simulate_for(const weft_sim_subject *subject, const weft_simulate_options *options,
                                  weft_simulation *simulation, weft_traffic *domains, weft_message *message);

/* weft_simulate_curve(). */
weft_status weft_sim_curve(const weft_sim_subject *subject, const weft_simulate_options *options, weft_curve_point *points,
                           size_t count, weft_message *message);

#endif
