/* SPDX-License-Identifier: Apache-2.0 */
/* A tile's way through its pieces: load, scores, mask, softmax, values; plainly or overlapped. */
#ifndef WEFT_CUDA_STUDY_SWEEP_CUH
#define WEFT_CUDA_STUDY_SWEEP_CUH

#include "cuda/study/general.cuh"
#include "cuda/study/piece.cuh"

/* What a maximum and its scores are multiplied by to be exponents: a general variant's are exponents. */
template <class S> static __device__ __forceinline__ float study_scale(const weft_study_params &p) {
    return S::general ? 1 : p.scale_log2;
}

template <class S> static __device__ __forceinline__ float study_lag(const weft_study_params &p) {
    return S::general ? p.general.lag : p.lag;
}

/* Masks the scores of the piece of a number, if it is on the diagonal or the ragged edge or every block is to be masked.
 * Everything is worked out anew: few pieces need it, and registers are short. */
template <class S>
static __device__ __forceinline__ void study_mask_piece(const weft_study_params &p, const study_job_of<S> &job, int piece,
                                                        float (&scores)[S::bands][S::piece / 8][4]) {
    if constexpr (S::general) {
        const int step = piece / S::pieces, place = (int)weft_visit_step(&p.walk.reach, &job.visit, step) * S::pieces;
        study_settle_piece<S>(p, job, place + piece - step * S::pieces, weft_visit_bits(&p.walk.reach, &job.visit, step),
                              scores);
        return;
    }
    if (!p.mask_every_block && piece < (int)job.visit.full_end * S::pieces) {
        return;
    }
    const int64_t key = (int64_t)piece * S::piece, left = p.kv_seq - key;
    const int present = left < 0 ? 0 : left < S::piece ? (int)left : S::piece;
    const uint32_t thread = thread_index();
    const int row = (int)(thread / 32 * S::warp_rows + thread % 32 / 4);
    const int64_t visible = job.visit.tile.block * S::tile_m + row + p.walk.reach.slice.high + 1 - key;
    study_mask<S>(scores, visible, present);
}

/* Starts item ITEM, counted from the K of the piece in hand: K and V take turns. */
template <class S, int ITEM>
static __device__ __forceinline__ void study_start_item(const study_feed<S> &feed, uint32_t to) {
    feed.template copy<ITEM % 2 != 0>(ITEM / 2, to);
    feed.started();
}

/* Waits for the item in hand, number ITEM (0: K, 1: V), and starts the one that takes the place of the item before it: all
 * warps are past that one when they meet here. */
template <class S, int ITEM> static __device__ __forceinline__ void study_arrive(const study_feed<S> &feed, uint32_t slot) {
    cp_async_wait<S::ring - 2>();
    __syncthreads();
    study_start_item<S, ITEM + S::ring - 1>(feed, slot == feed.ring ? feed.slot(S::ring - 1) : slot - S::slot_bytes);
}

/* Starts the first items of a tile; Q is in the first group. */
template <class S, int ITEM = 0> static __device__ __forceinline__ void study_start(const study_feed<S> &feed) {
    if constexpr (S::overlap) {
        feed.template copy<false>(0, feed.slot(0));
        feed.started();
        feed.template copy<false>(1, feed.slot(1));
        feed.template copy<true>(0, feed.slot(2));
        feed.started();
    } else if constexpr (ITEM < S::ring - 1) {
        study_start_item<S, ITEM>(feed, feed.slot(ITEM));
        study_start<S, ITEM + 1>(feed);
    }
}

/* Starts the copies of Q and of the first pieces. */
template <class S>
static __device__ __forceinline__ void study_begin(const weft_study_params &p, const study_job_of<S> &job,
                                                   unsigned char *shared, uint32_t base, uint32_t q_at) {
    if constexpr (S::general) {
        const study_source from = {job.q, 2 * p.q_strides.seq, p.general.head_dim, p.general.q_unit};
        study_load<S, S::tile_m, S::depth>(base + q_at, from, 0, 0, job.rows);
        study_start<S>(study_feed<S>(p, job, base));
        return;
    }
    const int64_t present = p.seq - job.visit.tile.block * S::tile_m;
    study_copy<S, S::tile_m>(base + q_at, job.q, 2 * p.q_strides.seq, 0,
                             present < S::tile_m ? (uint32_t)present : S::tile_m);
    if (p.negative) {
        cp_async_commit();
        cp_async_wait<0>();
        study_negate<S, S::tile_m>(shared + q_at);
    }
    study_start<S>(study_feed<S>(p, job, base));
}

/* Whether a tile begins before the one before it ends, where there is room; not where its queries have to be waited for. */
static __device__ __forceinline__ bool study_begins_ahead(const weft_study_params &p, const study_job &next) {
    return next.more && next.visit.steps > 0 && !p.negative;
}

/* Waits for Q and takes this warp's share into registers. q: see study_scores. */
template <class S>
static __device__ __forceinline__ void study_hold_q(uint32_t (&q_held)[S::q_steps][S::bands][4], uint32_t q) {
    cp_async_wait<S::overlap ? 1 : S::ring - 2>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < S::q_steps; step++) {
#pragma unroll
        for (int b = 0; b < S::bands; b++) {
            ldmatrix_x4(q_held[step][b], study_k_step<S>(q, step) + (uint32_t)(b * 16 * S::row_bytes));
        }
    }
}

