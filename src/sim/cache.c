/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cache.h"

#include <stdlib.h>
#include <string.h>

int weft_cache_init(weft_cache *cache, uint32_t ids, int64_t capacity, double slack, uint64_t seed) {
    memset(cache, 0, sizeof *cache);
    cache->capacity = capacity;
    cache->in_step = (uint32_t)(capacity / 16 < UINT32_MAX ? capacity / 16 : UINT32_MAX);
    cache->young_capacity = slack > 0 ? (int64_t)((1.0 - slack) * (double)capacity) : INT64_MAX;
    cache->seed = (uint32_t)(seed ^ seed >> 32);
    cache->slots_room = 64;
    cache->slots_used = 1;
    cache->slot_of = calloc(ids ? ids : 1, sizeof *cache->slot_of);
    cache->slots = calloc(cache->slots_room, sizeof *cache->slots);
    return weft_calendar_init(&cache->old) && cache->slot_of && cache->slots;
}

void weft_cache_release(weft_cache *cache) {
    free(cache->slot_of);
    free(cache->slots);
    weft_calendar_release(&cache->old);
    memset(cache, 0, sizeof *cache);
}

/* Puts a piece into the list, next to `younger`, by when it was asked for last. */
static inline void list_put(weft_cache *cache, uint32_t slot, uint32_t younger) {
    weft_cache_slot *s = cache->slots;
    s[slot].listed = s[slot].touched;
    s[slot].prev = younger;
    s[slot].next = s[younger].next;
    s[s[younger].next].prev = slot;
    s[younger].next = slot;
    cache->young_weight += s[slot].weight;
}

/* Makes a piece the youngest of the list. */
static inline void list_push(weft_cache *cache, uint32_t slot) {
    enum { NEAR = 32 }; /* pieces near the head, up to twice as many: more than workers in step ask for at a time */
    cache->slots[slot].touched = ++cache->touches;
    list_put(cache, slot, 0);
    if (++cache->moves == NEAR) {
        cache->moves = 0;
        cache->recent = cache->mark;
        cache->mark = cache->touches;
    }
}

static inline void list_pull(weft_cache *cache, uint32_t slot) {
    weft_cache_slot *s = cache->slots;
    s[s[slot].prev].next = s[slot].next;
    s[s[slot].next].prev = s[slot].prev;
    cache->young_weight -= s[slot].weight;
}

static uint32_t hash(uint32_t x) {
    x *= UINT32_C(2654435769);
    x ^= x >> 16;
    x *= UINT32_C(0x7feb352d);
    return x ^ x >> 15;
}

/* A draw from the exponential distribution, in fixed point: -log2 of random bits as a fraction of 2^32, linear between
 * powers of two. Integers, so that every machine draws the same. */
static uint64_t exponential(uint32_t bits) {
    const uint32_t h = bits | 1;
    const int power = 31 - __builtin_clz(h);
    const uint64_t fraction = (uint64_t)(h - (UINT32_C(1) << power)) << (32 - power);
    return ((uint64_t)(32 - power) << 32) - fraction;
}

/* The oldest of the list, or 0. Whoever was asked for since it was listed goes to its right place first; few were listed in
 * between, for it was near the head then. */
static inline uint32_t oldest(weft_cache *cache) {
    const weft_cache_slot *s = cache->slots;
    for (;;) {
        const uint32_t last = s[0].prev;
        uint32_t younger = s[last].prev;
        if (younger == 0 || s[younger].listed > s[last].touched) {
            __builtin_prefetch(&s[s[younger].prev]); /* next time it is looked at, long after it was last */
            return last;
        }
        while (younger != 0 && s[younger].listed < s[last].touched) {
            younger = s[younger].prev;
        }
        list_pull(cache, last);
        list_put(cache, last, younger);
    }
}

