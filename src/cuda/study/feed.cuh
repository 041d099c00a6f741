/* SPDX-License-Identifier: Apache-2.0 */
/* How the pieces of K and V come into shared memory. */
#ifndef WEFT_CUDA_STUDY_FEED_CUH
#define WEFT_CUDA_STUDY_FEED_CUH

#include <type_traits>

#include "cuda/study/load.cuh"

/* A visit to a tile, and where its tensors are. */
struct study_job {
    weft_visit visit;
    const char *q, *k, *v; /* the tile's first query, and key 0; in pages: row 0 of page 0 */
    char *o;
    float *lse; /* of the tile's first query, or null */
    int more;   /* 0: there is no such visit */
};

/* What general variants know of it beside. */
struct study_general_job : study_job {
    weft_sequence sequence;
    int first_row, rows; /* of the tensor; and how many of the tile are there */
    float slope, sink;   /* in base 2 */
    int64_t position;    /* of the first row, as the number of a key */
    int64_t line;        /* batch * heads + head */
    const char *bias;    /* of the first row and key 0, or null */
    float *max;          /* likewise, of the first row */
    int needed[2];       /* columns that some row sees: from the first to before the second */
};

template <class S> using study_job_of = std::conditional_t<S::general, study_general_job, study_job>;

/* The pieces of one tile, on their way through the slots of the ring. */
template <class S> struct study_feed {
    const weft_study_params &p;
    const study_job_of<S> &job;
    uint32_t ring;   /* shared address of the first slot */
    int piece, left; /* the number of the piece in hand, and how many are left with this one */

    __device__ __forceinline__ study_feed(const weft_study_params &params, const study_job_of<S> &of, uint32_t shared)
        : p(params), job(of) {
        ring = shared + S::ring_at;
        left = (int)job.visit.steps * S::pieces;
        piece = job.visit.direction < 0 ? left - 1 : 0;
        if constexpr (S::general) {
            piece = (int)job.visit.first * S::pieces + (job.visit.direction < 0 ? S::pieces - 1 : 0);
        }
    }

    /* The piece of K and V that a number stands for: under a block mask, pieces of the listed steps are numbered. */
    __device__ __forceinline__ int place(int number) const {
        if constexpr (S::general) {
            const int step = number / S::pieces;
            return (int)weft_visit_step(&p.walk.reach, &job.visit, step) * S::pieces + number - step * S::pieces;
        }
        return number;
    }

    __device__ __forceinline__ uint32_t slot(int index) const {
        return ring + (uint32_t)(index * S::slot_bytes);
    }

    /* Starts copying K or V of the piece `ahead` pieces further, if there is one. */
    template <bool IS_V> __device__ __forceinline__ void copy(int ahead, uint32_t to) const {
        if (ahead < left) {
            const uint32_t key = (uint32_t)place(piece + ahead * job.visit.direction) * S::piece; /* below 2^31 + tile_n */
            if constexpr (S::general) {
                constexpr int depth = IS_V ? S::depth_v : S::depth;
                const int begin = (int)job.sequence.columns.begin, end = (int)job.sequence.columns.end;
                study_source from = IS_V ? study_source{job.v, 2 * p.v_strides.seq, p.general.head_dim_v, p.general.v_unit}
                                         : study_source{job.k, 2 * p.k_strides.seq, p.general.head_dim, p.general.k_unit};
                if (p.general.pages.page > 0) {
                    const study_pages pages = {&p.general.pages, job.visit.tile.batch,
                                               2 * (IS_V ? p.v_strides.batch : p.k_strides.batch), job.needed};
                    if (!study_one_page<S::piece>(from, pages, (int)key, begin, end)) {
                        if (from.unit == 16) {
                            study_load_rows<S, S::piece, depth, !IS_V, true>(to, from, pages, (int)key, begin, end);
                        } else {
                            study_load_rows<S, S::piece, depth, !IS_V, false>(to, from, pages, (int)key, begin, end);
                        }
                        return;
                    }
                }
                study_load<S, S::piece, depth>(to, from, (int)key, begin, end);
                return;
            }
            study_copy<S, S::piece>(to, IS_V ? job.v : job.k, 2 * (IS_V ? p.v_strides.seq : p.k_strides.seq), key,
                                    (uint32_t)p.kv_seq);
        }
    }

    /* Without prefetch, what was started is waited for at once, so that nothing is computed meanwhile. */
    __device__ __forceinline__ void started() const {
        cp_async_commit();
        if (p.no_prefetch) {
            cp_async_wait<0>();
        }
    }

    __device__ __forceinline__ void next_piece() {
        piece += job.visit.direction;
        left--;
    }
};

#endif
