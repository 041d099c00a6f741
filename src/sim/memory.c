/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_UNWRITTEN = 8 }; /* an eighth of an L2 may wait to be written: assumed */

/* The share of the capacity that victims are drawn from. Hashed sets of w ways spread the age at which lines leave by about
 * one part in sqrt(w) either way. */
static double slack_of(const weft_machine *machine) {
    if (machine->l2_replacement == WEFT_REPLACEMENT_RANDOM) {
        return 1.0;
    }
    const double sets = machine->l2_ways > 0 ? 2.0 / sqrt((double)machine->l2_ways) : 0.0;
    return fmin(1.0, fmax(sets, machine->l2_slack));
}

int weft_memory_init(weft_memory *memory, const weft_machine *machine, const weft_profile *profile, uint32_t pieces,
                     uint64_t seed) {
    memset(memory, 0, sizeof *memory);
    memory->domains = machine->domains;
    memory->separate = machine->l2_home == WEFT_HOME_PRIVATE;
    memory->split = machine->l2_home == WEFT_HOME_SPLIT;
    memory->has_llc = machine->llc_bytes > 0;
    memory->writes_hit = machine->l2_write == WEFT_WRITE_HIT;
    memory->merge = profile->merge;
    memory->crowded = machine->l2_crowded;
    memory->plain = !memory->split && memory->crowded == 0;
    const double trip = fmax(profile->trips, 1.0) / machine->clock;
    memory->near = machine->near_latency * trip;
    memory->far = machine->far_latency * trip;
    memory->sector = (uint32_t)machine->l2_sector;
    const double sector = (double)machine->l2_sector;
    memory->llc_seconds = memory->has_llc ? sector / machine->llc_bandwidth : 0.0;
    memory->dram.seconds = sector / machine->dram_bandwidth;
    memory->dram.latency = machine->dram_latency * trip;
    memory->dram.kept = machine->l2_queue > 0 ? (double)machine->l2_bytes / KEPT_UNWRITTEN / machine->dram_bandwidth : 0.0;
    memory->queue = machine->l2_queue > 0 ? (double)machine->l2_queue / machine->dram_bandwidth : INFINITY;
    memory->others = (double)(machine->workers - 1);
    memory->waiting_seconds = machine->l2_waiting > 0 ? sector / machine->l2_waiting : 0.0;

    memory->domain = calloc((size_t)machine->domains, sizeof *memory->domain);
    const uint32_t ids = memory->split ? pieces * 2 : pieces;
    const int64_t capacity = (int64_t)((double)machine->l2_bytes * machine->l2_usable) / machine->l2_sector;
    int fine = memory->domain != NULL;
    for (int64_t d = 0; fine && d < machine->domains; d++) {
        weft_cache *l2 = &memory->domain[d].l2;
        fine = weft_cache_init(l2, ids, capacity, slack_of(machine), seed) && weft_cache_fill(l2);
    }
    if (fine && memory->has_llc) {
        const int64_t sectors = machine->llc_bytes / machine->l2_sector;
        fine = weft_cache_init(&memory->llc, ids, sectors, slack_of(machine), seed) && weft_cache_fill(&memory->llc);
    }
    return fine;
}

void weft_memory_release(weft_memory *memory) {
    for (int64_t d = 0; memory->domain && d < memory->domains; d++) {
        weft_cache_release(&memory->domain[d].l2);
    }
    weft_cache_release(&memory->llc);
    free(memory->domain);
    memory->domain = NULL;
}

/* Makes room in a domain's L2. A line that leaves its home takes the copies elsewhere with it: the home keeps coherence. */
static void make_room(weft_memory *memory, int64_t domain) {
    uint32_t id;
    while (weft_cache_evict(&memory->domain[domain].l2, &id)) {
        if (memory->split && id != WEFT_CACHE_STALE && (int64_t)(id & 1) == domain) {
            weft_cache_remove(&memory->domain[1 - domain].l2, id);
        }
    }
}

/* What a piece of so many sectors takes of a cache: whole lines. */
static uint32_t room_of(const weft_memory *memory, uint32_t weight) {
    return (uint32_t)llround(weight * memory->room);
}

static void fill(weft_memory *memory, int64_t domain, uint32_t id, uint32_t weight, double ready) {
    if (weft_cache_insert(&memory->domain[domain].l2, id, room_of(memory, weight), ready) == 0) {
        memory->failed = 1;
        return;
    }
    make_room(memory, domain);
}

/* A copy of what its home holds. Both sides are asked the same things, and choose their victims alike: the copy draws what
 * the home draws, so that, in step, they leave together. */
static void fill_copy(weft_memory *memory, int64_t domain, int64_t home, uint32_t id, uint32_t weight, double ready) {
    const weft_cache *theirs = &memory->domain[home].l2;
    weft_cache *ours = &memory->domain[domain].l2;
    const uint32_t original = weft_cache_find(theirs, id),
                   slot = weft_cache_insert(ours, id, room_of(memory, weight), ready);
    if (slot == 0) {
        memory->failed = 1;
        return;
    }
    if (original != 0) {
        ours->slots[slot].draw = theirs->slots[original].draw;
    }
    make_room(memory, domain);
}

