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
    cache->heap = calloc(cache->slots_room, sizeof *cache->heap);
    return cache->slot_of && cache->slots && cache->heap;
}

void weft_cache_release(weft_cache *cache) {
    free(cache->slot_of);
    free(cache->slots);
    free(cache->heap);
    memset(cache, 0, sizeof *cache);
}

static void list_push(weft_cache *cache, uint32_t slot) {
    weft_cache_slot *s = cache->slots;
    s[slot].place = WEFT_CACHE_IN_LIST;
    s[slot].prev = 0;
    s[slot].next = s[0].next;
    s[s[0].next].prev = slot;
    s[0].next = slot;
    cache->young_weight += s[slot].weight;
}

static void list_pull(weft_cache *cache, uint32_t slot) {
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

static void heap_set(weft_cache *cache, uint32_t place, weft_cache_old old) {
    cache->heap[place] = old;
    cache->slots[old.slot].place = (int32_t)place;
}

/* Puts an old piece in the empty place and moves it up, then down, to where it belongs. */
static void heap_settle(weft_cache *cache, uint32_t place, weft_cache_old old) {
    const weft_cache_old *heap = cache->heap;
    while (place > 0 && heap[(place - 1) / 2].leaves > old.leaves) {
        heap_set(cache, place, heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < cache->heap_count && heap[child].leaves > heap[child + 1].leaves) {
            child++;
        }
        if (child >= cache->heap_count || heap[child].leaves >= old.leaves) {
            break;
        }
        heap_set(cache, place, heap[child]);
        place = child;
    }
    heap_set(cache, place, old);
}

static void heap_pull(weft_cache *cache, uint32_t slot) {
    const uint32_t place = (uint32_t)cache->slots[slot].place;
    const weft_cache_old last = cache->heap[--cache->heap_count];
    if (last.slot != slot) {
        heap_settle(cache, place, last);
    }
}

/* Lets the oldest of the list drop into the heap until the list is small enough. */
static void settle(weft_cache *cache) {
    while (cache->young_weight > cache->young_capacity && cache->slots[0].prev != 0) {
        const uint32_t oldest = cache->slots[0].prev;
        uint32_t *draw = &cache->slots[oldest].draw;
        list_pull(cache, oldest);
        *draw = hash(*draw + 1);
        heap_settle(cache, cache->heap_count++, (weft_cache_old){cache->clock + exponential(*draw), oldest});
    }
}

void weft_cache_touch_slow(weft_cache *cache, uint32_t slot) {
    cache->passed += weft_cache_age(cache, slot) > cache->in_step ? cache->slots[slot].weight : 0;
    cache->slots[slot].asked = cache->passed;
    if (cache->slots[slot].place == WEFT_CACHE_IN_LIST) {
        list_pull(cache, slot);
    } else {
        heap_pull(cache, slot);
    }
    list_push(cache, slot);
    settle(cache);
}

static int grow(weft_cache *cache) {
    const uint32_t room = cache->slots_room * 2;
    weft_cache_slot *slots = realloc(cache->slots, room * sizeof *slots);
    if (!slots) {
        return 0;
    }
    cache->slots = slots;
    weft_cache_old *heap = realloc(cache->heap, room * sizeof *heap);
    if (!heap) {
        return 0;
    }
    cache->heap = heap;
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
    cache->slots[slot].id = id;
    cache->slots[slot].weight = weight;
    cache->slots[slot].draw = hash(id ^ hash(cache->seed ^ cache->inserts++));
    cache->slots[slot].ready = ready;
    cache->slots[slot].asked = cache->passed += weight;
    if (id != WEFT_CACHE_STALE) {
        cache->slot_of[id] = slot;
    }
    cache->weight += weight;
    cache->stale += id == WEFT_CACHE_STALE ? weight : 0;
    list_push(cache, slot);
    settle(cache);
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

static void drop(weft_cache *cache, uint32_t slot) {
    if (cache->slots[slot].place == WEFT_CACHE_IN_LIST) {
        list_pull(cache, slot);
    } else {
        heap_pull(cache, slot);
    }
    cache->weight -= cache->slots[slot].weight;
    if (cache->slots[slot].id == WEFT_CACHE_STALE) {
        cache->stale -= cache->slots[slot].weight;
    } else {
        cache->slot_of[cache->slots[slot].id] = 0;
    }
    cache->slots[slot].next = cache->free;
    cache->free = slot;
}

int weft_cache_evict(weft_cache *cache, uint32_t *id) {
    if (cache->weight <= cache->capacity) {
        return 0;
    }
    uint32_t victim = cache->slots[0].prev;
    if (cache->heap_count > 0) {
        victim = cache->heap[0].slot;
        cache->clock = cache->heap[0].leaves;
    }
    *id = cache->slots[victim].id;
    drop(cache, victim);
    return 1;
}

void weft_cache_remove(weft_cache *cache, uint32_t id) {
    if (cache->slot_of[id] != 0) {
        drop(cache, cache->slot_of[id]);
    }
}

void weft_cache_list(const weft_cache *cache, void (*tell)(void *context, uint32_t id, uint32_t weight), void *context) {
    const weft_cache_slot *s = cache->slots;
    for (uint32_t slot = s[0].next; slot != 0; slot = s[slot].next) {
        if (s[slot].id != WEFT_CACHE_STALE) {
            tell(context, s[slot].id, s[slot].weight);
        }
    }
    for (uint32_t i = 0; i < cache->heap_count; i++) {
        const weft_cache_slot *old = &s[cache->heap[i].slot];
        if (old->id != WEFT_CACHE_STALE) {
            tell(context, old->id, old->weight);
        }
    }
}
