/* weft_simulate(): a plan through the engine. */
#include <weft/sim.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "sim/sources.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

weft_status weft_simulate_options_read(weft_simulate_options *o, const weft_simulate_options *given,
                                       weft_message *message) {
    const weft_simulate_options init = WEFT_SIMULATE_INIT;
    *o = init;
    if (given) {
        if (given->struct_size != sizeof *given) {
            return weft_fail(message, WEFT_INVALID,
                             "struct_size %zu is not one that this library knows: initialise with %s", given->struct_size,
                             "WEFT_SIMULATE_INIT");
        }
        *o = *given;
    }
    if (o->stages < 0 || o->stages > WEFT_SIM_STAGES) {
        return weft_fail(message, WEFT_INVALID, "stages %lld is not between 0 and %d", (long long)o->stages,
                         WEFT_SIM_STAGES);
    }
    if (!(o->drift <= 1.0)) {
        return weft_fail(message, WEFT_INVALID, "drift %g is not at most 1", o->drift);
    }
    return WEFT_OK;
}

/* Scales the counts of a part to the whole. */
static void scale(weft_traffic *t, double factor) {
    uint64_t *counts = (uint64_t *)t;
    for (size_t i = 0; i < sizeof *t / sizeof *counts; i++) {
        counts[i] = (uint64_t)llround((double)counts[i] * factor);
    }
    t->sectors = t->hits + t->misses; /* each was rounded on its own */
}

weft_status weft_simulate(const weft_plan *plan, const weft_simulate_options *options, weft_simulation *simulation,
                          weft_traffic *domains, weft_message *message) {
    if (!plan || !simulation) {
        return weft_fail(message, WEFT_INVALID, !plan ? "plan is null" : "simulation is null");
    }
    memset(simulation, 0, sizeof *simulation);
    weft_simulate_options o;
    weft_status status = weft_simulate_options_read(&o, options, message);
    if (status) {
        return status;
    }
    const double begin = now();
    weft_sim_source source;
    weft_sim_walk walk;
    weft_memory memory;
    weft_sim_outcome outcome = {0, 0, 0};
    memset(&memory, 0, sizeof memory);
    status = weft_sim_source_make(&source, &walk, plan, message);
    if (status == WEFT_OK && !weft_memory_init(&memory, &plan->machine, source.pieces, o.seed)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for caches of %u pieces", source.pieces);
    }
    if (status == WEFT_OK) {
        source.steps = o.limit != 0 || o.progress ? weft_sim_steps(plan) : 0;
        status = weft_sim_run(&memory, &source, &o, o.drift < 0 ? plan->machine.drift : o.drift, &outcome, message);
    }
    if (status == WEFT_OK) {
        const uint64_t steps = o.limit != 0 ? source.steps : 0;
        simulation->simulated = steps > 0 ? (double)outcome.steps / (double)steps : 1.0;
        for (int64_t d = 0; d < plan->machine.domains; d++) {
            weft_traffic t = weft_memory_traffic(&memory, d);
            if (steps > 0) {
                scale(&t, 1.0 / simulation->simulated);
            }
            weft_traffic_add(&simulation->total, &t);
            if (domains) {
                domains[d] = t;
            }
        }
        simulation->compulsory_misses = walk.distinct + (memory.writes_hit ? 0 : walk.written);
        simulation->piece_visits = outcome.pieces * walk.tensors_per_piece;
        outcome.seconds /= simulation->simulated;
        simulation->seconds = outcome.seconds;
        const double flops =
            plan->subject == WEFT_SUBJECT_ATTENTION ? weft_attention_flops(&plan->attention) : weft_gemm_flops(&plan->gemm);
        simulation->tflops = outcome.seconds > 0 ? flops / outcome.seconds / 1e12 : 0;
        simulation->seed = o.seed;
        simulation->elapsed_seconds = now() - begin;
    }
    weft_memory_release(&memory);
    weft_sim_walk_release(&walk);
    return status;
}