/* A queue that serves sectors one after the other: when the last of `weight` has passed. */
static double serve(double *free_at, double now, uint32_t weight, double seconds) {
    *free_at = (*free_at > now ? *free_at : now) + weight * seconds;
    return *free_at;
}

/* Requests for what another worker is just being given meet in one slice and queue there. How long a piece from DRAM waits
 * behind those that came since the last such piece: one of each other worker at most. */
static double wait_for_others(const weft_memory *memory, weft_memory_domain *d, uint32_t weight) {
    const double most = (double)weight * memory->others, asked = (double)(d->in_flight - d->waited_for);
    d->waited_for = d->in_flight;
    return (asked < most ? asked : most) * memory->waiting_seconds;
}

/* From behind the L2s: the last-level cache or DRAM. */
static double fetch(weft_memory *memory, weft_memory_domain *d, uint32_t id, uint32_t weight, double now) {
    weft_traffic *traffic = &d->traffic;
    if (memory->has_llc) {
        const uint32_t slot = weft_cache_find(&memory->llc, id);
        if (slot != 0) {
            weft_cache_touch(&memory->llc, slot);
            traffic->llc_hits += weight;
            const double ready = serve(&memory->llc_free, now, weight, memory->llc_seconds) + memory->far;
            return fmax(ready, memory->llc.slots[slot].ready);
        }
    }
    traffic->dram_read_bytes += (uint64_t)llround(weight * memory->fetched * memory->sector);
    const double ready = weft_dram_read(&memory->dram, weight, now) + wait_for_others(memory, d, weight);
    if (memory->has_llc) {
        uint32_t victim;
        if (weft_cache_insert(&memory->llc, id, weight, ready) == 0) {
            memory->failed = 1;
        }
        while (weft_cache_evict(&memory->llc, &victim)) {
        }
    }
    return ready;
}

/* A lookup in the home domain, for a request that came over the fabric. */
static double ask_home(weft_memory *memory, int64_t home, uint32_t id, uint32_t weight, double now) {
    weft_memory_domain *h = &memory->domain[home];
    h->traffic.fabric_sectors += weight;
    const uint32_t slot = weft_cache_find(&h->l2, id);
    if (slot != 0) {
        h->traffic.hits += weight;
        weft_cache_ask(&h->l2, slot);
        weft_cache_touch(&h->l2, slot);
        return fmax(now + memory->far, h->l2.slots[slot].ready);
    }
    h->traffic.misses += weight;
    const double ready = fetch(memory, h, id, weight, now) + memory->far - memory->near;
    fill(memory, home, id, weight, ready);
    return ready;
}

/* Sets fill unevenly, and a few overflow before the whole does. When the home of a piece is nearly full, and half of what
 * the worker's L2 holds was asked for since the piece was, then the share of it in such sets has left its home, and every
 * copy with it. Counts how it comes again, and returns how much that is. */
static uint32_t lose_crowded(weft_memory *memory, int64_t domain, int64_t home, uint32_t id, uint32_t slot,
                             uint32_t weight) {
    const weft_cache *ours = &memory->domain[domain].l2;
    weft_cache *theirs = &memory->domain[home].l2;
    const int64_t live = theirs->weight - theirs->stale, half = ours->capacity / 2;
    if (memory->crowded == 0 || live < ours->capacity / 8 * 7 || weft_cache_age(ours, slot) < half) {
        return 0;
    }
    memory->owed += memory->crowded * weight;
    const uint32_t lost = (uint32_t)memory->owed;
    memory->owed -= lost;
    weft_traffic *from = &memory->domain[home].traffic;
    if (home != domain) {
        from->fabric_sectors += lost;
        const uint32_t original = weft_cache_find(theirs, id);
        if (original != 0 && weft_cache_age(theirs, original) < half) { /* its own workers have brought it back */
            from->hits += lost;
            return lost;
        }
        from->misses += lost;
        theirs->slots[original].asked = theirs->passed;
    }
    if (memory->has_llc && weft_cache_find(&memory->llc, id) != 0) {
        from->llc_hits += lost;
    } else {
        from->dram_read_bytes += (uint64_t)lost * memory->sector;
    }
    return lost;
}

static double read_part(weft_memory *memory, int64_t domain, uint32_t id, uint32_t weight, double now) {
    weft_memory_domain *d = &memory->domain[domain];
    const uint32_t slot = weft_cache_find(&d->l2, id);
    const int64_t home = memory->split ? (int64_t)(id & 1) : domain;
    if (slot != 0) {
        const uint32_t lost = lose_crowded(memory, domain, home, id, slot, weight);
        d->traffic.hits -= lost;
        d->traffic.misses += lost;
        weft_cache_ask(&d->l2, slot);
        const double ready = weft_memory_hit_ready(memory, &d->l2.slots[slot], now);
        weft_memory_hit(d, slot, weight, now, ready);
        return ready;
    }
    d->traffic.misses += weight;
    double ready;
    if (home == domain) {
        ready = fetch(memory, d, id, weight, now);
        fill(memory, domain, id, weight, ready);
    } else {
        ready = ask_home(memory, home, id, weight, now);
        fill_copy(memory, domain, home, id, weight, ready);
    }
    return fmax(ready, now + memory->near);
}

