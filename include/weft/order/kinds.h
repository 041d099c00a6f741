/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The orders: their numbers, how one is prepared, and the tile at a position.
 */
#ifndef WEFT_ORDER_KINDS_H
#define WEFT_ORDER_KINDS_H

#include "base.h"

#define WEFT_ORDER_FILES
#include "../orders.def"

/** The orders, in the order of orders.def. Like all codes of a schedule, they begin at 1: 0 leaves the choice to the plan.
 */
typedef enum weft_order_kind {
    WEFT_ORDER_CHOOSE = 0,
#define WEFT_ORDER(ID, function, name, GRID, PARAMETER, text) WEFT_ORDER_##ID,
#include "../orders.def"
    WEFT_ORDER_END,
    WEFT_ORDER_KINDS = WEFT_ORDER_END - 1 /**< how many there are */
} weft_order_kind;

/** The grids that the order applies to; WEFT_GRID_MATRIX for an unknown kind. */
WEFT_INLINE weft_grid_kind weft_order_grid(int32_t kind) {
    switch (kind) {
#define WEFT_ORDER(ID, function, name, GRID, PARAMETER, text)                                                              \
    case WEFT_ORDER_##ID:                                                                                                  \
        return WEFT_GRID_##GRID;
#include "../orders.def"
    default:
        return WEFT_GRID_MATRIX;
    }
}

/** Prepares an order over a grid.
 *
 * @param order    what is filled
 * @param kind     which order
 * @param grid     the tiles, at most 2^62
 * @param group    lines in a band for the orders that take a group; 0 or more than there are means all. Ignored by others.
 * @param axis     the axis that bands are cut across, for `group`, `serpentine` and its swizzled form; 0 means WEFT_AXIS_N
 * @param domains  L2 domains for the swizzled orders, at least 1. Ignored by others.
 * @return 1, or 0 when the kind is unknown, a size is below 1 or there are more than 2^62 tiles; *order is then empty.
 */
WEFT_INLINE int weft_order_init(weft_order *order, weft_order_kind kind, weft_grid grid, int64_t group, weft_axis axis,
                                int64_t domains) {
    const int64_t limit = (int64_t)1 << 62;
    order->count = 0;
    order->table = 0;
    if ((int)kind < 1 || kind > WEFT_ORDER_KINDS || grid.batch < 1 || grid.rows < 1 || grid.cols < 1 || group < 0 ||
        domains < 1 || domains > limit || grid.batch > limit / grid.rows || grid.batch * grid.rows > limit / grid.cols) {
        return 0;
    }
    const int heads = weft_order_grid((int32_t)kind) == WEFT_GRID_HEADS;
    const int across_rows = heads || axis == WEFT_AXIS_M;
    const int64_t along = across_rows ? grid.cols : grid.rows;
    int64_t across = heads ? grid.batch * grid.rows : across_rows ? grid.rows : grid.cols;
    if (kind == WEFT_ORDER_SERPENTINE_SWIZZLED) { /* a band lies in one domain's share */
        across = across / domains > 0 ? across / domains : 1;
    }

    order->kind = (int32_t)kind;
    order->axis = axis == WEFT_AXIS_M ? WEFT_AXIS_M : WEFT_AXIS_N;
    order->grid = grid;
    order->count = grid.batch * grid.rows * grid.cols;
    order->group = group == 0 || group > across ? across : group;
    order->domains = domains;
    order->bands = weft_ceil_divide(across, order->group);
    order->by_batch = weft_divisor_make((uint64_t)(grid.rows * grid.cols));
    order->by_rows = weft_divisor_make((uint64_t)grid.rows);
    order->by_cols = weft_divisor_make((uint64_t)grid.cols);
    order->by_domains = weft_divisor_make((uint64_t)domains);
    order->by_band = weft_divisor_make((uint64_t)(order->group * along));
    order->by_group = weft_divisor_make((uint64_t)order->group);
    order->by_last_group = weft_divisor_make((uint64_t)(across - (order->bands - 1) * order->group));
    return 1;
}

/** The tile at a position, computed. `position` is between 0 and order->count - 1. */
WEFT_INLINE weft_tile weft_order_compute(const weft_order *order, int64_t position) {
    switch (order->kind) {
#define WEFT_ORDER(ID, function, name, GRID, PARAMETER, text)                                                              \
    case WEFT_ORDER_##ID:                                                                                                  \
        return weft_order_##function(order, position);
#include "../orders.def"
    default:
        return weft_tile_at(0, 0, 0);
    }
}

/** The tile at a position: from the table where there is one, computed otherwise. */
WEFT_INLINE weft_tile weft_order_tile(const weft_order *order, int64_t position) {
    return order->table ? weft_tile_of_index(order, order->table[position]) : weft_order_compute(order, position);
}

/** Fills a table of order->count entries, for weft_order.table. Only for orders of at most 2^32 tiles.
 *
 * The caller keeps the table and points order->table at it (or at a copy in the kernel's memory).
 * @return 1, or 0 when the order has more tiles than a table can hold.
 */
WEFT_INLINE int weft_order_fill_table(const weft_order *order, uint32_t *table) {
    if (order->count > (int64_t)1 << 32) {
        return 0;
    }
    for (int64_t p = 0; p < order->count; p++) {
        table[p] = (uint32_t)weft_tile_index(order, weft_order_compute(order, p));
    }
    return 1;
}

#endif
