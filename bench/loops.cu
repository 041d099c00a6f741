/* SPDX-License-Identifier: Apache-2.0 */
/* The chip's own rates, for peers.py to time among the libraries: loops of nothing but products of random normal bf16
 * numbers. Zeros would draw less power and run faster.
 *   wgmma_loop   wgmma m64n256k16, operands in shared memory, by two warpgroups
 *   mma_loop     mma.sync m16n8k16, all in registers, by eight warps
 *
 * Launch: a CTA of 256 threads for each SM. One round is 2 x 4 products, 2 x 4 x 2 x 64 x 256 x 16 FLOP; or 8 x 64
 * products, 8 x 64 x 2 x 16 x 8 x 16 FLOP. */
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"

/* A number from its index: two rounds of a multiply and shift. */
static __device__ uint32_t scrambled(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Two normal numbers, packed. */
static __device__ uint32_t normals(uint32_t index) {
    const float u = ((float)scrambled(2 * index) + 1) * 0x1p-32f, turn = (float)scrambled(2 * index + 1) * 0x1p-31f;
    const float length = sqrtf(-2 * logf(u));
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(length * sinpif(turn)), "f"(length * cospif(turn)));
    return packed;
}

extern "C" __global__ void __launch_bounds__(256, 1) wgmma_loop(uint32_t rounds, float *sink) {
    static __shared__ __align__(1024) uint32_t operands[48 * 256]; /* rows of 64: 128 of A, 256 of B */
    float sums[128] = {};
    for (uint32_t i = threadIdx.x; i < 48 * 256; i += 256) {
        operands[i] = normals(blockIdx.x * 48 * 256 + i);
    }
    fence_shared_for_async();
    __syncthreads();
    const uint64_t a = wgmma_operand(shared_address(operands) + threadIdx.x / 128 * 8192),
                   b = wgmma_operand(shared_address(operands) + 16384);
    for (uint32_t round = 0; round < rounds; round++) {
        wgmma_hold(sums);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            wgmma<256>::shared<true, false, false>(sums, wgmma_further(a, i * 32), wgmma_further(b, i * 32), true);
        }
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_hold(sums);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; i++) {
        sum += sums[i];
    }
    if (sum == 1.5f) { /* next to never; the compiler does not know */
        *sink = sum;
    }
}

/* A warp has 32 sums, of four A and eight B, as a kernel of 64 x 64 for each warp has them. */
extern "C" __global__ void __launch_bounds__(256, 1) mma_loop(uint32_t rounds, float *sink) {
    const uint32_t first = (blockIdx.x * 256 + threadIdx.x) * 64;
    uint32_t a[2][4][4], b[2][8][2]; /* of two steps of k */
    float sums[4][8][4] = {};
#pragma unroll
    for (int i = 0; i < 32; i++) {
        a[i / 16][i / 4 % 4][i % 4] = normals(first + i);
        b[i / 16][i / 2 % 8][i % 2] = normals(first + 32 + i);
    }
    for (uint32_t round = 0; round < rounds; round++) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            mma_m16n8k16<true>(sums[i / 8 % 4][i % 8], a[i / 32][i / 8 % 4], b[i / 32][i % 8][0], b[i / 32][i % 8][1]);
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; i++) {
        sum += sums[i / 32][i / 4 % 8][i % 4];
    }
    if (sum == 1.5f) {
        *sink = sum;
    }
}
