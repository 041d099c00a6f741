/* SPDX-License-Identifier: Apache-2.0 */
/* What CTAs of a cluster tell each other without its barrier: arrivals at mbarriers, and words that count as bytes there.
 *
 * A message comes some turns later; now and then one comes as late as may be, when no thread of the CTA gets on otherwise.
 * None may be under way when the CTA ends. */
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/tma.cuh"

#include <vector>

struct message {
    uint32_t barrier;
    uint32_t cta, thread; /* who sent it: the CTA's number in the cluster */
    uint32_t to, bytes;   /* bytes: 0, an arrival */
    int32_t words[4];
    bool late;
};

static std::vector<message> messages[EMULATED_SLOTS]; /* to the CTA of a slot */

static void send(unsigned slot, const message &m) {
    enum { SELDOM = 64 };
    messages[slot].push_back(m);
    messages[slot].back().late = emulated_dice(SELDOM) == 0;
}

static void give_back(uint32_t barrier, uint32_t cta, uint32_t thread) {
    const unsigned slot = emulated_slot_of(cta, "an arrival at a barrier of");
    if (slot == emulated_slot) {
        emulated_arrive_from(barrier, cluster_rank(), thread);
    } else {
        send(slot, {barrier, cluster_rank(), thread, 0, 0, {}, false});
    }
}

/* One instruction of a warp: its arrivals set out at the same time. */
void mbarrier_give_back_at(uint32_t barrier, uint32_t cta, bool wanted) {
    struct arrival {
        uint32_t barrier, cta;
        bool wanted;
    } mine = {barrier, cta, wanted};
    emulated_meet(&mine, [](void *const *all) {
        for (uint32_t lane = 0; lane < 32; lane++) {
            const arrival *a = (const arrival *)all[lane];
            if (a->wanted) {
                give_back(a->barrier, a->cta, emulated_thread() / 32 * 32 + lane);
            }
        }
    });
}

void cluster_send(uint32_t to, uint32_t barrier, const int32_t (&from)[4]) {
    const emulated_address place = emulated_address_of(to), told = emulated_address_of(barrier);
    message m = {told.address, cluster_rank(), emulated_thread(), place.address, sizeof from, {}, false};
    if (cluster_size() == 1 || place.cta != told.cta) {
        emulated_fail("words are sent to %#x, and count as bytes at %#x: not in a cluster, or not in the same CTA of it",
                      to, barrier);
    }
    const unsigned slot = emulated_slot_of(place.cta, "words are sent to");
    memcpy(m.words, from, sizeof from);
    emulated_begin_arrival(slot, m.to, m.bytes);
    send(slot, m);
}

/* Takes out the i-th message to this CTA; another takes its place. */
static message take(size_t i) {
    std::vector<message> &all = messages[emulated_slot];
    const message m = all[i];
    all[i] = all.back();
    all.pop_back();
    return m;
}

/* A thread that is back at a barrier is a whole lap of a ring on: what others told the barrier in the lap before is there
 * by then. A GPU does not promise that, but its messages take less time than a step. */
static void let_others_pass(const message &m) {
    for (size_t i = 0; emulated_has_arrived(m.barrier, m.cta, m.thread) && i < messages[emulated_slot].size();) {
        const message &other = messages[emulated_slot][i];
        if (other.bytes == 0 && other.barrier == m.barrier &&
            !emulated_has_arrived(other.barrier, other.cta, other.thread)) {
            const message first = take(i);
            emulated_arrive_from(first.barrier, first.cta, first.thread);
        } else {
            i++;
        }
    }
}

static void deliver(size_t i) {
    const message m = take(i);
    if (m.bytes == 0) {
        let_others_pass(m);
        emulated_arrive_from(m.barrier, m.cta, m.thread);
    } else {
        emulated_end_arrival(m.to, m.words, m.bytes);
        emulated_complete(m.barrier, m.bytes);
    }
}

void emulated_messages_turn() {
    for (size_t i = 0; i < messages[emulated_slot].size();) {
        if (!messages[emulated_slot][i].late && emulated_dice(3) == 0) {
            deliver(i);
        } else {
            i++;
        }
    }
}

bool emulated_messages_late() {
    const bool any = !messages[emulated_slot].empty();
    while (!messages[emulated_slot].empty()) {
        deliver(0);
    }
    return any;
}

void emulated_messages_end() {
    for (const message &m : messages[emulated_slot]) {
        emulated_fail("the CTA ended before thread %u of CTA %u of the cluster %s it", m.thread, m.cta,
                      m.bytes == 0 ? "arrived at a barrier of" : "had sent words to");
    }
}
