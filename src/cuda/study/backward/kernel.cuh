/* SPDX-License-Identifier: Apache-2.0 */
/* The portable backward: one tile of the walk after the other, for tiles of queries and for tiles of keys. See shape.cuh
 * for what both have in common, and params.h for the launches of a run. */
#ifndef WEFT_CUDA_STUDY_BACKWARD_KERNEL_CUH
#define WEFT_CUDA_STUDY_BACKWARD_KERNEL_CUH

#include "cuda/study/backward/scores.cuh"
#include "cuda/study/store.cuh"

/* What the threads of a CTA share beside the tiles. */
struct study_backward_desk {
    weft_worker worker;
    study_backward_job job, next; /* the tile at work and the one after it */
};

template <class S>
static __device__ __forceinline__ void study_fetch_backward(const weft_study_backward_params &p, weft_worker *at,
                                                            study_backward_job *job) {
    const weft_study_params &f = p.forward;
    weft_worker worker = *at;
    weft_visit visit = {};
    const weft_deal deal = {0, -1, S::keys ? WEFT_REACH_BAND : WEFT_REACH_BLOCKS, 0, 0};
    const int more = weft_worker_next_dealt(&f.walk, &worker, deal, &visit);
    *at = worker;
    job->more = more;
    job->visit = visit;
    if (!more) {
        return;
    }
    const int64_t row = visit.cut.rows.begin;
    if constexpr (S::keys) {
        job->sequence = weft_sequence_at(&f.walk.reach.sequences, visit.cut.sequence);
        job->first_row = (int)row;
        job->rows = (int)(visit.cut.rows.end - row);
        return;
    }
    const weft_tile &t = visit.tile;
    job->o = (char *)f.o +
             f.general.out_bytes * (t.batch * f.o_strides.batch + row * f.o_strides.seq + t.head * f.o_strides.head);
    job->lse = f.lse + (t.batch * f.heads + t.head) * f.seq + row;
    study_describe<S>(f, visit, job);
}

/* Sums of a tile's rows to their tensor: in fp32 as they are, or else through the warp's own rows of shared memory, which
 * nobody reads any more. */
template <class S, int COLUMNS>
static __device__ __forceinline__ void study_store_sums(const float (&sums)[1][COLUMNS / 8][4], float factor,
                                                        const study_backward_job &job, bool floats, char *to,
                                                        int64_t stride, int elements, int unit, unsigned char *stage) {
    constexpr int chunks = COLUMNS / 8;
    const uint32_t thread = thread_index();
    const int lane = (int)(thread % 32), part = (int)(thread / 32 % S::split), first = (int)study_warp_row<S>(thread);
#pragma unroll
    for (int n = 0; n < chunks; n++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = first + half * 8 + lane / 4;
            const float one = sums[0][n][2 * half] * factor, other = sums[0][n][2 * half + 1] * factor;
            if (!floats) {
                *(uint32_t *)(stage + study_offset<S>(row, part * chunks + n) + lane % 4 * 4) =
                    pack_halves<S::bf16>(one, other);
            } else if (row < job.rows) {
                study_store_floats(to + row * stride, 8 * (part * chunks + n) + lane % 4 * 2, one, other, elements, unit);
            }
        }
    }
    __syncwarp();
#pragma unroll 2
    for (int i = lane; i < 16 * chunks && !floats; i += 32) {
        const int row = first + i / chunks, chunk = part * chunks + i % chunks;
        if (row < job.rows && 8 * chunk < elements) {
            study_store_chunk(to + row * stride + 16 * chunk, stage + study_offset<S>(row, chunk), elements - 8 * chunk,
                              unit);
        }
    }
}

/* 16 columns of a piece, the k-th, as the A operand of an mma. */
template <class S>
static __device__ __forceinline__ void study_operand(uint32_t (&a)[1][4], const float (&from)[1][S::piece / 8][4], int k) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int half = i % 2, n = 2 * k + i / 2;
        a[0][i] = pack_halves<S::bf16>(from[0][n][2 * half], from[0][n][2 * half + 1]);
    }
}

