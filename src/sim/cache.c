#include "sim/cache.h"

#include <stdlib.h>
#include <string.h>

int weft_cache_init(weft_cache *cache, uint32_t ids, int64_t capacity, double slack, uint64_t seed) {
    memset(cache, 0, sizeof *cache);
    cache->capacity = capacity;
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

static uint32_t bad_luck(const weft_cache *cache, uint32_t place) {
    return cache->slots[cache->heap[place]].bad_luck;
}

static void heap_set(weft_cache *cache, uint32_t place, uint32_t slot) {
    cache->heap[place] = slot;
    cache->slots[slot].place = (int32_t)place;
}

/* Puts `slot` in the empty place and moves it up, then down, to where it belongs. */
static void heap_settle(weft_cache *cache, uint32_t place, uint32_t slot) {
    const uint32_t luck = cache->slots[slot].bad_luck;
    while (place > 0 && bad_luck(cache, (place - 1) / 2) < luck) {
        heap_set(cache, place, cache->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < cache->heap_count && bad_luck(cache, child) < bad_luck(cache, child + 1)) {
            child++;
        }
        if (child >= cache->heap_count || bad_luck(cache, child) <= luck) {
            break;
        }
        heap_set(cache, place, cache->heap[child]);
        place = child;
    }
    heap_set(cache, place, slot);
}

static void heap_pull(weft_cache *cache, uint32_t slot) {
    const uint32_t place = (uint32_t)cache->slots[slot].place;
    const uint32_t last = cache->heap[--cache->heap_count];
    if (last != slot) {
        heap_settle(cache, place, last);
    }
}

/* Lets the oldest of the list drop into the heap until the list is small enough. */
static void settle(weft_cache *cache) {
    while (cache->young_weight > cache->young_capacity && cache->slots[0].prev != 0) {
        const uint32_t oldest = cache->slots[0].prev;
        list_pull(cache, oldest);
        heap_settle(cache, cache->heap_count++, oldest);
    }
}

void weft_cache_touch_slow(weft_cache *cache, uint32_t slot) {
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
    uint32_t *heap = realloc(cache->heap, room * sizeof *heap);
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
    cache->slots[slot].bad_luck = hash(id ^ cache->seed);
    cache->slots[slot].ready = ready;
    cache->slot_of[id] = slot;
    cache->weight += weight;
    list_push(cache, slot);
    settle(cache);
    return slot;
}

static void drop(weft_cache *cache, uint32_t slot) {
    if (cache->slots[slot].place == WEFT_CACHE_IN_LIST) {
        list_pull(cache, slot);
    } else {
        heap_pull(cache, slot);
    }
    cache->weight -= cache->slots[slot].weight;
    cache->slot_of[cache->slots[slot].id] = 0;
    cache->slots[slot].next = cache->free;
    cache->free = slot;
}

int weft_cache_evict(weft_cache *cache, uint32_t *id) {
    if (cache->weight <= cache->capacity) {
        return 0;
    }
    uint32_t victim = cache->heap_count > 0 ? cache->heap[0] : cache->slots[0].prev;
    if (cache->random && cache->heap_count > 0) {
        victim = cache->heap[(uint64_t)hash(cache->draws++ ^ cache->seed) * cache->heap_count >> 32];
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
    for (uint32_t slot = cache->slots[0].next; slot != 0; slot = cache->slots[slot].next) {
        tell(context, cache->slots[slot].id, cache->slots[slot].weight);
    }
    for (uint32_t i = 0; i < cache->heap_count; i++) {
        tell(context, cache->slots[cache->heap[i]].id, cache->slots[cache->heap[i]].weight);
    }
}
