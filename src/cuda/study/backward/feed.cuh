/* SPDX-License-Identifier: Apache-2.0 */
/* How tiles and pieces come into shared memory, with what each query has: its keys, its sum, its delta. */
#ifndef WEFT_CUDA_STUDY_BACKWARD_FEED_CUH
#define WEFT_CUDA_STUDY_BACKWARD_FEED_CUH

#include "cuda/study/backward/shape.cuh"

/* Where the rows of a tensor of a batch and a head begin. */
static __device__ __forceinline__ study_source study_tensor(const void *data, const weft_strides &s, int64_t batch,
                                                            int64_t head, int elements, int unit) {
    return study_source{(const char *)data + 2 * (batch * s.batch + head * s.head), 2 * s.seq, elements, unit};
}

/* Queries of a sequence that count; a tensor's others are not read. */
static __device__ __forceinline__ weft_rows study_queries(const weft_sequence &s) {
    return weft_rows{s.rows.begin, s.used_end};
}

/* Starts copying ROWS rows of Q and dO, or of K and V, from row `row` on. */
template <class S, int ROWS>
static __device__ __forceinline__ void study_load_queries(const weft_study_backward_params &p,
                                                          const study_backward_job &job, int head, int row, uint32_t q,
                                                          uint32_t grad_o) {
    const weft_study_params &f = p.forward;
    const int64_t batch = job.visit.tile.batch;
    const weft_rows rows = study_queries(job.sequence);
    study_load<S, ROWS, S::depth>(q, study_tensor(f.q, f.q_strides, batch, head, f.general.head_dim, f.general.q_unit), row,
                                  (int)rows.begin, (int)rows.end);
    study_load<S, ROWS, S::depth_v>(grad_o,
                                    study_tensor(p.grad_o, f.o_strides, batch, head, f.general.head_dim_v, p.grad_o_unit),
                                    row, (int)rows.begin, (int)rows.end);
}

template <class S, int ROWS>
static __device__ __forceinline__ void study_load_keys(const weft_study_backward_params &p, const study_backward_job &job,
                                                       int head, int row, uint32_t k, uint32_t v) {
    const weft_study_params &f = p.forward;
    const int64_t batch = job.visit.tile.batch;
    const weft_rows &rows = job.sequence.columns;
    study_load<S, ROWS, S::depth>(k, study_tensor(f.k, f.k_strides, batch, head, f.general.head_dim, f.general.k_unit), row,
                                  (int)rows.begin, (int)rows.end);
    study_load<S, ROWS, S::depth_v>(v, study_tensor(f.v, f.v_strides, batch, head, f.general.head_dim_v, f.general.v_unit),
                                    row, (int)rows.begin, (int)rows.end);
}

/* Starts copying the rows that a tile holds. */
template <class S>
static __device__ __forceinline__ void study_load_tile(const weft_study_backward_params &p, const study_backward_job &job,
                                                       uint32_t base) {
    const int head = (int)job.visit.tile.head;
    if constexpr (S::keys) {
        study_load_keys<S, S::tile_m>(p, job, head, job.first_row, base, base + S::q_bytes);
    } else {
        study_load_queries<S, S::tile_m>(p, job, head, job.first_row, base, base + S::q_bytes);
    }
}

/* Whether a piece may have a pair of query and key that do not see each other, bits of a block mask apart. */
template <class S>
static __device__ __forceinline__ bool study_is_masked(const weft_study_params &p, const study_backward_job &job,
                                                       int step) {
    return p.mask_every_block || step < (int)job.visit.full_begin || step >= (int)job.visit.full_end;
}

/* The sums and deltas of the queries of a stage, where queries pass. */
template <class S> static __device__ __forceinline__ float *study_numbers(int stage) {
    extern __shared__ __align__(256) unsigned char study_shared[];
    return (float *)(study_shared + S::numbers_at) + stage * 2 * S::piece;
}