/* Where a warp's own columns of V begin in a row. */
template <class S> static __device__ __forceinline__ uint32_t study_column_at() {
    return S::split == 1 ? 0 : thread_index() / 32 % S::split * (2 * S::columns);
}

/* Piece by piece: K is waited for, then V, each on its own. With the last V the first K of `next` is on its way; its
 * queries go to next_q_at. */
template <class S>
static __device__ __forceinline__ void study_sweep(study_feed<S> &feed, const study_job_of<S> &next, study_rows<S> &rows,
                                                   float (&out)[S::bands][S::columns / 8][4], uint32_t q,
                                                   const uint32_t (&q_held)[S::q_steps][S::bands][4], unsigned char *shared,
                                                   uint32_t base, uint32_t next_q_at) {
    const uint32_t lane_at = settled(study_lane_at<S>());
    const weft_study_params &p = feed.p;
    uint32_t slot = feed.ring;
    while (feed.left > 0) {
        float scores[S::bands][S::piece / 8][4];
        uint32_t weights[S::piece / 16][S::bands][4];
        study_arrive<S, 0>(feed, slot);
        study_scores<S>(scores, q, q_held, settled(slot + study_key_lane_at<S>()));
        slot = slot == feed.slot(S::ring - 1) ? feed.ring : slot + S::slot_bytes;
        study_mask_piece<S>(p, feed.job, feed.piece, scores);
        float largest[S::bands][2];
        if (study_grown<S>(largest, scores, rows, study_lag<S>(p))) {
            study_rescale<S>(rows, out, largest, study_scale<S>(p));
        }
#pragma unroll
        for (int k = 0; k < S::piece / 16; k++) {
            study_weights<S>(weights[k], scores, rows, k, study_scale<S>(p));
            if constexpr (S::general) {
                study_drop<S>(weights[k], p, feed.job, feed.place(feed.piece), k);
            }
        }
        study_arrive<S, 1>(feed, slot);
        if (S::ahead && feed.left == 1 && study_begins_ahead(p, next)) {
            study_begin<S>(p, next, shared, base, next_q_at);
        }
        const uint32_t v = settled(slot + lane_at + study_column_at<S>());
#pragma unroll
        for (int k = 0; k < S::piece / 16; k++) {
            study_values<S>(out, weights[k], k, v);
        }
        slot = slot == feed.slot(S::ring - 1) ? feed.ring : slot + S::slot_bytes;
        feed.next_piece();
    }
}

/* Overlapped: while the tensor cores multiply a piece's weights by V, the exponentials of the next piece are computed. K
 * and V have two slots each, K in 0 and 1, V in 2 and 3; a round waits once, for K of its piece and V of the one before. */
template <class S>
static __device__ __forceinline__ void study_sweep_overlapped(study_feed<S> &feed, study_rows<S> &rows,
                                                              float (&out)[S::bands][S::columns / 8][4], uint32_t q,
                                                              const uint32_t (&q_held)[S::q_steps][S::bands][4]) {
    const uint32_t lane_at = settled(study_lane_at<S>()), key_lane_at = settled(study_key_lane_at<S>());
    const weft_study_params &p = feed.p;
    uint32_t weights[S::piece / 16][S::bands][4]; /* of the piece before */
    uint32_t odd = 0;                             /* slot_bytes when the round is odd */
    bool first = true;
    cp_async_wait<1>();
    while (feed.left > 0) {
        if (!first) {
            cp_async_wait<0>();
        }
        __syncthreads();
        if (!first) { /* the first round's were started with the tile */
            feed.template copy<false>(1, feed.slot(1) - odd);
            feed.template copy<true>(0, feed.slot(2) + odd);
            feed.started();
        }
        float scores[S::bands][S::piece / 8][4];
        study_scores<S>(scores, q, q_held, settled(feed.ring + odd + key_lane_at));
        study_mask_piece<S>(p, feed.job, feed.piece, scores);
        const uint32_t v = settled(feed.slot(3) - odd + lane_at); /* of the piece before */
        float largest[S::bands][2];
        if (study_grown<S>(largest, scores, rows, study_lag<S>(p)) || first) {
#pragma unroll
            for (int k = 0; k < S::piece / 16; k++) {
                if (!first) {
                    study_values<S>(out, weights[k], k, v);
                }
            }
            study_rescale<S>(rows, out, largest, study_scale<S>(p));
#pragma unroll
            for (int k = 0; k < S::piece / 16; k++) {
                study_weights<S>(weights[k], scores, rows, k, study_scale<S>(p));
            }
        } else {
#pragma unroll
            for (int k = 0; k < S::piece / 16; k++) {
                study_values<S>(out, weights[k], k, v);
                study_weights<S>(weights[k], scores, rows, k, study_scale<S>(p));
            }
        }
        odd = S::slot_bytes - odd;
        first = false;
        feed.next_piece();
    }
    if (!first) {
        cp_async_wait<0>();
        __syncthreads();
        const uint32_t v = settled(feed.slot(3) - odd + lane_at);
#pragma unroll
        for (int k = 0; k < S::piece / 16; k++) {
            study_values<S>(out, weights[k], k, v);
        }
    }
}

#endif
