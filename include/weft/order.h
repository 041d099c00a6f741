/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Tile orders: which tile is next.
 *
 * Header-only, plain C that is also C++ and CUDA: a kernel runs the very source that the tests prove and the simulator
 * replays. No floating point, no allocation, no global state.
 *
 *   weft_order order;
 *   weft_grid grid = {1, 64, 64};
 *   weft_order_init(&order, WEFT_ORDER_HILBERT, grid, 0, WEFT_AXIS_N, 1);
 *   for (int64_t p = 0; p < order.count; p++) {
 *       weft_tile tile = weft_order_tile(&order, p);    // tile.m, tile.n
 *   }
 *
 * A kernel or a simulator needs more than the tile: order/walk.h adds the sweep and the dispatch, order/turns.h the order
 * in which the tiles of a backward pass add to what they share, order/pages.h where the keys of a KV cache lie, and
 * order/ranks.h in which order many GPUs or processes pass on the parts of a sequence.
 */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H

#include "order/kinds.h"
#include "order/pages.h"
#include "order/ranks.h"
#include "order/turns.h"

#endif