/* Starts copying what passes. Of queries also their numbers; a query that is not there has zeros, and no keys. */
template <class S>
static __device__ __forceinline__ void study_load_piece(const weft_study_backward_params &p, const study_backward_job &job,
                                                        const study_meeting<S> &m, int stage, uint32_t base) {
    const weft_study_params &f = p.forward;
    const uint32_t to = base + S::ring_at + (uint32_t)(stage * S::stage_bytes);
    if constexpr (!S::keys) {
        study_load_keys<S, S::piece>(p, job, (int)weft_divide(m.head, &f.by_kv_group), m.column(), to, to + S::slot_bytes);
        return;
    }
    study_load_queries<S, S::piece>(p, job, m.head, m.column(), to, to + S::slot_bytes);
    const uint32_t thread = thread_index();
    if (thread < S::piece) {
        const int row = m.column() + (int)thread;
        const weft_rows rows = study_queries(job.sequence);
        const bool present = row >= rows.begin && row < rows.end;
        const int64_t at = present ? (job.visit.tile.batch * f.heads + m.head) * f.seq + row : 0;
        const uint32_t numbers = base + S::numbers_at + (uint32_t)(stage * 2 * S::piece + thread) * 4;
        cp_async_4_first(numbers, p.log2_sums + at, present ? 4 : 0);
        cp_async_4_first(numbers + 4 * S::piece, p.deltas + at, present ? 4 : 0);
        if (study_is_masked<S>(f, job, m.step)) {
            weft_rows seen = {0, 0};
            if (present) {
                seen = weft_band_seen(&f.walk.reach.band, &job.sequence, row);
            }
            study_runs<S>()[stage * S::piece + thread] = study_run{(int)seen.begin, (int)seen.end};
        }
    }
}

/* What a tile of queries needs of each row of this lane, halves 0 and 1, and leaves to later launches: the logarithm of its
 * sum in base 2, infinite where it sees no key, so that every weight is 0; and its delta, the gradient of O times O. dO of
 * the tile has arrived. */
template <class S>
static __device__ __forceinline__ void study_query_numbers(const weft_study_backward_params &p,
                                                           const study_backward_job &job, const unsigned char *grad_o,
                                                           float (&log2_sum)[2], float (&delta)[2]) {
    const weft_study_params &f = p.forward;
    const uint32_t thread = thread_index();
    const int lane = (int)(thread % 32), first = (int)study_warp_row<S>(thread) + lane / 4;
    const int used = (int)study_queries(job.sequence).end - job.first_row, elements = f.general.head_dim_v;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = first + 8 * half;
        float sum = 0, lse = -INFINITY;
        if (row < min(job.rows, used)) {
            const char *o = job.o + row * f.general.out_bytes * f.o_strides.seq;
#pragma unroll 1
            for (int chunk = lane % 4; 8 * chunk < elements; chunk += 4) {
                const uint4 four = *(const uint4 *)(grad_o + study_offset<S>(row, chunk));
                const uint32_t gradients[] = {four.x, four.y, four.z, four.w};
                if (f.general.out_bytes == 4) {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const float value = 8 * chunk + i < elements ? ((const float *)o)[8 * chunk + i] : 0;
                        sum = fmaf(half_to_float<S::bf16>(gradients[i / 2] >> i % 2 * 16 & 0xffff), value, sum);
                    }
                    continue;
                }
                uint32_t outputs[4] = {0, 0, 0, 0};
                if (f.general.o_unit == 16 && 8 * chunk + 8 <= elements) {
                    const uint4 values = *(const uint4 *)(o + 16 * chunk);
                    outputs[0] = values.x, outputs[1] = values.y, outputs[2] = values.z, outputs[3] = values.w;
                } else {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const uint32_t value = 8 * chunk + i < elements ? ((const uint16_t *)o)[8 * chunk + i] : 0;
                        outputs[i / 2] |= value << i % 2 * 16;
                    }
                }
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    sum = fmaf(half_to_float<S::bf16>(gradients[i / 2] >> i % 2 * 16 & 0xffff),
                               half_to_float<S::bf16>(outputs[i / 2] >> i % 2 * 16 & 0xffff), sum);
                }
            }
            lse = job.lse[row];
        }
        sum += __shfl_xor_sync(0xffffffffu, sum, 1); /* the four lanes that share the row */
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const float log2e = 1.44269504f;
        delta[half] = sum;
        log2_sum[half] = lse == -INFINITY ? INFINITY : lse * log2e;
        if (lane % 4 == 0 && thread / 32 % S::split == 0 && row < job.rows) {
            const int64_t at = job.line * f.seq + job.first_row + row;
            p.log2_sums[at] = log2_sum[half];
            p.deltas[at] = delta[half];
        }
    }
}

#endif
