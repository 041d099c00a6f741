/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: what tells one from another, and how they follow each other: the next may begin while this one ends (sm_90).
 *
 * A kernel that was launched so (WEFT_CU_LAUNCH_OVERLAP) sets itself up, then waits; it touches no memory that others may
 * write before that. In other launches, and on chips before 9.0, both do nothing. */
#ifndef WEFT_CUDA_PTX_GRID_CUH
#define WEFT_CUDA_PTX_GRID_CUH

#include <stdint.h>

/* A number that no other launch has while this one runs, and never 0: that of the launch in its context, and where its
 * parameters lie. A node of an executable graph has both to itself; the executable's next launch, which waits for this one,
 * has the same. */
static __device__ __forceinline__ uint64_t grid_identity(const void *parameters) {
    uint64_t number;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(number));
    return number << 48 ^ (uint64_t)parameters;
}

/* What CTAs tell each other in global memory, with no order among what is told. */
template <class T> static __device__ __forceinline__ T grid_load(const T *from) {
    return *(const volatile T *)from;
}

template <class T> static __device__ __forceinline__ void grid_store(T *to, T value) {
    *(volatile T *)to = value;
}

/* The same of a word, as the others of the GPU see it. */
static __device__ __forceinline__ uint32_t grid_load_relaxed(const uint32_t *from) {
    uint32_t now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(from) : "memory");
    return now;
}

/* The same, where what was written before a grid_add_release() that this one sees is seen as well. */
static __device__ __forceinline__ uint32_t grid_load_acquire(const uint32_t *from) {
    uint32_t now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(from) : "memory");
    return now;
}

static __device__ __forceinline__ void grid_add_release(uint32_t *to, uint32_t value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

/* 16 bytes as they are in the L2, whatever the SM has read before. */
static __device__ __forceinline__ uint4 grid_load_16(const void *from) {
    uint4 four;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                 : "l"(from)
                 : "memory");
    return four;
}

/* Waits until the launches before this one are over and what they wrote is seen. */
static __device__ __forceinline__ void grid_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next launch begin as soon as there is room for it. */
static __device__ __forceinline__ void grid_let_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
