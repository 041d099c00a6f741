/* SPDX-License-Identifier: Apache-2.0 */
/* A launch finds its counters by itself: see cuda/plan/counter_pool.h. */
#ifndef WEFT_CUDA_PLAN_COUNTER_POOL_CUH
#define WEFT_CUDA_PLAN_COUNTER_POOL_CUH

#include "cuda/plan/counter_pool.h"
#include "cuda/ptx/grid.cuh"

/* The first set of this owner, or null. */
static __device__ __forceinline__ weft_counter_set *counter_pool_find(weft_counter_pool *pool, uint64_t owner) {
    const uint32_t used = grid_load(&pool->used);
#pragma unroll 1
    for (uint32_t i = 0; i < used; i++) {
        if (grid_load(&pool->sets[i].owner) == owner) {
            return &pool->sets[i];
        }
    }
    return nullptr;
}

/* A set for the owner, unless it has one by now. Under the lock. Where all are in use, there is none. */
static __device__ __forceinline__ void counter_pool_claim(weft_counter_pool *pool, uint64_t owner) {
    if (counter_pool_find(pool, owner)) {
        return;
    }
    weft_counter_set *set = counter_pool_find(pool, 0);
    const uint32_t used = grid_load(&pool->used);
    if (!set && used < WEFT_POOL_SETS) {
        set = &pool->sets[used];
        grid_store(&pool->used, used + 1);
    }
    if (set) {
        grid_store(&set->owner, owner);
    }
}

/* The counters of this launch, of which `parameters` are its own. One thread of every CTA asks, once. A set is claimed
 * under the lock, and given back when all CTAs are done with it; so all CTAs of a launch find the same. */
static __device__ __forceinline__ uint64_t *counter_pool_join(weft_counter_pool *pool, const void *parameters) {
    const uint64_t me = grid_identity(parameters);
    weft_counter_set *mine;
    while (!(mine = counter_pool_find(pool, me))) {
        if (atomicCAS(&pool->lock, 0u, 1u) == 0) {
            __threadfence();
            counter_pool_claim(pool, me);
            __threadfence();
            atomicExch(&pool->lock, 0u);
        } else {
            __nanosleep(20);
        }
    }
    return mine->counters;
}

/* The last CTA, when the counters are 0 again. */
static __device__ __forceinline__ void counter_pool_give_back(uint64_t *counters) {
    __threadfence();
    grid_store(&((weft_counter_set *)counters)->owner, (uint64_t)0);
}

#endif
