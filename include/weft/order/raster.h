/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * raster-m and raster-n: the two plain scans.
 */
#ifndef WEFT_ORDER_RASTER_H
#define WEFT_ORDER_RASTER_H

#include "base.h"

WEFT_INLINE weft_tile weft_order_raster_m(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const int64_t col = weft_divide_off(&position, &order->by_rows);
    return weft_tile_at(batch, position, col);
}

WEFT_INLINE weft_tile weft_order_raster_n(const weft_order *order, int64_t position) {
    return weft_tile_of_index(order, position);
}

#endif
