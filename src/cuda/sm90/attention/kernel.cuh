/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel: attention forward, one tile of the walk after the other.
 *
 * A CTA is a producer warpgroup, of which one thread asks for tiles and has Q, K and V copied into shared memory (under
 * masks, another thread asks, and a warp works out what queries see; pages of K and of V are copied by a warp each), and
 * two to four consumer warpgroups of 64 queries each, which hold scores, weights and output in registers. Consumers meet
 * only at the barriers of the rings; the producer is as many blocks of keys ahead of them as the rings are deep, across
 * tiles.
 */
#ifndef WEFT_CUDA_SM90_ATTENTION_KERNEL_CUH
#define WEFT_CUDA_SM90_ATTENTION_KERNEL_CUH

#include "cuda/sm90/attention/feed_pages.cuh"
#include "cuda/sm90/attention/parts.cuh"

/* A consumer warpgroup, from tile to tile. The last step of one and the first of the next are one, where two tiles have
 * room for their queries.
 *
 * Blocks of a tile that others use and this warpgroup does not see: those of K it gives back as they come, those of V when
 * the open tile's weights have met theirs. The producer may wait for that, but has the next tile's Q and first K on their
 * way before if there are fewer such blocks than stages; otherwise the tile is closed first. */
template <class S>
static __device__ __forceinline__ void hopper_consume(const weft_hopper_attention_params &p, hopper_desk<S> &desk,
                                                      uint32_t base, uint32_t group) {
    hopper_consumer<S> consumer(p, desk, base, group);
    float out[S::depth / 2];
    uint32_t weights[S::keys / 4];
    hopper_rows rows, ended = {};
    hopper_job ended_job = {};
    uint32_t tile = 0;                             /* its number, the open one's */
    bool more = consumer.next_tile(), here = true; /* whether there is a next tile, and whether it is known */
    bool open = false, add = false, part = false;
    int unseen = 0;
    while (more || open) {
        const hopper_share share = S::masks && !(more && here) ? hopper_share() : consumer.share();
        const bool sees = more && here && share.own > 0;
        const bool joins = S::q_slots > 1 && open && sees && unseen + share.before < S::stages;
        if (joins) {
            consumer.skip_k(share.before);
            consumer.join(out, weights, add, part, rows, share);
            consumer.skip_v(unseen + share.before);
        } else if (open) {
            consumer.close(out, weights, add, part);
            if (here) {
                consumer.skip_v(unseen);
            } else {
                consumer.skip(unseen);
            }
        }
        if (open) {
            hopper_store<S>(consumer, ended_job, tile, ended, out);
        }
        open = sees;
        if (sees) {
            if (!joins) {
                consumer.skip(share.before);
                consumer.begin(weights, rows, share);
            }
            consumer.sweep(out, weights, rows, share);
            ended = rows;
            ended_job = consumer.job;
            tile = consumer.tiles - 1;
            add = share.whole > 1 || share.part;
            part = share.part;
            unseen = share.after;
        } else if (more && here) {
            consumer.skip(share.before + share.after);
            hopper_store_nothing<S>(consumer);
        }
        here = !open || (S::q_slots > 1 && unseen < S::stages);
        if (more && here) {
            consumer.skip_k(open ? unseen : 0);
            more = consumer.next_tile();
        }
    }
    consumer.give_back_q();
}

template <class S> static __device__ __forceinline__ void hopper_attention(const weft_hopper_attention_params &p) {
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    static __shared__ hopper_desk<S> desk;
    static_assert(!S::bias || (sizeof desk + 1023) / 1024 * 1024 +
                                      WEFT_HOPPER_FORM_BYTES(S::depth, S::tile_m, S::keys, S::stages, S::form) <=
                                  227 * 1024,
                  "the CTA's shared memory suffices");
    const uint32_t aligned = (shared_address(hopper_shared) + 1023) / 1024 * 1024;
    /* Where steps may be short, the compiler would otherwise work it out anew in every step. */
    const uint32_t base = S::part > 0 ? (uint32_t)hopper_same((int)aligned) : aligned;
    const uint32_t group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); /* the producer's is 0 */
    if (threadIdx.x == 0) {
        tma_prefetch_map(&p.q);
        tma_prefetch_map(&p.k);
        tma_prefetch_map(&p.v);
        tma_prefetch_map(&p.o_map);
        for (int i = 0; i < S::q_slots; i++) {
            mbarrier_init(shared_address(&desk.q_full[i]), S::bias || S::pages ? 3 : S::masks ? 2 : 1);
            mbarrier_init(shared_address(&desk.q_empty[i]), 4 * S::groups);
        }
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(shared_address(&desk.k_full[i]), 1);
            mbarrier_init(shared_address(&desk.v_full[i]), 1);
            mbarrier_init(shared_address(&desk.k_empty[i]), 4 * S::readers);
            mbarrier_init(shared_address(&desk.v_empty[i]), 4 * S::readers);
        }
        if constexpr (S::masks) {
            mbarrier_init(shared_address(&desk.wanted), 1);
            for (int i = 0; i < S::q_slots; i++) {
                mbarrier_init(shared_address(&desk.told[i]), 1);
            }
        }
        if constexpr (S::bias) {
            tma_prefetch_map(&p.bias.map);
            for (int i = 0; i < S::groups * WEFT_HOPPER_BIAS_PLACES; i++) {
                mbarrier_init(shared_address(&desk.bias.full[0][i]), 1);
                mbarrier_init(shared_address(&desk.bias.empty[0][i]), 4);
            }
        }
        mbarrier_init_done();
    }
    __syncthreads();
    grid_let_next();
    grid_wait(); /* what follows reads and writes the caller's memory */
    if (group == 0) {
        registers_lower<S::producer_registers>();
        if constexpr (S::pages) {
            if (threadIdx.x % 96 < 32) { /* warps 0 and 3 */
                hopper_feed_pages<S>(p, desk, base, threadIdx.x < 32);
            }
        } else if (threadIdx.x < 32 && elect_one()) {
            hopper_producer<S> producer(p, desk, base);
            producer.run();
        }
        if constexpr (S::masks) {
            if (threadIdx.x / 32 == 1) {
                hopper_read_lengths(p.walk.reach.sequences);
            }
            if (threadIdx.x / 32 == 1 && elect_one()) {
                hopper_ask<S>(p, desk);
            } else if (threadIdx.x / 32 == 2) {
                hopper_look<S>(p, desk);
            }
        }
        if constexpr (S::bias) {
            if (threadIdx.x / 32 == 3 && elect_one()) {
                hopper_feed_bias<S>(p, desk, base);
            }
        }
        if constexpr (S::splits) {
            __syncwarp();
            cluster_meet(false); /* with those who send: twice, as they do */
            cluster_meet(false);
        }
    } else {
        registers_raise<S::consumer_registers>();
        if constexpr (S::splits) {
            hopper_consume_part<S>(p, desk, base, group - 1);
        } else {
            hopper_consume<S>(p, desk, base, group - 1);
        }
    }
}

#endif
