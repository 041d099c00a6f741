/* SPDX-License-Identifier: Apache-2.0 */
/* mbarriers on a CPU. What they count is kept beside shared memory, by address: see barriers.cpp. */
#ifndef WEFT_CUDA_PTX_MBARRIER_CUH
#define WEFT_CUDA_PTX_MBARRIER_CUH

#include "emulate.h"

#include <bitset>

static inline uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

void mbarrier_init(uint32_t barrier, uint32_t arrivals);
static inline void mbarrier_init_done() {
}
void mbarrier_arrive(uint32_t barrier);

enum { MBARRIER_WARP = 1 };
static inline void mbarrier_arrive_warp(uint32_t barrier) {
    if (threadIdx.x % 32 == 0) {
        mbarrier_arrive(barrier);
    }
}

void mbarrier_expect(uint32_t barrier, uint32_t bytes);
void mbarrier_give_back_at(uint32_t barrier, uint32_t cta, bool wanted = true); /* messages.cpp */
void mbarrier_wait(uint32_t barrier, uint32_t parity);
bool mbarrier_test(uint32_t barrier, uint32_t parity);

static inline void mbarrier_wait_idly(uint32_t barrier, uint32_t parity) {
    mbarrier_wait(barrier, parity);
}

/* Threads of all CTAs of a cluster. */
typedef std::bitset<EMULATED_CLUSTER * EMULATED_THREADS> emulated_threads;

struct emulated_mbarrier {
    uint32_t number;              /* in the order in which they were set up */
    uint32_t arrivals, missing;   /* of a phase, and of the one that goes on */
    int64_t bytes;                /* that it still expects */
    uint64_t flips;               /* phases that are over */
    emulated_threads arrived;     /* who did in the phase that goes on, */
    emulated_threads ever, never; /* and who did, or did not, in one of those that are over */
};
emulated_mbarrier &emulated_mbarrier_at(uint32_t barrier);
uint32_t emulated_first_mbarrier(); /* the one at the lowest address */

/* An arrival of a thread of that CTA of the cluster. */
void emulated_arrive_from(uint32_t barrier, uint32_t cta, uint32_t thread);
bool emulated_has_arrived(uint32_t barrier, uint32_t cta, uint32_t thread); /* in the phase that goes on */

/* Bytes of a copy are there. */
void emulated_complete(uint32_t barrier, uint32_t bytes);

/* Forgets the barriers of the CTA before, those by number, too. */
void emulated_barriers_begin();

#endif
