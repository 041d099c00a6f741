/* SPDX-License-Identifier: Apache-2.0 */
/* What a consumer leaves of a run: its half of the output, or sums that wait to be merged.
 *
 * Those lie in squares of 8 rows and 8 columns, 256 bytes that a warp writes and reads at a time: see mla_square(). */
#ifndef WEFT_CUDA_SM90_MLA_STORE_CUH
#define WEFT_CUDA_SM90_MLA_STORE_CUH

#include "cuda/sm90/mla/sweep.cuh"

/* Where a row's columns, eight from a multiple of eight on, are among the sums of a run. */
static __device__ __forceinline__ int mla_square(int row, int column) {
    return (row / 8 * (WEFT_MLA_DEPTH_V / 8) + column / 8) * 64 + row % 8 * 8;
}

/* The sums of a row's weights, of both consumers. `parity` tells this run from the one before. */
template <class S> static __device__ __forceinline__ void mla_add_up(mla_consumer<S> &consumer, uint32_t parity) {
    float(&sums)[2][WEFT_MLA_ROWS] = consumer.desk.sums[parity];
    mla_rows &rows = consumer.rows;
    const int row = consumer.first_row();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows.sum[i] += __shfl_xor_sync(~0u, rows.sum[i], 1);
        rows.sum[i] += __shfl_xor_sync(~0u, rows.sum[i], 2);
        if (thread_index() % 4 == 0) {
            sums[consumer.who][row + 8 * i] = rows.sum[i];
        }
    }
    barrier_sync(1, 256);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows.sum[i] = sums[0][row + 8 * i] + sums[1][row + 8 * i];
    }
}

/* Where the output of a row is, of all heads; and its head and LSE. */
struct mla_place {
    int head;
    int64_t o, lse;

    __device__ __forceinline__ mla_place(const weft_decode_params &p, const mla_view &view, int row) {
        const int index = view.row + row, query = (int)weft_divide(index, &p.by_group);
        const int64_t at = view.query + query;
        head = view.kv_head * p.group + index - query * p.group;
        o = view.batch * p.o_strides.batch + at * p.o_strides.seq + head * p.o_strides.head;
        lse = ((int64_t)view.batch * p.heads + head) * p.seq + at;
    }
};

/* A thread's columns of its row `which`, 0 or 1: as the decode kernel stores them. */
template <class S>
static __device__ __forceinline__ void mla_store_row(const mla_consumer<S> &consumer, const mla_view &view, int which,
                                                     const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
    const weft_decode_params &p = consumer.p;
    const int first = 256 * (int)consumer.who + 2 * (int)(thread_index() % 4);
    const mla_place place(p, view, consumer.first_row() + 8 * which);
    const decode_total total = decode_total_of(p, place.head, consumer.rows.base[which], consumer.rows.sum[which]);
#pragma unroll
    for (int i = 0; i < WEFT_MLA_DEPTH_V / 16; i++) {
        if (first + 8 * i < p.head_dim_v) {
            *(uint32_t *)((uint16_t *)p.o + place.o + first + 8 * i) =
                pack_halves<S::bf16>(total.scale * out[4 * i + 2 * which], total.scale * out[4 * i + 2 * which + 1]);
        }
    }
    if (p.lse && first == 0) {
        p.lse[place.lse] = total.lse;
    }
}

/* The same, for whoever merges. */
template <class S>
static __device__ __forceinline__ void mla_leave_row(const mla_consumer<S> &consumer, int place, int which,
                                                     const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
    const int row = consumer.first_row() + 8 * which, column = 2 * (int)(thread_index() % 4);
    const int64_t at = (int64_t)place * WEFT_MLA_ROWS;
    float *to = consumer.p.sums + at * WEFT_MLA_DEPTH_V + mla_square(row, 256 * (int)consumer.who) + column;
#pragma unroll
    for (int i = 0; i < WEFT_MLA_DEPTH_V / 16; i++) {
        *(float2 *)(to + 64 * i) = make_float2(out[4 * i + 2 * which], out[4 * i + 2 * which + 1]);
    }
    if (consumer.who == 0 && column == 0) {
        *(float2 *)(consumer.p.stats + 2 * (at + row)) = make_float2(consumer.rows.base[which], consumer.rows.sum[which]);
    }
}

template <class S>
static __device__ __forceinline__ void mla_store(const mla_consumer<S> &consumer, const mla_task &task,
                                                 const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
        if (consumer.first_row() + 8 * which < task.view.count) {
            if (task.run.count == 1) {
                mla_store_row(consumer, task.view, which, out);
            } else {
                mla_leave_row(consumer, task.run.place, which, out);
            }
        }
    }
}

