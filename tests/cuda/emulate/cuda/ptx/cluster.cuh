/* SPDX-License-Identifier: Apache-2.0 */
/* Warpgroups and clusters on a CPU: see clusters.cpp and messages.cpp. Registers are not counted. */
#ifndef WEFT_CUDA_PTX_CLUSTER_CUH
#define WEFT_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/shared.cuh"

static inline bool elect_one() {
    emulated_meet(nullptr, [](void *const *) {});
    return emulated_thread() % 32 == 0;
}

template <int REGISTERS> static inline void registers_raise() {
}

template <int REGISTERS> static inline void registers_lower() {
}

/* barriers.cpp */
void barrier_sync(uint32_t number, uint32_t threads);
void barrier_arrive(uint32_t number, uint32_t threads);
bool barrier_any(uint32_t number, uint32_t threads, bool mine);

uint32_t cluster_size();

static inline uint32_t cluster_rank() {
    return blockIdx.x % cluster_size();
}

static inline uint32_t cluster_index() {
    return blockIdx.x / cluster_size();
}

void cluster_arrive();
void cluster_arrive_relaxed();
void cluster_wait();

static inline void cluster_meet(bool sent) {
    if (sent) {
        cluster_arrive();
    } else {
        cluster_arrive_relaxed();
    }
    cluster_wait();
}

uint32_t cluster_address(uint32_t address, uint32_t cta);

void emulated_post(uint32_t to, const float *from, uint32_t count);

template <int COUNT> static inline void cluster_store(uint32_t to, const float (&from)[COUNT]) {
    static_assert(COUNT == 2 || COUNT == 4, "8 or 16 bytes");
    emulated_post(to, from, COUNT);
}

void cluster_send(uint32_t to, uint32_t barrier, const int32_t (&from)[4]);

/* What cluster_address() made of them. */
struct emulated_address {
    uint32_t cta, address;
};
emulated_address emulated_address_of(uint32_t address);

/* The slot of a CTA of the cluster that this one may reach: all have met, and it has not ended. `what` begins the sentence
 * that says so where it may not. */
unsigned emulated_slot_of(uint32_t cta, const char *what);

/* How often this thread has arrived at the barrier of its cluster, if there are others. */
uint32_t emulated_arrivals();

/* Before clusters of so many CTAs run, and when all have ended. */
void emulated_clusters_begin(uint32_t ctas, uint32_t threads);
void emulated_clusters_end();

/* The CTA does not get on by itself: looks what the others did, and returns whether that was anything. */
bool emulated_cluster_look();
void emulated_cluster_turn();  /* all warps had a turn */
void emulated_cluster_leave(); /* the CTA has ended */

/* The same for messages. */
bool emulated_messages_late();
void emulated_messages_turn();
void emulated_messages_end();

/* Whom those at the cluster's barrier wait for, in words that end a line; none if nobody is there. */
const char *emulated_absent();

#endif
