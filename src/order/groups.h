/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tiles of a grouped product: which group one is of, and which rows of it. The CPU, the GPU's kernels, the
 * simulator and the tests ask the same functions.
 *
 * The rows of tiles of all groups lie one behind the other, in strips: those of a cluster, which share B, are of one group.
 * How many strips a group has is known only to whoever reads `bounds`, on the device. A finger stays where the last row of
 * tiles was found and goes on from there, so that a walk group by group reads each bound about once. */
#ifndef WEFT_ORDER_GROUPS_H
#define WEFT_ORDER_GROUPS_H

#include "order/deal.h"

typedef struct weft_groups {
    const int32_t *bounds; /* (count + 1) first rows; masked: (count) rows. Any values: they are clamped */
    int32_t count;         /* groups */
    int32_t rows;          /* of A; masked: of each group's A */
    int32_t masked;
    int32_t tile;    /* rows of a tile */
    int32_t strip;   /* tiles of a strip */
    uint32_t height; /* rows of a strip, at most 2^30 */
} weft_groups;

/* Rows of a group that there are from `first` on. */
typedef struct weft_group_rows {
    int32_t group, first, count;
} weft_group_rows;

/* Where the last row of tiles was found. Zeros at first. */
typedef struct weft_group_finger {
    int32_t group;
    int32_t before; /* strips of the groups before it */
} weft_group_finger;

WEFT_INLINE int32_t weft_clamp(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The rows of a group: none where a bound is before the one before it. */
WEFT_INLINE weft_group_rows weft_group_at(const weft_groups *g, int32_t group) {
    weft_group_rows r;
    r.group = group;
    if (g->masked) {
        r.first = 0;
        r.count = weft_clamp(g->bounds[group], 0, g->rows);
    } else {
        r.first = weft_clamp(g->bounds[group], 0, g->rows);
        r.count = weft_clamp(g->bounds[group + 1], r.first, g->rows) - r.first;
    }
    return r;
}

/* Bands of so many rows. */
WEFT_INLINE int32_t weft_group_strips(const weft_groups *g, int32_t rows) {
    return (int32_t)(((uint32_t)rows + g->height - 1) / g->height);
}

/* The rows of the tiles from row `row` of tiles on, as far as the group goes: the first is the tile's own. Their count is 0
 * where a strip reaches beyond its group. Returns 0 behind the last group. */
WEFT_INLINE int weft_groups_find(const weft_groups *g, weft_group_finger *finger, int32_t row, weft_group_rows *found) {
    const int32_t strip = (int32_t)((uint32_t)row / (uint32_t)g->strip), in_strip = row - strip * g->strip;
    while (finger->group > 0 && strip < finger->before) {
        finger->group--;
        finger->before -= weft_group_strips(g, weft_group_at(g, finger->group).count);
    }
    for (; finger->group < g->count; finger->group++) {
        *found = weft_group_at(g, finger->group);
        const int32_t strips = weft_group_strips(g, found->count);
        if (strip < finger->before + strips) {
            const int64_t skipped = ((int64_t)(strip - finger->before) * g->strip + in_strip) * g->tile;
            const int32_t gone = skipped < found->count ? (int32_t)skipped : found->count;
            found->first += gone;
            found->count -= gone;
            return 1;
        }
        finger->before += strips;
    }
    return 0;
}

/* Rows of tiles of all groups together, at most, whatever the bounds are; in whole strips. */
WEFT_INLINE int64_t weft_groups_most(int64_t groups, int64_t rows, int masked, int64_t tile, int64_t strip) {
    const int64_t height = tile * strip, used = groups < rows ? groups : rows; /* every strip has a row of its own */
    return strip * (masked ? groups * weft_ceil_divide(rows, height) : (rows + used * (height - 1)) / height);
}

/* An order whose bands are rows visits all tiles of a band before those of the next. Returns the rows of tiles of such a
 * band; 0: the order may come back to earlier rows. */
WEFT_INLINE int32_t weft_groups_step(const weft_walk *walk) {
    const weft_order *o = &walk->order;
    const int by_bands = o->kind == WEFT_ORDER_GROUP || o->kind == WEFT_ORDER_SERPENTINE;
    if (o->table || o->grid.batch > 1 || walk->visits > 1) {
        return 0;
    }
    return o->kind == WEFT_ORDER_RASTER_N       ? (int32_t)walk->cluster_rows
           : by_bands && o->axis == WEFT_AXIS_M ? (int32_t)(o->group * walk->cluster_rows)
                                                : 0;
}

/* The worker's next visit to a tile that has rows, and these. `step` is weft_groups_step()'s: a worker is done when it is
 * in a band behind the last group. */
WEFT_INLINE int weft_groups_next(const weft_walk *walk, const weft_groups *g, int32_t step, weft_worker *worker,
                                 weft_deal deal, weft_group_finger *finger, weft_visit *visit, weft_group_rows *rows) {
    while (weft_worker_next_dealt(walk, worker, deal, visit)) {
        const int32_t row = (int32_t)visit->tile.m;
        if (weft_groups_find(g, finger, row, rows)) {
            if (rows->count > 0) {
                return 1;
            }
        } else if (step > 0 && row - (int32_t)((uint32_t)row % (uint32_t)step) >= (int64_t)finger->before * g->strip) {
            worker->position = walk->order.count;
        }
    }
    return 0;
}

#endif
