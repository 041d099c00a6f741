/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that works out which runs the CTA takes and what their tiles see, ahead of those who need it. */
#ifndef WEFT_CUDA_SM90_MLA_DEAL_CUH
#define WEFT_CUDA_SM90_MLA_DEAL_CUH

#include "cuda/sm90/mla/shape.cuh"

/* What a query sees, counted from the sequence's first key. */
static __device__ __forceinline__ weft_rows mla_seen(const weft_decode_params &p, const weft_sequence &s, int origin,
                                                     int64_t query) {
    weft_rows seen = weft_band_seen(&p.runs.band, &s, s.rows.begin + query);
    seen.begin -= origin;
    seen.end -= origin;
    return seen;
}

static __device__ __forceinline__ mla_view mla_view_of(const weft_decode_params &p, const decode_run &run,
                                                       const weft_sequence &s) {
    const weft_sequences *all = &p.runs.sequences;
    mla_view view;
    view.batch = all->packed ? 0 : run.sequence;
    view.kv_head = run.tile / p.tiles;
    view.query = (int)s.rows.begin;
    view.origin = p.alike ? 0 : (int)weft_sequence_origin(all, run.sequence);
    view.row = (run.tile - view.kv_head * p.tiles) * WEFT_MLA_ROWS;
    view.count = (int)(s.rows.end - s.rows.begin) * p.group - view.row;
    view.begin = (int)s.columns.begin - view.origin;
    view.end = (int)s.columns.end - view.origin;
    const int64_t query = weft_divide(view.row, &p.by_group), used = s.used_end - s.rows.begin;
    const int64_t end = weft_divide(view.row + min(view.count, (int)WEFT_MLA_ROWS) - 1, &p.by_group);
    view.seen_from = view.seen_end = view.first = view.last = 0;
    if (query < used) {
        view.seen_from = (int)mla_seen(p, s, view.origin, query).begin;
        view.seen_end = (int)mla_seen(p, s, view.origin, weft_smaller(end, used - 1)).end;
    }
    if (view.seen_from < view.seen_end) {
        constexpr int blocks = WEFT_LEAF / WEFT_MLA_KEYS; /* of a leaf */
        view.first = max(view.seen_from / WEFT_MLA_KEYS, run.begin * blocks);
        view.last = min((view.seen_end + WEFT_MLA_KEYS - 1) / WEFT_MLA_KEYS, run.end * blocks);
        view.last = max(view.first, view.last);
    }
    return view;
}

/* What is worked out goes to shared memory at once: this warp has few registers. */
static __device__ __forceinline__ void mla_describe(const weft_decode_params &p, const decode_run &run, mla_task &task) {
    const weft_sequence s = p.alike ? p.sequence : weft_sequence_at(&p.runs.sequences, run.sequence);
    if (thread_index() % 32 == 0) {
        task.run = run;
        task.view = mla_view_of(p, run, s);
    }
    __syncwarp();
#pragma unroll 1
    for (int row = (int)(thread_index() % 32); row < WEFT_MLA_ROWS; row += 32) {
        weft_rows seen = {0, 0};
        if (row < task.view.count) {
            seen = mla_seen(p, s, task.view.origin, weft_divide(task.view.row + row, &p.by_group));
        }
        task.from[row] = (int)seen.begin;
        task.to[row] = (int)seen.end;
    }
}

/* There is room for p.places runs: packed queries of sequences that overlap, as no starts may have them, could be more. */
static __device__ __forceinline__ void mla_deal(const weft_mla_params &p, mla_desk &desk) {
    decode_deal<WEFT_MLA_ROWS, DECODE_BY_LENGTHS> deal(p.all);
    decode_run run;
    uint32_t number = 0;
    bool more = true;
#pragma unroll 1
    for (int place = (int)blockIdx.x; more; place += (int)gridDim.x, number++) {
        more = deal.find(p.all, place, run) && run.place < p.places;
        mla_task &task = desk.tasks[number % MLA_TASKS];
        mbarrier_wait(shared_address(&desk.task_empty[number % MLA_TASKS]), number / MLA_TASKS % 2 ^ 1);
        if (more) {
            mla_describe(p.all, run, task);
        }
        if (thread_index() % 32 == 0) {
            task.is_there = more;
        }
        __syncwarp();
        mbarrier_arrive_warp(shared_address(&desk.task_full[number % MLA_TASKS]));
        if (more && thread_index() % 32 == 0) {
            weft_length_tell(&p.all.pages, &p.all.runs.sequences, run.sequence);
            decode_tell_dealt(p.all, run);
        }
    }
}

#endif
