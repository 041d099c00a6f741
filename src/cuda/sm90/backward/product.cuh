/* SPDX-License-Identifier: Apache-2.0 */
/* Wide: products of operands in boxes of 64 rows and 64 columns. */
#ifndef WEFT_CUDA_SM90_BACKWARD_PRODUCT_CUH
#define WEFT_CUDA_SM90_BACKWARD_PRODUCT_CUH

#include "cuda/sm90/backward/shape.cuh"

/* Scores, X Y^T. X is the same in all steps of a tile. Its last KEPT columns stay in registers, as many as there are to
 * spare: products that read one operand only leave shared memory to others, and it is what binds. */
template <bool BF16, int DEPTH, int KEPT> struct backward_product {
    static constexpr int depth = DEPTH;
    static constexpr uint32_t box = 64 * 128; /* bytes */
    static constexpr int read = (DEPTH - KEPT) / 16;
    uint32_t kept[KEPT > 0 ? KEPT / 4 : 1];
    static_assert(KEPT % 64 == 0 && KEPT < DEPTH, "whole boxes, and the first product's is not among them");

    __device__ __forceinline__ void keep(uint32_t x) {
        const uint32_t lane = thread_index() % 32, row = thread_index() % 128 / 32 * 16 + lane % 16;
        const uint32_t from = x + read / 4 * box + row * 128;
#pragma unroll
        for (int i = 0; i < KEPT / 16; i++) {
            uint32_t four[4];
            ldmatrix_x4(four, from + i / 4 * box + ((i % 4 * 2 + lane / 16) ^ row % 8) * 16);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                kept[4 * i + j] = four[j];
            }
        }
    }

    /* Starts the i-th of DEPTH / 16 products. a, b: X and Y. */
    __device__ __forceinline__ void start(float (&scores)[32], uint64_t a, uint64_t b, int i) const {
        const uint32_t further = i / 4 * box + i % 4 * 32;
        if (i == 0) {
            wgmma<64>::template shared_first<BF16, false, false>(scores, a, b);
        } else if (i < read) {
            wgmma<64>::template shared<BF16, false, false>(scores, wgmma_further(a, further), wgmma_further(b, further),
                                                           true);
        } else {
            wgmma<64>::template registers<BF16, false>(scores, &kept[4 * (i - read)], wgmma_further(b, further), true);
        }
    }
};

/* Starts sums += A Y of N columns. A, 64 x 64, is in registers, and in the caller's until it has waited. */
template <bool BF16, int N>
static __device__ __forceinline__ void backward_start_sums(float (&sums)[N / 2], const uint32_t (&a)[16], uint32_t y) {
    const uint64_t b = wgmma_operand(settled(y), 1024, 64 * 128);
    wgmma_hold(sums);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        wgmma<N>::template registers<BF16, true>(sums, &a[4 * i], wgmma_further(b, i * 2048), true);
    }
    wgmma_commit();
    wgmma_hold(sums);
}

#endif
