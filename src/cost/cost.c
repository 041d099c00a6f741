/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost.h"

#include <weft/sim.h>

#include "base/status.h"

/* A way to know; 0 when it cannot tell. */
typedef struct source {
    const char *name;
    double (*time)(const weft_plan *plan);
} source;

/* Models know the device, and what is planned on paper for one; not other machines that a plan may be made for. */
double weft_cost_model(const weft_plan *plan) {
    return plan->backend->cost && (!plan->given_machine || plan->on_paper) ? plan->backend->cost(plan) : 0;
}

static double by_simulator(const weft_plan *plan) {
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    options.limit = 2 * weft_cost_wave(plan);
    return weft_simulate(plan, &options, &simulation, NULL, NULL) == WEFT_OK ? simulation.seconds : 0;
}

static const source sources[] = {{"model", weft_cost_model}, {"simulator", by_simulator}};

weft_status weft_cost_of(const weft_plan *plan, weft_cost *cost, weft_message *message) {
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        *cost = (weft_cost){sources[i].time(plan), sources[i].name};
        if (cost->time > 0) {
            return WEFT_OK;
        }
    }
    *cost = (weft_cost){0, ""};
    return weft_fail(message, WEFT_UNSUPPORTED, "no model knows how long this plan takes");
}

uint64_t weft_cost_wave(const weft_plan *plan) {
    const weft_reach *r = &plan->walk.reach;
    return (uint64_t)plan->walk.workers * (uint64_t)weft_ceil_divide(r->columns, r->tile_columns);
}
