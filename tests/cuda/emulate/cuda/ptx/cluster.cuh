/* Warpgroups and clusters on a CPU: see clusters.cpp. Registers are not counted. */
#ifndef WEFT_CUDA_PTX_CLUSTER_CUH
#define WEFT_CUDA_PTX_CLUSTER_CUH

#include "emulate.h"

static inline bool elect_one() {
    __syncwarp();
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

void emulated_send(uint32_t to, const float *from, uint32_t count);
void emulated_fetch(uint32_t from, float *to, uint32_t count);

template <int COUNT> static inline void cluster_store(uint32_t to, const float (&from)[COUNT]) {
    static_assert(COUNT == 2 || COUNT == 4, "8 or 16 bytes");
    emulated_send(to, from, COUNT);
}

template <int COUNT> static inline void shared_load(uint32_t from, float (&to)[COUNT]) {
    static_assert(COUNT == 2 || COUNT == 4, "8 or 16 bytes");
    emulated_fetch(from, to, COUNT);
}

/* How often this thread has arrived at the barrier of its cluster, if there are others. */
uint32_t emulated_arrivals();

/* Before the CTAs of a cluster run, and when all have ended. */
void emulated_cluster_begin(uint32_t ctas, uint32_t threads);
void emulated_cluster_end();

/* The CTA does not get on by itself: waits for the others, and returns whether it does now. It does not when they do not,
 * either. */
bool emulated_cluster_look();
void emulated_cluster_leave(); /* the CTA has ended */

/* Whom those at the cluster's barrier wait for, in words that end a line; none if nobody is there. */
const char *emulated_absent();

#endif
