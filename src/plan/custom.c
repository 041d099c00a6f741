/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/custom.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "order/table.h"

int weft_schedule_by_domain(const weft_schedule *s) {
    const weft_order_info *order = weft_order_describe(s->order);
    return order && order->parameter & WEFT_PARAMETER_DOMAINS && (s->order != WEFT_ORDER_CUSTOM || s->domains > 1);
}

void weft_custom_complete(weft_schedule *s) {
    if (s->order == WEFT_ORDER_CHOOSE && s->order_table) {
        s->order = WEFT_ORDER_CUSTOM;
    }
    if (s->order == WEFT_ORDER_CUSTOM) {
        s->table = 1;
        s->cluster_m = s->cluster_m == 0 ? 1 : s->cluster_m;
        s->cluster_n = s->cluster_n == 0 ? 1 : s->cluster_n;
        s->split = s->split == 0 ? 1 : s->split;
        s->domains = s->domains == 0 ? 1 : s->domains;
    }
}

int weft_custom_same(const weft_schedule *a, const weft_schedule *b) {
    if (!a->order_table || !b->order_table || a->order_count != b->order_count) {
        return !a->order_table && !b->order_table;
    }
    return a->order_table == b->order_table ||
           memcmp(a->order_table, b->order_table, (size_t)a->order_count * sizeof *a->order_table) == 0;
}

weft_status weft_custom_check(const weft_schedule *s, weft_grid grid, weft_message *message) {
    char note[80] = "";
    weft_message why;
    if (!s->order_table) {
        return weft_fail(message, WEFT_INVALID, "order custom needs order_table, a table of the caller's");
    }
    const weft_status status = weft_order_check(s->order_table, s->order_count, grid, &why);
    const uint64_t hash = status || !s->order_hash ? s->order_hash : weft_table_hash(s->order_table, s->order_count);
    if (hash != s->order_hash) {
        return weft_fail(message, WEFT_INVALID, "order custom: the order has the hash %016" PRIx64 ", not %016" PRIx64,
                         hash, s->order_hash);
    }
    if (s->cluster_m * s->cluster_n > 1 || weft_sweep_pairs(s->sweep)) {
        snprintf(note, sizeof note, " (a tile here is %s%" PRId64 "x%" PRId64 ")",
                 weft_sweep_pairs(s->sweep) ? "a pair of clusters of " : "a cluster of ", s->cluster_m, s->cluster_n);
    }
    return status ? weft_fail(message, status, "order custom: %.170s%s", why.text, note) : WEFT_OK;
}
