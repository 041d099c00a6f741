/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/calendar.h"

#include <stdlib.h>
#include <string.h>

int weft_calendar_make_pages(weft_calendar *c, weft_cache_slot *slots, int day) {
    const weft_calendar before = *c;
    const uint32_t pages = (uint32_t)WEFT_CALENDAR_YEAR << (WEFT_CALENDAR_UNIT - day);
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
            weft_calendar_put(c, slots, slot);
        }
    }
    free(before.first);
    free(before.used);
    return 1;
}

int weft_calendar_init(weft_calendar *c) {
    memset(c, 0, sizeof *c);
    return weft_calendar_make_pages(c, NULL, WEFT_CALENDAR_LONGEST);
}

void weft_calendar_release(weft_calendar *c) {
    free(c->first);
    free(c->used);
    memset(c, 0, sizeof *c);
}
