/* SPDX-License-Identifier: Apache-2.0 */
/* Warpgroups and clusters: who runs, with how many registers, and barriers among them (sm_90, setmaxnreg sm_90a). */
#ifndef WEFT_CUDA_PTX_CLUSTER_CUH
#define WEFT_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/shared.cuh"

/* One lane of the warp, the same one each time. All lanes call it. */
static __device__ __forceinline__ bool elect_one() {
    uint32_t elected;
    asm volatile("{\n"
                 ".reg .pred elected;\n"
                 "elect.sync _|elected, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, elected;\n"
                 "}"
                 : "=r"(elected)::"memory");
    return elected != 0;
}

/* A warpgroup takes or gives back registers of the CTA's pool: a multiple of 8, 24 to 256 a thread. */
template <int REGISTERS> static __device__ __forceinline__ void registers_raise() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> static __device__ __forceinline__ void registers_lower() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Barriers of the CTA by number, 1 to 15 (0 is __syncthreads), for `threads` threads in all. */
static __device__ __forceinline__ void barrier_sync(uint32_t number, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t number, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* barrier_sync(), and whether any of the threads said `mine`; whole warps. */
static __device__ __forceinline__ bool barrier_any(uint32_t number, uint32_t threads, bool mine) {
    uint32_t any;
    asm volatile("{\n"
                 ".reg .pred mine, any;\n"
                 "setp.ne.b32 mine, %3, 0;\n"
                 "bar.red.or.pred any, %1, %2, mine;\n"
                 "selp.u32 %0, 1, 0, any;\n"
                 "}"
                 : "=r"(any)
                 : "r"(number), "r"(threads), "r"((uint32_t)mine)
                 : "memory");
    return __any_sync(0xffffffffu, any); /* the same in all lanes, as the compiler then knows */
}

/* The CTA's number in its cluster. */
static __device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* The number of the CTA's cluster in the launch; without clusters, that of the CTA. */
static __device__ __forceinline__ uint32_t cluster_index() {
    uint32_t index;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
    return index;
}

/* CTAs of the cluster. */
static __device__ __forceinline__ uint32_t cluster_size() {
    uint32_t size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

static __device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* The same, where nothing that was written has to be seen by the others: the fence that goes with it takes a microsecond.
 */
static __device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static __device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* All threads of the cluster meet; `sent`: what was written to others' shared memory is there. */
static __device__ __forceinline__ void cluster_meet(bool sent) {
    if (sent) {
        cluster_arrive();
    } else {
        cluster_arrive_relaxed();
    }
    cluster_wait();
}

/* The same place in the shared memory of another CTA of the cluster. */
static __device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t cta) {
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
    return remote;
}

/* Two or four numbers to an address that cluster_address() gave. */
template <int COUNT> static __device__ __forceinline__ void cluster_store(uint32_t to, const float (&from)[COUNT]) {
    static_assert(COUNT == 2 || COUNT == 4, "8 or 16 bytes");
    if constexpr (COUNT == 2) {
        asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(from[0]), "f"(from[1]) : "memory");
    } else {
        asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(from[0]), "f"(from[1]),
                     "f"(from[2]), "f"(from[3])
                     : "memory");
    }
}

/* Sends four words to an address that cluster_address() gave; they count as bytes at `barrier`, which lies in the same CTA.
 * Only in a cluster: alone, a CTA may not. */
static __device__ __forceinline__ void cluster_send(uint32_t to, uint32_t barrier, const int32_t (&from)[4]) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(barrier)
                 : "memory");
}

#endif
