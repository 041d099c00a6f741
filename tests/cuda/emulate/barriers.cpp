/* SPDX-License-Identifier: Apache-2.0 */
/* mbarriers, and barriers by number. */
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"

#include <map>

struct numbered {
    uint32_t arrived, threads;
    uint64_t held;
    bool any, result; /* of barrier_any(): so far, and of the last time */
};
static thread_local numbered by_number[16];
static thread_local std::map<uint32_t, emulated_mbarrier> by_address;

void emulated_barriers_begin() {
    memset(by_number, 0, sizeof by_number);
    by_address.clear();
}

/* Returns how often the barrier had been held before. */
static uint64_t arrive(uint32_t number, uint32_t threads, bool mine) {
    numbered *b = &by_number[number];
    if (number < 1 || number > 15 || threads % 32 != 0) {
        emulated_fail("there is no barrier %u for %u threads", number, threads);
    }
    if (b->arrived > 0 && b->threads != threads) {
        emulated_fail("barrier %u is for %u threads, and for %u", number, b->threads, threads);
    }
    const uint64_t before = b->held;
    b->threads = threads;
    b->any |= mine;
    if (++b->arrived == threads) {
        b->result = b->any;
        b->any = false;
        b->arrived = 0;
        b->held++;
        emulated_moved();
    }
    return before;
}

void barrier_arrive(uint32_t number, uint32_t threads) {
    arrive(number, threads, false);
}

bool barrier_any(uint32_t number, uint32_t threads, bool mine) {
    const uint64_t before = arrive(number, threads, mine);
    while (by_number[number].held == before) {
        emulated_await(by_number[number].held, "barrier", number);
    }
    return by_number[number].result;
}

void barrier_sync(uint32_t number, uint32_t threads) {
    barrier_any(number, threads, false);
}

void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    const uint32_t number = (uint32_t)by_address.size();
    if (!by_address.insert({barrier, {number, arrivals, arrivals, 0, 0, {}, {}, {}}}).second) {
        emulated_fail("mbarrier %u is set up twice", by_address[barrier].number);
    }
}

emulated_mbarrier &emulated_mbarrier_at(uint32_t barrier) {
    const auto found = by_address.find(barrier);
    if (found == by_address.end()) {
        emulated_fail("there is no mbarrier at %#x", barrier);
    }
    return found->second;
}

uint32_t emulated_first_mbarrier() {
    if (by_address.empty()) {
        emulated_fail("no mbarrier was set up");
    }
    return by_address.begin()->first;
}

static void settle(emulated_mbarrier &b) {
    if (b.missing == 0 && b.bytes < 0) {
        emulated_fail("mbarrier %u gets %lld bytes more than it expects", b.number, (long long)-b.bytes);
    }
    if (b.missing == 0 && b.bytes == 0) {
        b.missing = b.arrivals;
        b.ever |= b.arrived;
        b.never |= ~b.arrived;
        b.arrived.reset();
        b.flips++;
        emulated_moved();
    }
}

bool emulated_has_arrived(uint32_t barrier, uint32_t cta, uint32_t thread) {
    return emulated_mbarrier_at(barrier).arrived[cta * EMULATED_THREADS + thread];
}

/* Nobody has a reason to arrive twice in a phase: what a thread waited for, it gives back once. */
static emulated_mbarrier &arrive_at(uint32_t barrier, uint32_t cta, uint32_t thread) {
    emulated_mbarrier &b = emulated_mbarrier_at(barrier);
    const uint32_t who = cta * EMULATED_THREADS + thread;
    if (b.missing == 0) {
        emulated_fail("mbarrier %u has more than its %u arrivals", b.number, b.arrivals);
    }
    if (b.arrived[who]) {
        emulated_fail("a second arrival of thread %u of CTA %u of the cluster at mbarrier %u in phase %llu", thread, cta,
                      b.number, (unsigned long long)b.flips);
    }
    b.arrived[who] = true;
    b.missing--;
    return b;
}

void emulated_arrive_from(uint32_t barrier, uint32_t cta, uint32_t thread) {
    settle(arrive_at(barrier, cta, thread));
}

void mbarrier_arrive(uint32_t barrier) {
    emulated_arrive_from(barrier, cluster_rank(), emulated_thread());
}

void mbarrier_expect(uint32_t barrier, uint32_t bytes) {
    emulated_mbarrier &b = arrive_at(barrier, cluster_rank(), emulated_thread());
    b.bytes += bytes;
    settle(b);
}

void emulated_complete(uint32_t barrier, uint32_t bytes) {
    emulated_mbarrier &b = emulated_mbarrier_at(barrier);
    b.bytes -= bytes;
    settle(b);
}

bool mbarrier_test(uint32_t barrier, uint32_t parity) {
    return emulated_mbarrier_at(barrier).flips % 2 != parity;
}

void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    const emulated_mbarrier &b = emulated_mbarrier_at(barrier);
    while (b.flips % 2 == parity) {
        emulated_await(b.flips, "mbarrier", b.number);
    }
}