double weft_memory_read_any(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now) {
    if (memory->reuse) {
        weft_reuse_read(&memory->reuse[domain], piece, weight);
    }
    if (!memory->split) {
        return read_part(memory, domain, piece, weight, now);
    }
    const double first = read_part(memory, domain, piece * 2, weight - weight / 2, now);
    return weight < 2 ? first : fmax(first, read_part(memory, domain, piece * 2 + 1, weight / 2, now));
}

static void write_part(weft_memory *memory, int64_t domain, uint32_t id, uint32_t weight, double now) {
    weft_traffic *t = &memory->domain[domain].traffic;
    const int64_t home = memory->split ? (int64_t)(id & 1) : domain;
    *(memory->writes_hit ? &t->hits : &t->misses) += weight;
    if (home != domain) {
        memory->domain[home].traffic.fabric_sectors += weight;
        memory->domain[home].traffic.hits += weight;
    }
    t->dram_write_bytes += (uint64_t)weight * memory->sector;
    weft_dram_write(&memory->dram, weight, now);
    weft_cache_remove(&memory->domain[home].l2, id);
    if (memory->split) {
        weft_cache_remove(&memory->domain[1 - home].l2, id);
    }
    fill(memory, home, id, weight, now);
}

void weft_memory_write(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now) {
    if (memory->reuse) {
        weft_reuse_write(&memory->reuse[domain], piece, weight, !memory->writes_hit);
    }
    if (!memory->split) {
        write_part(memory, domain, piece, weight, now);
        return;
    }
    write_part(memory, domain, piece * 2, weight - weight / 2, now);
    if (weight >= 2) {
        write_part(memory, domain, piece * 2 + 1, weight / 2, now);
    }
}

/* Brings the piece that is added to from behind the L2s. It will be written back once, when it leaves: counted here. */
static void fetch_to_add(weft_memory *memory, weft_memory_domain *d, uint32_t id, uint32_t weight, double now) {
    const uint64_t before = d->traffic.dram_read_bytes;
    d->traffic.misses += weight;
    fetch(memory, d, id, weight, now);
    if (d->traffic.dram_read_bytes > before) {
        d->traffic.dram_write_bytes += (uint64_t)weight * memory->sector;
        weft_dram_write(&memory->dram, weight, now);
    }
}

static void add_part(weft_memory *memory, int64_t domain, uint32_t id, uint32_t weight, double now) {
    const int64_t home = memory->split ? (int64_t)(id & 1) : domain;
    weft_memory_domain *d = &memory->domain[home];
    memory->domain[domain].traffic.added += weight;
    if (home != domain) { /* its own L2 passes it on */
        memory->domain[domain].traffic.misses += weight;
        d->traffic.fabric_sectors += weight;
    }
    const uint32_t slot = memory->separate ? 0 : weft_cache_find(&d->l2, id);
    if (slot != 0) {
        d->traffic.hits += weight;
        weft_cache_touch(&d->l2, slot);
        return;
    }
    fetch_to_add(memory, d, id, weight, now);
    if (!memory->separate) {
        fill(memory, home, id, weight, now);
    }
}

void weft_memory_add(weft_memory *memory, int64_t domain, uint32_t piece, uint32_t weight, double now) {
    if (memory->reuse) {
        weft_reuse_read(&memory->reuse[domain], piece, weight);
    }
    if (!memory->split) {
        add_part(memory, domain, piece, weight, now);
        return;
    }
    add_part(memory, domain, piece * 2, weight - weight / 2, now);
    if (weight >= 2) {
        add_part(memory, domain, piece * 2 + 1, weight / 2, now);
    }
}

weft_traffic weft_memory_traffic(const weft_memory *memory, int64_t domain) {
    const weft_memory_domain *d = &memory->domain[domain];
    weft_traffic t = d->traffic;
    t.struct_size = sizeof t;
    const uint64_t merged = (uint64_t)llround((double)d->in_flight * (1.0 - 1.0 / memory->merge));
    t.hits -= merged;
    t.sectors = t.hits + t.misses;
    t.sectors_from_sm = t.sectors - t.fabric_sectors;
    return t;
}

void weft_traffic_add(weft_traffic *sum, const weft_traffic *t) {
    sum->sectors += t->sectors;
    sum->sectors_from_sm += t->sectors_from_sm;
    sum->hits += t->hits;
    sum->misses += t->misses;
    sum->fabric_sectors += t->fabric_sectors;
    sum->llc_hits += t->llc_hits;
    sum->dram_read_bytes += t->dram_read_bytes;
    sum->dram_write_bytes += t->dram_write_bytes;
    sum->added += t->added;
}
