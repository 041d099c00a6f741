/* Clusters: their CTAs meet at a barrier, and store into each other's shared memory.
 *
 * A CTA sees that a phase of the barrier is over when no thread of it gets on otherwise, and only then what was stored into
 * it: as late as may be, and by no clock, so that a run can be repeated. */
#include "cuda/ptx/cluster.cuh"

#include "cuda/ptx/tma.cuh"

#include <stdio.h>

#include <condition_variable>
#include <mutex>
#include <vector>

enum { CTA_SHIFT = 24 }; /* an address in a cluster: the CTA's number there + 1, above the address in its shared memory */

struct parcel {
    uint32_t owner, to;   /* the CTA's number in the cluster, and the address there */
    uint32_t from, bytes; /* from: the number of the CTA */
    float values[4];
};

struct member {
    uint32_t arrivals[EMULATED_THREADS], waits[EMULATED_THREADS]; /* of each thread */
    uint32_t seen;                                                /* phases that the CTA knows to be over */
    std::vector<parcel> kept[EMULATED_THREADS];                   /* of each thread: sent and not released */
    std::vector<parcel> released, mail; /* to the CTA: in the phase that goes on, and in those that are over */
};

/* The cluster that runs. What one CTA writes and another reads is only touched by who has the lock. */
static std::mutex lock;
static std::condition_variable woken;
static member members[EMULATED_CLUSTER];
static uint32_t size, threads, arrived, phases; /* arrived: threads, in the phase that goes on */
static uint32_t quiet, ended, rounds;           /* CTAs that do not get on or have ended; how often all were woken */

static member &mine() {
    return members[cluster_rank()];
}

uint32_t cluster_size() {
    return size;
}

uint32_t emulated_arrivals() {
    return size > 1 ? mine().arrivals[emulated_thread()] : 0; /* products ask often */
}

static void wake() {
    quiet = 0;
    rounds++;
    woken.notify_all();
}

static void end_phase() {
    arrived = 0;
    phases++;
    for (uint32_t i = 0; i < size; i++) {
        member &m = members[i];
        m.mail.insert(m.mail.end(), m.released.begin(), m.released.end());
        m.released.clear();
    }
    wake();
}

static void arrive(bool releases) {
    const unsigned thread = emulated_thread();
    member &m = mine();
    if (m.arrivals[thread] != m.waits[thread]) {
        emulated_fail("a second arrival at the cluster's barrier without a wait");
    }
    std::lock_guard<std::mutex> hold(lock);
    m.arrivals[thread]++;
    if (releases) {
        for (const parcel &p : m.kept[thread]) {
            members[p.owner].released.push_back(p);
        }
        m.kept[thread].clear();
    }
    if (++arrived == size * threads) {
        end_phase();
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
        emulated_pause("the cluster's barrier, phase", m.waits[thread]);
    }
    m.waits[thread]++;
}

uint32_t cluster_address(uint32_t address, uint32_t cta) {
    if (address >> CTA_SHIFT != 0 || cta >= size) {
        emulated_fail("there is no %#x in CTA %u of a cluster of %u", address, cta, size);
    }
    return (cta + 1) << CTA_SHIFT | address;
}

static void check(const char *what, uint32_t address, uint32_t bytes) {
    if (address % bytes != 0 || !emulated_in_shared(address, bytes)) {
        emulated_fail("a %s of %u bytes at %#x: not aligned, or not in the CTA's shared memory", what, bytes, address);
    }
}

void emulated_send(uint32_t to, const float *from, uint32_t count) {
    const uint32_t owner = (to >> CTA_SHIFT) - 1;
    parcel p = {owner, to & ((1 << CTA_SHIFT) - 1), blockIdx.x, 4 * count, {}};
    if (owner >= size) {
        emulated_fail("a store to %#x, which is no address in the cluster", to);
    }
    check("store to another CTA", p.to, p.bytes);
    if (mine().seen == 0) {
        emulated_fail("a store to CTA %u of the cluster, which may still use that memory: not all have met", owner);
    }
    memcpy(p.values, from, p.bytes);
    mine().kept[emulated_thread()].push_back(p);
}

void emulated_fetch(uint32_t from, float *to, uint32_t count) {
    check("load", from, 4 * count);
    memcpy(to, emulated_settled_at(from, "a thread"), 4 * count);
}

bool emulated_cluster_look() {
    std::unique_lock<std::mutex> hold(lock);
    member &m = mine();
    if (m.seen == phases) {
        const uint32_t before = rounds;
        if (++quiet + ended == size) {
            wake();
        }
        woken.wait(hold, [before] { return rounds != before; });
    }
    if (m.seen == phases) {
        return false;
    }
    m.seen = phases;
    for (const parcel &p : m.mail) {
        emulated_receive(p.to, p.values, p.bytes, phases);
    }
    m.mail.clear();
    return true;
}

void emulated_cluster_leave() {
    std::lock_guard<std::mutex> hold(lock);
    if (quiet + ++ended == size) {
        wake();
    }
}

const char *emulated_absent() {
    static thread_local char words[80];
    std::lock_guard<std::mutex> hold(lock);
    for (uint32_t i = 0; arrived > 0 && i < size * threads; i++) {
        if (members[i / threads].arrivals[i % threads] == phases) {
            snprintf(words, sizeof words, "; thread %u of CTA %u is not at the cluster's barrier", i % threads,
                     cluster_index() * size + i / threads);
            break;
        }
    }
    return words;
}

void emulated_cluster_begin(uint32_t ctas, uint32_t threads_of_cta) {
    size = ctas;
    threads = threads_of_cta;
    arrived = phases = quiet = ended = rounds = 0;
    for (uint32_t i = 0; i < ctas; i++) {
        members[i] = {};
    }
}

static void check_arrived(const std::vector<parcel> &left) {
    if (!left.empty()) {
        blockIdx.x = left[0].from;
        emulated_fail("CTA %u of the cluster ended before this one's store to %#x was there", left[0].owner, left[0].to);
    }
}

void emulated_cluster_end() {
    for (uint32_t i = 0; i < size; i++) {
        check_arrived(members[i].released);
        check_arrived(members[i].mail);
        for (const std::vector<parcel> &kept : members[i].kept) {
            check_arrived(kept);
        }
    }
}
