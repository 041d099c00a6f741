/* A consumer warpgroup's way through the keys of a tile: scores, mask, softmax, values. */
#ifndef WEFT_CUDA_KERNELS_HOPPER_ATTENTION_SWEEP_CUH
#define WEFT_CUDA_KERNELS_HOPPER_ATTENTION_SWEEP_CUH

#include "cuda/kernels/hopper_attention_softmax.cuh"

/* The 64 queries of a warpgroup, and the keys they see. Steps beyond `own` are masked for all of them. */
struct hopper_share {
    int own, unmasked;
    int seen[2]; /* keys that the thread's rows r and r + 8 see */
};

template <class S> struct hopper_consumer {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;
    uint32_t q, k, v; /* shared addresses of the rings; of Q, where this warpgroup's rows begin */
    uint32_t group;
    hopper_slot<S::stages> k_slot, v_slot;

    __device__ __forceinline__ hopper_consumer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                               uint32_t base, uint32_t number)
        : p(params), desk(shared), q(base + number * 64 * 128), k(base + S::k_at), v(base + S::v_at), group(number) {
        if (group == S::groups - 1) {
            pass_turn();
        }
    }

    /* Warpgroups start their products in turns, so that one computes exponentials while another multiplies. */
    __device__ __forceinline__ void take_turn() const {
        if (p.turns) {
            barrier_sync(1 + group, 256);
        }
    }

    __device__ __forceinline__ void pass_turn() const {
        if (p.turns) {
            barrier_arrive(group == S::groups - 1 ? 1 : 2 + group, 256);
        }
    }

    /* Of every warp, one lane. */
    __device__ __forceinline__ void release(uint64_t &barrier) const {
        if (thread_index() % 32 == 0) {
            mbarrier_arrive(shared_address(&barrier));
        }
    }

    __device__ __forceinline__ void wait_k() const {
        mbarrier_wait(shared_address(&desk.k_full[k_slot.index]), k_slot.parity);
    }

    __device__ __forceinline__ void wait_v() const {
        mbarrier_wait(shared_address(&desk.v_full[v_slot.index]), v_slot.parity);
    }

    /* Q is not needed any more, nor is the job of the tile before. */
    __device__ __forceinline__ void release_q() const {
        __syncwarp();
        release(desk.q_empty);
    }

    /* last: whether Q is not needed any more either. */
    __device__ __forceinline__ void release_k(bool last) {
        release(desk.k_empty[k_slot.index]);
        k_slot.next();
        if (last) {
            release_q();
        }
    }

    __device__ __forceinline__ void release_v() {
        release(desk.v_empty[v_slot.index]);
        v_slot.next();
    }

    /* Starts scores = Q K^T for the block at hand. */
    __device__ __forceinline__ void start_scores(float (&scores)[S::keys / 2]) const {
        const uint64_t a = wgmma_operand(q), b = wgmma_operand(k + k_slot.index * S::kv_bytes);
        wgmma_hold(scores);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::depth / 16; i++) { /* 16 columns are 32 bytes, 64 a box */
            wgmma<S::keys>::template shared<S::bf16, false, false>(scores, wgmma_further(a, i / 4 * S::q_box + i % 4 * 32),
                                                                   wgmma_further(b, i / 4 * S::kv_box + i % 4 * 32), i > 0);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts out += weights V for the block at hand. */
    __device__ __forceinline__ void start_values(float (&out)[S::depth / 2], const uint32_t (&weights)[S::keys / 4]) const {
        const uint64_t b = wgmma_operand(v + v_slot.index * S::kv_bytes, 1024, S::kv_box);
        wgmma_hold(out);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::keys / 16; i++) { /* 16 keys are two atoms of 1024 bytes */
            wgmma<S::depth>::template registers<S::bf16, true>(out, &weights[4 * i], wgmma_further(b, i * 2048), true);
        }
        wgmma_commit();
        wgmma_hold(out);
    }

    /* The scores of a step become weights, when those of the step before have met V. Returns whether the output has to be
     * rescaled.
     *
     * In bf16, where the mask does not matter, the largest score is not looked for: exponentials are taken over the shift
     * as it is, and only when their sum says that one may be beyond the lag is the work done again, with a new shift. */
    __device__ __forceinline__ bool soften(float (&scores)[S::keys / 2], uint32_t (&weights)[S::keys / 4],
                                           hopper_rows &rows, const hopper_share &share, int step, bool first) const {
        constexpr int all = S::keys / 2, part = all / 2;
        bool moved = false;
        float sums[2];
        if (first || step >= share.unmasked || !S::bf16) {
            if (step >= share.unmasked) {
                hopper_mask<S>(scores, share.seen[0] - step * S::keys, share.seen[1] - step * S::keys);
            }
            moved = hopper_shift<S>(rows, scores, p.scale_log2);
            hopper_exponentials<S, 0, all>(scores, rows, p.scale_log2);
            hopper_add<S>(sums, scores);
            wgmma_wait<0>();
            hopper_round<S>(weights, scores);
        } else {
            hopper_exponentials<S, 0, part>(scores, rows, p.scale_log2);
            wgmma_wait<0>();
            hopper_exponentials<S, part, all>(scores, rows, p.scale_log2);
            hopper_add<S>(sums, scores);
            hopper_round<S>(weights, scores);
            if (barrier_any(8 + group, 128, !(sums[0] + sums[1] <= HOPPER_MOST * (S::keys / 4)))) {
                start_scores(scores);
                wgmma_wait<0>();
                wgmma_hold(scores);
                moved = hopper_shift<S>(rows, scores, p.scale_log2);
                hopper_exponentials<S, 0, all>(scores, rows, p.scale_log2);
                hopper_add<S>(sums, scores);
                hopper_round<S>(weights, scores);
            }
        }
        rows.sum[0] += sums[0];
        rows.sum[1] += sums[1];
        return moved;
    }

    /* Steps that other warpgroups take and this one does not see. */
    __device__ __forceinline__ void skip(int steps) {
        for (int i = 0; i < steps; i++) {
            take_turn();
            pass_turn();
            wait_k();
            release_k(false);
            wait_v();
            release_v();
        }
    }

    /* While the tensor cores multiply a block's weights by V, the exponentials of the next block are computed. */
    __device__ __forceinline__ void sweep_own(float (&out)[S::depth / 2], hopper_rows &rows, const hopper_share &share,
                                              int downward) {
        float scores[S::keys / 2];
        uint32_t weights[S::keys / 4];
        int step = downward ? share.own - 1 : 0;
        const int direction = downward ? -1 : 1;
        wait_k();
        take_turn();
        start_scores(scores);
        pass_turn();
        wgmma_wait<0>();
        wgmma_hold(scores);
        soften(scores, weights, rows, share, step, true);
        release_k(share.own == 1);
        for (int i = 1; i < share.own; i++) {
            step += direction;
            wait_k();
            take_turn();
            start_scores(scores);
            wait_v();
            start_values(out, weights);
            pass_turn();
            wgmma_wait<1>();
            wgmma_hold(scores);
            const bool moved = soften(scores, weights, rows, share, step, false);
            wgmma_hold(out);
            release_k(i == share.own - 1);
            release_v();
            if (moved) {
                hopper_rescale<S>(out, rows);
            }
        }
        wait_v();
        start_values(out, weights);
        wgmma_wait<0>();
        wgmma_hold(out);
        release_v();
    }

    /* What this warpgroup sees of a tile with so many steps. first: its first query. */
    __device__ __forceinline__ hopper_share share_of(int steps, int first) const {
        const weft_reach &reach = p.walk.reach;
        hopper_share share;
        int64_t least = p.kv_seq, most = p.kv_seq; /* keys that its first and its last query see */
        share.seen[0] = share.seen[1] = p.kv_seq;
        if (reach.causal) {
            const int queries = 64 >> p.pack_bits;
            const int64_t end = first + queries < p.seq ? first + queries : p.seq;
            least = first + 1 + reach.offset < least ? first + 1 + reach.offset : least;
            most = end + reach.offset < most ? end + reach.offset : most;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = (int)(thread_index() % 128 / 32 * 16 + half * 8 + thread_index() % 32 / 4);
                const int64_t seen = first + (row >> p.pack_bits) + 1 + reach.offset;
                share.seen[half] = seen < 0 ? 0 : seen < p.kv_seq ? (int)seen : p.kv_seq;
            }
        }
        const int own = most > 0 ? (int)((uint32_t)most + S::keys - 1) / S::keys : 0;
        share.own = first >= p.seq ? 0 : own < steps ? own : steps;
        share.unmasked = least > 0 ? (int)((uint32_t)least / S::keys) : 0;
        return share;
    }

    __device__ __forceinline__ void sweep(float (&out)[S::depth / 2], hopper_rows &rows, const hopper_job &job) {
        const int steps = hopper_same(job.steps), downward = hopper_same(job.downward);
        const hopper_share share = share_of(steps, hopper_same(job.row) + ((int)group * 64 >> p.pack_bits));
#pragma unroll
        for (int i = 0; i < S::depth / 2; i++) {
            out[i] = 0;
        }
        rows.shift[0] = rows.shift[1] = HOPPER_NO_SHIFT;
        rows.sum[0] = rows.sum[1] = 0;
        if (downward) {
            skip(steps - share.own);
        }
        if (share.own == 0) {
            release_q();
        } else {
            sweep_own(out, rows, share, downward);
        }
        if (!downward) {
            skip(steps - share.own);
        }
    }
};

#endif