/* Lets the oldest of the list join the old ones until the list is small enough. */
static inline void trim(weft_cache *cache) {
    while (cache->young_weight > cache->young_capacity && cache->slots[0].prev != 0) {
        const uint32_t slot = oldest(cache);
        weft_cache_slot *s = &cache->slots[slot];
        list_pull(cache, slot);
        s->listed = 0;
        s->draw = hash(s->draw + 1);
        weft_calendar_add(&cache->old, cache->slots, slot, exponential(s->draw));
    }
}

/* Takes a piece out of where it is. */
static inline void pull(weft_cache *cache, uint32_t slot) {
    if (cache->slots[slot].listed != 0) {
        list_pull(cache, slot);
    } else {
        weft_calendar_remove(&cache->old, cache->slots, slot);
    }
}

void weft_cache_to_head(weft_cache *cache, uint32_t slot) {
    pull(cache, slot);
    list_push(cache, slot);
    trim(cache);
}

static int grow(weft_cache *cache) {
    const uint32_t room = cache->slots_room * 2;
    weft_cache_slot *slots = realloc(cache->slots, room * sizeof *slots);
    if (!slots) {
        return 0;
    }
    cache->slots = slots;
    cache->slots_room = room;
    return 1;
}

uint32_t weft_cache_insert(weft_cache *cache, uint32_t id, uint32_t weight, double ready) {
    uint32_t slot = cache->free;
    if (slot != 0) {
        cache->free = cache->slots[slot].next;
    } else {
        if (cache->slots_used == cache->slots_room && !grow(cache)) {
            return 0;
        }
        slot = cache->slots_used++;
    }
    weft_cache_slot *s = &cache->slots[slot];
    s->id = id;
    s->weight = weight;
    s->draw = hash(id ^ hash(cache->seed ^ cache->inserts++));
    s->ready = ready;
    s->asked = cache->passed += weight;
    if (id != WEFT_CACHE_STALE) {
        cache->slot_of[id] = slot;
    }
    cache->weight += weight;
    cache->stale += id == WEFT_CACHE_STALE ? weight : 0;
    list_push(cache, slot);
    trim(cache);
    return slot;
}

int weft_cache_fill(weft_cache *cache) {
    enum { STALE = 2048 }; /* pieces at most: about as large as those of a kernel */
    const int64_t weight = cache->capacity / STALE + 1;
    if (cache->young_capacity > cache->capacity || weight > INT32_MAX) {
        return 1;
    }
    while (cache->weight + weight <= cache->capacity) {
        if (weft_cache_insert(cache, WEFT_CACHE_STALE, (uint32_t)weight, 0.0) == 0) {
            return 0;
        }
    }
    return 1;
}

/* Forgets a piece that is in neither the list nor the calendar. */
static inline void forget(weft_cache *cache, uint32_t slot) {
    weft_cache_slot *s = &cache->slots[slot];
    cache->weight -= s->weight;
    if (s->id == WEFT_CACHE_STALE) {
        cache->stale -= s->weight;
    } else {
        cache->slot_of[s->id] = 0;
    }
    s->next = cache->free;
    cache->free = slot;
}

int weft_cache_evict(weft_cache *cache, uint32_t *id) {
    if (cache->weight <= cache->capacity) {
        return 0;
    }
    uint32_t victim;
    if (cache->old.count > 0) {
        victim = weft_calendar_take(&cache->old, cache->slots);
    } else {
        victim = oldest(cache);
        list_pull(cache, victim);
    }
    *id = cache->slots[victim].id;
    forget(cache, victim);
    return 1;
}

void weft_cache_remove(weft_cache *cache, uint32_t id) {
    const uint32_t slot = cache->slot_of[id];
    if (slot != 0) {
        pull(cache, slot);
        forget(cache, slot);
    }
}

void weft_cache_list(const weft_cache *cache, void (*tell)(void *context, uint32_t id, uint32_t weight), void *context) {
    for (uint32_t slot = 1; slot < cache->slots_used; slot++) {
        const weft_cache_slot *s = &cache->slots[slot];
        if (s->id != WEFT_CACHE_STALE && cache->slot_of[s->id] == slot) {
            tell(context, s->id, s->weight);
        }
    }
}
