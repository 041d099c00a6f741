/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that say how long the L2 is to keep what they bring: see WEFT_KEEP_NORMAL. */
#ifndef WEFT_CUDA_PTX_KEEP_CUH
#define WEFT_CUDA_PTX_KEEP_CUH

#include <stdint.h>

/* 16 bytes to global memory, aligned. */
static __device__ __forceinline__ void store_16(void *to, const uint32_t (&words)[4], uint64_t keep) {
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3]), "l"(keep)
                 : "memory");
}

/* Has the L2 fetch what lies there. */
static __device__ __forceinline__ void prefetch_for_l2(const void *from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

/* Has the L1 fetch the word that lies there: it is read, and nobody waits for it. */
static __device__ __forceinline__ void read_for_l1(const int32_t *from) {
    asm volatile("{\n"
                 ".reg .u32 word;\n"
                 "ld.global.ca.u32 word, [%0];\n"
                 "}" ::"l"(from)
                 : "memory");
}

#endif
