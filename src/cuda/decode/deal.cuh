/* SPDX-License-Identifier: Apache-2.0 */
/* Which run a CTA takes: include/weft/order/runs.h, by the lanes of a warp for 32 sequences at a time; or from the list
 * that list.cuh makes. There are fewer than 2^31 leaves. */
#ifndef WEFT_CUDA_DECODE_DEAL_CUH
#define WEFT_CUDA_DECODE_DEAL_CUH

#include "cuda/decode/shape.cuh"

/* A run: its sequence, its tile (kv head and tile of rows), and its leaves. */
struct decode_run {
    int sequence, tile;
    int count;      /* runs of the sequence */
    int number;     /* of this one among them */
    int tiles;      /* of the sequence: its next run is so many places on */
    int first;      /* the number of the sequence's first run among those of its level, counted from key 0 */
    int begin, end; /* leaves */
    int place;      /* among all runs */
};

static __device__ __forceinline__ int decode_sum(int number) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        number += __shfl_xor_sync(~0u, number, i);
    }
    return number;
}

/* How a CTA comes to its runs: by lengths that it reads; by the parameters, since all sequences are alike; by the list of
 * weft_plan_prepare(); or as the parameters say. Each has an entry point of its own: a launch fetches
 * only what it needs. */
enum decode_way { DECODE_BY_LENGTHS, DECODE_ALIKE, DECODE_LISTED, DECODE_ANY_WAY };

template <decode_way WAY> static __device__ __forceinline__ bool decode_is_alike(const weft_decode_params &p) {
    return WAY == DECODE_ALIKE || (WAY == DECODE_ANY_WAY && p.alike);
}

template <decode_way WAY> static __device__ __forceinline__ bool decode_is_listed(const weft_decode_params &p) {
    return WAY == DECODE_LISTED || (WAY == DECODE_ANY_WAY && p.list);
}

/* ALONE: 0, or rows of a tile where a sequence stands alone: the level of its runs is its own, by weft_run_level_alone(),
 * and it has as many tiles as its queries take. APPENDS: runs have leaves that keys are appended to. */
template <int ALONE, decode_way WAY = DECODE_ANY_WAY, bool APPENDS = false> struct decode_deal {
    int level;
    int base;       /* sequences base .. base + 31 are looked at */
    int before;     /* runs of those before them, in all tiles */
    int begin, end; /* leaves of sequence base + lane */
    int runs;       /* of it, 0 behind the last sequence */
    int own_tiles;  /* of it, where it stands alone */

    __device__ __forceinline__ void look(const weft_decode_params &p) {
        const int number = base + (int)(threadIdx.x % 32);
        begin = end = own_tiles = 0;
        if (number < p.runs.sequences.count) {
            const weft_rows leaves = APPENDS ? weft_run_leaves(&p.runs, number) : weft_run_leaves_seen(&p.runs, number);
            begin = (int)leaves.begin;
            end = (int)leaves.end;
            if (ALONE) {
                const weft_rows rows = weft_sequence_at(&p.runs.sequences, number).rows;
                const int64_t tiles = ((rows.end - rows.begin) * p.group + ALONE - 1) / max(ALONE, 1);
                own_tiles = p.kv_heads * (int)weft_smaller(tiles, p.tiles);
            }
        }
    }

    /* Of the runs of a sequence of these leaves. */
    __device__ __forceinline__ int level_of(int from, int to) const {
        return ALONE ? weft_run_level_alone(to - from) : level;
    }

    __device__ __forceinline__ void count(const weft_decode_params &p) {
        const weft_rows leaves = {begin, end};
        const int32_t of = level_of(begin, end);
        runs = base + (int)(threadIdx.x % 32) < p.runs.sequences.count ? (int)weft_run_count(leaves, of) : 0;
    }

    __device__ __forceinline__ explicit decode_deal(const weft_decode_params &p) : level(p.level), base(0), before(0) {
        if (decode_is_alike<WAY>(p) || decode_is_listed<WAY>(p)) {
            return;
        }
        if (ALONE) {
            look(p);
            count(p);
            return;
        }
        int leaves = 0, longest = 0, counts[WEFT_RUN_LEVELS] = {};
        for (base = ((int)p.runs.sequences.count - 1) / 32 * 32; base >= 0; base -= 32) { /* ends with the first ones */
            look(p);
            leaves += end - begin;
            longest = max(longest, end - begin);
            const weft_rows mine = {begin, end};
#pragma unroll
            for (int i = 0; i < WEFT_RUN_LEVELS; i++) {
                counts[i] += base + (int)(threadIdx.x % 32) < p.runs.sequences.count ? (int)weft_run_count(mine, i) : 0;
            }
        }
        base = 0;
        const int tiles = (int)p.runs.tiles;
#pragma unroll
        for (int i = 0; i < WEFT_RUN_LEVELS; i++) {
            counts[i] = __reduce_add_sync(~0u, counts[i]) * tiles;
        }
        level = weft_run_level(&p.runs, (int64_t)__reduce_add_sync(~0u, leaves) * tiles, __reduce_max_sync(~0u, longest),
                               counts);
        count(p);
    }

    __device__ __forceinline__ void set(decode_run &run, int place, int sequence, int tile, int tiles, int number,
                                        int runs_of, int from, int to) {
        const int of = level_of(from, to);
        run.place = place;
        run.sequence = sequence;
        run.tile = tile;
        run.count = runs_of;
        run.number = number;
        run.tiles = tiles;
        run.first = from >> of;
        run.begin = max(from, (run.first + number) << of);
        run.end = min(to, (run.first + number + 1) << of);
    }

    /* Whole runs first: see include/weft/order/runs.h. */
    __device__ __forceinline__ bool find_alike(const weft_decode_params &p, int at, decode_run &run) {
        const int tiles = (int)p.runs.tiles, count = p.runs_each, all_whole = p.whole * tiles * (int)p.runs.sequences.count;
        const bool is_whole = at < all_whole;
        const weft_divisor &by = is_whole ? p.by_whole : p.by_others;
        at -= is_whole ? 0 : all_whole;
        const int sequence = (int)weft_divide(at, &by), within = at - sequence * (int)by.value;
        const int of = (int)weft_divide(within, &p.by_tiles), tile = within - of * tiles;
        const weft_rows leaves = {p.first, p.first + p.leaves};
        const int number = (int)weft_run_number(leaves, level, count, p.whole, is_whole ? of : p.whole + of);
        set(run, (sequence * count + number) * tiles + tile, sequence, tile, tiles, number, count, p.first,
            p.first + p.leaves);
        return sequence < p.runs.sequences.count && (is_whole || count > p.whole);
    }

    /* The run of a place, or false when there is none. Places may only grow from call to call. */
    __device__ __forceinline__ bool find(const weft_decode_params &p, int place, decode_run &run) {
        int tiles = (int)p.runs.tiles;
        if (decode_is_alike<WAY>(p)) {
            return find_alike(p, place, run);
        }
        for (;;) {
            const int lane = (int)(threadIdx.x % 32);
            int until = runs * (ALONE ? own_tiles : tiles);
#pragma unroll
            for (int i = 1; i < 32; i *= 2) {
                const int other = __shfl_up_sync(~0u, until, i);
                until += lane >= i ? other : 0;
            }
            const uint32_t behind = __ballot_sync(~0u, before + until > place);
            if (behind) {
                const int who = __ffs((int)behind) - 1, of = __shfl_sync(~0u, runs, who);
                tiles = ALONE ? __shfl_sync(~0u, own_tiles, who) : tiles;
                const int within = place - before - __shfl_sync(~0u, until, who) + of * tiles;
                const int number = ALONE ? within / tiles : (int)weft_divide(within, &p.by_tiles);
                int tile = within - number * tiles;
                if (ALONE) { /* numbered as if every sequence had as many as one can have */
                    const int kv_head = tile / (tiles / p.kv_heads);
                    tile += kv_head * (p.tiles - tiles / p.kv_heads);
                }
                set(run, place, base + who, tile, tiles, number, of, __shfl_sync(~0u, begin, who),
                    __shfl_sync(~0u, end, who));
                return true;
            }
            before += __shfl_sync(~0u, until, 31);
            base += 32;
            if (base >= p.runs.sequences.count) {
                return false;
            }
            look(p);
            count(p);
        }
    }
};

