/* SPDX-License-Identifier: Apache-2.0 */
/* The launch that merges what runs of one sequence left. Its warps are side by side on parts of a row's tree, or, where a
 * sequence is few runs, on rows. */
#ifndef WEFT_CUDA_DECODE_MERGE_CUH
#define WEFT_CUDA_DECODE_MERGE_CUH

#include "cuda/decode/store.cuh"

/* Nodes that are asked for and merged at a time, three levels of the tree; and the warps of a CTA. */
enum { WEFT_DECODE_EIGHT = 8 };
static_assert(WEFT_DECODE_MERGE_WARPS == WEFT_DECODE_EIGHT, "what warps leave is merged at once");

/* Merges a thread's columns of a row over some runs of a sequence and tile, `from` to `to` - 1 of those that begin with
 * number `begin` at `place`, into the first of `nodes`. `threads` share the row. */
template <class S, int COUNT> struct decode_merger {
    const weft_decode_params &p;
    int64_t place;
    int begin, part, threads;
    int tiles; /* of the sequence */

    /* Eight of them, from `first` on, as far as they are there. */
    __device__ __forceinline__ void merge_eight(decode_node<COUNT> (&nodes)[WEFT_DECODE_EIGHT], int row, int first,
                                                int from, int to) const {
#pragma unroll
        for (int i = 0; i < WEFT_DECODE_EIGHT; i++) {
            const int number = min(max(first + i, from), to - 1);
            const int64_t at = (place + (int64_t)(number - begin) * tiles) * S::rows + row;
            decode_read(nodes[i], p.sums + at * S::depth + 4 * part, threads, *(const float2 *)(p.stats + 2 * at));
        }
        decode_merge_all(nodes, first, from, to);
    }

    __device__ __forceinline__ void merge(decode_node<COUNT> (&nodes)[WEFT_DECODE_EIGHT], int row, int from, int to) const {
        int first = from & -WEFT_DECODE_EIGHT;
        merge_eight(nodes, row, first, from, to);
        if (first + WEFT_DECODE_EIGHT < to) { /* in the thread's memory, where there are more */
            decode_node<COUNT> waiting[28];
            uint32_t waits = 0;
            bool any = false;
            decode_push(waiting, waits, first / WEFT_DECODE_EIGHT, nodes[0]);
            while ((first += WEFT_DECODE_EIGHT) < to) {
                merge_eight(nodes, row, first, from, to);
                decode_push(waiting, waits, first / WEFT_DECODE_EIGHT, nodes[0]);
            }
            decode_fold(waiting, waits, nodes[0], any);
        }
    }
};

template <class S> static __device__ __forceinline__ void decode_merge_runs(const weft_decode_params &p) {
    constexpr int threads = S::depth % 128 ? 16 : 32,
                  count = S::depth / threads; /* that share the row, and columns of each */
    static __shared__ float2 stats[WEFT_DECODE_MERGE_WARPS];
    static __shared__ __align__(16) float sums[WEFT_DECODE_MERGE_WARPS][S::depth];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = lane % threads;
    const int unit = (int)blockIdx.x * p.merged_rows, rest = unit / S::rows, tiles = (int)p.runs.tiles;
    const int sequence = rest / tiles, tile = rest % tiles;
    grid_let_next(); /* who comes next waits for this launch, which waits for the one before */
    const auto wait = [&]() {
        grid_wait();
        if (p.list && blockIdx.x == 0 && threadIdx.x == 0) {
            p.list_head->taken = 0; /* for the next run */
        }
    };
    if (!p.alike && !p.list) { /* what the launch before has left */
        grid_wait();
    }
    const weft_decode_dealt dealt = decode_dealt(p, sequence);
    const int begin = dealt.first, end = dealt.first + dealt.count;
    const bool few = (end - 1) / WEFT_DECODE_EIGHT == begin / WEFT_DECODE_EIGHT;
    const bool alone = few || (p.merged_rows == WEFT_DECODE_MERGE_WARPS && dealt.count <= 2 * WEFT_DECODE_EIGHT);
    int row = unit % S::rows;
    /* A workspace that was never prepared may say anything. */
    const bool sound = !p.list || (dealt.place >= 0 && dealt.count > 0 && (uint32_t)begin < 1u << 24 &&
                                   dealt.place + (int64_t)dealt.count * tiles <= weft_run_most(&p.runs));
    if (!sound || dealt.count == 1 || (few && row % WEFT_DECODE_MERGE_WARPS != 0)) { /* stored, or another CTA's */
        wait();
        return;
    }
    const weft_sequence s = p.alike ? p.sequence : weft_sequence_at(&p.runs.sequences, sequence);
    wait();
    decode_node<count> nodes[WEFT_DECODE_EIGHT];
    const decode_merger<S, count> merger = {p, dealt.place + tile, begin, part, threads, tiles};
    const auto store = [&]() {
        if (lane < threads) {
            decode_store<S>(p, s, p.runs.sequences.packed ? 0 : sequence, tile, row, part, nodes[0]);
        }
    };
    if (alone) { /* a warp has a row */
        row += warp;
        merger.merge(nodes, row, begin, end);
        store();
        return;
    }
    /* A warp has a node of one level, as low as leaves all under the same node three levels above. */
    int level = 0;
    while ((end - 1) >> (level + 3) != begin >> (level + 3)) {
        level++;
    }
    const int eight = begin >> (level + 3) << 3, mine = eight + warp;
    const int from = max(begin, mine << level), to = min(end, (mine + 1) << level);
#pragma unroll 1
    for (const int last = row + p.merged_rows; row < last; row++) {
        if (from < to) {
            merger.merge(nodes, row, from, to);
            if (lane == 0) {
                stats[warp] = make_float2(nodes[0].max, nodes[0].sum);
            }
            if (lane < threads) {
#pragma unroll
                for (int i = 0; i < count; i += 4) {
                    *(float4 *)&sums[warp][4 * part + i * threads] = make_float4(
                        nodes[0].columns[i], nodes[0].columns[i + 1], nodes[0].columns[i + 2], nodes[0].columns[i + 3]);
                }
            }
        }
        __syncthreads();
        if (warp == 0) {
#pragma unroll
            for (int i = 0; i < WEFT_DECODE_EIGHT; i++) {
                decode_read(nodes[i], &sums[i][4 * part], threads, stats[i]);
            }
            decode_merge_all(nodes, eight, begin >> level, ((end - 1) >> level) + 1);
            store();
        }
        __syncthreads();
    }
}

#endif
