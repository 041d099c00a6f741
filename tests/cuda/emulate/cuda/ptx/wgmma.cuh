/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma on a CPU: see products.cpp. */
#ifndef WEFT_CUDA_PTX_WGMMA_CUH
#define WEFT_CUDA_PTX_WGMMA_CUH

#include "emulate.h"

/* What a thread says of a product. */
struct emulated_product {
    float *d;
    const uint32_t *a_registers; /* or null, and A is in shared memory */
    uint64_t a, b;               /* descriptions of operands */
    int n;
    bool bf16, a_mn, b_mn, add;
    bool tf32; /* two of its 16 bits are one element; else of bf16 or fp16 */
};
void emulated_start(const emulated_product &product);

void wgmma_fence();
void wgmma_commit();
void emulated_products_wait(size_t pending);

template <int PENDING> static inline void wgmma_wait() {
    emulated_products_wait(PENDING);
}

template <int COUNT> static inline void wgmma_hold(float (&)[COUNT]) {
}

static inline uint64_t wgmma_operand(uint32_t address, uint32_t apart = 1024, uint32_t across = 16) {
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(across >> 4) << 16 | (uint64_t)(apart >> 4) << 32 |
           (uint64_t)1 << 62;
}

static inline uint64_t wgmma_further(uint64_t operand, uint32_t bytes) {
    return (operand >> 32) << 32 | (uint32_t)((uint32_t)operand + (bytes >> 4));
}

template <int N> struct wgmma {
    template <bool BF16, bool A_MN, bool B_MN> static void shared(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {
        emulated_start({d, nullptr, a, b, N, BF16, A_MN, B_MN, add});
    }

    template <bool BF16, bool A_MN, bool B_MN> static void shared_first(float (&d)[N / 2], uint64_t a, uint64_t b) {
        emulated_start({d, nullptr, a, b, N, BF16, A_MN, B_MN, false});
    }

    static void shared_tf32(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {
        emulated_start({d, nullptr, a, b, N, false, false, false, add, true});
    }

    template <bool BF16, bool B_MN> static void registers(float (&d)[N / 2], const uint32_t *a, uint64_t b, bool add) {
        emulated_start({d, a, 0, b, N, BF16, false, B_MN, add});
    }
};

void emulated_products_end();

#endif
