/* SPDX-License-Identifier: Apache-2.0 */
/* weft_simulate(): a plan, or what else is simulated, through the engine. */
#include <weft/sim.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct.h"
#include "profile/profile.h"
#include "sim/sources.h"

/* The caller's profile, or the usual one. */
static weft_status read_profile(weft_profile *profile, const weft_profile *given, const char *usual,
                                weft_message *message) {
    const weft_profile init = WEFT_PROFILE_INIT;
    *profile = init;
    return given ? weft_profile_copy(profile, given, message) : weft_profile_load(profile, usual, message);
}

weft_status weft_sim_settings_read(weft_sim_settings *settings, const weft_simulate_options *given, const char *usual,
                                   weft_message *message) {
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_profile *p = &settings->profile;
    weft_status status = weft_struct_take_options(&o, sizeof o, given, "WEFT_SIMULATE_INIT", message);
    if (status || (status = read_profile(p, o.profile, usual, message))) {
        return status;
    }
    if (o.stages > WEFT_SIM_STAGES) {
        return weft_fail(message, WEFT_INVALID, "stages %lld is not at most %d", (long long)o.stages, WEFT_SIM_STAGES);
    }
    if (!(o.drift <= 1.0)) {
        return weft_fail(message, WEFT_INVALID, "drift %g is not at most 1", o.drift);
    }
    if (o.drift != 0) { /* in step, or spread as the caller says */
        p->spread_step = o.drift < 0 ? 0 : o.drift;
        p->spread_tile = p->spread_load = 0;
    }
    p->stages = o.stages == 0 ? p->stages : o.stages < 0 ? 0 : o.stages;
    settings->seed = o.seed == 0 ? 1 : o.seed;
    settings->limit = o.limit;
    settings->watch = NULL;
    settings->progress = o.progress;
    settings->progress_user = o.progress_user;
    settings->page_table = o.page_table;
    return WEFT_OK;
}

/* Scales the counts of a part to the whole. */
static void scale(weft_traffic *t, double factor) {
    uint64_t *const counts[] = {&t->sectors_from_sm,  &t->hits,     &t->misses,
                                &t->fabric_sectors,   &t->llc_hits, &t->dram_read_bytes,
                                &t->dram_write_bytes, &t->added};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *counts[i] = (uint64_t)llround((double)*counts[i] * factor);
    }
    t->sectors = t->hits + t->misses; /* each was rounded on its own */
}

weft_status weft_sim_simulate(const weft_sim_subject *subject, const weft_sim_settings *o, weft_simulation *result,
                              weft_traffic *domains, weft_message *message) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    const weft_machine *machine = subject->machine;
    const double begin = weft_now();
    weft_sim_source source;
    weft_memory memory;
    weft_sim_outcome outcome = {0, 0, 0, 0};
    memset(&memory, 0, sizeof memory);
    *result = none;
    weft_status status = subject->open(subject, o, &source, message);
    if (status == WEFT_OK && !weft_memory_init(&memory, machine, &o->profile, source.pieces, o->seed)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for caches of %u pieces", source.pieces);
    }
    if (status == WEFT_OK) {
        const uint64_t passes = source.passes > 0 ? (uint64_t)source.passes : 1;
        source.steps = o->limit != 0 || o->progress ? subject->steps(subject->of) * passes : 0;
        status = weft_sim_run(&memory, &source, o, &outcome, message);
    }
    if (status == WEFT_OK && source.end) {
        status = source.end(&source, message);
    }
    if (status == WEFT_OK) {
        const uint64_t steps = o->limit != 0 ? source.steps : 0;
        result->simulated = steps > 0 ? (double)outcome.steps / (double)steps : 1.0;
        for (int64_t d = 0; d < machine->domains; d++) {
            weft_traffic t = weft_memory_traffic(&memory, d);
            if (steps > 0) {
                scale(&t, 1.0 / result->simulated);
            }
            weft_traffic_add(&result->total, &t);
            if (domains) {
                domains[d] = t;
            }
        }
        result->compulsory_misses = source.distinct + (memory.writes_hit ? 0 : source.written);
        result->piece_visits = outcome.pieces * (uint64_t)source.per_piece + source.visits;
        result->seconds = outcome.seconds / result->simulated;
        result->tflops = result->seconds > 0 ? subject->flops / result->seconds / 1e12 : 0;
        result->total.waited = (uint64_t)llround(1e9 * outcome.waited / result->simulated);
        result->seed = o->seed;
        memcpy(result->profile, o->profile.name, sizeof result->profile);
        result->elapsed_seconds = weft_now() - begin;
    }
    weft_memory_release(&memory);
    weft_sim_close(&source);
    return status;
}

/* Copies the domains' counts to the caller's structs, which lie as far apart as the first of them is long. */
static weft_status give_domains(weft_traffic *theirs, const weft_traffic *ours, int64_t count, weft_message *message) {
    const size_t step = theirs->struct_size;
    weft_status status = WEFT_OK;
    for (int64_t d = 0; d < count && status == WEFT_OK; d++) {
        char *at = (char *)theirs + (size_t)d * step;
        memcpy(at, &step, sizeof step);
        status = weft_struct_give(at, &ours[d], sizeof ours[d], sizeof(size_t), "WEFT_TRAFFIC_INIT", message);
    }
    return status;
}

weft_status weft_sim_simulate_for(const weft_sim_subject *subject, const weft_simulate_options *options,
                                  weft_simulation *simulation, weft_traffic *domains, weft_message *message) {
    const int64_t count = subject->machine->domains;
    weft_sim_settings o;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_status status = weft_sim_settings_read(&o, options, subject->profile, message);
    if (status ||
        (status = weft_struct_give(simulation, &result, sizeof result, sizeof(size_t), "WEFT_SIMULATION_INIT", message))) {
        return status;
    }
    weft_traffic *each = calloc((size_t)count, sizeof *each);
    if (!each) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld domains", (long long)count);
    }
    if ((status = weft_sim_simulate(subject, &o, &result, each, message)) == WEFT_OK && domains) {
        status = give_domains(domains, each, count, message);
    }
    if (status == WEFT_OK) {
        status = weft_struct_give(simulation, &result, sizeof result, sizeof(size_t), "WEFT_SIMULATION_INIT", message);
    }
    free(each);
    return status;
}

weft_status weft_simulate(const weft_plan *plan, const weft_simulate_options *options, weft_simulation *simulation,
                          weft_traffic *domains, weft_message *message) {
    if (!plan || !simulation) {
        return weft_fail(message, WEFT_INVALID, !plan ? "plan is null" : "simulation is null");
    }
    const weft_sim_subject subject = weft_sim_subject_of_plan(plan);
    return weft_sim_simulate_for(&subject, options, simulation, domains, message);
}
