#include "sim/calendar.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "sim/slot.h"

enum {
    YEAR = 4,                           /* units; of the times that a cache draws, one in sixteen is later than that */
    LONGEST = WEFT_CALENDAR_UNIT - 4,   /* bits of a day: 64 pages */
    SHORTEST = WEFT_CALENDAR_UNIT - 24, /* 64 million pages */
};

static uint32_t page_of(const weft_calendar *c, uint64_t time) {
    return (uint32_t)(time >> c->day) & (c->pages - 1);
}

static void put(weft_calendar *c, weft_cache_slot *slots, uint32_t slot) {
    const uint32_t page = page_of(c, slots[slot].leaves), next = c->first[page];
    slots[slot].prev = 0;
    slots[slot].next = next;
    if (next != 0) {
        slots[next].prev = slot;
    }
    c->first[page] = slot;
    weft_bits_set(c->used, page);
}

/* Makes pages for days of `day` bits. Where memory runs out the old ones stay: they are as right, but slower. */
static int make_pages(weft_calendar *c, weft_cache_slot *slots, int day) {
    const weft_calendar before = *c;
    const uint32_t pages = (uint32_t)YEAR << (WEFT_CALENDAR_UNIT - day);
    uint32_t *first = calloc(pages, sizeof *first);
    uint64_t *used = calloc(WEFT_BITS_WORDS(pages), sizeof *used);
    if (!first || !used) {
        free(first);
        free(used);
        return 0;
    }
    c->first = first;
    c->used = used;
    c->pages = pages;
    c->day = day;
    for (uint32_t page = 0; page < before.pages; page++) {
        for (uint32_t slot = before.first[page], next; slot != 0; slot = next) {
            next = slots[slot].next;
            put(c, slots, slot);
        }
    }
    free(before.first);
    free(before.used);
    return 1;
}

int weft_calendar_init(weft_calendar *c) {
    memset(c, 0, sizeof *c);
    return make_pages(c, NULL, LONGEST);
}

void weft_calendar_release(weft_calendar *c) {
    free(c->first);
    free(c->used);
    memset(c, 0, sizeof *c);
}

void weft_calendar_add(weft_calendar *c, weft_cache_slot *slots, uint32_t slot, uint64_t after) {
    enum { SHORTEST = 8 };                                   /* bits: 64 million pages */
    if (++c->count > c->pages / YEAR && c->day > SHORTEST) { /* more than one a day among those that leave first */
        make_pages(c, slots, c->day - 1);
    }
    slots[slot].leaves = c->now + after;
    put(c, slots, slot);
}

static inline void unlink_slot(weft_calendar *c, weft_cache_slot *slots, uint32_t slot, uint32_t page) {
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

void weft_calendar_remove(weft_calendar *c, weft_cache_slot *slots, uint32_t slot) {
    unlink_slot(c, slots, slot, page_of(c, slots[slot].leaves));
}

uint32_t weft_calendar_take(weft_calendar *c, weft_cache_slot *slots) {
    if (c->count < c->pages / YEAR / 4 && c->day < LONGEST) {
        make_pages(c, slots, c->day + 1);
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
            unlink_slot(c, slots, taken, found);
            c->now = earliest;
            return taken;
        }
    }
}
