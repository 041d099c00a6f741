/* SPDX-License-Identifier: Apache-2.0 */
/* Wide: a consumer warpgroup's way through the queries of a tile. Both have all 64 keys of it; a step is 64 queries.
 *
 *   the first    S^T = K Q^T, P^T = exp2(S^T scale - sums)       dV += P^T dO
 *   the second   dP^T = V dO^T, dS^T = P^T (dP^T - deltas)       dK += dS^T Q
 *
 * P goes from the first to the second by way of shared memory in fp32, as the threads hold it: thread i of one warpgroup
 * has the same pairs as thread i of the other. dQ is another launch's: see dq.cuh.
 *
 * Full, what is dropped goes with P: as its sign.
 *
 * A warpgroup starts the sums of a step and the scores of the next together, and then computes while the other has the
 * tensor cores: the second cannot go on without the first's weights, so that they stay out of step. */
#ifndef WEFT_CUDA_SM90_BACKWARD_WIDE_CUH
#define WEFT_CUDA_SM90_BACKWARD_WIDE_CUH

#include "cuda/sm90/backward/clean.cuh"
#include "cuda/sm90/backward/full.cuh"
#include "cuda/sm90/backward/join.cuh"
#include "cuda/sm90/backward/product.cuh"
#include "cuda/sm90/backward/shape.cuh"
#include "cuda/sm90/backward/weights.cuh"

/* What a warpgroup has of a step beside its scores: sums or deltas of the thread's queries. */
template <class S> struct backward_wide_numbers { float of[S::queries / 4]; };

/* Full, the first one: its sums are read when they are needed, to have registers for these. */
template <class S> struct backward_wide_full {
    uint32_t dropped;
    backward_added<S::bf16, backward_key_pairs<S>> added;
};

