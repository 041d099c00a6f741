/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer warpgroup's way through the queries of a tile: it has 64 of its keys.
 *
 *   S^T = K Q^T, P^T = exp2(S^T scale - sums)      dP^T = V dO^T, dS^T = P^T (dP^T - deltas)
 *   dV += P^T dO, dK += dS^T Q                     from registers: the sums of a product are the operand of the next
 *   dQ = dS K                                      by way of shared memory; of both warpgroups' keys, a half for each */
#ifndef WEFT_CUDA_SM90_BACKWARD_SWEEP_CUH
#define WEFT_CUDA_SM90_BACKWARD_SWEEP_CUH

#include "cuda/sm90/backward/clean.cuh"
#include "cuda/sm90/backward/full.cuh"
#include "cuda/sm90/backward/shape.cuh"
#include "cuda/sm90/backward/weights.cuh"

template <class S> struct backward_consumer {
    using added_type = backward_added<S::bf16, backward_key_pairs<S>>; /* full */
    const weft_hopper_backward_params &p;
    backward_desk<S> &desk;
    uint32_t base, group;
    uint32_t steps; /* so far */
    backward_slot<S::stages> slot;

    __device__ __forceinline__ backward_consumer(const weft_hopper_backward_params &params, backward_desk<S> &shared,
                                                 uint32_t address, uint32_t number)
        : p(params), desk(shared), base(address), group(number), steps(0) {
    }

    __device__ __forceinline__ void release(uint64_t &barrier) const {
        mbarrier_arrive_warp(shared_address(&barrier));
    }

    __device__ __forceinline__ uint32_t stage() const {
        return base + S::ring_at + slot.index * S::stage_bytes;
    }

    /* General: queries of a step that do not count. */
    __device__ __forceinline__ void clean_queries() const {
        const int begin = desk.steps[slot.index].begin, end = desk.steps[slot.index].end;
        if (begin > 0 || end < S::queries) {
            const uint32_t thread = group * 128 + thread_index() % 128;
            backward_clean<S::queries, S::boxes, 256>(stage(), thread, begin, end);
            backward_clean<S::queries, S::boxes, 256>(stage() + S::q_bytes, thread, begin, end);
            backward_cleaned<256>(1);
        }
    }

    /* Starts scores = X Y^T of this warpgroup's 64 rows of X, K or V, and a block's rows of Y, Q or dO. */
    __device__ __forceinline__ void start_scores(float (&scores)[S::queries / 2], uint32_t x, uint32_t y) const {
        const uint64_t a = wgmma_operand(settled(x + group * 64 * 128)), b = wgmma_operand(settled(y));
        wgmma_fence();
        wgmma<S::queries>::template shared_first<S::bf16, false, false>(scores, a, b);
#pragma unroll
        for (int i = 1; i < S::depth / 16; i++) {
            wgmma<S::queries>::template shared<S::bf16, false, false>(
                scores, wgmma_further(a, i / 4 * S::kv_box + i % 4 * 32), wgmma_further(b, i / 4 * S::q_box + i % 4 * 32),
                true);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Where a step's dS goes. */
    __device__ __forceinline__ uint32_t ds_place(uint32_t step) const {
        return base + S::ds_at + step % 2 * S::ds_bytes;
    }

    /* Starts this warpgroup's half of a step's dQ = dS K: half of the queries, or of the columns. With SUMS, also
     * dV += P^T dO and dK += dS^T Q of the step at hand, by turns: products that add to the same sums wait for each other.
     */
    template <bool SUMS>
    __device__ __forceinline__ void start_sums(float (&dq)[S::dq_columns / 2], uint32_t step, float (&dv)[S::depth / 2],
                                               float (&dk)[S::depth / 2], const uint32_t (&weights)[S::queries / 4],
                                               const uint32_t (&ds)[S::queries / 4]) const {
        const uint32_t columns = S::by_queries ? 0 : S::boxes == 1 ? group * 64 : group * S::kv_bytes / 2;
        const uint64_t a = wgmma_operand(settled(ds_place(step) + (S::by_queries ? group * S::ds_box : 0)));
        const uint64_t b = wgmma_operand(settled(base + S::k_at + columns));
        const uint64_t q = wgmma_operand(settled(stage()), 1024, S::q_box);
        const uint64_t o = wgmma_operand(settled(stage() + S::q_bytes), 1024, S::q_box);
        if constexpr (SUMS) {
            wgmma_hold(dv);
            wgmma_hold(dk);
        }
        wgmma_fence();
        wgmma<S::dq_columns>::template shared_first<S::bf16, true, true>(dq, a, b);
        constexpr int each = S::keys / S::queries; /* products of dQ for one of dV and dK */
#pragma unroll
        for (int i = 0; i < S::queries / 16; i++) {
            if constexpr (SUMS) {
                wgmma<S::depth>::template registers<S::bf16, true>(dv, &weights[4 * i], wgmma_further(o, i * 2048), true);
                wgmma<S::depth>::template registers<S::bf16, true>(dk, &ds[4 * i], wgmma_further(q, i * 2048), true);
            }
#pragma unroll
            for (int j = each * i + (i == 0); j < each * (i + 1); j++) {
                wgmma<S::dq_columns>::template shared<S::bf16, true, true>(dq, wgmma_further(a, j * 2048),
                                                                           wgmma_further(b, j * 2048), true);
            }
        }
        wgmma_commit();
        wgmma_hold(dq);
        if constexpr (SUMS) {
            wgmma_hold(dv);
            wgmma_hold(dk);
        }
    }

    /* dS of weights and dP, rounded, of the HALF-th half of the thread's queries; and to shared memory, where rows are keys
     * and columns queries. */
    template <int HALF>
    __device__ __forceinline__ void
    differentiate(const float (&weights)[S::queries / 2], const float (&grads)[S::queries / 2],
                  const float (&deltas)[S::queries / 8], uint32_t (&ds)[S::queries / 4]) const {
        const uint32_t thread = thread_index(), lane = thread % 32;
        const uint32_t row = group * 64 + thread % 128 / 32 * 16 + lane % 16;
        const uint32_t to = ds_place(steps) + row * 128;
#pragma unroll
        for (int j = HALF * S::queries / 16; j < (HALF + 1) * S::queries / 16; j += 2) {
            float d[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d[i] = weights[4 * j + i] * (grads[4 * j + i] - deltas[2 * j - HALF * S::queries / 8 + i / 4 * 2 + i % 2]);
            }
            uint32_t four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                ds[2 * j + i] = four[i] = pack_halves<S::bf16>(d[2 * i], d[2 * i + 1]);
            }
            stmatrix_x4(to + (uint32_t)j / 8 * S::ds_box + (((uint32_t)j % 8 + lane / 16) ^ row % 8) * 16, four);
        }
    }

    __device__ __forceinline__ backward_key_pairs<S> pairs() const {
        return {desk, slot.index, group * 64};
    }

    /* Full: weights and dS of the HALF-th half of the thread's queries at once. */
    template <bool CAPPED, int HALF>
    __device__ __forceinline__ void
    differentiate_full(const added_type &added, uint32_t dropped, const float (&scores)[S::queries / 2],
                       const float (&grads)[S::queries / 2], uint32_t (&weights)[S::queries / 4],
                       uint32_t (&ds)[S::queries / 4]) const {
        const uint32_t thread = thread_index(), lane = thread % 32;
        const uint32_t row = group * 64 + thread % 128 / 32 * 16 + lane % 16;
        const uint32_t to = ds_place(steps) + row * 128;
        const uint32_t numbers = base + S::numbers_at + slot.index * S::numbers_bytes;
        float sums[S::queries / 8], deltas[S::queries / 8];
        backward_numbers(sums, numbers, HALF * S::queries / 8);
        backward_numbers(deltas, numbers + S::queries * 4, HALF * S::queries / 8);
#pragma unroll
        for (int j = HALF * S::queries / 16; j < (HALF + 1) * S::queries / 16; j += 2) {
            float d[8], left[8], slope[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int at = 4 * j + i, query = 2 * j - HALF * S::queries / 8 + i / 4 * 2 + i % 2;
                const bool drops = dropped >> at & 1;
                const float weight =
                    backward_weight<CAPPED>(p, scores[at], added.of[at - HALF * S::queries / 4], sums[query], slope[i]);
                left[i] = drops ? 0 : weight;
                d[i] = backward_ds(p, weight, drops, grads[at], deltas[query]);
            }
            if (p.full.grad_bias) {
                backward_store_bias(p, pairs(), j, d);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d[i] *= slope[i];
            }
            uint32_t four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                weights[2 * j + i] = pack_halves<S::bf16>(left[2 * i], left[2 * i + 1]);
                ds[2 * j + i] = four[i] = pack_halves<S::bf16>(d[2 * i], d[2 * i + 1]);
            }
            stmatrix_x4(to + (uint32_t)j / 8 * S::ds_box + (((uint32_t)j % 8 + lane / 16) ^ row % 8) * 16, four);
        }
    }

    template <bool CAPPED>
    __device__ __forceinline__ void finish_full(added_type &added, uint32_t dropped, float (&scores)[S::queries / 2],
                                                float (&grads)[S::queries / 2], uint32_t (&weights)[S::queries / 4],
                                                uint32_t (&ds)[S::queries / 4]) const {
        const auto begin = [&] {
            wgmma_wait<0>();
            wgmma_hold(grads);
            mbarrier_wait(shared_address(&desk.links.ds_empty[steps % 2]), steps / 2 % 2 ^ 1);
        };
        const auto half = [&](auto number) {
            differentiate_full<CAPPED, decltype(number)::value>(added, dropped, scores, grads, weights, ds);
        };
        backward_by_halves<CAPPED>(p, pairs(), added, scores, begin, half);
    }

    /* Full: as weigh_step(), which is below, from before the scores are there. What comes from memory and which weights are
     * dropped is asked for and worked out while they are on their way. */
    __device__ __forceinline__ void weigh_full(float (&scores)[S::queries / 2], float (&grads)[S::queries / 2],
                                               uint32_t (&weights)[S::queries / 4], uint32_t (&ds)[S::queries / 4]) const {
        added_type added;
        const uint32_t dropped = p.full.dropout_limit ? backward_dropped(p, pairs()) : 0;
        added.template load<0>(p, pairs());
        wgmma_wait<1>();
        wgmma_hold(scores);
        if (desk.steps[slot.index].hides) {
            const backward_scores<S> of = {p, desk, slot.index, group * 64};
            of.mask(scores, desk.steps[slot.index]);
        }
        if (p.full.cap > 0) {
            finish_full<true>(added, dropped, scores, grads, weights, ds);
        } else {
            finish_full<false>(added, dropped, scores, grads, weights, ds);
        }
        __syncwarp();
        release(desk.links.ds_full[steps % 2]);
    }

    /* dQ of a step to shared memory, for who adds it to the sums. Its dS is no longer needed. */
    __device__ __forceinline__ void put(const float (&dq)[S::dq_columns / 2], uint32_t step, bool lacks_rows) const {
        const uint32_t place = step % 2, to = base + S::dq_at + place * S::dq_bytes + group * S::dq_bytes / 2;
        release(desk.links.ds_empty[place]);
        mbarrier_wait(shared_address(&desk.links.dq_empty[place]), step / 2 % 2 ^ 1);
        if (S::ragged && __builtin_expect(lacks_rows, 0)) {
            put_rows(dq, to);
        } else {
#pragma unroll
            for (int i = 0; i < S::dq_columns / 8; i++) {
                const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
                shared_store(to + thread_index() % 128 * 16 + i * 2048, four);
            }
        }
        fence_shared_for_async();
        __syncwarp();
        release(desk.links.dq_full[place]);
    }

    /* The same as rows: a thread has two, eight apart, and two columns of every eight. */
    __device__ __forceinline__ void put_rows(const float (&dq)[S::dq_columns / 2], uint32_t to) const {
        const uint32_t octets = (uint32_t)backward_sums_of_block<S>::octets(p, (int)group);
        const uint32_t row = thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4;
        const uint32_t mine = to + row * octets * 32 + thread_index() % 4 * 8;
#pragma unroll
        for (uint32_t i = 0; i < S::dq_columns / 8; i++) {
            if (i < octets) {
                const float upper[2] = {dq[4 * i], dq[4 * i + 1]}, lower[2] = {dq[4 * i + 2], dq[4 * i + 3]};
                shared_store(mine + i * 32, upper);
                shared_store(mine + 8 * octets * 32 + i * 32, lower);
            }
        }
    }

    /* Waits for its turn at the tensor cores, and hands it to the other warpgroup. */
    __device__ __forceinline__ void take_turn() const {
        mbarrier_wait(shared_address(&desk.links.turn[group]), steps % 2 ^ group ^ 1);
    }

    __device__ __forceinline__ void pass_turn() const {
        __syncwarp(); /* all lanes have had theirs */
        release(desk.links.turn[group ^ 1]);
    }

    /* Who reads dS has its products see what was stored: who stores it need not wait until it is there. */
    __device__ __forceinline__ void await_ds(uint32_t step) const {
        mbarrier_wait(shared_address(&desk.links.ds_full[step % 2]), step / 2 % 2);
        fence_shared_for_async();
    }

    /* Weights and dS of a step whose scores are there and whose dP is on its way; dS for both warpgroups. */
    __device__ __forceinline__ void weigh_step(float (&scores)[S::queries / 2], float (&grads)[S::queries / 2],
                                               uint32_t (&weights)[S::queries / 4], uint32_t (&ds)[S::queries / 4]) const {
        const uint32_t numbers = base + S::numbers_at + slot.index * S::numbers_bytes;
        const uint32_t its_deltas = numbers + S::queries * 4;
        const backward_scores<S> of = {p, desk, slot.index, group * 64};
        float sums[S::queries / 4], deltas[S::queries / 8];
        backward_numbers(sums, numbers, 0);
        of.weigh(scores, sums, weights);
        backward_numbers(deltas, its_deltas, 0);
        if constexpr (S::by_queries) { /* a branch, or ptxas moves most exponentials behind dP */
            wgmma_hold(scores);
            mbarrier_wait(shared_address(&desk.links.ds_empty[steps % 2]), steps / 2 % 2 ^ 1);
        }
        wgmma_wait<0>();
        wgmma_hold(grads);
        if constexpr (!S::by_queries) { /* there it costs more than it gains */
            mbarrier_wait(shared_address(&desk.links.ds_empty[steps % 2]), steps / 2 % 2 ^ 1);
        }
        differentiate<0>(scores, grads, deltas, ds);
        backward_numbers(deltas, its_deltas, S::queries / 8);
        differentiate<1>(scores, grads, deltas, ds);
        __syncwarp();
        release(desk.links.ds_full[steps % 2]);
    }

    /* Where the step-th dS will go, when nobody reads the last but one there: this warpgroup's rows are its own until then.
     */
    __device__ __forceinline__ uint32_t free_place(uint32_t step) const {
        mbarrier_wait(shared_address(&desk.links.ds_empty[step % 2]), step / 2 % 2 ^ 1);
        return ds_place(step);
    }

    /* The steps of a tile. The warpgroups take turns at the sums: while one has the tensor cores, the other computes
     * weights and dS. The first has dQ a step later than the second, so that it need not wait for the second's dS. */
    __device__ __forceinline__ void sweep(float (&dk)[S::depth / 2], float (&dv)[S::depth / 2]) {
        float scores[S::queries / 2], grads[S::queries / 2];
        uint32_t weights[S::queries / 4], ds[S::queries / 4];
        const uint32_t late = group ^ 1;
#pragma unroll
        for (int i = 0; i < S::depth / 2; i++) {
            dk[i] = dv[i] = 0;
        }
        const int lacks = late ? BACKWARD_LACKED : BACKWARD_LACKS; /* of the step whose dQ is put down */
        bool has_dq = !late;
        int flags;
        do {
            float dq[S::dq_columns / 2];
            mbarrier_wait(shared_address(&desk.full[slot.index]), slot.parity);
            if constexpr (S::general) {
                clean_queries();
            }
            start_scores(scores, base + S::k_at, stage());
            start_scores(grads, base + S::v_at, stage() + S::q_bytes);
            flags = desk.steps[slot.index].flags;
            if constexpr (S::full) {
                weigh_full(scores, grads, weights, ds);
            } else {
                wgmma_wait<1>();
                wgmma_hold(scores);
                weigh_step(scores, grads, weights, ds);
            }
            take_turn();
            if (has_dq) {
                await_ds(steps - late);
            }
            start_sums<true>(dq, steps - late, dv, dk, weights, ds);
            pass_turn();
            wgmma_wait<0>();
            wgmma_hold(dq);
            wgmma_hold(dv);
            wgmma_hold(dk);
            release(desk.empty[slot.index]);
            slot.next();
            if (has_dq) {
                put(dq, steps - late, flags & lacks);
            }
            has_dq = true;
            steps++;
        } while (S::ragged ? flags & BACKWARD_MORE : flags); /* the others have no other flag: an instruction less */
        if (late) {
            float dq[S::dq_columns / 2];
            await_ds(steps - 1);
            start_sums<false>(dq, steps - 1, dv, dk, weights, ds);
            wgmma_wait<0>();
            wgmma_hold(dq);
            put(dq, steps - 1, flags & BACKWARD_LACKS);
        }
    }
};

#endif
