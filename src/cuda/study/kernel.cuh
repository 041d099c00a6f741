/* SPDX-License-Identifier: Apache-2.0 */
/* The study kernel: attention forward, split over queries, one tile of the walk after the other.
 *
 * A CTA holds tile_m queries; each warp owns warp_rows of them from scores to output, so warps meet only to share K and V.
 * Those come in pieces, K and V in turn, through a ring in shared memory: while one is computed the next are on their way.
 * What is next is asked of weft_worker_next(), by one thread, while the tile's first loads are in flight. */
#ifndef WEFT_CUDA_STUDY_KERNEL_CUH
#define WEFT_CUDA_STUDY_KERNEL_CUH

#include "cuda/study/store.cuh"
#include "cuda/study/sweep.cuh"

/* What the threads of a CTA share beside the tiles. It is read again where it is needed, not held in registers. */
template <class S> struct study_desk {
    weft_worker worker;
    study_job_of<S> job, next; /* the tile at work and the one after it */
};

static __device__ __forceinline__ int64_t study_row_bytes(const weft_strides &s, int64_t batch, int64_t row, int64_t head,
                                                          int32_t bytes = 2) {
    return bytes * (batch * s.batch + row * s.seq + head * s.head);
}

template <class S>
static __device__ __forceinline__ void study_fetch(const weft_study_params &p, weft_worker *at, study_job_of<S> *job) {
    weft_worker worker = *at;
    weft_visit visit = {}; /* set, or it would hold registers all through the tile */
    const weft_deal deal = {0, -1, S::general ? WEFT_REACH_BLOCKS : WEFT_REACH_PREFIX, 0, 0};
    job->more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
    const weft_tile &t = visit.tile;
    const int64_t kv_head = weft_divide(t.head, &p.by_kv_group);
    const int64_t row = S::general ? visit.cut.rows.begin : t.block * S::tile_m;
    const int64_t kv_batch = S::general && p.general.pages.page > 0 ? 0 : t.batch;
    job->visit = visit;
    job->q = (const char *)p.q + study_row_bytes(p.q_strides, t.batch, row, t.head);
    job->k = (const char *)p.k + study_row_bytes(p.k_strides, kv_batch, 0, kv_head);
    job->v = (const char *)p.v + study_row_bytes(p.v_strides, kv_batch, 0, kv_head);
    job->o = (char *)p.o + study_row_bytes(p.o_strides, t.batch, row, t.head, S::general ? p.general.out_bytes : 2);
    job->lse = p.lse ? p.lse + (t.batch * p.heads + t.head) * p.seq + row : nullptr;
    if constexpr (S::general) {
        study_describe<S>(p, visit, job);
    }
    *at = worker;
}

/* One tile, from its first copies on. q_at: where its queries are in shared memory. */
template <class S>
static __device__ __forceinline__ void study_tile(const weft_study_params &p, const study_job_of<S> &job,
                                                  const study_job_of<S> &next, unsigned char *shared, uint32_t base,
                                                  uint32_t q_at) {
    study_feed<S> feed(p, job, base);
    float out[S::bands][S::columns / 8][4];
    study_rows<S> rows;
    if constexpr (S::general) {
        study_set_runs<S>(p, job);
    }
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int n = 0; n < S::columns / 8; n++) {
            out[b][n][0] = out[b][n][1] = out[b][n][2] = out[b][n][3] = 0;
        }
        rows.max[b][0] = rows.max[b][1] = -INFINITY;
        rows.sum[b][0] = rows.sum[b][1] = 0;
    }

    const uint32_t q = settled(base + q_at + study_warp_row<S>(threadIdx.x) * S::row_bytes + study_lane_at<S>());
    uint32_t q_held[S::q_steps][S::bands][4];
    if (S::q_held && feed.left > 0) {
        study_hold_q<S>(q_held, q);
    }
    if constexpr (S::overlap) {
        study_sweep_overlapped<S>(feed, rows, out, q, q_held);
    } else {
        study_sweep<S>(feed, next, rows, out, q, q_held, shared, base, S::q_bytes - q_at);
    }
    const int own = (int)(thread_index() / 32 / S::split * S::warp_rows); /* the warp's first row of the tile */
    if constexpr (S::general) {
        study_store_general<S>(p, job, own, rows, out, shared + q_at + own * S::row_bytes);
    } else {
        study_store<S>(p, job, own, rows, out, shared + q_at + own * S::row_bytes);
    }
}

template <class S> static __device__ __forceinline__ void study_attention(const weft_study_params &p) {
    extern __shared__ __align__(256) unsigned char study_shared[];
    static __shared__ study_desk<S> desk;
    const uint32_t base = settled((uint32_t)__cvta_generic_to_shared(study_shared));
    constexpr int words = sizeof(study_job_of<S>) / 4;
    static_assert(words <= S::threads, "a CTA copies a job at once");
    if (threadIdx.x == 0) {
        desk.worker = weft_worker_start(&p.walk, p.worker_of_sm ? p.worker_of_sm[sm_index()] : blockIdx.x, p.counter);
        desk.job.more = 1;
        desk.job.visit.steps = -1; /* the first round has no tile yet, and only fetches */
    }
    __syncthreads();
    uint32_t q_at = 0;
    bool begun = false; /* with the tile before */
    while (desk.job.more) {
        if (!begun && desk.job.visit.steps > 0) {
            study_begin<S>(p, desk.job, study_shared, base, q_at);
        }
        if (threadIdx.x == 0) {
            study_fetch<S>(p, &desk.worker, &desk.next);
        }
        if (desk.job.visit.steps >= 0) {
            study_tile<S>(p, desk.job, desk.next, study_shared, base, q_at);
        }
        if (S::ahead) {
            begun = desk.job.visit.steps > 0 && study_begins_ahead(p, desk.next);
            q_at = S::q_bytes - q_at;
        }
        __syncthreads(); /* nobody reads this tile's pieces or job any more, and the next job is there */
        const uint32_t thread = thread_index();
        if (thread < words) {
            ((uint32_t *)&desk.job)[thread] = ((const uint32_t *)&desk.next)[thread];
        }
        __syncthreads();
    }
}

#endif