/* Multiplies a piece, and adds it to the sums of this warp. */
template <class S>
static __device__ __forceinline__ void study_meet_piece(const weft_study_backward_params &p, const study_backward_job &job,
                                                        const study_meeting<S> &m, int stage, uint32_t base,
                                                        const study_query<S> &query, float (&sums)[1][S::out / 8][4],
                                                        float (&sums_v)[1][S::keys ? S::out_v / 8 : 1][4]) {
    const uint32_t none[1][1][4] = {};
    const uint32_t x = base + study_warp_row<S>(thread_index()) * S::row_bytes + study_lane_at<S>();
    const uint32_t y = base + S::ring_at + (uint32_t)(stage * S::stage_bytes);
    const uint32_t part = thread_index() / 32 % S::split;
    float scores[1][S::piece / 8][4], grads[1][S::piece / 8][4];
    study_scores<study_product<S, S::depth>>(scores, settled(x), none, settled(y + study_key_lane_at<S>()));
    study_scores<study_product<S, S::depth_v>>(grads, settled(x + S::q_bytes), none,
                                               settled(y + S::slot_bytes + study_key_lane_at<S>()));
    study_differentiate<S>(p, job, m, stage, query, scores, grads);
    const uint32_t to = settled(y + study_lane_at<S>() + part * 2 * S::out);
    const uint32_t to_v = settled(y + S::slot_bytes + study_lane_at<S>() + part * 2 * S::out_v);
#pragma unroll
    for (int k = 0; k < S::piece / 16; k++) {
        uint32_t a[1][4];
        study_operand<S>(a, grads, k);
        study_values<study_product<S, S::out>>(sums, a, k, to);
        if constexpr (S::keys) {
            study_operand<S>(a, scores, k);
            study_values<study_product<S, S::out_v>>(sums_v, a, k, to_v);
        }
    }
}

/* One tile, whose first copies are on their way. While a piece is computed the next is loaded. */
template <class S>
static __device__ __forceinline__ void study_backward_tile(const weft_study_backward_params &p,
                                                           const study_backward_job &job, study_meeting<S> m,
                                                           unsigned char *shared, uint32_t base) {
    const weft_study_params &f = p.forward;
    float sums[1][S::out / 8][4], sums_v[1][S::keys ? S::out_v / 8 : 1][4];
    study_query<S> query;
#pragma unroll
    for (int n = 0; n < S::out / 8; n++) {
        sums[0][n][0] = sums[0][n][1] = sums[0][n][2] = sums[0][n][3] = 0;
    }
#pragma unroll
    for (int n = 0; S::keys && n < S::out_v / 8; n++) {
        sums_v[0][n][0] = sums_v[0][n][1] = sums_v[0][n][2] = sums_v[0][n][3] = 0;
    }
    cp_async_wait<0>();
    __syncthreads();
    if constexpr (!S::keys) {
        study_query_numbers<S>(p, job, shared + S::q_bytes, query.log2_sum, query.delta);
    }
    for (int stage = 0; m.more; stage = 1 - stage) {
        const study_meeting<S> next = study_next_meeting<S>(f, job, m);
        if (next.more) {
            study_load_piece<S>(p, job, next, 1 - stage, base);
            cp_async_commit();
        }
        if (f.no_prefetch) {
            cp_async_wait<0>();
        }
        study_meet_piece<S>(p, job, m, stage, base, query, sums, sums_v);
        m = next;
        cp_async_wait<0>();
        __syncthreads(); /* the next piece is there, and nobody reads this one any more */
    }
    const int64_t batch = job.visit.tile.batch, head = job.visit.tile.head, row = job.first_row;
    const int64_t bytes = f.general.out_bytes;
    const bool floats = bytes == 4;
    if constexpr (S::keys) {
        const weft_strides &k = f.k_strides, &v = f.v_strides;
        char *grad_k = (char *)p.grad_k + bytes * (batch * k.batch + row * k.seq + head * k.head);
        char *grad_v = (char *)p.grad_v + bytes * (batch * v.batch + row * v.seq + head * v.head);
        study_store_sums<S, S::out>(sums, p.scale, job, floats, grad_k, bytes * k.seq, f.general.head_dim, p.grad_k_unit,
                                    shared);
        study_store_sums<S, S::out_v>(sums_v, f.general.kept, job, floats, grad_v, bytes * v.seq, f.general.head_dim_v,
                                      p.grad_v_unit, shared + S::q_bytes);
    } else {
        const weft_strides &q = f.q_strides;
        char *grad_q = (char *)p.grad_q + bytes * (batch * q.batch + row * q.seq + head * q.head);
        study_store_sums<S, S::out>(sums, p.scale, job, floats, grad_q, bytes * q.seq, f.general.head_dim, p.grad_q_unit,
                                    shared);
    }
}

