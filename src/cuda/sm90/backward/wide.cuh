/* Wide: a consumer warpgroup's way through the queries of a tile. Both have all 64 keys of it; a step is 64 queries.
 *
 *   the first    S^T = K Q^T, P^T = exp2(S^T scale - sums)       dV += P^T dO
 *   the second   dP^T = V dO^T, dS^T = P^T (dP^T - deltas)       dK += dS^T Q
 *   each         dQ = dS K: half of the columns, in two pieces
 *
 * P goes from the first to the second by way of shared memory in fp32, as the threads hold it: thread i of one warpgroup
 * has the same pairs as thread i of the other. dS goes to both likewise, rounded, as an operand.
 *
 * A step is two rounds of products: scores and a piece of dQ, under which weights or dS are computed; then sums and the
 * other piece, under which dQ is put to shared memory. The first warpgroup has both pieces of dQ a step late, the second
 * its last one: so nobody waits for a dS that has just been begun. */
#ifndef WEFT_CUDA_SM90_BACKWARD_WIDE_CUH
#define WEFT_CUDA_SM90_BACKWARD_WIDE_CUH

#include "cuda/sm90/backward/clean.cuh"
#include "cuda/sm90/backward/shape.cuh"
#include "cuda/sm90/backward/store.cuh"
#include "cuda/sm90/backward/weights.cuh"