template <class S, int GROUP> struct backward_wide_consumer {
    static constexpr bool weighs = GROUP == 0;                                           /* else it differentiates */
    static constexpr int depth = weighs ? S::depth : S::depth_v;                         /* of its scores */
    static constexpr int columns = weighs ? S::depth_v : S::depth;                       /* of its sums */
    using product_type = backward_product<S::bf16, depth, (depth > 128 ? S::kept : 64)>; /* K Q^T, or V dO^T */
    using beside_type = std::conditional_t<S::full && weighs, backward_wide_full<S>, backward_wide_numbers<S>>;
    const weft_hopper_backward_params &p;
    backward_desk<S> &desk;
    uint32_t base;
    uint32_t steps; /* so far */
    backward_slot<S::stages> slot;
    backward_slot<S::o_stages> o_slot;

    __device__ __forceinline__ backward_wide_consumer(const weft_hopper_backward_params &params, backward_desk<S> &shared,
                                                      uint32_t address)
        : p(params), desk(shared), base(address), steps(0) {
    }

    __device__ __forceinline__ void release(uint64_t &barrier) const {
        mbarrier_arrive_warp(shared_address(&barrier));
    }

    __device__ __forceinline__ uint32_t q_place() const {
        return base + S::ring_at + slot.index * S::q_bytes;
    }

    __device__ __forceinline__ uint32_t o_place() const {
        return base + S::o_ring_at + o_slot.index * S::o_bytes;
    }

    /* What the sums are made of beside registers. */
    __device__ __forceinline__ uint32_t sums_place() const {
        return weighs ? o_place() : q_place();
    }

    /* The thread's part of the weights' place: a warp's is its own. */
    __device__ __forceinline__ uint32_t weights_place() const {
        const uint32_t thread = thread_index() % 128;
        return base + S::weights_at + thread / 32 * (S::weights_bytes / 4) + thread % 32 * 16;
    }

    /* Waits for what the scores of a step are made of. General: makes zeros of queries that do not count, the first
     * warpgroup in Q and the second in dO; each meets the other's zeros with its weights, or by a barrier. */
    __device__ __forceinline__ void await_scores() const {
        mbarrier_wait(shared_address(&desk.full[slot.index]), slot.parity);
        if constexpr (!weighs) {
            mbarrier_wait(shared_address(&desk.links.o_full[o_slot.index]), o_slot.parity);
        }
        if constexpr (S::general) {
            const int begin = desk.steps[slot.index].begin, end = desk.steps[slot.index].end;
            if (begin > 0 || end < S::queries) {
                backward_clean<S::queries, depth / 64, 128>(weighs ? q_place() : o_place(), thread_index() % 128, begin,
                                                            end);
                backward_cleaned<128>(2 + GROUP);
            }
            if constexpr (!weighs) {
                __syncwarp();
                release(desk.links.o_clean[o_slot.index]);
            }
        }
    }

    /* Waits for what the sums are made of beside registers. */
    __device__ __forceinline__ void await_sums() const {
        if constexpr (weighs) {
            uint64_t *const ready = S::general ? desk.links.o_clean : desk.links.o_full;
            mbarrier_wait(shared_address(&ready[o_slot.index]), o_slot.parity);
        }
    }

    /* Starts the scores of the step at hand: K Q^T, or V dO^T. With SUMS, also dV += P^T dO, or dK += dS^T Q, of the one
     * before, whose dO or Q is at `last`: among the others, since products that add to the same sums wait for each other.
     */
    template <bool SUMS>
    __device__ __forceinline__ void start(const product_type &product, float (&scores)[S::queries / 2], uint32_t last,
                                          float (&sums)[columns / 2], const uint32_t (&rounded)[S::queries / 4]) const {
        const uint64_t a = wgmma_operand(settled(base + (weighs ? S::k_at : S::v_at)));
        const uint64_t b = wgmma_operand(settled(weighs ? q_place() : o_place()));
        const uint64_t c = wgmma_operand(settled(last), 1024, S::q_box);
        constexpr int each = depth / S::queries; /* products for one of the others */
        if constexpr (SUMS) {
            wgmma_hold(sums);
        }
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < depth / 16; i++) {
            if (SUMS && i % each == 0) {
                wgmma<columns>::template registers<S::bf16, true>(sums, &rounded[4 * (i / each)],
                                                                  wgmma_further(c, i / each * 2048), true);
            }
            product.start(scores, a, b, i);
        }
        wgmma_commit();
        wgmma_hold(scores);
        if constexpr (SUMS) {
            wgmma_hold(sums);
        }
    }

    /* The numbers of this warpgroup's steps in shared memory. */
    __device__ __forceinline__ uint32_t numbers() const {
        return base +
               (weighs ? S::numbers_at + slot.index * S::numbers_bytes : S::deltas_at + o_slot.index * S::numbers_bytes);
    }

    __device__ __forceinline__ backward_key_pairs<S> pairs() const {
        return {desk, slot.index, 0};
    }

    /* Weights of the HALF-th half of the thread's queries, rounded, and what dP is multiplied by to the other warpgroup. */
    template <bool CAPPED, int HALF>
    __device__ __forceinline__ void weigh_half(const backward_wide_full<S> &beside, const float (&scores)[S::queries / 2],
                                               uint32_t (&rounded)[S::queries / 4]) const {
        const uint32_t to = weights_place();
        float sums[S::queries / 8];
        backward_numbers(sums, numbers(), HALF * S::queries / 8);
#pragma unroll
        for (int j = HALF * S::queries / 16; j < (HALF + 1) * S::queries / 16; j++) {
            float left[4], four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = 4 * j + i, query = 2 * j - HALF * S::queries / 8 + i % 2;
                const bool drops = beside.dropped >> at & 1;
                float slope;
                const float weight =
                    backward_weight<CAPPED>(p, scores[at], beside.added.of[at - HALF * S::queries / 4], sums[query], slope);
                left[i] = drops ? 0 : weight;
                four[i] = drops ? -(weight * slope) : weight * slope;
            }
            rounded[2 * j] = pack_halves<S::bf16>(left[0], left[1]);
            rounded[2 * j + 1] = pack_halves<S::bf16>(left[2], left[3]);
            shared_store(to + j * 512, four);
        }
    }

    template <bool CAPPED>
    __device__ __forceinline__ void weigh_halves(backward_wide_full<S> &beside, float (&scores)[S::queries / 2],
                                                 uint32_t (&rounded)[S::queries / 4]) const {
        const auto begin = [&] { mbarrier_wait(shared_address(&desk.links.weights_empty), steps % 2 ^ 1); };
        const auto half = [&](auto number) { weigh_half<CAPPED, decltype(number)::value>(beside, scores, rounded); };
        backward_by_halves<CAPPED>(p, pairs(), beside.added, scores, begin, half);
    }

    /* Weights of a step, rounded, and what dP is multiplied by to the other warpgroup. */
    __device__ __forceinline__ void weigh(float (&scores)[S::queries / 2], backward_wide_full<S> &beside,
                                          uint32_t (&rounded)[S::queries / 4]) const {
        if (desk.steps[slot.index].hides) {
            const backward_scores<S> of = {p, desk, slot.index, 0};
            of.mask(scores, desk.steps[slot.index]);
        }
        if (p.full.cap > 0) {
            weigh_halves<true>(beside, scores, rounded);
        } else {
            weigh_halves<false>(beside, scores, rounded);
        }
    }

    __device__ __forceinline__ void weigh(float (&scores)[S::queries / 2], const backward_wide_numbers<S> &sums,
                                          uint32_t (&rounded)[S::queries / 4]) const {
        const backward_scores<S> of = {p, desk, slot.index, 0};
        of.weigh(scores, sums.of, rounded);
        const uint32_t to = weights_place();
        mbarrier_wait(shared_address(&desk.links.weights_empty), steps % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < S::queries / 8; i++) {
            const float four[4] = {scores[4 * i], scores[4 * i + 1], scores[4 * i + 2], scores[4 * i + 3]};
            shared_store(to + i * 512, four);
        }
    }

    /* dS of a step, rounded. */
    __device__ __forceinline__ void differentiate(const float (&grads)[S::queries / 2],
                                                  const backward_wide_numbers<S> &deltas,
                                                  uint32_t (&rounded)[S::queries / 4]) const {
        const uint32_t from = weights_place();
        mbarrier_wait(shared_address(&desk.links.weights_full), steps % 2);
#pragma unroll
        for (int j = 0; j < S::queries / 8; j++) {
            float weights[4], d[4];
            shared_load(from + j * 512, weights);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float grad = grads[4 * j + i], delta = deltas.of[2 * j + i % 2];
                if constexpr (S::full) {
                    d[i] = backward_ds(p, fabsf(weights[i]), weights[i] < 0, grad, delta);
                } else {
                    d[i] = weights[i] * (grad - delta);
                }
            }
            rounded[2 * j] = pack_halves<S::bf16>(d[0], d[1]);
            rounded[2 * j + 1] = pack_halves<S::bf16>(d[2], d[3]);
        }
        __syncwarp();
        release(desk.links.weights_empty);
        release(desk.links.o_empty[o_slot.index]); /* it has had dO and its deltas */
    }

    /* The scores of the step at hand are on their way. What comes with them is asked for before: while products read shared
     * memory, it answers late. */
    __device__ __forceinline__ void await_products(float (&scores)[S::queries / 2], beside_type &beside) const {
        if constexpr (S::full && weighs) {
            beside.dropped = p.full.dropout_limit ? backward_dropped(p, pairs()) : 0;
            beside.added.template load<0>(p, pairs());
        } else {
            backward_numbers(beside.of, numbers(), 0);
        }
        wgmma_wait<0>();
        wgmma_hold(scores);
    }

    __device__ __forceinline__ void use(float (&scores)[S::queries / 2], beside_type &beside,
                                        uint32_t (&rounded)[S::queries / 4]) const {
        if constexpr (weighs) {
            weigh(scores, beside, rounded);
            __syncwarp();
            release(desk.links.weights_full);
            release(desk.empty[slot.index]); /* it has had Q, and all that comes with it */
        } else {
            differentiate(scores, beside, rounded);
        }
    }

    /* What the sums were made of, when this warpgroup has had it. */
    __device__ __forceinline__ uint64_t &spent() const {
        return weighs ? desk.links.o_empty[o_slot.index] : desk.empty[slot.index];
    }

    __device__ __forceinline__ void next() {
        slot.next();
        o_slot.next();
        steps++;
    }

    /* The steps of a tile. */
    __device__ __forceinline__ void sweep(float (&sums)[columns / 2]) {
        product_type product;
        uint32_t rounded[S::queries / 4];
        float scores[S::queries / 2];
        beside_type beside;
        product.keep(base + (weighs ? S::k_at : S::v_at));
        if constexpr (weighs) {
            barrier_sync(4, 128); /* before weights take the place of what is kept */
        }
        await_scores();
        bool more = desk.steps[slot.index].flags & BACKWARD_MORE;
        start<false>(product, scores, 0, sums, rounded);
        await_products(scores, beside);
        use(scores, beside, rounded);
        while (more) {
            await_sums();
            const uint32_t last = sums_place();
            uint64_t &used = spent();
            next();
            await_scores();
            more = desk.steps[slot.index].flags & BACKWARD_MORE;
            start<true>(product, scores, last, sums, rounded);
            await_products(scores, beside);
            wgmma_hold(sums);
            release(used);
            use(scores, beside, rounded);
        }
        await_sums();
        backward_start_sums<S::bf16, columns>(sums, rounded, sums_place());
        wgmma_wait<0>();
        wgmma_hold(sums);
        release(spent());
        next();
    }
};

