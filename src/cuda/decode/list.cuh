/* SPDX-License-Identifier: Apache-2.0 */
/* What weft_plan_prepare() does: one CTA makes the list of all runs, longest first, from which workers take the next as
 * they come to an end. Whole runs are in the order of include/weft/order/runs.h, so that neighbours read neighbouring
 * memory; shorter ones are behind, sorted by their leaves. A node's place in the workspace is the same with and without a
 * list.
 *
 * A warp prices each level: how many runs of each size there are gives the time that a list of them takes, and, for the
 * level that takes least, where runs of each size begin in the list. */
#ifndef WEFT_CUDA_DECODE_LIST_CUH
#define WEFT_CUDA_DECODE_LIST_CUH

#include "cuda/decode/params.h"
#include "cuda/ptx/grid.cuh"

enum { WEFT_DECODE_DEAL_THREADS = 32 * WEFT_DECODE_DEAL_WARPS };
static_assert(WEFT_DECODE_DEAL_WARPS >= WEFT_RUN_LEVELS, "a warp for each level");

/* What the threads share. A level has a bin for each size, 0 to 2^level. */
struct decode_dealer {
    int bins[(1 << WEFT_RUN_LEVELS) - 1 + WEFT_RUN_LEVELS]; /* runs of a size; then, how many are longer */
    unsigned leaves;                                        /* of all sequences */
    int longest[WEFT_DECODE_DEAL_WARPS];                    /* of the sequences of a warp */
    int64_t times[WEFT_RUN_LEVELS];
    int warp_runs[WEFT_DECODE_DEAL_WARPS], warp_whole[WEFT_DECODE_DEAL_WARPS];
    /* Of the sequences at hand: leaves, and where in the list its first, its last and its whole runs are. */
    int begin[WEFT_DECODE_DEAL_THREADS], end[WEFT_DECODE_DEAL_THREADS], place[WEFT_DECODE_DEAL_THREADS];
    int first_at[WEFT_DECODE_DEAL_THREADS], last_at[WEFT_DECODE_DEAL_THREADS], whole_at[WEFT_DECODE_DEAL_THREADS];

    __device__ __forceinline__ unsigned *bin(int level, int64_t size) {
        return (unsigned *)&bins[(1 << level) - 1 + level + (int)size];
    }
};

/* Counts the runs of each size, for all levels. */
static __device__ __forceinline__ void decode_count_sizes(const weft_decode_params &p, decode_dealer &dealer) {
    int longest = 0;
    unsigned leaves = 0;
    for (int i = (int)threadIdx.x; i < (int)p.runs.sequences.count; i += WEFT_DECODE_DEAL_THREADS) {
        const weft_rows mine = weft_run_leaves(&p.runs, i);
        const int count = (int)(mine.end - mine.begin);
        leaves += (unsigned)count;
        longest = max(longest, count);
        for (int level = 0; level < WEFT_RUN_LEVELS; level++) {
            const weft_run_sizes sizes = weft_run_sizes_of(mine, level);
            if (sizes.whole > 0) {
                atomicAdd(dealer.bin(level, 1 << level), (unsigned)sizes.whole);
            }
            if (sizes.first > 0 || count == 0) {
                atomicAdd(dealer.bin(level, sizes.first), 1u);
            }
            if (sizes.last > 0) {
                atomicAdd(dealer.bin(level, sizes.last), 1u);
            }
        }
    }
    longest = __reduce_max_sync(~0u, longest);
    leaves = (unsigned)__reduce_add_sync(~0u, (int)leaves);
    if (threadIdx.x % 32 == 0) {
        dealer.longest[threadIdx.x / 32] = longest;
        atomicAdd(&dealer.leaves, leaves);
    }
}

/* A warp's sum over lanes up to this one. */
static __device__ __forceinline__ int decode_sum_up(int number) {
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
        const int other = __shfl_up_sync(~0u, number, i);
        number += (int)(threadIdx.x % 32) >= i ? other : 0;
    }
    return number;
}

/* By a warp: from the longest runs of a level on, how many are longer than those of each size, and how long all take. */
static __device__ __forceinline__ void decode_price(const weft_decode_params &p, decode_dealer &dealer, int level) {
    const int lane = (int)(threadIdx.x % 32), tiles = (int)p.runs.tiles;
    int longest = 0, before = 0;
    int64_t time = 0;
    for (int i = 0; i < WEFT_DECODE_DEAL_WARPS; i++) {
        longest = max(longest, dealer.longest[i]);
    }
    for (int top = min(1 << level, longest); top >= 0; top -= 32) {
        const int size = top - lane, of = size >= 0 ? (int)*dealer.bin(level, size) : 0;
        const int until = before + decode_sum_up(of);
        if (of > 0) {
            *dealer.bin(level, size) = (unsigned)(until - of);
            time = weft_larger(time, weft_run_bound(&p.runs, (int64_t)until * tiles, size));
        }
        before = __shfl_sync(~0u, until, 31);
    }
    for (int i = 16; i > 0; i /= 2) {
        time = weft_larger(time, __shfl_xor_sync(~0u, time, i));
    }
    if (lane == 0) {
        const int64_t runs = (int64_t)before * tiles;
        time = weft_larger(time, weft_run_mean(&p.runs, (int64_t)dealer.leaves * tiles, runs));
        dealer.times[level] = runs <= weft_run_most(&p.runs) ? time : INT64_MAX;
    }
}

