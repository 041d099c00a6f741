/* SPDX-License-Identifier: Apache-2.0 */
/* mbarrier: barriers in shared memory that also count the bytes of asynchronous copies (sm_90).
 *
 * A barrier alternates between two phases. It flips when its arrivals and its expected bytes are all in; who waits names
 * the parity of the phase that must be over: 0 for the first flip, then 1, 0, ... */
#ifndef WEFT_CUDA_PTX_MBARRIER_CUH
#define WEFT_CUDA_PTX_MBARRIER_CUH

#include "cuda/ptx/thread.cuh"

/* The address of shared memory as PTX takes it. */
static __device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

static __device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes barriers that were set up visible to the cluster and to the copy engine; then a barrier of the CTA or cluster. */
static __device__ __forceinline__ void mbarrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives for a warp, by one lane: what the others did before is ordered by a barrier of the warp, or by an instruction
 * that all of them must reach. compute-sanitizer's racecheck follows neither, so that for it every lane arrives. Who sets
 * up the barrier counts MBARRIER_WARP arrivals for each warp. */
#ifdef WEFT_RACECHECK
enum { MBARRIER_WARP = 32 };
#else
enum { MBARRIER_WARP = 1 };
#endif

static __device__ __forceinline__ void mbarrier_arrive_warp(uint32_t barrier) {
    if (MBARRIER_WARP > 1 || thread_index() % 32 == 0) {
        mbarrier_arrive(barrier);
    }
}

/* Arrives, and makes the phase wait for so many more bytes. */
static __device__ __forceinline__ void mbarrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Arrives at the barrier at the same place in the shared memory of another CTA of the cluster, when `wanted`, ordering
 * nothing beyond this CTA's own accesses: for memory that was read and that the copy engine fills again. Released to the
 * cluster, it would wait until all that this thread wrote is visible to the GPU, longer than a step of a product. */
static __device__ __forceinline__ void mbarrier_give_back_at(uint32_t barrier, uint32_t cta, bool wanted = true) {
    asm volatile("{\n"
                 ".reg .pred wanted;\n"
                 ".reg .b32 remote;\n"
                 "setp.ne.b32 wanted, %2, 0;\n"
                 "@wanted mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "@wanted mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(barrier),
                 "r"(cta), "r"((uint32_t)wanted)
                 : "memory");
}

/* Whether the phase of this parity is over. */
static __device__ __forceinline__ bool mbarrier_test(uint32_t barrier, uint32_t parity) {
    uint32_t over;
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, over;\n"
                 "}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over != 0;
}

/* The same; may wait a while before it says no. */
static __device__ __forceinline__ bool mbarrier_try(uint32_t barrier, uint32_t parity) {
    uint32_t over;
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, over;\n"
                 "}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over != 0;
}

static __device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    while (!mbarrier_try(barrier, parity)) {
    }
}

/* The same for those who can be late: who asks again and again takes turns of his scheduler from others. */
static __device__ __forceinline__ void mbarrier_wait_idly(uint32_t barrier, uint32_t parity) {
    while (!mbarrier_try(barrier, parity)) {
        __nanosleep(100);
    }
}

#endif
