/* Multi-head latent attention in decode: few queries of many heads, which share keys of 64 elements and values of 512, and
 * score both: scale (q k + qv v).
 *
 * A CTA takes runs of keys (src/cuda/decode/deal.cuh), of a tile of 64 rows each. One of its warps has blocks of 64 keys
 * copied, three copy Q, and two warpgroups multiply (sweep.cuh). */
#ifndef WEFT_CUDA_SM90_MLA_KERNEL_CUH
#define WEFT_CUDA_SM90_MLA_KERNEL_CUH

#include "cuda/sm90/mla/feed.cuh"
#include "cuda/sm90/mla/store.cuh"

template <class S, int WHO>
static __device__ __forceinline__ void mla_consume(const weft_mla_params &params, mla_desk &desk, uint32_t base) {
    const weft_decode_params &p = params.all;
    mla_consumer<S, WHO> consumer = {p, desk, base, base + WEFT_MLA_BLOCK_BYTES, {}};
    decode_deal<S::alone> deal(p);
    decode_run run;
    uint32_t number = 0, left = 0; /* blocks so far, and runs whose sums were left */
    /* Bits that change with every run, with every one of some blocks; and whether it is not known who merges the last one.
     */
    constexpr uint32_t odd = 1, q_phase = 2, waits = 4;
    uint32_t state = 0;
    bool more = true;
#pragma unroll 1
    for (int place = (int)blockIdx.x; more; place += (int)gridDim.x) {
        more = mla_find(params, deal, place, run);
        if (more) {
            float out[WEFT_MLA_DEPTH_V / 4];
#pragma unroll
            for (int i = 0; i < WEFT_MLA_DEPTH_V / 4; i++) {
                out[i] = 0; /* also so that no register is held from run to run */
            }
            const mla_view before = mla_view_of(p, run);
            const int count = before.last - before.first;
            consumer.begin(before);
            if (count > 0) {
                mbarrier_wait(shared_address(&desk.q_full), (state & q_phase) != 0);
                state ^= q_phase;
                consumer.sweep(out, number, count, before.first * WEFT_MLA_KEYS);
                number += count;
            }
            mla_add_up(consumer, state & odd);
            state ^= odd;
            /* What is seen is worked out again: it is not kept in registers meanwhile. */
            mla_store(consumer, run, mla_view_of(p, run), out);
        }
        decode_run ended; /* the run before, which was counted in the meantime */
        const bool merges = (state & waits) && mla_collect(desk, left - 1, ended);
        state &= ~waits;
        if (more && run.count > 1) {
            state |= waits;
            consumer.arrive(desk.left);
            left++;
        }
        if (merges) {
            mla_merge<S>(p, ended);
        }
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
        tma_prefetch_map(&p.v.many);
        mbarrier_init(shared_address(&desk.q_full), 3);
        mbarrier_init(shared_address(&desk.q_empty), 8);
        mbarrier_init(shared_address(&desk.left), 8);
        mbarrier_init(shared_address(&desk.counted), 1);
        for (int i = 0; i < WEFT_MLA_SLOTS; i++) {
            for (int part = 0; part < MLA_PARTS; part++) {
                mbarrier_init(shared_address(&desk.full[i][part]), 1);
            }
            mbarrier_init(shared_address(&desk.empty[i][0]), 4);
            mbarrier_init(shared_address(&desk.empty[i][1]), 4);
            mbarrier_init(shared_address(&desk.weights[i]), 4);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    grid_wait(); /* what follows reads and writes the caller's memory */
    grid_let_next();
    if (group == 0) {
        registers_lower<S::producer_registers>();
        if (threadIdx.x < 32) {
            mla_feeder feeder = {p, desk, base + WEFT_MLA_BLOCK_BYTES, {}};
            feeder.run();
        } else {
            mla_feed_q(p, desk, base);
        }
    } else {
        registers_raise<S::consumer_registers>();
        if (group == 1) {
            mla_consume<S, 0>(p, desk, base);
        } else {
            mla_consume<S, 1>(p, desk, base);
        }
    }
}

/* Before the runs of a launch are counted. */
static __device__ __forceinline__ void mla_clear(const weft_mla_params &p) {
    const int64_t at = (int64_t)blockIdx.x * WEFT_MLA_CLEARED + threadIdx.x;
    grid_let_next(); /* who comes next waits for this launch */
    grid_wait();
    if (at < p.places) {
        p.done[at] = 0;
    }
}

#endif
