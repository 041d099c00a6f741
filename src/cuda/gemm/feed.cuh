/* From the walk to shared memory: which tile is next, and the copies of its A and B. */
#ifndef WEFT_CUDA_GEMM_FEED_CUH
#define WEFT_CUDA_GEMM_FEED_CUH

#include "cuda/gemm/shape.cuh"
#include "cuda/ptx/cp_async.cuh"

/* Asks the walk for the next tile, as job `number`. One thread. */
template <class S>
static __device__ __forceinline__ void portable_fetch(const weft_portable_gemm_params &p, portable_desk &desk,
                                                      uint32_t number) {
    portable_job *job = &desk.jobs[number % PORTABLE_JOBS];
    weft_worker worker = desk.worker;
    weft_visit visit = {};
    const weft_deal deal = {0, -1, WEFT_REACH_PREFIX, 0, 0};
    if (!weft_worker_next_dealt(&p.walk, &worker, deal, &visit)) {
        visit.steps = 0;
    }
    const int64_t row = (p.swapped ? visit.tile.n : visit.tile.m) * S::tile_m;
    const int64_t col = (p.swapped ? visit.tile.m : visit.tile.n) * S::tile_n;
    const int64_t k = visit.first * S::step, batch = visit.tile.batch;
    job->a = (const char *)p.a + 2 * (batch * p.a_stride + (S::a::mn ? k * p.lda + row : row * p.lda + k));
    job->b = (const char *)p.b + 2 * (batch * p.b_stride + (S::b::mn ? k * p.ldb + col : col * p.ldb + k));
    job->c = (char *)p.c + (p.c_dtype == WEFT_FP32 ? 4 : 2) * (batch * p.c_stride + row * p.ldc + col);
    job->m_left = (int32_t)(p.m - row);
    job->n_left = (int32_t)(p.n - col);
    job->k_left = (int32_t)(p.k - k);
    job->direction = visit.direction;
    job->steps = (int32_t)visit.steps;
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
            b.copy(to + S::a::bytes, p.ldb, p.b_unit);
            a.advance(p.lda, direction);
            b.advance(p.ldb, direction);
            steps--;
        }
        cp_async_commit();
        to = portable_stage_after<S>(to, ring);
    }
};

#endif
