/* SPDX-License-Identifier: Apache-2.0 */
/* The two consumer warpgroups. Each has all rows of the tile and half of the output's columns, 64 x 256 sums in registers.
 * Of a run's blocks of keys the first warpgroup has the even ones, the second the odd ones: it computes their scores and
 * weights. Both multiply all blocks' weights by their half of V, in the same order.
 *
 * So a warpgroup takes turns: the other's weights times V, and behind it, as the block arrives, the scores of its own; its
 * own weights; those times V. While one computes exponentials, the other multiplies, and while a block is worked on, the
 * next one arrives.
 *
 * A block's weights are put where its K was, which nobody needs once its scores are there. */
#ifndef WEFT_CUDA_SM90_MLA_SWEEP_CUH
#define WEFT_CUDA_SM90_MLA_SWEEP_CUH

#include "cuda/sm90/mla/shape.cuh"

/* Keys that a thread's two rows see, and their sums: rows 16 warp + lane / 4 and the eighth behind it. */
struct mla_rows {
    int begin[2], end[2];
    int from, to;  /* keys that both see, as far as there are such rows */
    float base[2]; /* weights are 2^(score - base) */
    float sum[2];  /* of this thread's own weights */
};

/* A row's base is a score of one of its blocks' largest, and stays until a score is larger by this: weights are up to 2^8,
 * which 16 bits hold as well as 1, and sums are seldom rescaled. */
constexpr float MLA_SLACK = 8;

