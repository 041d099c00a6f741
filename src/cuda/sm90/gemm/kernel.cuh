/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM: tiles of C by wgmma, from a ring of stages in shared memory that the copy engine fills.
 *
 * A CTA has three warpgroups. Two multiply: each owns half of the tile's rows, 64 x N products straight from shared memory,
 * and stores them (store.cuh). Of the other, one warp walks the schedule a few tiles ahead and one keeps the ring full
 * (feed.cuh), across tiles, so that a warpgroup that has stored its part finds the next tile's data there. The two
 * that multiply may drift apart by the length of the ring: while one stores, the other has the tensor cores to itself.
 * Tiles of 64 rows are one warpgroup's. */
#ifndef WEFT_CUDA_SM90_GEMM_KERNEL_CUH
#define WEFT_CUDA_SM90_GEMM_KERNEL_CUH

#include "cuda/sm90/gemm/feed.cuh"
#include "cuda/sm90/gemm/split.cuh"

/* The barriers, before any other use of shared memory. A thread of each warp takes its share of them: setting one up takes
 * 60 clocks, of each warp for itself. */
template <class S>
static __device__ __forceinline__ void gemm_set_up(const weft_gemm_params &p, const gemm_place &me, uint32_t warp) {
    constexpr uint32_t all = S::warps + 4;
    /* A stage is full when A and B are there, and free when all who were sent its data have read it: the warpgroups of the
     * CTAs of the row and of the column. */
    const uint32_t readers = S::groups * (uint32_t)(p.cluster_m + p.cluster_n - 1);
    for (uint32_t i = warp; i < 2 * S::stages + 2 * GEMM_JOBS; i += all) {
        const uint32_t job = i - 2 * S::stages;
        if (i < S::stages) {
            mbarrier_init(GEMM_DESK(S, me, full) + 8 * i, 2);
        } else if (i < 2 * S::stages) {
            mbarrier_init(GEMM_DESK(S, me, empty) + 8 * (i - S::stages), readers);
        } else if (job < GEMM_JOBS) {
            mbarrier_init(GEMM_DESK(S, me, job_full) + 8 * job, 1);
            if (me.ctas > 1) { /* jobs come as bytes: see gemm_send() */
                mbarrier_expect(GEMM_DESK(S, me, job_full) + 8 * job, sizeof(gemm_job));
            }
        } else {
            mbarrier_init(GEMM_DESK(S, me, job_empty) + 8 * (job - GEMM_JOBS), (S::warps + 2) * me.ctas);
        }
    }
    if (gemm_has_old<S>(p) && warp >= 4) {
        mbarrier_init(GEMM_DESK(S, me, piece_full) + 16 * (warp - 4), 1);
        mbarrier_init(GEMM_DESK(S, me, piece_full) + 16 * (warp - 4) + 8, 1);
    }
    mbarrier_init_done();
}

/* The CTA that this lane tells when its warpgroup is done with a stage: those of its row, then the others of its column. */
static __device__ __forceinline__ uint32_t gemm_told_by_lane(const weft_gemm_params &p, const gemm_place &me,
                                                             uint32_t lane) {
    const uint32_t along_n = (uint32_t)p.cluster_n;
    if (lane < along_n) {
        return me.first + me.in_m * along_n + lane;
    }
    const uint32_t i = lane - along_n;
    return me.first + (i + (i >= me.in_m)) * along_n + me.in_n;
}

/* The products of one stage. */
template <class S>
static __device__ __forceinline__ void gemm_products(float (&sums)[S::blocks][S::tile_n / 2], uint64_t a, uint64_t b,
                                                     bool add) {
    constexpr uint32_t a_step = S::a_mn ? 2048 : 32, b_step = S::b_mn ? 2048 : 32; /* bytes of 16 of k */
    wgmma_fence();
#pragma unroll
    for (uint32_t i = 0; i < WEFT_GEMM_STEP / 16; i++) {
#pragma unroll
        for (uint32_t block = 0; block < S::blocks; block++) {
            const uint64_t own = wgmma_further(a, block * S::atom_bytes + i * a_step);
            if constexpr (S::tf32) {
                wgmma<S::tile_n>::shared_tf32(sums[block], own, wgmma_further(b, i * b_step), add || i > 0);
            } else {
                wgmma<S::tile_n>::template shared<S::bf16, S::a_mn, S::b_mn>(sums[block], own, wgmma_further(b, i * b_step),
                                                                             add || i > 0);
            }
        }
    }
    wgmma_commit();
}

