/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation as `weft simulate --json` and the pages show it. */
#ifndef WEFT_REPORT_SIMULATION_JSON_H
#define WEFT_REPORT_SIMULATION_JSON_H

#include <jansson.h>

#include <weft/source.h>

/* A new object (the caller's to release), or null when memory ran out. `domains` is null, or one for each of the machine.
 */
json_t *weft_simulation_object(const weft_plan *plan, const weft_simulation *sim, const weft_traffic *domains);

/* The same for a source; and the source itself, as the problem. */
json_t *weft_source_simulation_object(const weft_source *source, const weft_machine *machine,
                                      const weft_simulation *simulation, const weft_traffic *domains);
json_t *weft_source_problem_json(const weft_source *source);

#endif
