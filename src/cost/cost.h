/* SPDX-License-Identifier: Apache-2.0 */
/* How long a plan would take, before it runs: the one interface to every model. */
#ifndef WEFT_COST_COST_H
#define WEFT_COST_COST_H

#include "plan/plan.h"

typedef struct weft_cost {
    double time; /* of a run, in a unit of the source's own: comparable between plans that the same source priced */
    const char *source;
} weft_cost;

/* Asks one source after the other: the model that the plan's backend has of its kernels, on the device's own machine; then
 * the simulator, over two waves of tiles. WEFT_UNSUPPORTED when none can tell: the simulator takes no split tiles and one
 * product only. */
weft_status weft_cost_of(const weft_plan *plan, weft_cost *cost, weft_message *message);

/* The first of these alone: seconds or any other unit; 0 when the backend has no model or the machine is not its own. */
double weft_cost_model(const weft_plan *plan);

/* Steps of a wave of tiles: of the longest tile of every worker. */
uint64_t weft_cost_wave(const weft_plan *plan);

#endif
