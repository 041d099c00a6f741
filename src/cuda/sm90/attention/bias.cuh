/* SPDX-License-Identifier: Apache-2.0 */
/* A dense bias: what is added to scores, or which of them count, from memory to the registers of a warpgroup.
 *
 * One thread has it copied, for each warpgroup by itself: the 64 rows and the keys of each step into a ring of the
 * warpgroup's own, which gives a place back when its weights are settled. So a warpgroup waits for no other, and a step
 * that is done again still finds its bias.
 *
 * Scores with a bias are in natural units: scale * score + bias, so that no finite bias overflows. However low it is, it
 * hides nothing; -inf hides, and needs no care. */
#ifndef WEFT_CUDA_SM90_ATTENTION_BIAS_CUH
#define WEFT_CUDA_SM90_ATTENTION_BIAS_CUH

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/attention/softmax.cuh"

/* Shifts beyond this, either way, are rounded so coarsely that exponents over them are not to be fused. */
#define HOPPER_FUSED_SHIFT 65536.0f

/* The ring of a warpgroup, by the type of the bias: as many steps as it has room for. */
template <class S> struct hopper_bias_ring {
    uint32_t step_bytes, row_bytes; /* of 64 rows, and of a row of a box; a row of a step may be several */
    uint32_t places;
    uint32_t index, parity; /* of the place at hand */

    __device__ __forceinline__ hopper_bias_ring(int type) : index(0), parity(0) {
        const uint32_t bytes = type == WEFT_BIAS_BOOL ? 1 : type == WEFT_BIAS_FP32 ? 4 : 2;
        step_bytes = 64 * S::keys * bytes;
        row_bytes = min(S::keys * bytes, 128u);
        places = min(S::bias_bytes / step_bytes, (uint32_t)WEFT_HOPPER_BIAS_PLACES);
    }

    __device__ __forceinline__ void next() {
        if (++index == places) {
            index = 0;
            parity ^= 1;
        }
    }
};

/* Has the bias of all tiles copied: a thread beside the producer. */
template <class S>
static __device__ __forceinline__ void hopper_feed_bias(const weft_hopper_attention_params &p, hopper_desk<S> &desk,
                                                        uint32_t base) {
    const weft_hopper_bias &bias = p.bias;
    hopper_bias_ring<S> ring(bias.type);
    const uint32_t bytes = ring.step_bytes / 64 * (uint32_t)bias.rows, box_bytes = 64 * ring.row_bytes;
    const int box_keys = (int)(S::keys * ring.row_bytes * 64 / ring.step_bytes);
    for (uint32_t tiles = 0, more = 1; more; tiles++) {
        const uint32_t slot = tiles % S::q_slots;
        mbarrier_wait_idly(shared_address(&desk.told[slot]), tiles / S::q_slots % 2);
        const hopper_job job = desk.jobs[slot];
        mbarrier_arrive(shared_address(&desk.q_full[slot])); /* it is read */
        for (int i = 0; i < job.steps; i++) {
            const int key = (job.begin + (job.downward ? job.steps - 1 - i : i)) * S::keys;
            for (int group = 0; group < S::groups; group++) {
                const uint32_t full = shared_address(&desk.bias.full[group][ring.index]);
                const uint32_t to = base + S::bias_at + group * S::bias_bytes + ring.index * ring.step_bytes;
                mbarrier_wait(shared_address(&desk.bias.empty[group][ring.index]), ring.parity ^ 1);
                mbarrier_expect(full, bytes);
                for (int box = 0; box * box_keys < S::keys; box++) {
                    tma_load_4d(to + box * box_bytes, &bias.map, full, key + box * box_keys,
                                bias.rows == 1 ? 0 : job.row + group * 64, job.head * bias.by_head,
                                job.batch * bias.by_batch, bias.keep);
                }
            }
            ring.next();
        }
        more = (uint32_t)job.more;
    }
}

/* Two neighbours of a row, as they lie there. */
template <bool BF16> static __device__ __forceinline__ void hopper_bias_of(float (&two)[2], uint32_t both) {
    two[0] = half_to_float<BF16>(both & 0xffff);
    two[1] = BF16 ? __uint_as_float(both & 0xffff0000u) : half_to_float<BF16>(both >> 16);
}

/* Calls use(i, bias of scores[i], bias of scores[i + 1]) for all pairs of a step's scores. from: where the warpgroup's 64
 * rows are; rows: 64, or 1 where all are the same. */
template <class S, int COUNT, class USE>
static __device__ __forceinline__ void hopper_for_halves(uint32_t from, int rows, USE use) {
    const uint32_t thread = thread_index() % 128, lane = thread % 32;
    /* Lanes 8 i .. 8 i + 7 name the rows of matrix i: rows 0 and 8 of 8 keys, then of the next 8. */
    const uint32_t row = (thread / 32 * 16 + lane % 16) & (uint32_t)(rows - 1);
    const uint32_t first = settled(from + row * 128 + ((lane / 16) ^ (row % 8)) * 16);
#pragma unroll
    for (int j = 0; j < COUNT / 8; j++) { /* 16 keys, of 64 a box */
        uint32_t words[4];
        ldmatrix_x4(words, (first ^ (uint32_t)(j % 4 * 32)) + (uint32_t)(j / 4) * 8192);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float two[2];
            hopper_bias_of<S::bf16>(two, words[i]);
            use(8 * j + 2 * i, two[0], two[1]);
        }
    }
}

