/* SPDX-License-Identifier: Apache-2.0 */
/* The first tiles of a walk's workers, where these lie in the first band of the order. Three numbers say where, so that a
 * kernel need not wait for the walk's first answer. */
#ifndef WEFT_ORDER_FIRST_H
#define WEFT_ORDER_FIRST_H

#include <weft/order.h>

/* Worker `index` < count begins at position (index / across, index mod across) of the band. */
typedef struct weft_first {
    int32_t count;      /* workers that begin so; 0: none */
    int32_t across;     /* positions across the band */
    int32_t multiplier; /* 2^20 / across, rounded up: exact for what is below 2^10 */
    int32_t down;       /* 1: the band is walked along m; 0: along n */
    int32_t steps;      /* of a tile */
} weft_first;

enum { WEFT_FIRST_MOST = 1024, WEFT_FIRST_SHIFT = 20 };

/* Nobody where the order has no such band, a table or tickets. Only for the first wave, in which every sweep goes up, and
 * for the first batch. All tiles have the same steps: the slice is full. */
WEFT_INLINE weft_first weft_first_of(const weft_walk *walk) {
    const weft_order *o = &walk->order;
    const int is_group = o->kind == WEFT_ORDER_GROUP || o->kind == WEFT_ORDER_SERPENTINE;
    const int is_raster = o->kind == WEFT_ORDER_RASTER_M || o->kind == WEFT_ORDER_RASTER_N;
    const int rows_first = is_group ? o->axis == WEFT_AXIS_M : o->kind == WEFT_ORDER_RASTER_M;
    const int64_t across = is_group ? o->group : rows_first ? o->grid.rows : o->grid.cols;
    const int64_t along = rows_first ? o->grid.cols : o->grid.rows;
    const int64_t limit = WEFT_FIRST_MOST, most = walk->workers < limit ? walk->workers : limit;
    const int64_t band = along < limit ? across * along : limit;
    const int64_t steps = weft_reach_steps(&walk->reach, 0, 0).end;
    weft_first first = {0, 0, 0, 0, 0};
    if ((!is_group && !is_raster) || o->table || walk->dispatch == WEFT_DISPATCH_DYNAMIC || walk->visits > 1 ||
        across >= WEFT_FIRST_MOST || steps > INT32_MAX) {
        return first;
    }
    first.count = (int32_t)(band < most ? band : most);
    first.across = (int32_t)across;
    first.multiplier = (int32_t)(((INT64_C(1) << WEFT_FIRST_SHIFT) + across - 1) / across);
    first.down = !rows_first;
    first.steps = (int32_t)steps;
    return first;
}

/* The position, in clusters along m and n. */
WEFT_INLINE void weft_first_position(const weft_first *first, int32_t index, int32_t *m, int32_t *n) {
    const int32_t along = index * first->multiplier >> WEFT_FIRST_SHIFT, across = index - along * first->across;
    *m = first->down ? along : across;
    *n = first->down ? across : along;
}

/* The worker behind its first visit. */
WEFT_INLINE weft_worker weft_first_worker(int64_t index) {
    weft_worker w;
    w.position = index;
    w.wave = 0;
    w.visits = 1;
    w.counter = 0;
    return w;
}

#endif
