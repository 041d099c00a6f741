/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that simulate share. */
#ifndef WEFT_CLI_SIMULATED_H
#define WEFT_CLI_SIMULATED_H

#include <jansson.h>
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

/* What came out, as text; `domains` is null, or one for each of the machine. */
void print_simulation(const weft_machine *machine, const weft_simulation *sim, const weft_traffic *domains);

/* The misses for every size of the L2 (curve_points() of them), as JSON or as a plot: one line a size, the machine's own
 * marked. Takes the references to problem and schedule, which text does not need. */
enum { CURVE_POINTS = 48 };
size_t curve_points(const weft_machine *machine);
int print_curve(const settings *s, const weft_machine *machine, const weft_curve_point *points, json_t *problem,
                json_t *schedule);

#endif
