/* SPDX-License-Identifier: Apache-2.0 */
/* weft_simulate_curve(): misses against the size of the L2. */
#include <weft/sim.h>

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/tally.h"
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
static weft_status run_in_step(const weft_sim_subject *subject, const weft_machine *machine,
                               const weft_sim_settings *settings, weft_reuse *reuse, uint64_t *misses,
                               weft_message *message) {
    weft_sim_source source;
    weft_memory memory;
    weft_sim_outcome outcome;
    memset(&memory, 0, sizeof memory);
    weft_status status = subject->open(subject, settings, &source, message);
    if (status == WEFT_OK && !weft_memory_init(&memory, machine, &settings->profile, source.pieces, settings->seed)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for caches of %u pieces", source.pieces);
    }
    if (status == WEFT_OK) {
        memory.reuse = reuse;
        source.steps = settings->progress ? subject->steps(subject->of) : 0;
        status = weft_sim_run(&memory, &source, settings, &outcome, message);
    }
    if (status == WEFT_OK && source.end) {
        status = source.end(&source, message);
    }
    *misses = 0;
    for (int64_t d = 0; status == WEFT_OK && d < machine->domains; d++) {
        *misses += weft_memory_traffic(&memory, d).misses;
    }
    weft_memory_release(&memory);
    weft_sim_close(&source);
    return status;
}

static weft_status by_distance(const weft_sim_subject *subject, const weft_sim_settings *settings, uint32_t pieces,
                               uint64_t sectors, weft_curve_point *points, size_t count, weft_message *message) {
    const weft_machine *machine = subject->machine;
    const int64_t domains = machine->domains;
    weft_reuse *reuse = calloc((size_t)domains, sizeof *reuse);
    weft_status status = WEFT_OK;
    for (int64_t d = 0; d < domains && status == WEFT_OK; d++) {
        if (!reuse || !weft_reuse_init(&reuse[d], pieces, sectors)) {
            status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the reuse distances of %u pieces", pieces);
        }
    }
    uint64_t unused;
    if (status == WEFT_OK) {
        status = run_in_step(subject, machine, settings, reuse, &unused, message);
    }
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        for (int64_t d = 0; d < domains; d++) {
            points[i].misses += weft_reuse_misses(&reuse[d], (uint64_t)(points[i].l2_bytes / machine->l2_sector));
        }
    }
    for (int64_t d = 0; reuse && d < domains; d++) {
        weft_reuse_release(&reuse[d]);
    }
    free(reuse);
    return status;
}

weft_status weft_sim_curve(const weft_sim_subject *subject, const weft_simulate_options *options, weft_curve_point *points,
                           size_t count, weft_message *message) {
    weft_sim_settings o;
    if (!points || count < 2) {
        return weft_fail(message, WEFT_INVALID, "a curve has at least 2 points");
    }
    weft_status status = weft_sim_settings_read(&o, options, subject->profile, message);
    if (status) {
        return status;
    }
    o.profile.spread_step = o.profile.spread_tile = o.profile.spread_load = 0;
    o.limit = 0; /* a part of the walk has other distances than all of it */
    weft_sim_source source;
    status = subject->open(subject, &o, &source, message);
    weft_sim_close(&source);
    if (status) {
        return status;
    }
    choose_sizes(points, count, source.sectors, subject->machine);
    if (subject->machine->l2_home != WEFT_HOME_SPLIT) {
        return by_distance(subject, &o, source.pieces, source.sectors, points, count, message);
    }
    const double steps = o.progress ? (double)subject->steps(subject->of) : 0;
    weft_tally tally = WEFT_TALLY(o.progress, o.progress_user, (double)count * steps);
    o.progress = o.progress ? weft_tally_told : NULL;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_tally_part part = {&tally, steps, 0};
        weft_machine machine = *subject->machine;
        machine.l2_bytes = points[i].l2_bytes;
        machine.l2_usable = 1;
        machine.l2_slack = machine.l2_crowded = 0;
        machine.l2_ways = 0;
        o.progress_user = &part;
        status = run_in_step(subject, &machine, &o, NULL, &points[i].misses, message);
    }
    return status;
}

weft_status weft_simulate_curve(const weft_plan *plan, const weft_simulate_options *options, weft_curve_point *points,
                                size_t count, weft_message *message) {
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    const weft_sim_subject subject = weft_sim_subject_of_plan(plan);
    return weft_sim_curve(&subject, options, points, count, message);
}
