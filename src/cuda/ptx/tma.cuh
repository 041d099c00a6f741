/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine: boxes of a tensor, described by a tensor map, between global and shared memory (sm_90).
 *
 * Coordinates are in elements, the fastest axis first. What lies outside of the tensor is read as zeros, counts as bytes
 * that arrived, and is not written. Shared addresses are aligned to 128 bytes (to 1024 where the map swizzles 128 bytes).
 * One thread asks. `map` is a 64-byte aligned CUtensorMap in a __grid_constant__ parameter. */
#ifndef WEFT_CUDA_PTX_TMA_CUH
#define WEFT_CUDA_PTX_TMA_CUH

#include "cuda/driver/tensor_map.h"

static __device__ __forceinline__ void tma_prefetch_map(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Loads, completing at `barrier` of this CTA. */
static __device__ __forceinline__ void tma_load_3d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y,
                                                   int32_t z, uint64_t keep = WEFT_KEEP_NORMAL) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(keep)
                 : "memory");
}

static __device__ __forceinline__ void tma_load_4d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y,
                                                   int32_t z, int32_t w, uint64_t keep = WEFT_KEEP_NORMAL) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "l"(keep)
                 : "memory");
}

static __device__ __forceinline__ void tma_load_5d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y,
                                                   int32_t z, int32_t w, int32_t v, uint64_t keep = WEFT_KEEP_NORMAL) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "l"(keep)
                 : "memory");
}

/* Loads to the same place in every CTA of the cluster whose bit is set in `ctas`, completing at the same barrier in each.
 */
static __device__ __forceinline__ void tma_multicast_3d(uint32_t to, const void *map, uint32_t barrier, uint16_t ctas,
                                                        int32_t x, int32_t y, int32_t z, uint64_t keep = WEFT_KEEP_NORMAL) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 ".L2::cache_hint [%0], [%1, {%4, %5, %6}], [%2], %3, %7;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(ctas), "r"(x), "r"(y), "r"(z), "l"(keep)
                 : "memory");
}

/* Plain bytes, a multiple of 16, aligned to 16 on both sides: loads them, completing at `barrier` of this CTA. */
static __device__ __forceinline__ void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* The same the other way, as a store of this thread's group: see tma_store_commit(). */
static __device__ __forceinline__ void bulk_store(void *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

/* Likewise, adding floats to those that are there, each by itself. */
static __device__ __forceinline__ void bulk_add(float *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

/* Orders a thread's accesses of global memory with those of the copy engine that it asks for before and after. Of all
 * memory it would also wait until shared memory is still, which it never is while products read it. */
static __device__ __forceinline__ void fence_global_for_async() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* What ordinary stores wrote to shared memory becomes visible to the copy engine and the tensor cores: by each writing
 * thread, before the barrier that precedes the store or product. */
static __device__ __forceinline__ void fence_shared_for_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void tma_store_3d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

static __device__ __forceinline__ void tma_store_4d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z,
                                                    int32_t w) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

static __device__ __forceinline__ void tma_store_5d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z,
                                                    int32_t w, int32_t v, uint64_t keep = WEFT_KEEP_NORMAL) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group.L2::cache_hint "
                 "[%0, {%2, %3, %4, %5, %6}], [%1], %7;" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "l"(keep)
                 : "memory");
}

/* The same, to be given up first by the L2: nobody reads it soon. The policy is made in place, not held in registers. */
static __device__ __forceinline__ void tma_store_first_3d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z) {
    asm volatile(
        "{\n.reg .b64 keep;\nmov.b64 keep, %5;\n"
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], keep;\n}" ::"l"(
            map),
        "r"(from), "r"(x), "r"(y), "r"(z), "n"(WEFT_KEEP_FIRST)
        : "memory");
}

/* Closes a group of this thread's stores. */
static __device__ __forceinline__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all but PENDING of this thread's latest groups have read their shared memory. */
template <int PENDING> static __device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* The same until they have written, too. */
template <int PENDING> static __device__ __forceinline__ void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif
