/* SPDX-License-Identifier: Apache-2.0 */
/* Timetables of walks whose tiles add in turn: see weft/order/turns.h. */
#ifndef WEFT_SRC_ORDER_TIMETABLE_H
#define WEFT_SRC_ORDER_TIMETABLE_H

#include <weft/order/turns.h>
#include <weft/weft.h>

/* Positions of a timetable, at most: making it takes 56 bytes for each. */
enum { WEFT_TIMETABLE_POSITIONS = 1 << 23 };

/* Owned arrays in host memory. */
typedef struct weft_timetable {
    weft_coming *comings; /* for each tile, and */
    uint32_t *next;       /* for each position, as weft_walk has them; null: positions go as they come */
    weft_visit *firsts;   /* for each worker, and for each row of its cluster, likewise */
    int together;         /* 1: tiles wait for others that began with them or after them, so that all workers must run */
} weft_timetable;

/* Makes the timetable of a walk; members: heads that share the keys of a tile, 0 where lengths are not known. The walk is
 * yet to be given its arrays. WEFT_UNSUPPORTED where the walk has clusters or too many positions. */
weft_status weft_timetable_make(weft_timetable *table, const weft_walk *walk, int64_t members, weft_message *message);

void weft_timetable_free(weft_timetable *table);

#endif