/* Where the runs of the sequences from `base` on are, one for each thread; `runs` and `whole` are those of the sequences
 * before, and count on. */
static __device__ __forceinline__ void decode_find_runs(const weft_decode_params &p, decode_dealer &dealer, int level,
                                                        int base, int &runs, int &whole) {
    const int thread = (int)threadIdx.x, warp = thread / 32, number = base + thread;
    const bool is_there = number < (int)p.runs.sequences.count;
    weft_rows leaves = {0, 0};
    if (is_there) {
        leaves = weft_run_leaves(&p.runs, number);
    }
    const weft_run_sizes sizes = weft_run_sizes_of(leaves, level);
    const int count = is_there ? (int)weft_run_count(leaves, level) : 0;
    const int runs_until = decode_sum_up(count), whole_until = decode_sum_up((int)sizes.whole);
    if (thread % 32 == 31) {
        dealer.warp_runs[warp] = runs_until;
        dealer.warp_whole[warp] = whole_until;
    }
    __syncthreads();
    int runs_before = runs + runs_until - count, whole_before = whole + whole_until - (int)sizes.whole;
    for (int i = 0; i < WEFT_DECODE_DEAL_WARPS; i++) {
        runs_before += i < warp ? dealer.warp_runs[i] : 0;
        whole_before += i < warp ? dealer.warp_whole[i] : 0;
        runs += dealer.warp_runs[i];
        whole += dealer.warp_whole[i];
    }
    if (is_there) {
        dealer.begin[thread] = (int)leaves.begin;
        dealer.end[thread] = (int)leaves.end;
        dealer.place[thread] = runs_before * (int)p.runs.tiles;
        dealer.whole_at[thread] = whole_before;
        /* Who comes first of equals is left to chance. */
        const bool has_first = sizes.first > 0 || leaves.begin == leaves.end;
        dealer.first_at[thread] = has_first ? (int)atomicAdd(dealer.bin(level, sizes.first), 1u) : -1;
        dealer.last_at[thread] = sizes.last > 0 ? (int)atomicAdd(dealer.bin(level, sizes.last), 1u) : -1;
        const weft_decode_dealt dealt = {dealer.place[thread], count, (int)(leaves.begin >> level), (int)p.runs.tiles};
        *(uint4 *)(p.dealt + number) = *(const uint4 *)&dealt;
    }
    __syncthreads();
}

/* By a warp: lists the runs of a sequence. */
static __device__ __forceinline__ void decode_list_runs(const weft_decode_params &p, const decode_dealer &dealer, int level,
                                                        int base, int of) {
    const int begin = dealer.begin[of], end = dealer.end[of], tiles = (int)p.runs.tiles;
    const int first_at = dealer.first_at[of], last_at = dealer.last_at[of];
    const weft_rows leaves = {begin, end};
    const int count = (int)weft_run_count(leaves, level), node = begin >> level;
    for (int i = (int)(threadIdx.x % 32); i < count * tiles; i += 32) {
        const int number = (int)weft_divide(i, &p.by_tiles), tile = i - number * tiles;
        const bool is_first = number == 0 && first_at >= 0, is_last = number == count - 1 && last_at >= 0;
        const int at = is_first ? first_at : is_last ? last_at : dealer.whole_at[of] + number - (first_at >= 0 ? 1 : 0);
        const __align__(16) weft_decode_listed run = {dealer.place[of] + i,
                                                      base + of,
                                                      tile,
                                                      count,
                                                      max(begin, (node + number) << level),
                                                      min(end, (node + number + 1) << level),
                                                      {0, 0}};
        uint4 *to = (uint4 *)(p.list + (int64_t)at * tiles + tile);
        to[0] = ((const uint4 *)&run)[0];
        to[1] = ((const uint4 *)&run)[1];
    }
}

static __device__ __forceinline__ void decode_make_list(const weft_decode_params &p) {
    static __shared__ decode_dealer dealer;
    const int warp = (int)threadIdx.x / 32;
    for (int i = (int)threadIdx.x; i < (int)(sizeof dealer.bins / sizeof *dealer.bins); i += WEFT_DECODE_DEAL_THREADS) {
        dealer.bins[i] = 0;
    }
    if (threadIdx.x == 0) {
        dealer.leaves = 0;
    }
    __syncthreads();
    decode_count_sizes(p, dealer);
    __syncthreads();
    if (warp < WEFT_RUN_LEVELS) {
        decode_price(p, dealer, warp);
    }
    __syncthreads();
    int level = WEFT_RUN_LEVELS - 1; /* of equals the higher one: there is less to merge */
    for (int i = level - 1; i >= 0; i--) {
        level = dealer.times[i] < dealer.times[level] ? i : level;
    }
    int runs = 0, whole = 0;
    for (int base = 0; base < (int)p.runs.sequences.count; base += WEFT_DECODE_DEAL_THREADS) {
        decode_find_runs(p, dealer, level, base, runs, whole);
        const int here = min((int)WEFT_DECODE_DEAL_THREADS, (int)p.runs.sequences.count - base);
        for (int of = warp; of < here; of += WEFT_DECODE_DEAL_WARPS) {
            decode_list_runs(p, dealer, level, base, of);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const weft_decode_list_head head = {runs * (int)p.runs.tiles, 0, {0, 0}};
        *p.list_head = head;
    }
    __threadfence(); /* who comes next may read the list before it waits for this launch */
}

#endif