/* Zeros for the gradient of a bias, of some queries and all keys: pieces that are not visited leave them. */
template <class S>
static __device__ __forceinline__ void study_clear_bias(const weft_study_backward_params &p, int64_t batch, int64_t head,
                                                        int64_t first, int64_t rows) {
    const weft_study_params &f = p.forward;
    float *to = p.grad_bias + ((batch * f.heads + head) * f.seq + first) * f.kv_seq;
    for (int64_t i = threadIdx.x; i < rows * f.kv_seq; i += S::threads) {
        to[i] = 0;
    }
}

/* The same for the queries behind the last sequence of a packed batch, which no tile has. */
template <class S> static __device__ __forceinline__ void study_clear_rest(const weft_study_backward_params &p) {
    const weft_study_params &f = p.forward;
    const weft_sequences &all = f.walk.reach.sequences;
    const int64_t end = all.lengths.q_starts ? all.lengths.q_starts[all.count] : f.seq;
    for (int64_t head = blockIdx.x; head < f.heads && end < f.seq; head += gridDim.x) {
        study_clear_bias<S>(p, 0, head, end, f.seq - end);
    }
}

template <class S> static __device__ __forceinline__ void study_gradients(const weft_study_backward_params &p) {
    extern __shared__ __align__(256) unsigned char study_shared[];
    static __shared__ study_backward_desk desk;
    const weft_study_params &f = p.forward;
    const uint32_t base = settled((uint32_t)__cvta_generic_to_shared(study_shared));
    constexpr int words = sizeof(study_backward_job) / 4;
    static_assert(words <= S::threads, "a CTA copies a job at once");
    if (threadIdx.x == 0) {
        desk.worker = weft_worker_start(&f.walk, f.worker_of_sm ? f.worker_of_sm[sm_index()] : blockIdx.x, f.counter);
        study_fetch_backward<S>(p, &desk.worker, &desk.job);
    }
    __syncthreads();
    if (!S::keys && p.grad_bias) {
        study_clear_rest<S>(p);
    }
    while (desk.job.more) {
        if (!S::keys && p.grad_bias) {
            const weft_tile &t = desk.job.visit.tile;
            study_clear_bias<S>(p, t.batch, t.head, desk.job.first_row, desk.job.rows);
        }
        const study_meeting<S> first = study_first_meeting<S>(f, desk.job);
        study_load_tile<S>(p, desk.job, base);
        if constexpr (!S::keys) {
            study_set_runs<S>(f, desk.job);
        }
        if (first.more) {
            study_load_piece<S>(p, desk.job, first, 0, base);
        }
        cp_async_commit();
        if (threadIdx.x == 0) {
            study_fetch_backward<S>(p, &desk.worker, &desk.next);
        }
        study_backward_tile<S>(p, desk.job, first, study_shared, base);
        __syncthreads(); /* nobody reads this tile or its job any more, and the next job is there */
        const uint32_t thread = thread_index();
        if (thread < words) {
            ((uint32_t *)&desk.job)[thread] = ((const uint32_t *)&desk.next)[thread];
        }
        __syncthreads();
    }
}

/* The gradient of a head's sink, which is a key of value 0: the sum of -weight * delta over all queries. A CTA for each
 * head; threads add up every so manieth query, and then each other's sums in a tree. */
static __device__ __forceinline__ void study_sink_gradient(const weft_study_backward_params &p) {
    static __shared__ float parts[WEFT_STUDY_SINKS_THREADS];
    const weft_study_params &f = p.forward;
    const weft_sequences &all = f.walk.reach.sequences;
    const float sink = 1.44269504f * f.general.sinks[blockIdx.x];
    const uint32_t thread = threadIdx.x;
    float sum = 0;
    for (int64_t i = 0; i < all.count; i++) {
        const weft_rows rows = study_queries(weft_sequence_at(&all, i));
        const int64_t line = (all.packed ? 0 : i) * f.heads + blockIdx.x;
        for (int64_t row = rows.begin + thread; row < rows.end; row += WEFT_STUDY_SINKS_THREADS) {
            const int64_t at = line * f.seq + row;
            sum -= exp2_flushed(sink - p.log2_sums[at]) * p.deltas[at];
        }
    }
    parts[thread] = sum;
    for (uint32_t apart = WEFT_STUDY_SINKS_THREADS / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if (thread < apart) {
            parts[thread] += parts[thread + apart];
        }
    }
    if (thread == 0 && p.grad_sinks) {
        p.grad_sinks[blockIdx.x] = parts[0];
    }
}

#endif
