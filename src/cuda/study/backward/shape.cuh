/* SPDX-License-Identifier: Apache-2.0 */
/* What a variant of the portable backward is made of, and a tile's way through its pieces.
 *
 * Both launches do the same to a tile, with other tensors: the rows of two tensors are held, X and its partner X', and
 * those of two others pass piece by piece, Y and Y'. Scores are X Y^T, and the gradients of weights X' Y'^T.
 *
 *            rows      X   X'   columns   Y   Y'   sums
 *   dq       queries   Q   dO   keys      K   V    dQ
 *   dk_dv    keys      K   V    queries   Q   dO   dK, dV */
#ifndef WEFT_CUDA_STUDY_BACKWARD_SHAPE_CUH
#define WEFT_CUDA_STUDY_BACKWARD_SHAPE_CUH

#include "cuda/study/backward/params.h"
#include "cuda/study/general.cuh"
#include "cuda/study/piece.cuh"

/* The columns of a row of variants.def. KEYS: 1 where keys are the rows of a tile. */
template <weft_dtype DTYPE, int HEAD_DIM, int HEAD_DIM_V, int TILE, int WARPS, int SPLIT, int PIECE, int KEYS>
struct study_backward_shape
    : study_shape<DTYPE, HEAD_DIM, TILE, TILE, WEFT_STUDY_FAST, WARPS, PIECE, 4, 0, 0, HEAD_DIM_V, SPLIT> {
    using base = study_shape<DTYPE, HEAD_DIM, TILE, TILE, WEFT_STUDY_FAST, WARPS, PIECE, 4, 0, 0, HEAD_DIM_V, SPLIT>;
    static constexpr bool keys = KEYS != 0;
    static constexpr int ring_at = 2 * base::q_bytes; /* X, X', then two stages of Y and Y' */
    static constexpr int stage_bytes = 2 * base::slot_bytes;
    static constexpr int runs = TILE > 2 * PIECE ? TILE : 2 * PIECE;
    static constexpr int numbers_at = ring_at + 2 * stage_bytes + WEFT_STUDY_RUN_BYTES * runs;
    static constexpr int out = base::depth / SPLIT, out_v = base::depth_v / SPLIT; /* columns of the sums of a warp */
    static_assert(base::bands == 1 && PIECE / 8 * 4 <= 32, "the weights of a lane have a bit each in a word");
    static_assert(numbers_at + 2 * 2 * 4 * PIECE == WEFT_STUDY_BACKWARD_SHARED_BYTES(HEAD_DIM, TILE, PIECE), "see there");
};

/* One product of a shape: over DEPTH elements of head dim, or into as many columns. */
template <class S, int DEPTH> struct study_product : S { static constexpr int depth = DEPTH, columns = DEPTH; };

/* A visit to a tile. study_general_job says what it needs where rows are queries; where they are keys, first_row and rows
 * are of keys, and what belongs to a query head is not set. */
using study_backward_job = study_general_job;

/* What a tile meets at a time: a piece of the columns, for one query head. */
template <class S> struct study_meeting {
    int head;         /* of queries */
    int number, left; /* of the step in hand, and how many steps of this head are left with this one */
    int part;         /* which piece of the step */
    int step;         /* that the number stands for */
    int32_t bits_at;  /* of the step's block of a block mask, see weft_pairs */
    bool more;        /* 0: there is no such piece */

    __device__ __forceinline__ int column() const { /* the first */
        return (step * S::pieces + part) * S::piece;
    }
};

/* Sets step and bits_at; returns 0 where a block mask does not list the step. Lists are of queries: tiles of keys look
 * whether they are named. */
template <class S>
static __device__ __forceinline__ bool study_meet(const weft_study_params &p, const study_backward_job &job,
                                                  study_meeting<S> &m) {
    const weft_reach &reach = p.walk.reach;
    if constexpr (S::keys) {
        m.step = m.number;
        m.bits_at = -1;
        if (reach.blocks.pairs.block_starts) {
            const int64_t entry = weft_blocks_entry(&reach.blocks, job.visit.tile.batch, m.head,
                                                    (int64_t)m.step * reach.tile_columns, job.first_row);
            m.bits_at = entry < 0 ? -1 : reach.blocks.pairs.block_bits_at[entry];
            return entry >= 0;
        }
        return true;
    }
    m.step = (int)weft_visit_step(&reach, &job.visit, m.number);
    m.bits_at = weft_visit_bits(&reach, &job.visit, m.number);
    return true;
}

/* The query heads of a tile: first .. end - 1. */
template <class S>
static __device__ __forceinline__ weft_rows study_heads(const weft_study_params &p, const study_backward_job &job) {
    const int64_t group = S::keys ? (int64_t)p.by_kv_group.value : 1;
    return weft_rows{job.visit.tile.head * group, (job.visit.tile.head + 1) * group};
}

/* Moves on to a step that is met, from the one in hand if `from_next` is 0. */
template <class S>
static __device__ __forceinline__ void study_find_step(const weft_study_params &p, const study_backward_job &job,
                                                       study_meeting<S> &m, bool from_next) {
    const int end = (int)study_heads<S>(p, job).end;
    for (;;) {
        if (from_next) {
            m.number += job.visit.direction;
            m.left--;
        }
        if (m.left <= 0) {
            m.head++;
            m.number = (int)job.visit.first;
            m.left = (int)job.visit.steps;
        }
        m.more = m.head < end;
        if (!m.more || study_meet<S>(p, job, m)) {
            return;
        }
        from_next = true;
    }
}

template <class S>
static __device__ __forceinline__ study_meeting<S> study_first_meeting(const weft_study_params &p,
                                                                       const study_backward_job &job) {
    study_meeting<S> m = {};
    m.head = (int)study_heads<S>(p, job).begin;
    m.number = (int)job.visit.first;
    m.left = (int)job.visit.steps;
    if (m.left > 0) {
        study_find_step<S>(p, job, m, false);
    }
    return m;
}

template <class S>
static __device__ __forceinline__ study_meeting<S> study_next_meeting(const weft_study_params &p,
                                                                      const study_backward_job &job, study_meeting<S> m) {
    if (++m.part == S::pieces) {
        m.part = 0;
        study_find_step<S>(p, job, m, true);
    }
    return m;
}

#endif