/* A warpgroup that multiplies: 0 or 1. */
template <class S>
static __device__ __forceinline__ void gemm_multiply(const weft_gemm_params &p, const gemm_place &me, uint32_t group) {
    const uint32_t lane = threadIdx.x % 32, told = gemm_told_by_lane(p, me, lane);
    /* One warp tells for its warpgroup, whose warps read the operands of a product together. */
    const bool tells = lane < (uint32_t)(p.cluster_m + p.cluster_n - 1) && threadIdx.x % 128 < 32;
    const uint64_t a_first = wgmma_operand(me.base + group * S::blocks * S::atom_bytes, 1024, S::atom_bytes);
    const uint64_t b_first = wgmma_operand(me.base + S::a_bytes, 1024, S::atom_bytes);
    const uint32_t empty = GEMM_DESK(S, me, empty);
    gemm_pieces pieces = {me.base + S::pieces_at, GEMM_DESK(S, me, piece_full), 0, 0, 0};
    uint32_t jobs = 0;
    gemm_ring_slot<S::stages> slot = {0, 0};
    float sums[S::blocks][S::tile_n / 2];
    gemm_job job = gemm_first_or_take<S, GEMM_MULTIPLIES>(p, me, jobs);
    grid_wait();
    for (; job.steps != 0; job = gemm_take<S, GEMM_MULTIPLIES>(me, jobs)) {
        const gemm_share share = gemm_share_of<S>(p, me, job.steps);
        const int32_t x = gemm_col_of<S>(p, me, job);
        const gemm_rows rows = gemm_rows_of_job<S>(p, me, job);
        const int32_t y = gemm_row_of<S>(p, rows) + (int32_t)(group * S::group_m + thread_index() / 32 % 4 * 16);
        if (gemm_has_old<S>(p) && p.split == 1) {
            gemm_fetch_old<S>(p, pieces, 0, x, y, rows.z, elect_one());
        }
        const gemm_vectors<S> vectors(p, x, rows.z);
        if constexpr (S::grouped) {
            pieces.end = job.row + job.left;
        }
        const int32_t steps = __shfl_sync(0xffffffffu, share.steps, 0); /* the compiler sees that all lanes go as far */
        uint32_t before = 0;
        for (int32_t i = 0; i < steps; i++, slot.next()) {
            const uint32_t stage = slot.at * S::stage_bytes;
            mbarrier_wait(GEMM_DESK(S, me, full) + 8 * slot.at, slot.parity);
            gemm_products<S>(sums, wgmma_further(a_first, stage), wgmma_further(b_first, stage), i > 0);
            if (i > 0) {
                wgmma_wait<1>();
                mbarrier_give_back_at(empty + 8 * before, told, tells);
            }
            before = slot.at;
        }
        wgmma_wait<0>();
#pragma unroll
        for (int block = 0; block < S::blocks; block++) {
            wgmma_hold(sums[block]);
        }
        mbarrier_give_back_at(empty + 8 * before, told, tells);
        gemm_finish<S>(p, me, pieces, vectors, sums, x, y, rows.z);
    }
    tma_store_wait_read<0>();
}

template <class S> static __device__ __forceinline__ void gemm_hopper(const weft_gemm_params &p) {
    extern __shared__ __align__(1024) unsigned char gemm_shared[];
    const gemm_place me = gemm_find_place(p, shared_address(gemm_shared));
    const uint32_t warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); /* the compiler sees that a warp has but one */
    const bool schedules = threadIdx.x == 32 && me.rank == 0;
    grid_let_next();
    if (elect_one()) {
        gemm_set_up<S>(p, me, warp);
        if (warp == 3) { /* which has nothing else to do */
            tma_prefetch_map(&p.a);
            tma_prefetch_map(&p.b);
            tma_prefetch_map(&p.c);
        }
    }
    __syncthreads();
    if (me.ctas > 1) {
        cluster_meet(false);
    }
    if (warp < 4) {
        if constexpr (S::groups > 1) {
            registers_lower<S::loader_registers>();
        }
        uint32_t sent = 0; /* jobs */
        if (warp == 0) {
            gemm_feed<S, GEMM_LOADS_A>(p, me);
        } else if (warp == 2) {
            gemm_feed<S, GEMM_LOADS_B>(p, me);
        } else if (warp == 1 && me.rank == 0) {
            if (schedules) {
                sent = gemm_schedule<S>(p, me, cluster_index());
                if (me.ctas > 1 && p.split == 1) {
                    gemm_see_off<S>(me, sent);
                }
            }
            __syncwarp();
        }
        if (S::splits && p.split > 1) { /* who multiplies meets to add the parts up, then takes the last job */
            __syncwarp();
            cluster_meet(false);
            cluster_meet(true);
            if (schedules) {
                gemm_see_off<S>(me, sent);
            }
        }
    } else {
        if constexpr (S::groups > 1) {
            registers_raise<S::multiplier_registers>();
        }
        gemm_multiply<S>(p, me, warp / 4 - 1);
    }
}

#endif
