/* The old pieces of a cache by when they leave: a calendar queue. Time never goes back, and a piece leaves within 32 units
 * from now. Pieces are sorted into days, and a page holds the same day of every year: whoever looks for the next to leave
 * looks at the page of the day at hand, where few are. Adding, removing and taking a piece cost the same for any number of
 * pieces, where a heap costs more the more there are. */
#ifndef WEFT_SIM_CALENDAR_H
#define WEFT_SIM_CALENDAR_H

#include <stdint.h>

struct weft_cache_slot;

enum { WEFT_CALENDAR_UNIT = 32 }; /* bits of a time behind the point */

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

/* Adds the piece of a slot, which leaves `after` from now. */
void weft_calendar_add(weft_calendar *calendar, struct weft_cache_slot *slots, uint32_t slot, uint64_t after);
void weft_calendar_remove(weft_calendar *calendar, struct weft_cache_slot *slots, uint32_t slot);

/* Takes out the piece that leaves first; there must be one. */
uint32_t weft_calendar_take(weft_calendar *calendar, struct weft_cache_slot *slots);

#endif
