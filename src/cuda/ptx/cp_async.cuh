/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async: copies from global to shared memory that run behind the thread's back (sm_80). */
#ifndef WEFT_CUDA_PTX_CP_ASYNC_CUH
#define WEFT_CUDA_PTX_CP_ASYNC_CUH

#include <stdint.h>

/* 16 bytes, past L1. Writes zeros, and reads nothing, when `present` is 0. Both addresses are multiples of 16. */
static __device__ __forceinline__ void cp_async_16(uint32_t to, const void *from, bool present) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}

/* The same of all 16, with how long the L2 is to keep what is read: see WEFT_KEEP_NORMAL. */
static __device__ __forceinline__ void cp_async_16_kept(uint32_t to, const void *from, uint64_t keep) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(keep) : "memory");
}

/* The first `bytes` of 16, past L1, or of 4; the others become zeros. Both addresses are multiples of 16 or of 4. */
static __device__ __forceinline__ void cp_async_16_first(uint32_t to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void cp_async_4_first(uint32_t to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/* Closes a group of this thread's copies. Empty groups count too. */
static __device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most PENDING of this thread's latest groups are not done. */
template <int PENDING> static __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif
