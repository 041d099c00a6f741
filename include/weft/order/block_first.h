/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * block-first and its swizzled form: one query block of every head before the next block.
 */
#ifndef WEFT_ORDER_BLOCK_FIRST_H
#define WEFT_ORDER_BLOCK_FIRST_H

#include "base.h"
#include "head_first.h"

WEFT_INLINE weft_tile weft_order_block_first(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const int64_t block = weft_divide_off(&position, &order->by_rows);
    return weft_tile_at(batch, position, block);
}

/* Batch by batch, the line of heads is cut into one share per domain, and each share is walked block-first. Where the
 * heads do not divide, a share begins or ends inside a head: those blocks come before and after the whole heads. */
WEFT_INLINE weft_tile weft_order_block_first_swizzled(const weft_order *order, int64_t position) {
    const int64_t blocks = order->grid.cols;
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const int64_t tiles = (int64_t)order->by_batch.value;
    int64_t domain = position;
    int64_t local = weft_divide_off(&domain, &order->by_domains);

    const int64_t begin = weft_domain_begin(order, tiles, domain);
    const int64_t end = weft_domain_begin(order, tiles, domain + 1);
    const int64_t first = weft_divide(begin + blocks - 1, &order->by_cols); /* the first whole head */
    const int64_t heads = weft_divide(end, &order->by_cols) - first;        /* how many are whole */
    const int64_t before = first * blocks - begin;
    if (heads <= 0 || local < before || local >= before + heads * blocks) {
        int64_t index = begin + local;
        const int64_t head = weft_divide_off(&index, &order->by_cols);
        return weft_tile_at(batch, head, index);
    }
    local -= before;
    return weft_tile_at(batch, first + local % heads, local / heads);
}

#endif
