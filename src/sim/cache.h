/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of pieces: LRU, or nearly so. A piece is what a tile asks for in one step, with its size in sectors.
 *
 * Real caches do not evict exactly the oldest line. Here the victim is drawn from the oldest `slack` share of the capacity,
 * each as likely as the next; with 0 it is the oldest. The younger pieces form a list in order of age; one that the list
 * can no longer hold joins the old ones. There it draws how long it will stay, from an exponential distribution: whoever
 * leaves first is then a uniform draw from those that are there at the time.
 * The draws are a piece's own, so two caches that are asked the same things in turn throw out the same pieces.
 *
 * Workers in step ask for the same few pieces again and again. A piece that the list has near its head stays where it is,
 * and notes when it was asked for; it moves to where it belongs once it is the last of the list. */
#ifndef WEFT_SIM_CACHE_H
#define WEFT_SIM_CACHE_H

#include <stdint.h>

#include "sim/calendar.h"
#include "sim/slot.h"

/* The number of pieces that were there before, and that nobody asks for. */
#define WEFT_CACHE_STALE UINT32_MAX

typedef struct weft_cache {
    uint32_t *slot_of;      /* (ids) the slot of a piece, 0: not here */
    weft_cache_slot *slots; /* slot 0 is the list's head and tail */
    weft_calendar old;      /* the old pieces */
    uint32_t slots_used, slots_room, free;
    uint32_t moves;                      /* to the head of the list, since the last mark */
    uint64_t touches, mark, recent;      /* pieces listed after `recent` are near the head */
    int64_t capacity, young_capacity;    /* sectors */
    int64_t weight, young_weight, stale; /* in all, in the list, of stale pieces */
    uint32_t passed; /* sectors asked for in all, modulo 2^32, each once for all workers that ask in step */
    uint32_t in_step;
    uint32_t seed, inserts;
} weft_cache;

/* Returns 0 when memory ran out. Pieces are numbered 0 .. ids - 1. A slack of 1 is random replacement. */
int weft_cache_init(weft_cache *cache, uint32_t ids, int64_t capacity, double slack, uint64_t seed);

/* Fills an empty cache with stale pieces, for that is what a cache is full of when a kernel begins. With slack 0 they would
 * leave before anything else, and make no difference. Returns 0 when memory ran out. */
int weft_cache_fill(weft_cache *cache);

void weft_cache_release(weft_cache *cache);

/* The slot of a piece, or 0. */
static inline uint32_t weft_cache_find(const weft_cache *cache, uint32_t id) {
    return cache->slot_of[id];
}

/* How much was asked for since a piece was: sectors. */
static inline uint32_t weft_cache_age(const weft_cache *cache, uint32_t slot) {
    return cache->passed - cache->slots[slot].asked;
}

/* Notes for its age that a piece is asked for; weft_cache_insert() does, too. */
static inline void weft_cache_ask(weft_cache *cache, uint32_t slot) {
    cache->passed += weft_cache_age(cache, slot) > cache->in_step ? cache->slots[slot].weight : 0;
    cache->slots[slot].asked = cache->passed;
}

/* 1: a piece that is near the head of the list; 0: another one, or none: slot 0. */
static inline int weft_cache_is_near(const weft_cache *cache, uint32_t slot) {
    return cache->slots[slot].listed > cache->recent;
}

/* Makes a piece the youngest. */
void weft_cache_to_head(weft_cache *cache, uint32_t slot);
static inline void weft_cache_touch(weft_cache *cache, uint32_t slot) {
    weft_cache_slot *s = &cache->slots[slot];
    if (s->listed > cache->recent) {
        s->touched = ++cache->touches;
    } else {
        weft_cache_to_head(cache, slot);
    }
}

/* Brings a piece in as the youngest; it must not be there. Returns its slot, or 0 when memory ran out. The cache may then
 * hold too much: call weft_cache_evict() until it returns 0. */
uint32_t weft_cache_insert(weft_cache *cache, uint32_t id, uint32_t weight, double ready);

/* Throws out one piece if the cache holds more than it can, and tells which: returns 1 with *id set, perhaps to
 * WEFT_CACHE_STALE, or 0. */
int weft_cache_evict(weft_cache *cache, uint32_t *id);

/* Tells of every piece that is here, but not of stale ones. */
void weft_cache_list(const weft_cache *cache, void (*tell)(void *context, uint32_t id, uint32_t weight), void *context);

/* Throws out a given piece, if it is there. */
void weft_cache_remove(weft_cache *cache, uint32_t id);

#endif
