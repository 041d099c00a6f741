/* A consumer warpgroup's way through the queries of a tile: it has 64 of its keys.
 *
 *   S^T = K Q^T, P^T = exp2(S^T scale - sums)      dP^T = V dO^T, dS^T = P^T (dP^T - deltas)
 *   dV += P^T dO, dK += dS^T Q                     from registers: the sums of a product are the operand of the next
 *   dQ = dS K                                      by way of shared memory; of both warpgroups' keys, a half for each
 *
 * While a step's dQ goes to memory, the next one's scores are on their way. */
#ifndef WEFT_CUDA_SM90_BACKWARD_SWEEP_CUH
#define WEFT_CUDA_SM90_BACKWARD_SWEEP_CUH

#include "cuda/sm90/backward/shape.cuh"

template <class S> struct backward_consumer {
    const weft_hopper_backward_params &p;
    backward_desk<S> &desk;
    uint32_t base, group;
    uint32_t steps; /* so far */
    backward_slot<S::stages> slot;

    __device__ __forceinline__ backward_consumer(const weft_hopper_backward_params &params, backward_desk<S> &shared,
                                                 uint32_t address, uint32_t number)
        : p(params), desk(shared), base(address), group(number), steps(0) {
    }

    __device__ __forceinline__ void release(uint64_t &barrier) const { /* of every warp, one lane */
        if (thread_index() % 32 == 0) {
            mbarrier_arrive(shared_address(&barrier));
        }
    }

    __device__ __forceinline__ uint32_t stage() const {
        return base + S::ring_at + slot.index * S::stage_bytes;
    }

    /* Starts scores = X Y^T of this warpgroup's 64 rows of X, K or V, and a block's rows of Y, Q or dO. */
    __device__ __forceinline__ void start_scores(float (&scores)[S::queries / 2], uint32_t x, uint32_t y) const {
        const uint64_t a = wgmma_operand(settled(x + group * 64 * 128)), b = wgmma_operand(settled(y));
        wgmma_hold(scores);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::depth / 16; i++) {
            wgmma<S::queries>::template shared<S::bf16, false, false>(
                scores, wgmma_further(a, i / 4 * S::kv_box + i % 4 * 32), wgmma_further(b, i / 4 * S::q_box + i % 4 * 32),
                i > 0);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts sums += weights Y, or without `add` sums = weights Y. */
    __device__ __forceinline__ void start_sums(float (&sums)[S::depth / 2], const uint32_t (&weights)[S::queries / 4],
                                               uint32_t y, bool add) const {
        const uint64_t b = wgmma_operand(settled(y), 1024, S::q_box);
        wgmma_hold(sums);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::queries / 16; i++) {
            wgmma<S::depth>::template registers<S::bf16, true>(sums, &weights[4 * i], wgmma_further(b, i * 2048),
                                                               i > 0 || add);
        }
        wgmma_commit();
        wgmma_hold(sums);
    }

    /* Where this step's dS goes. */
    __device__ __forceinline__ uint32_t ds_place() const {
        return base + S::ds_at + steps % 2 * S::ds_bytes;
    }

    /* Starts this warpgroup's half of dQ = dS K: half of the columns. */
    __device__ __forceinline__ void start_dq(float (&dq)[S::depth / 4]) const {
        const uint64_t a = wgmma_operand(settled(ds_place()));
        const uint64_t b = wgmma_operand(settled(base + S::k_at + (S::boxes == 1 ? group * 64 : group * S::kv_bytes / 2)));
        wgmma_hold(dq);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::keys / 16; i++) {
            wgmma<S::depth / 2>::template shared<S::bf16, true, true>(dq, wgmma_further(a, i * 2048),
                                                                      wgmma_further(b, i * 2048), i > 0);
        }
        wgmma_commit();
        wgmma_hold(dq);
    }

    /* Hides pairs of queries and keys that do not see each other. Rows are keys, columns queries. */
    __device__ __forceinline__ void mask(float (&scores)[S::queries / 2], const backward_step &step) const {
        const int thread = (int)thread_index();
        const int key = (int)group * 64 + thread % 128 / 32 * 16 + thread % 32 / 4, query = thread % 4 * 2;
        const int last = step.last - key;                                        /* key that is there */
        const int seen = p.causal ? step.seen + query - key : last + S::queries; /* by the thread's first query */
#pragma unroll
        for (int i = 0; i < S::queries / 2; i++) {
            const int row = i / 2 % 2 * 8, column = i / 4 * 8 + i % 2;
            scores[i] = row <= last && row <= seen + column ? scores[i] : -INFINITY;
        }
    }

    /* Numbers of COUNT of the thread's queries, from the i-th on: see backward_number_at(). Asked for before products are
     * waited for: shared memory answers late while it feeds them. */
    template <int COUNT> __device__ __forceinline__ void numbers(float (&to)[COUNT], int which, int first) const {
        const uint32_t from = base + S::numbers_at + slot.index * S::numbers_bytes + which * S::queries * 4 +
                              thread_index() % 4 * 64 + first * 4;
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            float four[4];
            shared_load(from + i * 4, four);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                to[i + j] = four[j];
            }
        }
    }

    __device__ __forceinline__ void weigh(float (&scores)[S::queries / 2], const float (&sums)[S::queries / 4],
                                          uint32_t (&weights)[S::queries / 4]) const {
#pragma unroll
        for (int j = 0; j < S::queries / 8; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[4 * j + i] = exp2_flushed(fmaf(scores[4 * j + i], p.scale_log2, -sums[2 * j + i % 2]));
            }
            weights[2 * j] = pack_halves<S::bf16>(scores[4 * j], scores[4 * j + 1]);
            weights[2 * j + 1] = pack_halves<S::bf16>(scores[4 * j + 2], scores[4 * j + 3]);
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
        const uint32_t to = ds_place() + row * 128;
#pragma unroll
        for (int j = HALF * S::queries / 16; j < (HALF + 1) * S::queries / 16; j += 2) {
            float d[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d[i] =
                    weights[4 * j + i] * (grads[4 * j + i] - deltas[2 * (j - HALF * S::queries / 16) + i / 4 * 2 + i % 2]);
            }
            uint32_t four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                ds[2 * j + i] = four[i] = pack_halves<S::bf16>(d[2 * i], d[2 * i + 1]);
            }
            stmatrix_x4(to + (((uint32_t)j + lane / 16) ^ row % 8) * 16, four);
        }
    }

    /* dQ to shared memory, for who adds it to the sums; and word of it, when others can get on meanwhile. */
    __device__ __forceinline__ void put(const float (&dq)[S::depth / 4]) const {
        const uint32_t place = steps % 2;
        const uint32_t to = base + S::dq_at + place * S::dq_bytes + group * S::dq_bytes / 2 + thread_index() % 128 * 16;
        mbarrier_wait(shared_address(&desk.dq_empty[place]), steps / 2 % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < S::depth / 16; i++) {
            const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
            shared_store(to + i * 2048, four);
        }
    }

    __device__ __forceinline__ void tell() {
        fence_shared_for_async();
        __syncwarp();
        release(desk.dq_full[steps % 2]);
        steps++;
    }

    /* The steps of a tile. Products are asked for as early as registers allow, what takes time otherwise behind them. */
    __device__ __forceinline__ void sweep(float (&dk)[S::depth / 2], float (&dv)[S::depth / 2]) {
        float scores[S::queries / 2];
        mbarrier_wait(shared_address(&desk.full[slot.index]), slot.parity);
        start_scores(scores, base + S::k_at, stage());
        for (bool add = false;; add = true) {
            float grads[S::queries / 2], dq[S::depth / 4];
            uint32_t weights[S::queries / 4], ds[S::queries / 4];
            start_scores(grads, base + S::v_at, stage() + S::q_bytes);
            if (add) {
                tell();
            }
            const bool hides = desk.steps[slot.index].hides, more = desk.steps[slot.index].more;
            float sums[S::queries / 4], deltas[2][S::queries / 8];
            numbers(sums, 0, 0);
            wgmma_wait<1>();
            wgmma_hold(scores);
            if (hides) {
                mask(scores, desk.steps[slot.index]);
            }
            weigh(scores, sums, weights);
            start_sums(dv, weights, stage() + S::q_bytes, add);
            numbers(deltas[0], 1, 0);
            wgmma_wait<1>();
            wgmma_hold(grads);
            numbers(deltas[1], 1, S::queries / 8);
            differentiate<0>(scores, grads, deltas[0], ds);
            differentiate<1>(scores, grads, deltas[1], ds);
            start_sums(dk, ds, stage(), add);
            fence_shared_for_async();
            barrier_sync(1, 256);
            start_dq(dq);
            wgmma_wait<0>();
            wgmma_hold(dv);
            wgmma_hold(dk);
            wgmma_hold(dq);
            release(desk.empty[slot.index]);
            slot.next();
            if (!more) {
                put(dq);
                tell();
                return;
            }
            mbarrier_wait(shared_address(&desk.full[slot.index]), slot.parity);
            start_scores(scores, base + S::k_at, stage());
            put(dq);
        }
    }
};

#endif