template <class S, int GROUP> struct backward_wide_consumer {
    static constexpr bool weighs = GROUP == 0;                     /* else it differentiates */
    static constexpr int depth = weighs ? S::depth : S::depth_v;   /* of its scores */
    static constexpr int columns = weighs ? S::depth_v : S::depth; /* of its sums */
    static constexpr int first_piece = weighs ? 0 : 1, second_piece = 1 - first_piece;
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

    __device__ __forceinline__ void release(uint64_t &barrier) const { /* of every warp, one lane */
        if (thread_index() % 32 == 0) {
            mbarrier_arrive(shared_address(&barrier));
        }
    }

    __device__ __forceinline__ uint32_t q_place() const {
        return base + S::ring_at + slot.index * S::q_bytes;
    }

    __device__ __forceinline__ uint32_t o_place() const {
        return base + S::o_ring_at + o_slot.index * S::o_bytes;
    }

    __device__ __forceinline__ uint32_t ds_place(uint32_t step) const {
        return base + S::ds_at + step % 2 * S::ds_bytes;
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
        } else {
            await_ds(steps);
        }
    }

    __device__ __forceinline__ void await_ds(uint32_t step) const {
        mbarrier_wait(shared_address(&desk.links.ds_full[step % 2]), step / 2 % 2);
        fence_shared_for_async(); /* here, and not by who stored dS: it would wait for its stores */
    }

    /* Starts the scores: K Q^T, or V dO^T. */
    __device__ __forceinline__ void start_scores(float (&scores)[S::queries / 2]) const {
        const uint64_t a = wgmma_operand(settled(base + (weighs ? S::k_at : S::v_at)));
        const uint64_t b = wgmma_operand(settled(weighs ? q_place() : o_place()));
        wgmma_fence();
        wgmma<S::queries>::template shared_first<S::bf16, false, false>(scores, a, b);
#pragma unroll
        for (int i = 1; i < depth / 16; i++) {
            wgmma<S::queries>::template shared<S::bf16, false, false>(
                scores, wgmma_further(a, i / 4 * S::kv_box + i % 4 * 32), wgmma_further(b, i / 4 * S::q_box + i % 4 * 32),
                true);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts a piece of a step's dQ. */
    template <int PIECE>
    __device__ __forceinline__ void start_dq(float (&dq)[S::piece_columns(PIECE) / 2], uint32_t step) const {
        constexpr uint32_t column = S::dq_column(GROUP, PIECE * 8), at = column / 64 * S::kv_box + column % 64 * 2;
        constexpr int count = S::piece_columns(PIECE);
        const uint64_t a = wgmma_operand(settled(ds_place(step))), b = wgmma_operand(settled(base + S::k_at + at));
        wgmma_fence();
        wgmma<count>::template shared_first<S::bf16, true, true>(dq, a, b);
#pragma unroll
        for (int i = 1; i < S::keys / 16; i++) {
            wgmma<count>::template shared<S::bf16, true, true>(dq, wgmma_further(a, i * 2048), wgmma_further(b, i * 2048),
                                                               true);
        }
        wgmma_commit();
        wgmma_hold(dq);
    }

    /* Starts dV += P^T dO, or dK += dS^T Q. */
    __device__ __forceinline__ void start_sums(float (&sums)[columns / 2],
                                               const uint32_t (&rounded)[S::queries / 4]) const {
        const uint64_t b = wgmma_operand(settled(weighs ? o_place() : q_place()), 1024, S::q_box);
        wgmma_hold(sums);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::queries / 16; i++) {
            wgmma<columns>::template registers<S::bf16, true>(sums, &rounded[4 * i], wgmma_further(b, i * 2048), true);
        }
        wgmma_commit();
        wgmma_hold(sums);
    }

    /* Weights of a step, rounded, and what dP is multiplied by to the other warpgroup. */
    __device__ __forceinline__ void weigh(float (&scores)[S::queries / 2], const float (&sums)[S::queries / 4],
                                          uint32_t (&rounded)[S::queries / 4]) const {
        const backward_scores<S> of = {p, desk, slot.index, 0};
        of.weigh(scores, sums, rounded);
        const uint32_t to = weights_place();
        mbarrier_wait(shared_address(&desk.links.weights_empty), steps % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < S::queries / 8; i++) {
            const float four[4] = {scores[4 * i], scores[4 * i + 1], scores[4 * i + 2], scores[4 * i + 3]};
            shared_store(to + i * 512, four);
        }
        __syncwarp();
        release(desk.links.weights_full);
        release(desk.empty[slot.index]); /* it has had Q, and all that comes with it */
    }

    /* dS of a quarter of the thread's queries: they are eight by eight, from the j-th eight on. */
    template <int J>
    __device__ __forceinline__ void differentiate(const float (&grads)[S::queries / 2], const float (&deltas)[8],
                                                  uint32_t (&rounded)[S::queries / 4]) const {
        const uint32_t thread = thread_index(), lane = thread % 32, row = thread % 128 / 32 * 16 + lane % 16;
        const uint32_t to = ds_place(steps) + row * 128, from = weights_place() + J * 512;
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            uint32_t four[4];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float weights[4], d[4];
                shared_load(from + (j + k) * 512, weights);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    d[i] = weights[i] * (grads[4 * (J + j + k) + i] - deltas[2 * (j + k) + i % 2]);
                }
                four[2 * k] = pack_halves<S::bf16>(d[0], d[1]);
                four[2 * k + 1] = pack_halves<S::bf16>(d[2], d[3]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                rounded[2 * (J + j) + i] = four[i];
            }
            stmatrix_x4(to + (((uint32_t)(J + j) + lane / 16) ^ row % 8) * 16, four);
        }
    }

    /* dS of a step, for both warpgroups. */
    __device__ __forceinline__ void differentiate_step(const float (&grads)[S::queries / 2],
                                                       uint32_t (&rounded)[S::queries / 4]) const {
        const uint32_t numbers = base + S::deltas_at + o_slot.index * S::numbers_bytes;
        float deltas[8];
        backward_numbers(deltas, numbers, 0);
        mbarrier_wait(shared_address(&desk.links.weights_full), steps % 2);
        mbarrier_wait(shared_address(&desk.links.ds_empty[steps % 2]), steps / 2 % 2 ^ 1);
        differentiate<0>(grads, deltas, rounded);
        backward_numbers(deltas, numbers, 8);
        differentiate<4>(grads, deltas, rounded);
        __syncwarp();
        release(desk.links.weights_empty);
        release(desk.links.o_empty[o_slot.index]); /* it has had dO and its deltas */
        release(desk.links.ds_full[steps % 2]);
    }

    /* A piece of a step's dQ to shared memory, for who adds it to the sums. After the last, its dS is no longer needed. */
    template <int PIECE>
    __device__ __forceinline__ void put(const float (&dq)[S::piece_columns(PIECE) / 2], uint32_t step) const {
        const uint32_t use = step * S::pieces + PIECE, place = use % S::places;
        const uint32_t to = base + S::dq_at + GROUP * S::adder_bytes + place * S::place_bytes + thread_index() % 128 * 16;
        if constexpr (PIECE == 1) {
            release(desk.links.ds_empty[step % 2]);
        }
        mbarrier_wait(shared_address(&desk.dq_empty[GROUP][place]), use / S::places % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < S::piece_columns(PIECE) / 8; i++) {
            const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
            shared_store(to + i * 2048, four);
        }
        fence_shared_for_async();
        __syncwarp();
        release(desk.dq_full[GROUP][place]);
    }

    /* A piece of a step's dQ with nothing else to do. */
    template <int PIECE> __device__ __forceinline__ void finish(uint32_t step) const {
        float dq[S::piece_columns(PIECE) / 2];
        start_dq<PIECE>(dq, step);
        wgmma_wait<0>();
        wgmma_hold(dq);
        put<PIECE>(dq, step);
    }

    /* A piece of the last step's dQ, if there was one; scores, and weights or dS. more: whether there are steps behind this
     * one. */
    __device__ __forceinline__ void first_round(bool has_dq, bool &more, uint32_t (&rounded)[S::queries / 4]) const {
        float scores[S::queries / 2], dq[S::piece_columns(first_piece) / 2];
        if (weighs && has_dq) {
            await_ds(steps - 1);
        }
        start_dq<first_piece>(dq, steps - 1);
        await_scores();
        more = desk.steps[slot.index].more;
        start_scores(scores);
        wgmma_wait<1>();
        wgmma_hold(dq);
        if (has_dq) {
            put<first_piece>(dq, steps - 1);
        }
        if constexpr (weighs) {
            float sums[S::queries / 4];
            backward_numbers(sums, base + S::numbers_at + slot.index * S::numbers_bytes, 0);
            wgmma_wait<0>();
            wgmma_hold(scores);
            weigh(scores, sums, rounded);
        } else {
            wgmma_wait<0>();
            wgmma_hold(scores);
            differentiate_step(scores, rounded);
        }
    }

    /* Sums, and the other piece of dQ: the second warpgroup's is of this step. */
    __device__ __forceinline__ void second_round(bool has_dq, const uint32_t (&rounded)[S::queries / 4],
                                                 float (&sums)[columns / 2]) const {
        const uint32_t step = weighs ? steps - 1 : steps;
        float dq[S::piece_columns(second_piece) / 2];
        await_sums();
        start_dq<second_piece>(dq, step);
        start_sums(sums, rounded);
        wgmma_wait<1>();
        wgmma_hold(dq);
        if (!weighs || has_dq) {
            put<second_piece>(dq, step);
        }
        wgmma_wait<0>();
        wgmma_hold(sums);
        release(weighs ? desk.links.o_empty[o_slot.index] : desk.empty[slot.index]);
    }

    /* The steps of a tile. */
    __device__ __forceinline__ void sweep(float (&sums)[columns / 2]) {
        bool has_dq = false;
        for (bool more = true; more; has_dq = true) {
            uint32_t rounded[S::queries / 4];
            first_round(has_dq, more, rounded);
            second_round(has_dq, rounded, sums);
            slot.next();
            o_slot.next();
            steps++;
        }
        if constexpr (weighs) {
            await_ds(steps - 1);
            finish<0>(steps - 1);
        }
        finish<1>(steps - 1);
    }

    /* Rows of 128 bytes that the warp may overwrite before the next step: see backward_store(). */
    __device__ __forceinline__ uint32_t free_place() const {
        if constexpr (weighs) { /* a warp's rows are in its part of the weights' place */
            mbarrier_wait(shared_address(&desk.links.weights_empty), steps % 2 ^ 1);
            return base + S::weights_at + thread_index() % 128 / 32 * (S::weights_bytes / 4 - 16 * 128);
        } else {
            mbarrier_wait(shared_address(&desk.links.ds_empty[steps % 2]), steps / 2 % 2 ^ 1);
            return ds_place(steps);
        }
    }
};

template <class S, int GROUP>
static __device__ __forceinline__ void backward_consume_wide(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                             uint32_t base) {
    using consumer_type = backward_wide_consumer<S, GROUP>;
    consumer_type consumer(p, desk, base);
    const weft_strides &strides = GROUP == 0 ? p.v_strides : p.k_strides;
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
        __syncwarp();
        consumer.release(desk.kv_empty); /* nothing of the tile is read any more */
        if (p.splits > 1) {
            float *to = p.parts + backward_part<S>(p, job.batch, job.head, next.number); /* told until the next one ends */
            backward_store_part<S>(0, sums, to + (GROUP == 0 ? 0 : S::keys * S::depth_v));
            continue;
        }
        char *to = (char *)(GROUP == 0 ? p.grad_v : p.grad_k) +
                   2 * (job.batch * strides.batch + job.head * strides.head + job.key * strides.seq);
        backward_store<S>(job.rows, GROUP == 0 ? p.head_dim_v : p.head_dim, 0, sums, GROUP == 0 ? 1.0f : p.scale,
                          consumer.free_place(), to, 2 * strides.seq);
    }
}

#endif
