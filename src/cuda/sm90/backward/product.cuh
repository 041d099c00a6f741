/* Wide: scores, X Y^T of 64 rows of each, which are in boxes of 64 columns. */
#ifndef WEFT_CUDA_SM90_BACKWARD_PRODUCT_CUH
#define WEFT_CUDA_SM90_BACKWARD_PRODUCT_CUH

#include "cuda/sm90/backward/shape.cuh"

/* X is the same in all steps of a tile. Its last KEPT columns stay in registers, as many as there are to spare: products
 * that read one operand only leave shared memory to others, and it is what binds. */
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

#endif
