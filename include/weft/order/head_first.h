/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * head-first, its swizzled form, and reverse: all query blocks of a head before the next head.
 */
#ifndef WEFT_ORDER_HEAD_FIRST_H
#define WEFT_ORDER_HEAD_FIRST_H

#include "base.h"

/** Where a domain's share of `count` tiles begins, when position p belongs to domain p mod domains.
 *
 * Domain d is handed ceil((count - d) / domains) positions, so the shares differ by at most one tile, whatever divides
 * what; cutting the line of tiles in these lengths gives every domain a run of neighbouring heads.
 */
WEFT_INLINE int64_t weft_domain_begin(const weft_order *order, int64_t count, int64_t domain) {
    int64_t left = count;
    const int64_t each = weft_divide_off(&left, &order->by_domains);
    return domain * each + (domain < left ? domain : left);
}

WEFT_INLINE weft_tile weft_order_head_first(const weft_order *order, int64_t position) {
    return weft_tile_of_index(order, position);
}

/* The heads of all batches form one line. Heads of a GQA group, which share K and V, are neighbours in it, so they stay
 * together except where an even split has to cut a group: at most one cut between two domains. */
WEFT_INLINE weft_tile weft_order_head_first_swizzled(const weft_order *order, int64_t position) {
    int64_t domain = position;
    const int64_t local = weft_divide_off(&domain, &order->by_domains);
    return weft_tile_of_index(order, weft_domain_begin(order, order->count, domain) + local);
}

WEFT_INLINE weft_tile weft_order_reverse(const weft_order *order, int64_t position) {
    weft_tile t = weft_tile_of_index(order, position);
    t.block = order->grid.cols - 1 - t.block;
    return t;
}

#endif
