/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that say how long the L2 is to keep what they bring, on a CPU, which does not care. */
#ifndef WEFT_CUDA_PTX_KEEP_CUH
#define WEFT_CUDA_PTX_KEEP_CUH

#include "emulate.h"

static inline void store_16(void *to, const uint32_t (&words)[4], uint64_t) {
    if ((uintptr_t)to % 16 != 0) {
        emulated_fail("16 bytes are stored to where they are not aligned");
    }
    memcpy(to, words, 16);
}

static inline void prefetch_for_l2(const void *) {
}

static inline void read_for_l1(const int32_t *) {
}

#endif
