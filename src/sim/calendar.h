/* SPDX-License-Identifier: Apache-2.0 */
/* The old pieces of a cache by when they leave: a calendar queue. Time never goes back, and a piece leaves within 32 units
 * from now. Pieces are sorted into days, and a page holds the same day of every year: whoever looks for the next to leave
 * looks at the page of the day at hand, where few are. Adding, removing and taking a piece cost the same for any number of
 * pieces, where a heap costs more the more there are. */
#ifndef WEFT_SIM_CALENDAR_H
#define WEFT_SIM_CALENDAR_H

#include <stdint.h>

#include "base/bits.h"
#include "sim/slot.h"

enum {
    WEFT_CALENDAR_UNIT = 32,                          /* bits of a time behind the point */
    WEFT_CALENDAR_YEAR = 4,                           /* units; of the times that a cache draws, one in sixteen is later */
    WEFT_CALENDAR_LONGEST = WEFT_CALENDAR_UNIT - 4,   /* bits of a day: 64 pages */
    WEFT_CALENDAR_SHORTEST = WEFT_CALENDAR_UNIT - 24, /* 64 million pages */
};

typedef struct weft_calendar {
    uint32_t *first; /* (pages) the slot of a page's first piece, 0: none */
    uint64_t *used;  /* (pages) a bit for each: has a piece */
    uint32_t pages, count;
    int day;      /* bits of a time within a day */
    uint64_t now; /* when the last piece left */
} weft_calendar;

/* Returns 0 when memory ran out. */
int weft_calendar_init(weft_calendar *calendar);
void weft_calendar_release(weft_calendar *calendar);

/* Makes pages for days of `day` bits. Where memory runs out the old ones stay, and it returns 0: they are as right, but
 * slower. */
int weft_calendar_make_pages(weft_calendar *calendar, weft_cache_slot *slots, int day);

/* The rest is what a cache spends its time with: without calls. */

static inline uint32_t weft_calendar_page(const weft_calendar *c, uint64_t time) {
    return (uint32_t)(time >> c->day) & (c->pages - 1);
}

static inline void weft_calendar_put(weft_calendar *c, weft_cache_slot *slots, uint32_t slot) {
    const uint32_t page = weft_calendar_page(c, slots[slot].leaves), next = c->first[page];
    slots[slot].prev = 0;
    slots[slot].next = next;
    if (next != 0) {
        slots[next].prev = slot;
    }
    c->first[page] = slot;
    weft_bits_set(c->used, page);
}

/* Adds the piece of a slot, which leaves `after` from now. */
static inline void weft_calendar_add(weft_calendar *c, weft_cache_slot *slots, uint32_t slot, uint64_t after) {
    /* no more than one a day among those that leave first */
    if (++c->count > c->pages / WEFT_CALENDAR_YEAR && c->day > WEFT_CALENDAR_SHORTEST) {
        weft_calendar_make_pages(c, slots, c->day - 1);
    }
    slots[slot].leaves = c->now + after;
    weft_calendar_put(c, slots, slot);
}

static inline void weft_calendar_unlink(weft_calendar *c, weft_cache_slot *slots, uint32_t slot, uint32_t page) {
    const uint32_t prev = slots[slot].prev, next = slots[slot].next;
    c->count--;
    if (next != 0) {
        slots[next].prev = prev;
    }
    if (prev != 0) {
        slots[prev].next = next;
        return;
    }
    c->first[page] = next;
    weft_bits_clear_if(c->used, page, next == 0);
}

static inline void weft_calendar_remove(weft_calendar *c, weft_cache_slot *slots, uint32_t slot) {
    weft_calendar_unlink(c, slots, slot, weft_calendar_page(c, slots[slot].leaves));
}

/* Takes out the piece that leaves first; there must be one. */
static inline uint32_t weft_calendar_take(weft_calendar *c, weft_cache_slot *slots) {
    if (c->count < c->pages / WEFT_CALENDAR_YEAR / 4 && c->day < WEFT_CALENDAR_LONGEST) {
        weft_calendar_make_pages(c, slots, c->day + 1);
    }
    for (uint64_t today = c->now >> c->day;; today++) {
        const uint32_t page = (uint32_t)today & (c->pages - 1), found = weft_bits_next(c->used, c->pages, page);
        today += (found - page) & (c->pages - 1);
        uint64_t earliest = (today + 1) << c->day; /* whoever leaves later is of the same day of another year */
        uint32_t taken = 0;
        for (uint32_t slot = c->first[found]; slot != 0; slot = slots[slot].next) {
            if (slots[slot].leaves < earliest) {
                earliest = slots[slot].leaves;
                taken = slot;
            }
        }
        if (taken != 0) {
            weft_calendar_unlink(c, slots, taken, found);
            c->now = earliest;
            return taken;
        }
    }
}

#endif
