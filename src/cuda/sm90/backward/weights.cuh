/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a warpgroup's 64 keys for the queries of a step, from their scores. */
#ifndef WEFT_CUDA_SM90_BACKWARD_WEIGHTS_CUH
#define WEFT_CUDA_SM90_BACKWARD_WEIGHTS_CUH

#include "cuda/sm90/backward/shape.cuh"

/* Numbers of COUNT of the thread's queries, from the first-th on; from: those of the block. See backward_number_at(). Asked
 * for before products are waited for: shared memory answers late while it feeds them. */
template <int COUNT> static __device__ __forceinline__ void backward_numbers(float (&to)[COUNT], uint32_t from, int first) {
    from += thread_index() % 4 * 16 + first * 16;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float four[4];
        shared_load(from + i * 16, four);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            to[i + j] = four[j];
        }
    }
}

/* Scores of a step: rows are keys, columns queries. */
template <class S> struct backward_scores {
    const weft_hopper_backward_params &p;
    const backward_desk<S> &desk;
    uint32_t stage; /* the step's */
    uint32_t first; /* of the tile's keys: the warpgroup's first */

    /* Hides pairs of queries and keys that do not see each other. */
    __device__ __forceinline__ void mask(float (&scores)[S::queries / 2], const backward_general_step &) const {
        const uint32_t thread = thread_index(), key = first + thread % 128 / 32 * 16 + thread % 32 / 4;
        const uint32_t from = shared_address(desk.views.runs[stage]) + thread % 4 * 4; /* two queries of every eight */
#pragma unroll
        for (int j = 0; j < S::queries / 8; j++) {
            uint32_t two[1];
            shared_load(from + j * 16, two);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t run = two[0] >> i % 2 * 16, further = key + i / 2 * 8 - run % 256;
                scores[4 * j + i] = further < run / 256 % 256 ? scores[4 * j + i] : -INFINITY;
            }
        }
        if constexpr (S::pairs) {
            hide(scores, (int)(first + thread % 128 / 32 * 16));
        }
    }

    /* Pairs: hides what bits of a block mask or a tree mask do. Lanes read the bits of two queries each, for the 16 keys of
     * their warp, of which `key` is the first, and give each other theirs: few registers are left. */
    __device__ __forceinline__ void hide(float (&scores)[S::queries / 2], int key) const {
        const backward_bits &bits = desk.views.bits[stage];
        const int lane = (int)thread_index() % 32;
        if (!bits.words && !bits.tree) {
            return;
        }
        uint32_t words[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int query = min(lane + i * 32, bits.last);
            words[i] = 0xffffffffu;
            if (bits.words) {
                words[i] = bits.words[(int64_t)query * bits.stride + min(key / 32, bits.last_word)] >> key % 32;
            }
            if (bits.tree) {
                words[i] &= weft_tree_word(bits.tree[query], -(bits.tree_at + key), 0);
            }
        }
        static_assert(S::queries == 64, "two for each lane");
#pragma unroll
        for (int i = 0; i < S::queries / 4; i++) {
            const uint32_t word = __shfl_sync(0xffffffffu, words[i / 8], i / 2 % 4 * 8 + lane % 4 * 2 + i % 2) >> lane / 4;
            float *two = &scores[i / 2 * 4 + i % 2]; /* keys that are 8 apart */
            two[0] = word & 1 ? two[0] : -INFINITY;
            two[2] = word & 256 ? two[2] : -INFINITY;
        }
    }

    __device__ __forceinline__ void mask(float (&scores)[S::queries / 2], const backward_step &step) const {
        const int thread = (int)thread_index();
        const int key = (int)first + thread % 128 / 32 * 16 + thread % 32 / 4, query = thread % 4 * 2;
        const int last = step.last - key;                                        /* key that is there */
        const int seen = p.causal ? step.seen + query - key : last + S::queries; /* by the thread's first query */
#pragma unroll
        for (int i = 0; i < S::queries / 2; i++) {
            const int row = i / 2 % 2 * 8, column = i / 4 * 8 + i % 2;
            scores[i] = row <= last && row <= seen + column ? scores[i] : -INFINITY;
        }
    }

    __device__ __forceinline__ void weigh_plain(float (&scores)[S::queries / 2], const float (&sums)[S::queries / 4],
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

    /* General: the same for scores that are capped, where CAPPED, and fall by distance. What is left in `scores` is what dP
     * is multiplied by: the weights times the slope of the cap. tanh(x) is 1 - 2 / (1 + e^2x). */
    template <bool CAPPED>
    __device__ __forceinline__ void weigh_changed(float (&scores)[S::queries / 2], const float (&sums)[S::queries / 4],
                                                  uint32_t (&weights)[S::queries / 4]) const {
        const int thread = (int)thread_index();
        const float slope = desk.views.slope[stage];
        const int key = (int)first + thread % 128 / 32 * 16 + thread % 32 / 4, query = thread % 4 * 2;
        const float away = desk.views.away[stage] + (float)(query - key);
#pragma unroll
        for (int j = 0; j < S::queries / 8; j++) {
            float four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &score = scores[4 * j + i];
                const float distance = fabsf(away + (float)(j * 8 + i % 2 - i / 2 * 8));
                const float fall = fmaf(slope, distance, sums[2 * j + i % 2]);
                if constexpr (CAPPED) {
                    const float part = reciprocal_flushed(1 + exp2_flushed(score * p.scores.cap_scale));
                    const float weight = exp2_flushed(fmaf(p.scores.cap, 1 - 2 * part, -fall));
                    four[i] = score == -INFINITY ? 0 : weight; /* hidden, which a cap would undo */
                    score = four[i] * (4 * part * (1 - part));
                } else {
                    score = four[i] = exp2_flushed(fmaf(score, p.scale_log2, -fall));
                }
            }
            weights[2 * j] = pack_halves<S::bf16>(four[0], four[1]);
            weights[2 * j + 1] = pack_halves<S::bf16>(four[2], four[3]);
        }
    }

    /* The weights, rounded; what is left in `scores` is what dP is multiplied by. sums: of the thread's queries. */
    __device__ __forceinline__ void weigh(float (&scores)[S::queries / 2], const float (&sums)[S::queries / 4],
                                          uint32_t (&weights)[S::queries / 4]) const {
        if (desk.steps[stage].hides) {
            mask(scores, desk.steps[stage]);
        }
        if constexpr (S::general) {
            if (p.scores.cap > 0) {
                weigh_changed<true>(scores, sums, weights);
                return;
            }
            if (p.scores.alibi) {
                weigh_changed<false>(scores, sums, weights);
                return;
            }
        }
        weigh_plain(scores, sums, weights);
    }
};

#endif
