/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention in decode: few queries of many heads, which share keys of 64 elements and values of 512, and
 * score both: scale (q k + qv v).
 *
 * A CTA takes runs of keys (src/cuda/decode/deal.cuh), of a tile of 64 rows each. One of its warps works out which
 * (deal.cuh), one has blocks of 64 keys copied, two copy Q (feed.cuh), and two warpgroups multiply (sweep.cuh). */
#ifndef WEFT_CUDA_SM90_MLA_KERNEL_CUH
#define WEFT_CUDA_SM90_MLA_KERNEL_CUH

#include "cuda/sm90/mla/feed.cuh"
#include "cuda/sm90/mla/store.cuh"

template <class S>
static __device__ __forceinline__ void mla_consume(const weft_mla_params &params, mla_desk &desk, uint32_t base,
                                                   uint32_t who) {
    const weft_decode_params &p = params.all;
    mla_consumer<S> consumer = {p, desk, base, base + WEFT_MLA_BLOCK_BYTES, who, {}};
    uint32_t number = 0;  /* blocks so far */
    bool q_phase = false; /* changes with every run of some blocks */
#pragma unroll 1
    for (uint32_t nth = 0;; nth++) {
        const mla_task &task = mla_take(desk, nth);
        if (!task.is_there) {
            break;
        }
        float out[WEFT_MLA_DEPTH_V / 4];
#pragma unroll
        for (int i = 0; i < WEFT_MLA_DEPTH_V / 4; i++) {
            out[i] = 0; /* also so that no register is held from run to run */
        }
        consumer.begin(task);
        const int count = task.view.last - task.view.first;
        if (count > 0) {
            mbarrier_wait(shared_address(&desk.q_full), q_phase);
            q_phase = !q_phase;
            consumer.sweep(out, number, count, task.view.first * WEFT_MLA_KEYS);
            number += count;
        }
        mla_add_up(consumer, nth % 2);
        mla_store(consumer, task, out);
        mla_give_back(desk, nth);
    }
}

template <class S> static __device__ __forceinline__ void mla_attention(const weft_mla_params &p) {
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    static __shared__ mla_desk desk;
    static_assert(sizeof desk + WEFT_MLA_SHARED_BYTES <= 227 * 1024, "the CTA's shared memory suffices");
    const uint32_t base = (shared_address(hopper_shared) + 1023) / 1024 * 1024;
    const uint32_t group = __shfl_sync(~0u, threadIdx.x / 128, 0); /* the producer's is 0 */
    if (threadIdx.x == 0) {
        tma_prefetch_map(&p.k.many);
        tma_prefetch_map(p.wide.has_v ? &p.wide.v : &p.v.many);
        mbarrier_init(shared_address(&desk.q_full), p.wide.has_q ? 1 : MLA_Q_WARPS * MBARRIER_WARP);
        mbarrier_init(shared_address(&desk.q_empty), 8 * MBARRIER_WARP);
        for (int i = 0; i < MLA_TASKS; i++) {
            mbarrier_init(shared_address(&desk.task_full[i]), MBARRIER_WARP);
            mbarrier_init(shared_address(&desk.task_empty[i]), MLA_READERS * MBARRIER_WARP);
        }
        for (int i = 0; i < WEFT_MLA_SLOTS; i++) {
            for (int part = 0; part < MLA_PARTS; part++) {
                mbarrier_init(shared_address(&desk.full[i][part]), 1);
            }
            mbarrier_init(shared_address(&desk.empty[i][0]), 4 * MBARRIER_WARP);
            mbarrier_init(shared_address(&desk.empty[i][1]), 4 * MBARRIER_WARP);
            mbarrier_init(shared_address(&desk.weights[i]), 4 * MBARRIER_WARP);
            desk.wrong[i] = 0; /* it is written only where there is something */
        }
        mbarrier_init_done();
    }
    __syncthreads();
    grid_wait(); /* what follows reads and writes the caller's memory */
    grid_let_next();
    if (group == 0) {
        registers_lower<S::producer_registers>();
        if (threadIdx.x < 32) {
            mla_feeder feeder = {p, desk, base + WEFT_MLA_BLOCK_BYTES, 0, 0};
            feeder.run();
        } else if (threadIdx.x < 32 + 32 * MLA_Q_WARPS) {
            mla_feed_q(p, desk, base);
        } else {
            mla_deal(p, desk);
        }
    } else {
        registers_raise<S::consumer_registers>();
        mla_consume<S>(p, desk, base, group - 1);
    }
}

#endif
