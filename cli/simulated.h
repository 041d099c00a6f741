/* What the verbs that simulate share. */
#ifndef WEFT_CLI_SIMULATED_H
#define WEFT_CLI_SIMULATED_H

#include <math.h>

#include <weft/sim.h>

#include "options.h"

static inline weft_simulate_options simulate_options(const settings *s) {
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.seed = (uint64_t)s->seed;
    if (!isnan(s->drift)) {
        o.drift = s->drift;
    }
    if (s->stages >= 0) {
        o.stages = s->stages;
    }
    o.limit = (uint64_t)s->limit;
    return o;
}

#endif
