/* weft_simulate_curve(): misses against the size of the L2. */
#include <weft/sim.h>

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/sources.h"

/* Sizes at equal distances, up to a little more than all the data. */
static void choose_sizes(weft_curve_point *points, size_t count, uint64_t sectors, const weft_machine *m) {
    const double most = 1.1 * (double)sectors * (double)m->l2_sector;
    for (size_t i = 0; i < count; i++) {
        const int64_t bytes = (int64_t)(most * (double)(i + 1) / (double)count);
        points[i].l2_bytes = bytes - bytes % m->l2_line + m->l2_line;
        points[i].misses = 0;
    }
}

/* One run of the engine with the workers in step; `reuse` may be null. */
static weft_status run_in_step(const weft_plan *plan, const weft_machine *machine, const weft_sim_settings *settings,
                               weft_reuse *reuse, uint64_t *misses, weft_message *message) {
    weft_sim_source source;
    weft_sim_walk walk;
    weft_memory memory;
    weft_sim_outcome outcome;
    memset(&memory, 0, sizeof memory);
    weft_status status = weft_sim_source_make(&source, &walk, plan, &settings->profile, message);
    if (status == WEFT_OK && !weft_memory_init(&memory, machine, &settings->profile, source.pieces, settings->seed)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for caches of %u pieces", source.pieces);
    }
    if (status == WEFT_OK) {
        memory.reuse = reuse;
        source.steps = settings->progress ? weft_simulate_steps(plan) : 0;
        status = weft_sim_run(&memory, &source, settings, &outcome, message);
    }
    *misses = 0;
    for (int64_t d = 0; status == WEFT_OK && d < machine->domains; d++) {
        *misses += weft_memory_traffic(&memory, d).misses;
    }
    weft_memory_release(&memory);
    weft_sim_walk_release(&walk);
    return status;
}

/* Progress over many runs: `run` of `runs` are done. */
typedef struct many {
    const weft_simulate_options *options;
    int64_t run, runs;
} many;

static void tell_of_many(void *user, int64_t done, int64_t total) {
    const many *m = user;
    m->options->progress(m->options->progress_user, m->run * total + done, m->runs * total);
}

static weft_status by_distance(const weft_plan *plan, const weft_sim_settings *settings, uint32_t pieces, uint64_t sectors,
                               weft_curve_point *points, size_t count, weft_message *message) {
    const int64_t domains = plan->machine.domains;
    weft_reuse *reuse = calloc((size_t)domains, sizeof *reuse);
    weft_status status = WEFT_OK;
    for (int64_t d = 0; d < domains && status == WEFT_OK; d++) {
        if (!reuse || !weft_reuse_init(&reuse[d], pieces, sectors)) {
            status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the reuse distances of %u pieces", pieces);
        }
    }
    uint64_t unused;
    if (status == WEFT_OK) {
        status = run_in_step(plan, &plan->machine, settings, reuse, &unused, message);
    }
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        for (int64_t d = 0; d < domains; d++) {
            points[i].misses += weft_reuse_misses(&reuse[d], (uint64_t)(points[i].l2_bytes / plan->machine.l2_sector));
        }
    }
    for (int64_t d = 0; reuse && d < domains; d++) {
        weft_reuse_release(&reuse[d]);
    }
    free(reuse);
    return status;
}

weft_status weft_simulate_curve(const weft_plan *plan, const weft_simulate_options *options, weft_curve_point *points,
                                size_t count, weft_message *message) {
    weft_sim_settings o;
    if (!plan || !points || count < 2) {
        return weft_fail(message, WEFT_INVALID, !plan ? "plan is null" : "a curve has at least 2 points");
    }
    weft_status status = weft_sim_settings_read(&o, options, weft_plan_profile(plan), message);
    if (status) {
        return status;
    }
    o.profile.spread_step = o.profile.spread_tile = o.profile.spread_load = 0;
    o.limit = 0; /* a part of the walk has other distances than all of it */
    weft_sim_source source;
    weft_sim_walk walk;
    status = weft_sim_source_make(&source, &walk, plan, &o.profile, message);
    const uint64_t sectors = walk.pieces.distinct + walk.pieces.written;
    weft_sim_walk_release(&walk);
    if (status) {
        return status;
    }
    choose_sizes(points, count, sectors, &plan->machine);
    if (plan->machine.l2_home != WEFT_HOME_SPLIT) {
        return by_distance(plan, &o, source.pieces, sectors, points, count, message);
    }
    many runs = {options, 0, (int64_t)count};
    o.progress = o.progress ? tell_of_many : NULL;
    o.progress_user = &runs;
    for (size_t i = 0; i < count && status == WEFT_OK; i++, runs.run++) {
        weft_machine machine = plan->machine;
        machine.l2_bytes = points[i].l2_bytes;
        machine.l2_usable = 1;
        machine.l2_slack = machine.l2_crowded = 0;
        machine.l2_ways = 0;
        status = run_in_step(plan, &machine, &o, NULL, &points[i].misses, message);
    }
    return status;
}
