/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a plan could be at best: what each resource of its machine needs for it, if nothing else took time. */
#ifndef WEFT_SIM_BOUND_H
#define WEFT_SIM_BOUND_H

#include <weft/sim.h>

#include "plan/plan.h"

/* Seconds, but for the last. */
typedef struct weft_bound {
    double products, exponentials; /* of all steps, at the machine's rates */
    double l2;                     /* what all steps load, at the bandwidth of the L2 */
    double dram;                   /* what is read at least once, at the bandwidth of DRAM */
    double steps; /* the busiest worker's steps as the simulator times them: no schedule of the tile beats it */
    double waves; /* tiles of a worker: of the busiest, over the mean; 1: none idles at the end */
} weft_bound;

/* Options as for weft_simulate(). WEFT_UNSUPPORTED, with the reason, when the simulator does not take the plan. */
weft_status weft_bound_of(const weft_plan *plan, const weft_simulate_options *options, weft_bound *bound,
                          weft_message *message);

#endif
