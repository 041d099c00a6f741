/* SPDX-License-Identifier: Apache-2.0 */
/* From the walk to shared memory: which tile is next, and the copies of its A and B. */
#ifndef WEFT_CUDA_GEMM_FEED_CUH
#define WEFT_CUDA_GEMM_FEED_CUH

#include "cuda/gemm/grouped/params.h"
#include "cuda/gemm/shape.cuh"
#include "cuda/ptx/cp_async.cuh"

/* Where the thread that fetches tiles of groups was last. */
static __device__ __forceinline__ weft_group_finger &portable_finger() {
    static __shared__ weft_group_finger finger;
    return finger;
}

/* Asks the walk for the next tile that has rows of a group, as job `number`. One thread. */
template <class S>
static __device__ __forceinline__ void portable_fetch_grouped(const weft_portable_gemm_params &p, portable_desk &desk,
                                                              uint32_t number) {
    const weft_portable_grouped_params &all = reinterpret_cast<const weft_portable_grouped_params &>(p);
    portable_job *job = &desk.jobs[number % PORTABLE_JOBS];
    weft_worker worker = desk.worker;
    weft_group_finger finger = portable_finger();
    weft_group_rows rows = {};
    weft_visit visit = {};
    const weft_deal deal = {0, -1, WEFT_REACH_PREFIX, 0, 0};
    if (!weft_groups_next(&p.walk, &all.groups, all.step, &worker, deal, &finger, &visit, &rows)) {
        visit = {};
        rows = {};
    }
    const int64_t row = rows.first, col = visit.tile.n * S::tile_n, k = visit.first * S::step, group = rows.group;
    job->a = (const char *)p.a + 2 * (group * p.a_stride + row * p.lda + k);
    job->b = (const char *)p.b + 2 * (group * p.b_stride + (S::b::mn ? k * p.ldb + col : col * p.ldb + k));
    job->c = (char *)p.c + (p.c_dtype == WEFT_FP32 ? 4 : 2) * (group * p.c_stride + row * p.ldc + col);
    job->m_left = rows.count;
    job->n_left = (int32_t)(p.n - col);
    job->k_left = (int32_t)(p.k - k);
    job->direction = visit.direction;
    job->steps = (int32_t)visit.steps;
    desk.worker = worker;
    portable_finger() = finger;
}

/* Asks the walk for the next tile, as job `number`. One thread. */
template <class S>
static __device__ __forceinline__ void portable_fetch(const weft_portable_gemm_params &p, portable_desk &desk,
                                                      uint32_t number) {
    if constexpr (S::grouped) {
        portable_fetch_grouped<S>(p, desk, number);
        return;
    }
    portable_job *job = &desk.jobs[number % PORTABLE_JOBS];
    weft_worker worker = desk.worker;
    weft_visit visit = {};
    const weft_deal deal = {0, -1, WEFT_REACH_PREFIX, 0, 0};
    if (!weft_worker_next_dealt(&p.walk, &worker, deal, &visit)) {
        visit.steps = 0;
    }
    const int64_t row = (p.swapped ? visit.tile.n : visit.tile.m) * S::tile_m;
    const int64_t col = (p.swapped ? visit.tile.m : visit.tile.n) * portable_columns_of<S>(p);
    const int64_t k = visit.first * S::step, batch = visit.tile.batch;
    job->a = (const char *)p.a + 2 * (batch * p.a_stride + (S::a::mn ? k * p.lda + row : row * p.lda + k));
    job->b = (const char *)p.b + 2 * (batch * p.b_stride + (S::b::mn ? k * p.ldb + col : col * p.ldb + k));
    job->c = (char *)p.c + (p.c_dtype == WEFT_FP32 ? 4 : 2) * (batch * p.c_stride + row * p.ldc + col);
    job->m_left = (int32_t)(p.m - row);
    job->n_left = (int32_t)(p.n - col);
    job->k_left = (int32_t)(p.k - k);
    job->direction = visit.direction;
    job->steps = (int32_t)visit.steps;
    if constexpr (S::fused) {
        job->batch = (int32_t)batch;
    }
    desk.worker = worker;
}

/* Copies the first `bytes` of 16, in units of 16, 4 or 2 bytes; the others become zeros. None reads behind them. */
static __device__ __forceinline__ void portable_copy_units(uint32_t to, const char *from, int unit, int bytes) {
    extern __shared__ __align__(128) unsigned char gemm_shared[];
    if (unit == 16 && bytes % 16 == 0) {
        cp_async_16_first(to, from, bytes);
        return;
    }
    if (unit >= 4 && bytes % 4 == 0) {
#pragma unroll
        for (int at = 0; at < 16; at += 4) {
            cp_async_4_first(to + at, from + at, min(max(bytes - at, 0), 4));
        }
        return;
    }
    uint32_t words[4]; /* no copy is that small */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint16_t *two = (const uint16_t *)from + 2 * i;
        const uint32_t low = 4 * i < bytes ? two[0] : 0, high = 4 * i + 2 < bytes ? two[1] : 0;
        words[i] = low | high << 16;
    }
    *(uint4 *)(gemm_shared + (to - (uint32_t)__cvta_generic_to_shared(gemm_shared))) =
        make_uint4(words[0], words[1], words[2], words[3]);
}