/* Merges eight columns of a row over the runs of a sequence, as decode_merger does. */
struct mla_merger {
    static constexpr int columns = 8;
    typedef decode_node<columns> node;
    const weft_decode_params &p;
    int64_t place; /* of the first run */
    int tiles;     /* places from run to run */
    int begin, end;

    /* Eight runs, from `first` on, as far as they are there. */
    __device__ __forceinline__ void merge_eight(node (&nodes)[WEFT_DECODE_EIGHT], int row, int column, int first) const {
#pragma unroll
        for (int i = 0; i < WEFT_DECODE_EIGHT; i++) {
            const int number = min(max(first + i, begin), end - 1);
            const int64_t at = (place + (int64_t)(number - begin) * tiles) * WEFT_MLA_ROWS;
            decode_read(nodes[i], p.sums + at * WEFT_MLA_DEPTH_V + mla_square(row, column), 1,
                        *(const float2 *)(p.stats + 2 * (at + row)));
        }
        decode_merge_all(nodes, first, begin, end);
    }

    __device__ __forceinline__ node merge(int row, int column) const {
        node nodes[WEFT_DECODE_EIGHT], waiting[28]; /* in the thread's memory, where runs are many */
        uint32_t waits = 0;
        bool any = false;
        const int first = begin & -WEFT_DECODE_EIGHT;
        const bool few = end - first <= WEFT_DECODE_EIGHT;
#pragma unroll 1
        for (int eight = first; eight < end; eight += WEFT_DECODE_EIGHT) {
            merge_eight(nodes, row, column, eight);
            if (!few) {
                decode_push(waiting, waits, eight / WEFT_DECODE_EIGHT, nodes[0]);
            }
        }
        decode_fold(waiting, waits, nodes[0], any);
        return nodes[0];
    }
};

/* The launch that merges: a CTA has 8 rows of a tile and half of their columns, each warp 32 of these. */
template <class S> static __device__ __forceinline__ void mla_merge_runs(const weft_mla_params &params) {
    const weft_decode_params &p = params.all;
    constexpr int halves = WEFT_MLA_DEPTH_V / (32 * WEFT_DECODE_MERGE_WARPS);
    const int lane = (int)threadIdx.x % 32, half = (int)blockIdx.x % halves, rest = (int)blockIdx.x / halves;
    const int row = rest % params.merged * WEFT_MLA_MERGED + lane / 4, tile = rest / params.merged;
    const int column = half * 32 * WEFT_DECODE_MERGE_WARPS + (int)threadIdx.x / 32 * 32 + lane % 4 * 8;
    const int within = tile % p.tiles, kv_head = tile / p.tiles % p.kv_heads, sequence = tile / (p.tiles * p.kv_heads);
    grid_let_next(); /* who comes next waits for this launch, which waits for the one before */
    grid_wait();
    weft_decode_dealt dealt;
    *(uint4 *)&dealt = *(const uint4 *)(p.dealt + sequence);
    const int tiles = dealt.tiles / p.kv_heads; /* of the sequence's rows */
    /* Of sequences for which there was no room it may say anything. */
    const bool sound = dealt.place >= 0 && dealt.count > 0 && dealt.tiles > 0 && (uint32_t)dealt.first < 1u << 24 &&
                       dealt.place + (int64_t)dealt.count * dealt.tiles <= params.places;
    if (!sound || dealt.count == 1 || within >= tiles) { /* stored, or there is none */
        return;
    }
    const weft_sequence s = p.alike ? p.sequence : weft_sequence_at(&p.runs.sequences, sequence);
    mla_view view = {};
    view.batch = p.runs.sequences.packed ? 0 : sequence;
    view.kv_head = kv_head;
    view.query = (int)s.rows.begin;
    view.row = within * WEFT_MLA_ROWS;
    if (row >= (s.rows.end - s.rows.begin) * p.group - view.row || column >= p.head_dim_v) {
        return;
    }
    const mla_merger merger = {p, dealt.place + kv_head * tiles + within, dealt.tiles, dealt.first,
                               dealt.first + dealt.count};
    const mla_merger::node node = merger.merge(row, column);
    const mla_place place(p, view, row);
    const decode_total total = decode_total_of(p, place.head, node.max, node.sum);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        words[i] = pack_halves<S::bf16>(total.scale * node.columns[2 * i], total.scale * node.columns[2 * i + 1]);
    }
    *(uint4 *)((uint16_t *)p.o + place.o + column) = make_uint4(words[0], words[1], words[2], words[3]);
    if (p.lse && column == 0) {
        p.lse[place.lse] = total.lse;
    }
}

#endif