/* What the first thread of a CTA has taken of the list for it, while the CTA is at its last leaf. */
struct __align__(16) decode_taken {
    weft_decode_listed run;
    int place; /* in the list */
};

/* The next place that nobody has taken. */
static __device__ __forceinline__ int decode_take_place(const weft_decode_params &p) {
    return (int)(gridDim.x + atomicAdd(&p.list_head->taken, 1u));
}

/* What the list has at a place: nothing, where it ends before that. */
static __device__ __forceinline__ void decode_read_listed(const weft_decode_params &p, int place, decode_taken &to) {
    const weft_decode_listed *from = p.list + place;
    to.place = -1;
    if (place >= 0 && place < weft_run_most(&p.runs)) { /* all asked for at once */
        const int count = (int)grid_load_16(p.list_head).x;
        ((uint4 *)&to.run)[0] = grid_load_16(from);
        ((uint4 *)&to.run)[1] = grid_load_16(&from->begin);
        to.place = place < count ? place : -1;
    }
}

/* The run that was taken, or false when there is none. What is no run is not taken for one: of a workspace that was
 * never prepared nothing outside of the caller's memory is touched. */
static __device__ __forceinline__ bool decode_find_taken(const weft_decode_params &p, const decode_taken &taken,
                                                         decode_run &run) {
    const weft_decode_listed &listed = taken.run;
    const int leaves = (int)((uint64_t)(p.runs.sequences.keys + WEFT_LEAF - 1) / WEFT_LEAF);
    run.place = listed.place;
    run.sequence = listed.sequence;
    run.tile = listed.tile;
    run.count = listed.count;
    run.begin = listed.begin;
    run.end = listed.end;
    run.tiles = (int)p.runs.tiles;
    run.number = run.first = 0;
    return taken.place >= 0 && (uint32_t)run.place < (uint64_t)weft_run_most(&p.runs) &&
           (uint32_t)run.sequence < (uint64_t)p.runs.sequences.count && (uint32_t)run.tile < (uint32_t)run.tiles &&
           run.begin >= 0 && run.begin <= run.end && run.end <= leaves;
}

/* Tells the launch that merges of a sequence, of which this is a run. By one thread. */
static __device__ __forceinline__ void decode_tell_dealt(const weft_decode_params &p, const decode_run &run) {
    if (p.dealt && !p.list && run.tile == 0 && run.number == 0) {
        const weft_decode_dealt dealt = {run.place, run.count, run.first, run.tiles};
        *(uint4 *)(p.dealt + run.sequence) = *(const uint4 *)&dealt;
    }
}

/* The runs of a sequence. */
static __device__ __forceinline__ weft_decode_dealt decode_dealt(const weft_decode_params &p, int sequence) {
    weft_decode_dealt dealt;
    if (p.alike) {
        dealt.place = sequence * p.runs_each * (int)p.runs.tiles;
        dealt.count = p.runs_each;
        dealt.first = p.first >> p.level;
    } else {
        *(uint4 *)&dealt = grid_load_16(p.dealt + sequence);
    }
    return dealt;
}

#endif
