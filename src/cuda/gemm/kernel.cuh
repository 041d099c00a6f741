/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM: tiles of C by mma.sync, from a ring of stages in shared memory that cp.async fills.
 *
 * All threads of a CTA copy, and all multiply. The steps of all of its tiles are one stream: copies run stages - 1 steps
 * ahead of the products, into the next tile too, so that a tile begins with its data there. A stage is free once all warps
 * have its last fragments in registers; the barrier that says so is also the one that says that the next stage is full.
 * Fragments are read one product of k = 16 ahead, and that of a step's last part comes behind the barrier: it hides how
 * long the next step's first fragments take. */
#ifndef WEFT_CUDA_GEMM_KERNEL_CUH
#define WEFT_CUDA_GEMM_KERNEL_CUH

#include "cuda/gemm/feed.cuh"
#include "cuda/gemm/store.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"

/* What a warp multiplies at a time: k = 16 of its rows and columns. b[i] has two blocks of eight columns. */
template <class S> struct portable_fragments { uint32_t a[S::rows][4], b[S::cols / 2][4]; };

/* This lane's chunk for ldmatrix in the first 16 x 16 elements of a warp, which begins at `first` along m or n.
 * LINES_FIRST: the second 8 x 8 matrix is eight lines on, else eight elements along them. */
template <class O, bool LINES_FIRST> static __device__ __forceinline__ uint32_t portable_lane_at(uint32_t first) {
    const uint32_t lane = thread_index() % 32;
    const uint32_t line = LINES_FIRST ? lane % 16 : lane % 8 + lane / 16 * 8,
                   chunk = LINES_FIRST ? lane / 16 : lane / 8 % 2;
    return O::mn ? O::offset(line, first / 8 + chunk) : O::offset(first + line, chunk);
}

/* Reads 16 x 16 elements: the i-th of a warp along m or n, in a part of a step. `at` is aligned to 128 bytes but for the
 * lane's own place, so that going along a line changes bits 5 and 6. */
template <class O>
static __device__ __forceinline__ void portable_read(uint32_t (&to)[4], uint32_t at, uint32_t i, uint32_t part) {
    if constexpr (O::mn) {
        ldmatrix_x4_transposed(to, (at ^ i * 32) + part * 16 * O::line_bytes);
    } else {
        ldmatrix_x4(to, (at ^ part * 32) + i * 16 * O::line_bytes);
    }
}

template <class S>
static __device__ __forceinline__ void portable_read_part(portable_fragments<S> &to, uint32_t a_at, uint32_t b_at,
                                                          uint32_t part) {
#pragma unroll
    for (int i = 0; i < S::rows; i++) {
        portable_read<typename S::a>(to.a[i], a_at, i, part);
    }
#pragma unroll
    for (int i = 0; i < S::cols / 2; i++) {
        portable_read<typename S::b>(to.b[i], b_at, i, part);
    }
}

template <class S>
static __device__ __forceinline__ void portable_multiply(float (&sums)[S::rows][S::cols][4],
                                                         const portable_fragments<S> &f) {
#pragma unroll
    for (int i = 0; i < S::rows; i++) {
#pragma unroll
        for (int n = 0; n < S::cols; n++) {
            const int j = i % 2 ? S::cols - 1 - n : n; /* back and forth, so that an operand is used twice in a row */
            if constexpr (S::tf32) {                   /* a lane's words are the same elements of either instruction */
                mma_m16n8k8_tf32(sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]);
            } else {
                mma_m16n8k16<S::bf16>(sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}

template <class S> static __device__ __forceinline__ void portable_gemm(const weft_portable_gemm_params &p) {
    extern __shared__ __align__(128) unsigned char gemm_shared[];
    static __shared__ portable_desk desk;
    const uint32_t ring = settled((uint32_t)__cvta_generic_to_shared(gemm_shared));
    if (threadIdx.x == 0) {
        desk.worker = weft_worker_start(&p.walk, blockIdx.x, p.counter);
        if constexpr (S::grouped) {
            portable_finger() = {};
        }
#pragma unroll 1
        for (uint32_t i = 0; i == 0 || i < portable_ahead<S>(desk.jobs[0].steps); i++) {
            portable_fetch<S>(p, desk, i);
        }
    }
    __syncthreads();

    portable_feed<S> feed;
    feed.steps = 0;
    feed.jobs = 0;
    feed.to = ring;
#pragma unroll 1
    for (int i = 0; i < S::stages - 1; i++) {
        feed.next(p, desk, ring);
    }
    const uint32_t warp = threadIdx.x / 32, y = warp / S::warps_n * S::warp_m, x = warp % S::warps_n * S::warp_n;
    const uint32_t a_lane = settled(portable_lane_at<typename S::a, !S::a::mn>(y));
    const uint32_t b_lane = settled(S::a::bytes + portable_lane_at<typename S::b, S::b::mn>(x));
    portable_fragments<S> fragments[2];
    uint32_t stage = ring, number = 0; /* of the tile at work */
    int32_t steps = desk.jobs[0].steps;
    cp_async_wait<S::stages - 2>();
    __syncthreads();
    while (steps > 0) {
        if (thread_index() == 0) {
            portable_fetch<S>(p, desk, number + portable_ahead<S>(steps));
        }
        __syncwarp();
        float sums[S::rows][S::cols][4] = {};
        bool begun = false;
#pragma unroll 1
        for (; steps > 0; steps--) {
            portable_read_part<S>(fragments[0], stage + a_lane, stage + b_lane, 0);
            if (begun) { /* the last part of the step before */
                portable_multiply<S>(sums, fragments[1]);
            }
            begun = true;
#pragma unroll
            for (int part = 1; part < S::parts; part++) {
                portable_read_part<S>(fragments[part % 2], stage + a_lane, stage + b_lane, part);
                if (part == 1) {
                    feed.next(p, desk, ring);
                }
                portable_multiply<S>(sums, fragments[(part + 1) % 2]);
            }
            cp_async_wait<S::stages - 2>(); /* this thread's copies of the next step are there, then everybody's */
            __syncthreads();
            stage = portable_stage_after<S>(stage, ring);
        }
        portable_multiply<S>(sums, fragments[1]);
        const uint32_t own = thread_index() / 32;
        if constexpr (S::fused) {
            portable_store_fused<S>(p, desk.jobs[number % PORTABLE_JOBS], feed.to, sums, own / S::warps_n * S::warp_m,
                                    own % S::warps_n * S::warp_n);
        } else {
            portable_store<S>(p, desk.jobs[number % PORTABLE_JOBS], feed.to, sums, own / S::warps_n * S::warp_m,
                              own % S::warps_n * S::warp_n);
        }
        __syncthreads(); /* nobody's sums are in the free stage any more */
        number++;
        steps = desk.jobs[number % PORTABLE_JOBS].steps;
    }
}

#endif
