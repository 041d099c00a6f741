/* SPDX-License-Identifier: Apache-2.0 */
/* Taking turns: one thread plays all the workers of a plan. */
#ifndef WEFT_REF_ROUNDS_H
#define WEFT_REF_ROUNDS_H

#include "plan/plan.h"

/* Computes one tile. `visit` is the visit to the tile's cluster: its steps, in their order, serve every tile of it. */
typedef void (*weft_ref_work)(void *context, const weft_visit *visit, weft_tile tile);

/* Walks plan->walk over the grid `tiles` and calls work(context, ...) once for each tile, then the plan's progress.
 * Persistent workers visit in turns, one visit each; under grid dispatch each position has a worker of its own, and they
 * run one after the other. WEFT_NO_MEMORY is the only failure. */
weft_status weft_ref_rounds(const weft_plan *plan, weft_grid tiles, weft_ref_work work, void *context,
                            weft_message *message);

#endif
