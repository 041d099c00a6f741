/* A simulation as `weft simulate --json` and the pages show it. */
#ifndef WEFT_REPORT_SIMULATION_JSON_H
#define WEFT_REPORT_SIMULATION_JSON_H

#include <jansson.h>

#include <weft/sim.h>

/* A new object (the caller's to release), or null when memory ran out. `domains` is null, or one for each of the machine.
 */
json_t *weft_simulation_object(const weft_plan *plan, const weft_simulation *sim, const weft_traffic *domains);

#endif