template <class S, int GROUP>
static __device__ __forceinline__ void backward_consume_wide(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                             uint32_t base) {
    using consumer_type = backward_wide_consumer<S, GROUP>;
    consumer_type consumer(p, desk, base);
    for (uint32_t tiles = 0;; tiles++) {
        mbarrier_wait(shared_address(&desk.kv_full), tiles % 2);
        const backward_job_of_form<S> &next = desk.job[tiles % 2];
        if (!next.more) {
            return;
        }
        const struct { int batch, head, key, rows; } job = {next.batch, next.head, next.key, backward_rows<S>(p, next)};
        float sums[consumer_type::columns / 2];
#pragma unroll
        for (int i = 0; i < consumer_type::columns / 2; i++) {
            sums[i] = 0;
        }
        if (next.steps > 0) {
            if constexpr (S::general) {
                backward_clean_keys<S>(next, base, GROUP);
            }
            consumer.sweep(sums);
        }
        const weft_strides &ks = p.k_strides, &vs = p.v_strides;
        const backward_joined dv = {(char *)p.grad_v + 2 * (job.batch * vs.batch + job.head * vs.head + job.key * vs.seq),
                                    2 * vs.seq, job.rows, p.head_dim_v, S::full ? p.full.kept : 1.0f};
        const backward_joined dk = {(char *)p.grad_k + 2 * (job.batch * ks.batch + job.head * ks.head + job.key * ks.seq),
                                    2 * ks.seq, job.rows, p.head_dim, p.scale};
        if (p.splits > 1) {
            backward_join<S> join(p, desk, base, GROUP, tiles);
            backward_join_wide<S>(join, sums, dv, dk);
        }
        fence_shared_for_async(); /* weights, zeros and parts were stored where copies go next */
        __syncwarp();
        consumer.release(desk.kv_empty); /* nothing of the tile is read any more */
        if (p.splits == 1) {
            const backward_joined &mine = GROUP == 0 ? dv : dk;
            const int row = (int)thread_index() % 128 / 32 * 16 + (int)thread_index() % 32 / 4;
            const bool has[2] = {row < mine.rows, row + 8 < mine.rows};
            backward_store_rows<S>(has, mine.columns, sums, mine.factor, mine.to + row * mine.stride, mine.stride);
        }
    }
}

#endif
