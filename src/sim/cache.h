/* A cache of pieces: LRU, or nearly so. A piece is what a tile asks for in one step, with its size in sectors.
 *
 * Real caches do not evict exactly the oldest line: addresses are hashed to sets, and in a crowded set a line leaves early,
 * every time, and in every domain alike. Here each piece has a fixed luck, a hash of its number, and the victim is the
 * unluckiest of the oldest `slack` share of the capacity; with 0 all are in the list, and the oldest leaves. The younger
 * pieces form a list in order of age, the older ones a heap in order of luck; a piece that the list can no longer hold
 * drops into the heap. */
#ifndef WEFT_SIM_CACHE_H
#define WEFT_SIM_CACHE_H

#include <stdint.h>

enum { WEFT_CACHE_IN_LIST = -1 };

typedef struct weft_cache_slot {
    uint32_t id;
    uint32_t prev, next; /* in the list: towards younger and older; 0 is the list's end */
    int32_t place;       /* in the heap, or WEFT_CACHE_IN_LIST */
    uint32_t weight;     /* sectors */
    uint32_t bad_luck;   /* the larger, the sooner it leaves the heap */
    double ready;        /* when the data is there: until then the piece is in flight */
} weft_cache_slot;

typedef struct weft_cache {
    uint32_t *slot_of;      /* (ids) the slot of a piece, 0: not here */
    weft_cache_slot *slots; /* slot 0 is the list's head and tail */
    uint32_t *heap;         /* slots of the old pieces, the unluckiest first */
    uint32_t slots_used, slots_room, free, heap_count;
    int64_t capacity, young_capacity; /* sectors */
    int64_t weight, young_weight;
    uint32_t seed, draws;
    int random; /* the victim is any of the old ones, drawn anew each time: with a slack of 1, random replacement */
} weft_cache;

/* Returns 0 when memory ran out. Pieces are numbered 0 .. ids - 1. */
int weft_cache_init(weft_cache *cache, uint32_t ids, int64_t capacity, double slack, uint64_t seed);
void weft_cache_release(weft_cache *cache);

/* The slot of a piece, or 0. */
static inline uint32_t weft_cache_find(const weft_cache *cache, uint32_t id) {
    return cache->slot_of[id];
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

/* Throws out one piece if the cache holds more than it can, and tells which: returns 1 with *id set, or 0. */
int weft_cache_evict(weft_cache *cache, uint32_t *id);

/* Tells of every piece that is here. */
void weft_cache_list(const weft_cache *cache, void (*tell)(void *context, uint32_t id, uint32_t weight), void *context);

/* Throws out a given piece, if it is there. */
void weft_cache_remove(weft_cache *cache, uint32_t id);

#endif
