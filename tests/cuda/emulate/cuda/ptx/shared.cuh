/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary loads and stores of shared memory on a CPU: see copies.cpp. */
#ifndef WEFT_CUDA_PTX_SHARED_CUH
#define WEFT_CUDA_PTX_SHARED_CUH

#include "emulate.h"

void emulated_fetch(uint32_t from, void *to, uint32_t bytes);

/* The copy engine sees it only after fence_shared_for_async(). */
void emulated_write(uint32_t to, const void *from, uint32_t bytes);

template <class T, int COUNT> static inline void shared_load(uint32_t from, T (&to)[COUNT]) {
    static_assert(sizeof(T) == 4 && (COUNT == 1 || COUNT == 2 || COUNT == 4), "4, 8 or 16 bytes");
    emulated_fetch(from, to, sizeof to);
}

static inline void shared_load_16(uint32_t from, uint32_t &to) {
    uint16_t two;
    emulated_fetch(from, &two, sizeof two);
    to = two;
}

static inline void shared_store(uint32_t to, const float (&from)[2]) {
    emulated_write(to, from, sizeof from);
}

static inline void shared_store(uint32_t to, const float (&from)[4]) {
    emulated_write(to, from, sizeof from);
}

static inline void shared_store(uint32_t to, const int32_t (&from)[4]) {
    emulated_write(to, from, sizeof from);
}

#endif
