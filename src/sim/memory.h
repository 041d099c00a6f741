/* SPDX-License-Identifier: Apache-2.0 */
/* The memory system of a machine: an L2 per domain, perhaps a last-level cache, DRAM; and the counters. */
#ifndef WEFT_SIM_MEMORY_H
#define WEFT_SIM_MEMORY_H

#include <weft/sim.h>

#include "base/later.h"
#include "sim/cache.h"
#include "sim/dram.h"
#include "sim/reuse.h"

/* One domain's L2 and what it counted. */
typedef struct weft_memory_domain {
    weft_cache l2;
    weft_traffic traffic; /* but for the sectors, which are hits and misses */
    uint64_t in_flight;   /* sectors from workers that were already on their way: merged before they are counted */
    uint64_t waited_for;  /* of these, when a piece last came from DRAM */
} weft_memory_domain;

typedef struct weft_memory {
    int64_t domains;
    int separate; /* every domain has an L2 for itself */
    int split; /* lines have a home domain and are copied to others: a piece is then two halves, one homed on each side */
    int plain; /* a hit is a hit: pieces are not split, and no sets are crowded */
    weft_memory_domain *domain;
    weft_cache llc; /* of no capacity where there is none */
    int has_llc;
    int writes_hit;     /* writes are counted as hits */
    double merge;       /* requests for a sector in flight that are counted as one */
    double crowded;     /* share of the lines that lie in sets which overflow before the whole does */
    double owed;        /* sectors of them that are lost and not yet counted, less than one */
    double near, far;   /* latencies, seconds */
    double llc_seconds; /* per sector */
    double llc_free;
    weft_dram dram;
    double queue;           /* seconds that DRAM may be behind before hits wait behind misses */
    double waiting_seconds; /* per sector that several workers ask for at a time */
    double others;          /* workers but one */
    uint32_t sector;
    double room, fetched; /* see weft_sim_source */
    weft_reuse *reuse;    /* (domains) where requests are written down, or null */
    int failed;           /* memory ran out */
} weft_memory;

/* `pieces` is how many there are. Returns 0 when memory ran out; release it in any case. */
int weft_memory_init(weft_memory *memory, const weft_machine *machine, const weft_profile *profile, uint32_t pieces,
                     uint64_t seed);
void weft_memory_release(weft_memory *memory);

/* When a worker that finds a piece in its L2 has all of it. */
static inline double weft_memory_hit_ready(const weft_memory *memory, const weft_cache_slot *s, double now) {
    const int behind = memory->dram.free_at > now + memory->queue;
    const double served = behind ? memory->dram.free_at + memory->dram.latency : now + memory->near;
    return weft_later(s->ready, served);
}

/* Counts that. A hit is in flight too, until the worker has it. */
static inline void weft_memory_hit(weft_memory_domain *d, uint32_t slot, uint32_t weight, double now, double ready) {
    weft_cache_slot *s = &d->l2.slots[slot];
    d->traffic.hits += weight;
    d->in_flight += weight & -(uint32_t)(s->ready > now); /* no processor could predict a branch here */
    s->ready = ready;
    weft_cache_touch(&d->l2, slot);
}

/* A worker of `domain` asks at time `now` for a piece of `weight` sectors. Returns when all of it is there. */
double weft_memory_read_any(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now);
static inline double weft_memory_read(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now) {
    weft_memory_domain *d = &memory->domain[domain];
    if (memory->plain && !memory->reuse) { /* most of all that is ever asked: without a call */
        const uint32_t slot = weft_cache_find(&d->l2, piece);
        if (slot != 0) {
            const double ready = weft_memory_hit_ready(memory, &d->l2.slots[slot], now);
            weft_memory_hit(d, slot, weight, now, ready);
            return ready;
        }
    }
    return weft_memory_read_any(memory, domain, piece, weight, now);
}
void weft_memory_write(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now);

/* The same for adding to a piece in memory, in one transaction: at its home, or, where every domain has an L2 for itself,
 * behind all of them. */
void weft_memory_add(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now);

/* The counters of one domain, in flight requests merged. */
weft_traffic weft_memory_traffic(const weft_memory *memory, int64_t domain);

/* Adds the counts of one domain to a sum. */
void weft_traffic_add(weft_traffic *sum, const weft_traffic *t);

#endif
