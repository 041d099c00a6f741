/* A cache of pieces: LRU, or nearly so. A piece is what a tile asks for in one step, with its size in sectors.
 *
 * Real caches do not evict exactly the oldest line. Here the victim is drawn from the oldest `slack` share of the capacity,
 * each as likely as the next; with 0 it is the oldest. The younger pieces form a list in order of age; one that the list
 * can no longer hold drops into the heap of the old ones. There it draws how long it will stay, from an exponential
 * distribution: whoever leaves first is then a uniform draw from those that are there at the time, at the cost of a heap.
 * The draws are a piece's own, so two caches that are asked the same things in turn throw out the same pieces. */
#ifndef WEFT_SIM_CACHE_H
#define WEFT_SIM_CACHE_H

#include <stdint.h>

enum { WEFT_CACHE_IN_LIST = -1 };

/* The number of pieces that were there before, and that nobody asks for. */
#define WEFT_CACHE_STALE UINT32_MAX

typedef struct weft_cache_slot {
    uint32_t id;
    uint32_t prev, next; /* in the list: towards younger and older; 0 is the list's end */
    int32_t place;       /* in the heap, or WEFT_CACHE_IN_LIST */
    uint32_t weight;     /* sectors */
    uint32_t draw;       /* random bits, changed each time it drops into the heap */
    uint32_t asked;      /* how much had passed when it was asked for last */
    double ready;        /* when the data is there: until then the piece is in flight */
} weft_cache_slot;

/* An old piece. */
typedef struct weft_cache_old {
    uint64_t leaves; /* when, on the cache's clock */
    uint32_t slot;
} weft_cache_old;

typedef struct weft_cache {
    uint32_t *slot_of;      /* (ids) the slot of a piece, 0: not here */
    weft_cache_slot *slots; /* slot 0 is the list's head and tail */
    weft_cache_old *heap;   /* the one that leaves first is first */
    uint32_t slots_used, slots_room, free, heap_count;
    int64_t capacity, young_capacity;    /* sectors */
    int64_t weight, young_weight, stale; /* in all, in the list, of stale pieces */
    uint64_t clock;                      /* when the last victim left */
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

/* Makes a piece the youngest. */
void weft_cache_touch_slow(weft_cache *cache, uint32_t slot);
static inline void weft_cache_touch(weft_cache *cache, uint32_t slot) {
    if (cache->slots[0].next != slot) {
        weft_cache_touch_slow(cache, slot);
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
