/* The launch that merges what runs of one sequence left: a CTA for each row, its warps side by side on parts of the tree.
 */
#ifndef WEFT_CUDA_DECODE_MERGE_CUH
#define WEFT_CUDA_DECODE_MERGE_CUH

#include "cuda/decode/store.cuh"

/* Nodes that are asked for and merged at a time, three levels of the tree; and the warps of a CTA. */
enum { WEFT_DECODE_EIGHT = 8 };
static_assert(WEFT_DECODE_MERGE_WARPS == WEFT_DECODE_EIGHT, "what warps leave is merged at once");

/* Merges nodes first .. first + 7 of a level, of which those from `from` to `to` - 1 are there, into the first. `first` is
 * a multiple of 8. */
template <int COUNT>
static __device__ __forceinline__ void decode_merge_eight(decode_node<COUNT> (&nodes)[WEFT_DECODE_EIGHT], int first,
                                                          int from, int to) {
#pragma unroll
    for (int apart = 1; apart < WEFT_DECODE_EIGHT; apart *= 2) { /* pairs, pairs of pairs, ... */
#pragma unroll
        for (int i = 0; i < WEFT_DECODE_EIGHT; i += 2 * apart) {
            if (first + i + apart < to && first + i + 2 * apart > from) { /* there is a right one */
                if (first + i + apart > from) {
                    decode_merge(nodes[i], nodes[i + apart]);
                } else {
                    nodes[i] = nodes[i + apart];
                }
            }
        }
    }
}

/* A thread's columns, in fours that lie 4 * threads apart. */
template <int COUNT>
static __device__ __forceinline__ void decode_read(decode_node<COUNT> &node, const float *from, int threads, float2 stats) {
    node.max = stats.x;
    node.sum = stats.y;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 four = *(const float4 *)(from + i * threads);
        node.columns[i] = four.x;
        node.columns[i + 1] = four.y;
        node.columns[i + 2] = four.z;
        node.columns[i + 3] = four.w;
    }
}

template <class S> static __device__ __forceinline__ void decode_merge_runs(const weft_decode_params &p) {
    constexpr int threads = S::depth % 128 ? 16 : 32,
                  count = S::depth / threads; /* that share the row, and columns of each */
    static __shared__ float2 stats[WEFT_DECODE_MERGE_WARPS];
    static __shared__ __align__(16) float sums[WEFT_DECODE_MERGE_WARPS][S::depth];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = lane % threads;
    const int row = (int)(blockIdx.x % S::rows), rest = (int)(blockIdx.x / S::rows), tiles = (int)p.runs.tiles;
    decode_deal deal(p); /* lengths are older than the launch before */
    decode_run run;
    deal.find_sequence(p, rest / tiles, rest % tiles, run);
    grid_wait();
    if (run.count == 1) {
        return;
    }
    /* A warp has a node of one level, as low as leaves all under the same node three levels above. */
    const int begin = run.first, end = run.first + run.count;
    int level = 0;
    while ((end - 1) >> (level + 3) != begin >> (level + 3)) {
        level++;
    }
    const int eight = begin >> (level + 3) << 3, mine = eight + warp;
    const int from = max(begin, mine << level), to = min(end, (mine + 1) << level);
    decode_node<count> nodes[WEFT_DECODE_EIGHT], waiting[28];
    uint32_t waits = 0;
    const auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < WEFT_DECODE_EIGHT; i++) {
            const int number = min(max(first + i, from), to - 1);
            const int64_t at = (run.place + (int64_t)(number - begin) * tiles) * S::rows + row;
            decode_read(nodes[i], p.sums + at * S::depth + 4 * part, threads, *(const float2 *)(p.stats + 2 * at));
        }
        decode_merge_eight(nodes, first, from, to);
    };
    if (from < to) {
        int first = from & -WEFT_DECODE_EIGHT;
        load(first);
        while (first + WEFT_DECODE_EIGHT < to) { /* in the thread's memory, where there are more */
            decode_push(waiting, waits, first / WEFT_DECODE_EIGHT, nodes[0]);
            first += WEFT_DECODE_EIGHT;
            load(first);
            if (first + WEFT_DECODE_EIGHT >= to) {
                bool any = false;
                decode_push(waiting, waits, first / WEFT_DECODE_EIGHT, nodes[0]);
                decode_fold(waiting, waits, nodes[0], any);
            }
        }
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
    if (threadIdx.x >= threads) {
        return;
    }
#pragma unroll
    for (int i = 0; i < WEFT_DECODE_EIGHT; i++) {
        decode_read(nodes[i], &sums[i][4 * part], threads, stats[i]);
    }
    decode_merge_eight(nodes, eight, begin >> level, ((end - 1) >> level) + 1);
    const weft_sequence s = p.alike ? p.sequence : weft_sequence_at(&p.runs.sequences, run.sequence);
    decode_store<S>(p, s, run.sequence, run.tile, row, part, nodes[0]);
}

#endif