/* A thread's share of A or B: its chunk of its first line in the step that is copied next. */
template <class S, class O> struct portable_source {
    const char *at;
    int32_t lines, elements; /* that there are from there on; none if below 1 */
    uint32_t offset;         /* of the chunk in the operand's place */

    __device__ __forceinline__ portable_source() {
        offset = settled(O::offset(threadIdx.x / O::chunks, threadIdx.x % O::chunks));
    }

    /* `mn` and `k`: what there is of either from the tile's first element, `first`, on. */
    __device__ __forceinline__ void begin(const char *first, int64_t ld, int32_t mn, int32_t k) {
        const uint32_t line = thread_index() / O::chunks, chunk = thread_index() % O::chunks;
        at = first + 2 * (line * ld) + 16 * chunk;
        lines = (O::mn ? k : mn) - (int32_t)line;
        elements = (O::mn ? mn : k) - (int32_t)(8 * chunk);
    }

    __device__ __forceinline__ void advance(int64_t ld, int32_t direction) {
        at += direction * (2 * S::step * (O::mn ? ld : 1));
        (O::mn ? lines : elements) -= direction * S::step;
    }

    /* The same as copy() of a B whose columns are gates and values. `at` is the thread's chunk of the tile's first column,
     * so that what lies between is found here. */
    __device__ __forceinline__ void copy_gated(const weft_portable_gemm_params &p, uint32_t to, int64_t ld,
                                               int unit) const {
        const int32_t line = (int32_t)(thread_index() / O::chunks), chunk = (int32_t)(thread_index() % O::chunks);
        to += offset;
#pragma unroll 1
        for (int i = 0; i < O::passes; i++, to += O::at_once * O::line_bytes) {
            const int32_t own = line + i * O::at_once; /* the line of this pass */
            const int32_t column = O::mn ? 8 * chunk : own, mn = O::mn ? elements + 8 * chunk : lines + line;
            const int32_t k = O::mn ? lines - i * O::at_once : elements, left = mn - portable_gate_at<S>(column);
            const int64_t moved = portable_column_at<S>(p, column) - column;
            const char *from = at + 2 * (O::mn ? i * O::at_once * ld + moved : (i * O::at_once + moved) * ld);
            const int present = 2 * (O::mn ? (k > 0 ? min(max(left, 0), 8) : 0) : (left > 0 ? min(max(k, 0), 8) : 0));
            if constexpr (S::any) {
                portable_copy_units(to, from, unit, present);
            } else {
                cp_async_16_first(to, from, present);
            }
        }
    }

    /* Starts copying the step to the operand's place `to`. */
    __device__ __forceinline__ void copy(uint32_t to, int64_t ld, int unit) const {
        const int bytes = 2 * min(max(elements, 0), 8);
        const char *from = at;
        to += offset;
#pragma unroll(S::any ? 1 : O::passes)
        for (int i = 0; i < O::passes; i++) {
            const int present = i * O::at_once < lines ? bytes : 0;
            if constexpr (S::any) {
                portable_copy_units(to, from, unit, present);
            } else {
                cp_async_16_first(to, from, present);
            }
            to += O::at_once * O::line_bytes;
            from += 2 * O::at_once * ld;
        }
    }
};

/* The copies of all steps of all tiles, one after the other, each to the next stage of the ring. */
template <class S> struct portable_feed {
    portable_source<S, typename S::a> a;
    portable_source<S, typename S::b> b;
    int32_t direction, steps; /* that are left of the tile */
    uint32_t jobs;            /* taken */
    uint32_t to;              /* shared address of the stage that is filled next */

    __device__ __forceinline__ void copy_b(const weft_portable_gemm_params &p) {
        if constexpr (S::fused) {
            if (portable_fused(p).epilogue.gate) {
                b.copy_gated(p, to + S::a::bytes, p.ldb, p.b_unit);
                return;
            }
        }
        b.copy(to + S::a::bytes, p.ldb, p.b_unit);
    }

    /* Starts copying the next step, if there is one. It is a group of copies in any case, so that all waits count alike. */
    __device__ __forceinline__ void next(const weft_portable_gemm_params &p, const portable_desk &desk, uint32_t ring) {
        if (steps == 0) {
            const portable_job &job = desk.jobs[jobs % PORTABLE_JOBS];
            steps = job.steps;
            if (steps > 0) {
                direction = job.direction;
                a.begin(job.a, p.lda, job.m_left, job.k_left);
                b.begin(job.b, p.ldb, job.n_left, job.k_left);
                jobs++;
            }
        }
        if (steps > 0) {
            a.copy(to, p.lda, p.a_unit);
            copy_b(p);
            a.advance(p.lda, direction);
            b.advance(p.ldb, direction);
            steps--;
        }
        cp_async_commit();
        to = portable_stage_after<S>(to, ring);
    }
};

#endif