template <class S> struct mla_consumer {
    static constexpr int sums = WEFT_MLA_DEPTH_V / 4; /* of a thread */
    const weft_decode_params &p;
    mla_desk &desk;
    uint32_t q, ring; /* shared addresses */
    uint32_t who;     /* 0 or 1 */
    mla_rows rows;

    static __device__ __forceinline__ int first_row() {
        return (int)(thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4);
    }

    __device__ __forceinline__ uint32_t slot_at(uint32_t number) const {
        return settled(ring + mla_slot(number) * WEFT_MLA_BLOCK_BYTES);
    }

    /* Of every warp, one lane. */
    static __device__ __forceinline__ void arrive(uint64_t &barrier) {
        __syncwarp();
        mbarrier_arrive_warp(shared_address(&barrier));
    }

    /* Whether a part has arrived, as a lane sees it and tells the others. */
    __device__ __forceinline__ bool is_there(uint32_t number, int part) const {
        return __any_sync(~0u, mbarrier_test(shared_address(&desk.full[mla_slot(number)][part]), mla_parity(number)));
    }

    __device__ __forceinline__ void wait_part(uint32_t number, int part) const {
        mbarrier_wait(shared_address(&desk.full[mla_slot(number)][part]), mla_parity(number));
    }

    __device__ __forceinline__ void begin(const mla_task &task) {
        const int row = first_row();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            rows.begin[i] = task.from[row + 8 * i];
            rows.end[i] = task.to[row + 8 * i];
            rows.base[i] = -INFINITY;
            rows.sum[i] = 0;
        }
        const bool both = row + 8 < task.view.count;
        rows.from = both ? max(rows.begin[0], rows.begin[1]) : rows.begin[0];
        rows.to = both ? min(rows.end[0], rows.end[1]) : row < task.view.count ? rows.end[0] : INT32_MAX;
    }

    /* Starts a part of a block's scores, once it is there. */
    template <int PART>
    __device__ __forceinline__ void start_part(float (&scores)[WEFT_MLA_KEYS / 2], uint32_t number) const {
        constexpr int first = 4 * WEFT_MLA_WIDE * PART;
        constexpr int last = PART == MLA_PARTS - 1 ? first + 4 : first + 4 * WEFT_MLA_WIDE;
        wait_part(number, PART);
        const uint64_t a = wgmma_operand(settled(q)), b = wgmma_operand(slot_at(number));
        if constexpr (PART > 0) {
            wgmma_hold(scores);
        }
        wgmma_fence();
#pragma unroll
        for (int i = first; i < last; i++) { /* 16 columns are 32 bytes, 64 a box */
            const uint32_t at = i / 4 * WEFT_MLA_BOX + i % 4 * 32;
            if (i == 0) {
                wgmma<WEFT_MLA_KEYS>::template shared_first<S::bf16, false, false>(scores, a, b);
            } else {
                wgmma<WEFT_MLA_KEYS>::template shared<S::bf16, false, false>(scores, wgmma_further(a, at),
                                                                             wgmma_further(b, at), true);
            }
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts the others, from the second on. `holds`: the product with the block before is under way, behind the first
     * part; its slot is given back as soon as this warpgroup would wait. */
    template <int PART = 1>
    __device__ __forceinline__ void start_parts(float (&scores)[WEFT_MLA_KEYS / 2], uint32_t number, bool &holds) const {
        if (holds && (PART == MLA_PARTS - 1 || !is_there(number, PART))) {
            wgmma_wait<PART - 1>();
            release(number - 1);
            holds = false;
        }
        start_part<PART>(scores, number);
        if constexpr (PART + 1 < MLA_PARTS) {
            start_parts<PART + 1>(scores, number, holds);
        }
    }

    /* V of a block: this warpgroup's columns. 16 keys are two atoms of 1024 bytes. */
    __device__ __forceinline__ uint64_t values_of(uint32_t number) const {
        return wgmma_operand(slot_at(number) + who * 4 * WEFT_MLA_BOX, 1024, WEFT_MLA_BOX);
    }

    /* Starts out += weights V of this warpgroup's own block. */
    __device__ __forceinline__ void start_own(float (&out)[sums], const uint32_t (&weights)[WEFT_MLA_KEYS / 4],
                                              uint32_t number) const {
        const uint64_t b = values_of(number);
        wgmma_hold(out);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 16; i++) {
            wgmma<256>::template registers<S::bf16, true>(out, &weights[4 * i], wgmma_further(b, i * 2048), true);
        }
        wgmma_commit();
        wgmma_hold(out);
    }

    /* The same of the other's block. */
    __device__ __forceinline__ void start_other(float (&out)[sums], uint32_t number) const {
        const uint64_t a = wgmma_operand(slot_at(number) + (WEFT_MLA_BOXES - 1) * WEFT_MLA_BOX), b = values_of(number);
        wgmma_hold(out);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 16; i++) {
            wgmma<256>::template shared<S::bf16, false, true>(out, wgmma_further(a, i * 32), wgmma_further(b, i * 2048),
                                                              true);
        }
        wgmma_commit();
        wgmma_hold(out);
    }

    /* Scores to base 2: capped, hidden. NaN for keys whose page there is none of. */
    __device__ __forceinline__ void finish_scores(float (&scores)[WEFT_MLA_KEYS / 2], int key, uint64_t wrong) const {
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 2; i++) {
            scores[i] *= p.scale;
        }
        if (p.cap != 0) {
#pragma unroll
            for (int i = 0; i < WEFT_MLA_KEYS / 2; i++) { /* 1 - 2 / (e^2x + 1), exact at both ends */
                scores[i] = p.cap - 2 * p.cap * reciprocal_flushed(exp2_flushed(scores[i]) + 1);
            }
        }
        const int mine = 2 * (int)(thread_index() % 4);
        if (wrong) {
#pragma unroll
            for (int i = 0; i < WEFT_MLA_KEYS / 2; i++) {
                scores[i] = wrong >> (8 * (i / 4) + mine + i % 2) & 1 ? __int_as_float(0x7fffffff) : scores[i];
            }
        }
        if (key < rows.from || key + WEFT_MLA_KEYS > rows.to) {
#pragma unroll
            for (int i = 0; i < WEFT_MLA_KEYS / 2; i++) {
                const int at = key + 8 * (i / 4) + mine + i % 2, row = i / 2 % 2;
                scores[i] = at >= rows.begin[row] && at < rows.end[row] ? scores[i] : -INFINITY;
            }
        }
    }

    /* The rows' bases grow to `base`: by how much their sums shrink. */
    __device__ __forceinline__ void grow(const float (&base)[2], float (&scale)[2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            scale[i] = exp2_flushed(rows.base[i] - (base[i] == -INFINITY ? 0.0f : base[i]));
            rows.base[i] = base[i];
            rows.sum[i] *= scale[i];
        }
    }

    /* Scores of this warpgroup's block become weights. */
    __device__ __forceinline__ void soften(float (&scores)[WEFT_MLA_KEYS / 2], uint32_t (&weights)[WEFT_MLA_KEYS / 4],
                                           int key, uint32_t number, float (&scale)[2]) {
        const uint32_t slot = mla_slot(number);
        finish_scores(scores, key, desk.wrong[slot]);
        float most[4] = {scores[0], scores[1], scores[2], scores[3]},
              base[2]; /* two for each row, as one waits for itself */
#pragma unroll
        for (int i = 4; i < WEFT_MLA_KEYS / 2; i++) {
            most[i % 4] = fmaxf(most[i % 4], scores[i]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            base[i] = fmaxf(most[2 * i], most[2 * i + 1]);
            base[i] = fmaxf(base[i], __shfl_xor_sync(~0u, base[i], 1));
            base[i] = fmaxf(base[i], __shfl_xor_sync(~0u, base[i], 2));
            base[i] = base[i] > rows.base[i] + MLA_SLACK ? base[i] : rows.base[i];
        }
        grow(base, scale);
        const float from[2] = {base[0] == -INFINITY ? 0.0f : base[0], base[1] == -INFINITY ? 0.0f : base[1]};
        float added[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 2; i++) {
            scores[i] = exp2_flushed(scores[i] - from[i / 2 % 2]);
            added[i / 2 % 2] += scores[i];
        }
        rows.sum[0] += added[0];
        rows.sum[1] += added[1];
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 4; i++) {
            weights[i] = pack_halves<S::bf16>(scores[2 * i], scores[2 * i + 1]);
        }
    }

    /* Puts weights and bases where the other finds them. */
    __device__ __forceinline__ void tell(const uint32_t (&weights)[WEFT_MLA_KEYS / 4], uint32_t number) const {
        const uint32_t slot = mla_slot(number), lane = thread_index() % 32;
        const uint32_t row = thread_index() % 128 / 32 * 16 + lane / 8 % 2 * 8 + lane % 8; /* whose address it gives */
        const uint32_t to = slot_at(number) + (WEFT_MLA_BOXES - 1) * WEFT_MLA_BOX + row * 128;
        barrier_sync(2 + who, 128); /* all warps' scores are there: nobody reads K any more */
#pragma unroll
        for (int i = 0; i < WEFT_MLA_KEYS / 16; i++) {
            const uint32_t four[4] = {weights[4 * i], weights[4 * i + 1], weights[4 * i + 2], weights[4 * i + 3]};
            stmatrix_x4(to + 16 * ((2 * i + lane / 16) ^ (row % 8)), four);
        }
        if (lane % 4 == 0) {
            desk.base[slot][first_row()] = rows.base[0];
            desk.base[slot][first_row() + 8] = rows.base[1];
        }
        arrive(desk.weights[slot]);
    }

    /* Waits for the other's weights, and takes its bases over. Who reads them has its products see what was stored: a fence
     * waits for products under way, of which there are more where they are stored. */
    __device__ __forceinline__ void hear(uint32_t number, float (&scale)[2]) {
        const uint32_t slot = mla_slot(number);
        mbarrier_wait(shared_address(&desk.weights[slot]), mla_parity(number));
        fence_shared_for_async();
        const float base[2] = {desk.base[slot][first_row()], desk.base[slot][first_row() + 8]};
        grow(base, scale);
        constexpr int half = (MLA_PARTS - 1) / 2;
#pragma unroll
        for (int i = 0; i < half; i++) {
            wait_part(number, (int)who * half + i); /* long there, as scores were computed; but here it is known */
        }
    }

    __device__ __forceinline__ void rescale(float (&out)[sums], const float (&scale)[2]) const {
        if (__any_sync(~0u, scale[0] != 1 || scale[1] != 1)) {
#pragma unroll
            for (int i = 0; i < sums; i++) {
                out[i] *= scale[i / 2 % 2];
            }
        }
    }

    __device__ __forceinline__ void release(uint32_t number) const {
        arrive(desk.empty[mla_slot(number)][who]);
    }

    /* Waits for the other's weights of a block, and starts their product. */
    __device__ __forceinline__ void take_other(float (&out)[sums], uint32_t number) {
        float scale[2];
        hear(number, scale);
        rescale(out, scale);
        start_other(out, number);
    }

    /* Behind the scores of this warpgroup's own block: its weights, and their product. That is started before the other
     * hears of the weights, so that tensor cores have something to do meanwhile. */
    __device__ __forceinline__ void finish_own(float (&out)[sums], float (&scores)[WEFT_MLA_KEYS / 2], uint32_t number,
                                               int key, bool is_last) {
        float scale[2];
        uint32_t weights[WEFT_MLA_KEYS / 4];
        if (is_last) {
            arrive(desk.q_empty);
        }
        soften(scores, weights, key, number, scale);
        rescale(out, scale);
        start_own(out, weights, number);
        tell(weights, number);
        wgmma_wait<0>(); /* the slot is of more use empty than a product in advance */
        wgmma_hold(out);
        release(number);
    }

    /* Behind block i of this warpgroup's own: what there is to start. The first part of its next block fills the time until
     * the other's weights are there. */
    __device__ __forceinline__ bool go_on(float (&out)[sums], float (&scores)[WEFT_MLA_KEYS / 2], uint32_t number, int i,
                                          int count) {
        if (i + 2 < count) {
            start_part<0>(scores, number + i + 2);
        }
        if (i + 1 < count) {
            take_other(out, number + i + 1);
        }
        return i + 1 < count;
    }

    /* The blocks of a run: number .. number + count - 1 of the CTA, from key `key` on. */
    __device__ __forceinline__ void sweep(float (&out)[sums], uint32_t number, int count, int key) {
        float scores[WEFT_MLA_KEYS / 2];
        int i = (int)who;
        wgmma_hold(out);    /* it is 0 here already, not only where it is needed: products are under way there */
        bool holds = false; /* the product with the block before is under way, and its slot not given back */
        if (i < count) {
            start_part<0>(scores, number + i);
        }
        if (who == 1) {
            float scale[2];
            hear(number, scale); /* there are no sums yet to be rescaled */
            start_other(out, number);
            holds = true;
        }
#pragma unroll 1
        for (; i < count; i += 2) {
            start_parts(scores, number + i, holds);
            wgmma_wait<0>();
            wgmma_hold(scores);
            wgmma_hold(out);
            finish_own(out, scores, number + i, key + i * WEFT_MLA_KEYS, i + 2 >= count);
            holds = go_on(out, scores, number, i, count);
        }
        wgmma_wait<0>();
        wgmma_hold(out);
        if (holds) {
            release(number + count - 1);
        }
        if (who == 1 && count == 1) {
            arrive(desk.q_empty);
        }
    }
};

#endif
