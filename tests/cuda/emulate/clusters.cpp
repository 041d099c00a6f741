/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters: their CTAs meet at a barrier, and store into each other's shared memory.
 *
 * A CTA sees that a phase of the barrier is over when no thread of it gets on otherwise, and only then what was stored into
 * it: as late as may be. */
#include "cuda/ptx/cluster.cuh"

#include "cuda/ptx/tma.cuh"

#include <stdio.h>

#include <vector>

enum { CTA_SHIFT = 24 }; /* an address in a cluster: the CTA's number there + 1, above the address in its shared memory */

struct parcel {
    uint32_t owner, to;   /* the CTA's number in the cluster, and the address there */
    uint32_t from, bytes; /* from: the number of the CTA */
    float values[4];
};

struct member {
    uint32_t arrivals[EMULATED_THREADS], waits[EMULATED_THREADS]; /* of each thread */
    uint64_t seen;                                                /* phases that the CTA knows to be over */
    bool ended;
    std::vector<parcel> kept[EMULATED_THREADS]; /* of each thread: sent and not released */
    std::vector<parcel> released, mail;         /* to the CTA: in the phase that goes on, and in those that are over */
};

/* The barrier of a cluster. */
struct barrier {
    uint32_t arrived, phases; /* arrived: threads, in the phase that goes on */
};

static member members[EMULATED_SLOTS];
static barrier barriers[EMULATED_SLOTS]; /* by the slot of the cluster's first CTA */
static uint32_t size, threads;

static member &mine() {
    return members[emulated_slot];
}

static unsigned first_slot() {
    return emulated_slot - cluster_rank();
}

uint32_t cluster_size() {
    return size;
}

unsigned emulated_slot_of(uint32_t cta, const char *what) {
    const unsigned slot = first_slot() + cta;
    if (cta >= size) {
        emulated_fail("%s CTA %u of a cluster of %u", what, cta, size);
    }
    if (slot == emulated_slot) {
        return slot;
    }
    if (mine().seen == 0) {
        emulated_fail("%s CTA %u of the cluster, which may still use that memory: not all have met", what, cta);
    }
    if (members[slot].ended) {
        emulated_fail("%s CTA %u of the cluster, which has ended", what, cta);
    }
    return slot;
}

uint32_t emulated_arrivals() {
    return size > 1 && emulated_thread() < EMULATED_THREADS ? mine().arrivals[emulated_thread()] : 0;
}

static void end_phase(barrier &b) {
    b.arrived = 0;
    b.phases++;
    for (uint32_t i = 0; i < size; i++) {
        member &m = members[first_slot() + i];
        m.mail.insert(m.mail.end(), m.released.begin(), m.released.end());
        m.released.clear();
    }
}

static void arrive(bool releases) {
    const unsigned thread = emulated_thread();
    member &m = mine();
    barrier &b = barriers[first_slot()];
    if (m.arrivals[thread] != m.waits[thread]) {
        emulated_fail("a second arrival at the cluster's barrier without a wait");
    }
    m.arrivals[thread]++;
    if (releases) {
        for (const parcel &p : m.kept[thread]) {
            members[first_slot() + p.owner].released.push_back(p);
        }
        m.kept[thread].clear();
    }
    if (++b.arrived == size * threads) {
        end_phase(b);
    }
}

void cluster_arrive() {
    arrive(true);
}

void cluster_arrive_relaxed() {
    arrive(false);
}

void cluster_wait() {
    const unsigned thread = emulated_thread();
    member &m = mine();
    if (m.arrivals[thread] == m.waits[thread]) {
        emulated_fail("a wait at the cluster's barrier without an arrival");
    }
    while (m.seen < m.arrivals[thread]) {
        emulated_await(m.seen, "the cluster's barrier, phase", m.waits[thread]);
    }
    m.waits[thread]++;
}

uint32_t cluster_address(uint32_t address, uint32_t cta) {
    if (address >> CTA_SHIFT != 0 || cta >= size) {
        emulated_fail("there is no %#x in CTA %u of a cluster of %u", address, cta, size);
    }
    return (cta + 1) << CTA_SHIFT | address;
}

emulated_address emulated_address_of(uint32_t address) {
    return {(address >> CTA_SHIFT) - 1, address & ((1 << CTA_SHIFT) - 1)};
}

static void check(const char *what, uint32_t address, uint32_t bytes) {
    if (address % bytes != 0 || !emulated_in_shared(address, bytes)) {
        emulated_fail("a %s of %u bytes at %#x: not aligned, or not in the CTA's shared memory", what, bytes, address);
    }
}

void emulated_post(uint32_t to, const float *from, uint32_t count) {
    const emulated_address there = emulated_address_of(to);
    parcel p = {there.cta, there.address, blockIdx.x, 4 * count, {}};
    emulated_slot_of(there.cta, "a store to");
    check("store to another CTA", p.to, p.bytes);
    memcpy(p.values, from, p.bytes);
    mine().kept[emulated_thread()].push_back(p);
}

bool emulated_cluster_look() {
    member &m = mine();
    const uint32_t phases = barriers[first_slot()].phases;
    const bool told = emulated_messages_late();
    if (m.seen == phases) {
        return told;
    }
    m.seen = phases;
    for (const parcel &p : m.mail) {
        emulated_receive(p.to, p.values, p.bytes, phases);
    }
    m.mail.clear();
    return true;
}

void emulated_cluster_turn() {
    if (size > 1) {
        emulated_messages_turn();
    }
}

void emulated_cluster_leave() {
    mine().ended = true;
    emulated_messages_end();
}

const char *emulated_absent() {
    static thread_local char words[80];
    const barrier &b = barriers[first_slot()];
    for (uint32_t i = 0; b.arrived > 0 && i < size * threads; i++) {
        if (members[first_slot() + i / threads].arrivals[i % threads] == b.phases) {
            snprintf(words, sizeof words, "; thread %u of CTA %u is not at the cluster's barrier", i % threads,
                     cluster_index() * size + i / threads);
            break;
        }
    }
    return words;
}

void emulated_clusters_begin(uint32_t ctas, uint32_t threads_of_cta) {
    size = ctas;
    threads = threads_of_cta;
    for (uint32_t i = 0; i < EMULATED_SLOTS; i++) {
        members[i] = {};
        barriers[i] = {};
    }
}

static void check_arrived(const std::vector<parcel> &left) {
    if (!left.empty()) {
        blockIdx.x = left[0].from;
        emulated_fail("CTA %u of the cluster ended before this one's store to %#x was there", left[0].owner, left[0].to);
    }
}

void emulated_clusters_end() {
    for (const member &m : members) {
        check_arrived(m.released);
        check_arrived(m.mail);
        for (const std::vector<parcel> &kept : m.kept) {
            check_arrived(kept);
        }
    }
}
