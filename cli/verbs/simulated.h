/* What the verbs that simulate share. */
#ifndef WEFT_CLI_SIMULATED_H
#define WEFT_CLI_SIMULATED_H

#include <math.h>

#include <weft/sim.h>

#include "options/options.h"
#include "progress.h"

/* The options as the user has set them, where 0 says none; `part` is null, or what the simulation is of the progress that
 * is shown. */
static inline weft_simulate_options simulate_options(const settings *s, progress_part *part) {
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.seed = (uint64_t)s->seed;
    o.drift = isnan(s->drift) || s->drift < 0 ? 0 : s->drift == 0 ? -1 : s->drift;
    o.stages = s->stages < 0 ? 0 : s->stages == 0 ? -1 : s->stages;
    o.profile = s->profile;
    o.limit = (uint64_t)s->limit;
    o.progress = part ? progress_told : NULL;
    o.progress_user = part;
    return o;
}

#endif
