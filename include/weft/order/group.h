/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Orders made of bands: group, serpentine, its swizzled form, and for attention longest-first.
 *
 * A band is g neighbouring lines of tiles. Inside it the walk crosses all g lines before it takes a step along them, so a
 * wave of w workers touches about g lines of one operand and w / g of the other instead of almost all of one.
 */
#ifndef WEFT_ORDER_GROUP_H
#define WEFT_ORDER_GROUP_H

#include "base.h"

typedef struct weft_band_step {
    int64_t band;   /**< which band */
    int64_t along;  /**< how far along the walk */
    int64_t across; /**< which line of the whole axis */
} weft_band_step;

WEFT_INLINE weft_band_step weft_band_walk(const weft_order *order, int64_t position) {
    weft_band_step s;
    s.band = weft_divide_off(&position, &order->by_band);
    s.along = weft_divide_off(&position, s.band == order->bands - 1 ? &order->by_last_group : &order->by_group);
    s.across = s.band * order->group + position;
    return s;
}

WEFT_INLINE weft_tile weft_order_group(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const weft_band_step s = weft_band_walk(order, position);
    return order->axis == WEFT_AXIS_N ? weft_tile_at(batch, s.along, s.across) : weft_tile_at(batch, s.across, s.along);
}

WEFT_INLINE weft_tile weft_order_serpentine(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const weft_band_step s = weft_band_walk(order, position);
    const int64_t length = order->axis == WEFT_AXIS_N ? order->grid.rows : order->grid.cols;
    const int64_t along = s.band % 2 == 0 ? s.along : length - 1 - s.along;
    return order->axis == WEFT_AXIS_N ? weft_tile_at(batch, along, s.across) : weft_tile_at(batch, s.across, along);
}

/* Every domain has its own share of the axis, as many whole lines each, and walks it in serpentine bands: at any time the
 * domains are at the same place along the walk, so that they read the same lines of one operand, but each its own of the
 * other. Lines that are left over are dealt out a tile at a time at the end. */
WEFT_INLINE weft_tile weft_order_serpentine_swizzled(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const int across_n = order->axis == WEFT_AXIS_N;
    const int64_t length = across_n ? order->grid.rows : order->grid.cols;
    const int64_t lines = across_n ? order->grid.cols : order->grid.rows;
    const int64_t share = weft_divide(lines, &order->by_domains), placed = share * order->domains;
    int64_t along, across;
    if (position < placed * length) {
        int64_t domain = position;
        const weft_band_step s = weft_band_walk(order, weft_divide_off(&domain, &order->by_domains));
        along = s.band % 2 == 0 ? s.along : length - 1 - s.along;
        across = domain * share + s.across;
    } else {
        along = position - placed * length;
        across = placed + weft_divide_off(&along, across_n ? &order->by_rows : &order->by_cols);
    }
    return across_n ? weft_tile_at(batch, along, across) : weft_tile_at(batch, across, along);
}

/* The bands are sections of heads, over all batches; the walk goes from the last query block, which under a causal mask
 * sees the most keys, to the first. */
WEFT_INLINE weft_tile weft_order_longest_first(const weft_order *order, int64_t position) {
    const weft_band_step s = weft_band_walk(order, position);
    int64_t head = s.across;
    const int64_t batch = weft_divide_off(&head, &order->by_rows);
    return weft_tile_at(batch, head, order->grid.cols - 1 - s.along);
}

#endif
