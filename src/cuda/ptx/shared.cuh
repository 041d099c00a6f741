/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary loads and stores of the CTA's own shared memory, by address: 2, 4, 8 or 16 bytes, aligned to their size. */
#ifndef WEFT_CUDA_PTX_SHARED_CUH
#define WEFT_CUDA_PTX_SHARED_CUH

#include <stdint.h>

template <int COUNT> static __device__ __forceinline__ void shared_load(uint32_t from, float (&to)[COUNT]) {
    static_assert(COUNT == 2 || COUNT == 4, "8 or 16 bytes");
    if constexpr (COUNT == 2) {
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(from) : "memory");
    } else {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(from)
                     : "memory");
    }
}

/* Words that are no floats. */
template <class T, int COUNT> static __device__ __forceinline__ void shared_load(uint32_t from, T (&to)[COUNT]) {
    static_assert(sizeof(T) == 4 && (COUNT == 1 || COUNT == 2 || COUNT == 4), "4, 8 or 16 bytes");
    if constexpr (COUNT == 1) {
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[0]) : "r"(from) : "memory");
    } else if constexpr (COUNT == 2) {
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
    } else {
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(from)
                     : "memory");
    }
}

/* Two bytes, the upper half of `to` being 0. */
static __device__ __forceinline__ void shared_load_16(uint32_t from, uint32_t &to) {
    uint16_t two;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(two) : "r"(from) : "memory");
    to = two;
}

static __device__ __forceinline__ void shared_store(uint32_t to, const float (&from)[2]) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(from[0]), "f"(from[1]) : "memory");
}

static __device__ __forceinline__ void shared_store(uint32_t to, const float (&from)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(from[0]), "f"(from[1]), "f"(from[2]),
                 "f"(from[3])
                 : "memory");
}

static __device__ __forceinline__ void shared_store(uint32_t to, const int32_t (&from)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]),
                 "r"(from[3])
                 : "memory");
}

#endif
