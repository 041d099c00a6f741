/* SPDX-License-Identifier: Apache-2.0 */
/* Launches beside the one by the plan's walk: their walks, and how many CTAs they have. */
#include <inttypes.h>

#include "base/status.h"
#include "cuda/plan/backend.h"

/* The order for tiles of another operation. A table numbers the plan's own tiles, so a custom order goes head by head.
 * Under a causal mask the first tiles of keys and the last tiles of queries are the longest: what begins with the longest
 * of the one begins from the other end of the other. */
static weft_order_kind order_of(const weft_plan *plan) {
    const weft_mask mask = plan->attention.mask;
    const int is_causal = mask == WEFT_MASK_CAUSAL || mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    const weft_order_kind kind = (weft_order_kind)plan->schedule.order;
    if (is_causal && (kind == WEFT_ORDER_HEAD_FIRST || kind == WEFT_ORDER_REVERSE)) {
        return kind == WEFT_ORDER_REVERSE ? WEFT_ORDER_HEAD_FIRST : WEFT_ORDER_REVERSE;
    }
    return kind;
}

weft_status weft_cuda_pass_lay_out(const weft_plan *plan, weft_cuda_pass *pass, int64_t workers, weft_message *message) {
    const weft_cuda_choice *choice = &pass->choice;
    weft_schedule s = plan->schedule;
    const weft_sweep sweep =
        s.sweep > WEFT_COMMON_SWEEPS ? WEFT_SWEEP_FORWARD : (weft_sweep)s.sweep; /* those are of keys */
    weft_tiling tiling = weft_plan_tiling(plan);
    weft_grid tiles;
    weft_reach reach;
    weft_order order;
    if (choice->grid > INT32_MAX) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%" PRId64 " CTAs are more than a launch can have (2^31 - 1)",
                         choice->grid);
    }
    if (choice->as_main) {
        pass->grid = ((const weft_cuda_plan *)plan->placed)->main->grid;
        pass->walk = plan->walk;
        return WEFT_OK;
    }
    if (choice->grid > 0) {
        pass->grid = (uint32_t)choice->grid;
        pass->walk = plan->walk;
        return WEFT_OK;
    }
    s.tile_m = choice->tile_m;
    s.tile_n = choice->tile_n;
    s.split = 1; /* what a split cuts is the plan's */
    tiling.schedule = &s;
    weft_operation_at(choice->operation)->lay_out(&tiling, &tiles, &reach);
    if (!weft_order_init(&order, order_of(plan), weft_walk_positions(tiles, sweep, 1, 1), s.group, s.axis, s.domains) ||
        !weft_walk_init(&pass->walk, &order, tiles, sweep, (weft_dispatch)s.dispatch, 1, 1, workers, reach)) {
        return weft_fail(message, WEFT_INVALID, "the grid of %" PRId64 " x %" PRId64 " x %" PRId64 " tiles is too large",
                         tiles.batch, tiles.rows, tiles.cols);
    }
    const int64_t positions = pass->walk.order.count;
    const int64_t grid = s.dispatch == WEFT_DISPATCH_GRID || positions < workers ? positions : workers;
    if (grid > INT32_MAX) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%" PRId64 " CTAs are more than a launch can have (2^31 - 1)", grid);
    }
    pass->grid = (uint32_t)grid;
    return WEFT_OK;
}
