/* SPDX-License-Identifier: Apache-2.0 */
/* A piece in a cache. */
#ifndef WEFT_SIM_SLOT_H
#define WEFT_SIM_SLOT_H

#include <stdint.h>

typedef struct weft_cache_slot {
    union {
        uint64_t touched; /* a young piece: when it was asked for last, in touches of the cache */
        uint64_t leaves;  /* an old one: when, by the calendar */
    };
    uint64_t listed; /* when it was asked for as far as its place in the list goes, at most `touched`; 0: an old piece */
    uint32_t prev, next; /* in the list: towards younger and older; 0 is the list's end; or on a page of the calendar */
    uint32_t id;
    uint32_t weight; /* sectors */
    uint32_t draw;   /* random bits, changed each time it joins the old ones */
    uint32_t asked;  /* how much had passed when it was asked for last */
    double ready;    /* when the data is there: until then the piece is in flight */
} weft_cache_slot;

#endif