template <class S, int COUNT, class USE>
static __device__ __forceinline__ void hopper_for_floats(uint32_t from, int rows, USE use) {
    const uint32_t thread = thread_index() % 128, lane = thread % 32;
    const uint32_t row = (thread / 32 * 16 + lane / 4) & (uint32_t)(rows - 1), further = rows == 1 ? 0 : 1024;
    const uint32_t first = settled(from + row * 128 + ((lane % 4 / 2) ^ (row % 8)) * 16 + lane % 2 * 8);
#pragma unroll
    for (int j = 0; j < COUNT / 4; j++) { /* 8 keys, of 32 a box */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float two[2];
            shared_load((first ^ (uint32_t)(j % 4 * 32)) + (uint32_t)(j / 4) * 8192 + half * further, two);
            use(4 * j + 2 * half, two[0], two[1]);
        }
    }
}

template <class S, int COUNT, class USE>
static __device__ __forceinline__ void hopper_for_bools(uint32_t from, int rows, USE use) {
    constexpr uint32_t bytes = S::keys < 128 ? S::keys : 128, in_line = 128 / bytes; /* of a row; rows in 128 bytes */
    const uint32_t thread = thread_index() % 128, lane = thread % 32;
    const uint32_t row = (thread / 32 * 16 + lane / 4) & (uint32_t)(rows - 1), further = rows == 1 ? 0 : 8 * bytes;
    const uint32_t first = settled(from + row * bytes + (row / in_line % (8 / in_line)) * 16 + lane % 4 * 2);
#pragma unroll
    for (int j = 0; j < COUNT / 4; j++) { /* 8 keys */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t both;
            shared_load_16((first ^ (uint32_t)(j / 2 * 16)) + (uint32_t)(j % 2 * 8) + half * further, both);
            use(4 * j + 2 * half, both & 0xff ? 0 : -INFINITY, both >> 8 ? 0 : -INFINITY);
        }
    }
}

/* Forms without a bias have none of this. */
template <class S, bool HAS = S::bias> struct hopper_bias_reader {
    __device__ __forceinline__ hopper_bias_reader(const weft_hopper_bias &, hopper_desk<S> &, uint32_t, uint32_t) {
    }
    __device__ __forceinline__ void wait() const {
    }
    __device__ __forceinline__ void give_back() {
    }
};

/* A warpgroup's reading of the bias, step by step. */
template <class S> struct hopper_bias_reader<S, true> {
    const weft_hopper_bias &p;
    hopper_desk<S> &desk;
    uint32_t group, at; /* the ring's shared address */
    hopper_bias_ring<S> ring;

    __device__ __forceinline__ hopper_bias_reader(const weft_hopper_bias &bias, hopper_desk<S> &shared, uint32_t base,
                                                  uint32_t number)
        : p(bias), desk(shared), group(number), at(base + S::bias_at + number * S::bias_bytes), ring(bias.type) {
    }

    /* Waits for the bias of the step at hand. */
    __device__ __forceinline__ void wait() const {
        mbarrier_wait(shared_address(&desk.bias.full[group][ring.index]), ring.parity);
    }

    /* It is not needed any more. */
    __device__ __forceinline__ void give_back() {
        __syncwarp();
        if (thread_index() % 32 == 0) {
            mbarrier_arrive(shared_address(&desk.bias.empty[group][ring.index]));
        }
        ring.next();
    }

    template <int COUNT, class USE> __device__ __forceinline__ void for_pairs(USE use) const {
        const uint32_t from = at + ring.index * ring.step_bytes;
        if (p.type == WEFT_BIAS_DTYPE) {
            hopper_for_halves<S, COUNT>(from, p.rows, use);
        } else if (p.type == WEFT_BIAS_FP32) {
            hopper_for_floats<S, COUNT>(from, p.rows, use);
        } else {
            hopper_for_bools<S, COUNT>(from, p.rows, use);
        }
    }

    /* Scores become scaled and biased ones. */
    template <int COUNT> __device__ __forceinline__ void add(float (&scores)[COUNT]) const {
        const float scale = p.scale;
        for_pairs<COUNT>([&](int i, float one, float other) {
            scores[i] = fmaf(scores[i], scale, one);
            scores[i + 1] = fmaf(scores[i + 1], scale, other);
        });
    }

    /* Scores become the exponentials of biased ones over the shifts as they are. Returns whether those of this thread are
     * wrong because a row's shift is too large to fuse. Exponents of a row that has seen nothing are to exceed all, so that
     * the step is done again, but not where they are -inf: half of any finite bias is above -3e38. */
    template <int COUNT>
    __device__ __forceinline__ bool exponentials(float (&scores)[COUNT], const hopper_rows &rows, float scale_log2) const {
        float unit[2], base[2];
        bool wrong = false;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const bool none = rows.shift[half] == HOPPER_NO_SHIFT;
            unit[half] = none ? 0.5f : HOPPER_LOG2E;
            base[half] = none ? 3e38f : -rows.shift[half] * HOPPER_LOG2E;
            wrong = wrong || (fabsf(rows.shift[half]) > HOPPER_FUSED_SHIFT && rows.sum[half] > 0);
        }
        for_pairs<COUNT>([&](int i, float one, float other) {
            const int half = i / 2 % 2;
            scores[i] = exp2_flushed(fmaf(scores[i], scale_log2, fmaf(one, unit[half], base[half])));
            scores[i + 1] = exp2_flushed(fmaf(scores[i + 1], scale_log2, fmaf(other, unit[half], base[half])));
        });
        return wrong;
    }
};

#endif
