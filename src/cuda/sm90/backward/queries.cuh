/* SPDX-License-Identifier: Apache-2.0 */
/* What is done for each query before and after the tiles of keys: a CTA for each block of queries of a head. */
#ifndef WEFT_CUDA_SM90_BACKWARD_QUERIES_CUH
#define WEFT_CUDA_SM90_BACKWARD_QUERIES_CUH

#include "cuda/sm90/backward/shape.cuh"
#include "cuda/sm90/backward/store.cuh"

/* The block of this CTA. */
struct backward_place {
    int block, head, batch;

    __device__ __forceinline__ backward_place(const weft_hopper_backward_params &p) {
        const int line = (int)blockIdx.x / p.blocks;
        block = (int)blockIdx.x % p.blocks;
        head = line % p.heads;
        batch = line / p.heads;
    }
};

/* The sum of products of eight 16-bit numbers. */
template <class S> static __device__ __forceinline__ float backward_dot(const uint4 &x, const uint4 &y) {
    const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sum = fmaf(half_to_float<S::bf16>(a[i / 2] >> i % 2 * 16 & 0xffff),
                   half_to_float<S::bf16>(b[i / 2] >> i % 2 * 16 & 0xffff), sum);
    }
    return sum;
}

/* Whether a query has a gradient, be it zero: of a packed batch, if it is in front of the last sequence's end. */
template <class S>
static __device__ __forceinline__ bool backward_has_row(const weft_hopper_backward_params &p, int query) {
    if constexpr (S::general) {
        const weft_sequences &all = p.walk.reach.sequences;
        return query < p.seq && (!all.lengths.q_starts || query < all.lengths.q_starts[all.count]);
    } else {
        return query < p.seq;
    }
}

/* Whether a query counts: what others have may be anything, and is not read. */
template <class S>
static __device__ __forceinline__ bool backward_counts(const weft_hopper_backward_params &p, int batch, int query) {
    if constexpr (S::general) {
        const weft_sequences &all = p.walk.reach.sequences;
        const weft_sequence s = weft_sequence_at(&all, all.lengths.q_starts ? weft_sequence_of_row(&all, query) : batch);
        return query >= s.rows.begin && query < s.used_end;
    } else {
        return query < p.seq;
    }
}

/* The sum of a number of each of the first threads, in a tree: thread 0 has it. */
static __device__ __forceinline__ float backward_sum(float mine) {
    static __shared__ float parts[WEFT_HOPPER_BACKWARD_QUERY_THREADS];
    if (threadIdx.x < WEFT_HOPPER_BACKWARD_QUERY_THREADS) {
        parts[threadIdx.x] = mine;
    }
    for (uint32_t apart = WEFT_HOPPER_BACKWARD_QUERY_THREADS / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if (threadIdx.x < apart) {
            parts[threadIdx.x] += parts[threadIdx.x + apart];
        }
    }
    return parts[0];
}

/* The gradient of a head's sink, which is a key of value 0: the sum of -weight * delta over all queries, here from the sums
 * of all blocks. */
static __device__ __forceinline__ void backward_sink(const weft_hopper_backward_params &p, int head, int batches) {
    const int count = batches * p.blocks;
    float sum = 0;
    for (int i = (int)threadIdx.x; i < count; i += WEFT_HOPPER_BACKWARD_QUERY_THREADS) {
        sum += p.scores.sink_parts[((int64_t)(i / p.blocks) * p.heads + head) * p.blocks + i % p.blocks];
    }
    sum = backward_sum(sum);
    if (threadIdx.x == 0) {
        p.scores.grad_sinks[head] = sum;
    }
}

/* Whether a tile of keys reaches the block of this CTA. */
template <class S>
static __device__ __forceinline__ bool backward_reaches(const weft_hopper_backward_params &p, const backward_place &at,
                                                        int tile) {
    if constexpr (S::general) {
        int64_t sequence = -1;
        weft_rows cols = weft_turns_next(&p.walk.reach, at.batch, at.block, &sequence);
        while (cols.begin < cols.end && !(tile >= cols.begin && tile < cols.end)) {
            cols = weft_turns_next(&p.walk.reach, at.batch, at.block, &sequence);
        }
        return cols.begin < cols.end;
    } else {
        const int last = min(at.block * S::queries + S::queries, p.seq) - 1 + p.offset; /* key */
        return !p.causal || tile * S::keys <= last;
    }
}

/* The row with the part of a tile that has a block, which the tile reaches; `row` is one of its rows. A call, since it
 * takes many registers, which nobody needs where tiles are not split. */
static __device__ __noinline__ int backward_row_of_band(const weft_walk &walk, int batch, int row, int tile, int block) {
    return (int)weft_turns_row(&walk, batch, row, tile, block, WEFT_REACH_BAND);
}

/* The line of the walk's tiles in which a tile comes by the block of this CTA, which it reaches. */
template <class S>
static __device__ __forceinline__ int64_t backward_line(const weft_hopper_backward_params &p, const backward_place &at,
                                                        int tile) {
    int row = at.head / p.group * p.line_parts;
    if (p.line_parts > 1) {
        if constexpr (S::general) {
            row = backward_row_of_band(p.walk, at.batch, row, tile, at.block);
        } else { /* weft_turns_row() in few registers */
            const int first = p.causal ? max(tile * S::keys - p.offset, 0) / S::queries : 0;
            row += (int)weft_walk_row(&p.walk, p.blocks - first, at.block - first);
        }
    }
    return weft_walk_line(&p.walk, at.batch, row);
}

/* Pairs: when a tile comes by the block of this CTA, under a block mask; the largest number: it does not. */
static __device__ __forceinline__ int32_t backward_coming_listed(const weft_hopper_backward_params &p,
                                                                 const backward_place &at, int tile) {
    const backward_list list(p, at.batch, at.head, tile);
    const int count = list.count(), member = at.head % p.group;
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (list[middle][0] < at.block) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == count || list[low][0] != at.block) {
        return INT32_MAX;
    }
    const int64_t line = weft_walk_line(&p.walk, at.batch, at.head / p.group);
    const weft_coming coming = p.walk.comings[line * p.walk.cols + tile];
    int32_t time = coming.at;
    if (coming.direction > 0) { /* else it was not dealt, and comes by all at the same time */
        for (int i = 0; i < member; i++) {
            time += backward_list(p, at.batch, at.head - member + i, tile).count();
        }
        const int first = coming.first % count;
        time += low - first + (low < first ? count : 0);
    }
    return time;
}

/* When a tile comes by the block of this CTA, by the timetable; the largest number: it does not. */
template <class S>
static __device__ __forceinline__ int32_t backward_coming(const weft_hopper_backward_params &p, const backward_place &at,
                                                          int tile) {
    if (backward_is_listed<S>(p)) {
        return backward_coming_listed(p, at, tile);
    }
    return backward_reaches<S>(p, at, tile)
               ? weft_coming_at(&p.walk.comings[backward_line<S>(p, at, tile) * p.walk.cols + tile], at.head % p.group,
                                at.block)
               : INT32_MAX;
}

/* The turns of the tiles that add to the block of this CTA: weft_turn_at(), a tile for each thread. */
template <class S>
static __device__ __forceinline__ void backward_number(const weft_hopper_backward_params &p, const backward_place &at,
                                                       const backward_notes<S> &notes) {
    constexpr int threads = WEFT_HOPPER_BACKWARD_QUERY_THREADS;
    static __shared__ int32_t comings[threads]; /* of some tiles */
    const int tiles = (int)p.walk.cols, thread = (int)threadIdx.x;
    const auto coming = [&](int tile) -> int32_t { return tile < tiles ? backward_coming<S>(p, at, tile) : INT32_MAX; };
    for (int mine = thread; mine - thread < tiles; mine += threads) {
        const int32_t me = coming(mine);
        uint32_t before = 0;
        for (int first = 0; first < tiles; first += threads) {
            __syncthreads();
            comings[thread] = first + thread == mine ? me : coming(first + thread);
            __syncthreads();
            for (int i = 0; i < min(threads, tiles - first); i++) {
                before += comings[i] < me || (comings[i] == me && first + i < mine);
            }
        }
        if (mine < tiles) {
            *backward_turn_at(p, mine).in(notes.at(at.batch, at.head, at.block)) = (uint16_t)before;
        }
    }
}

/* Zeros for the gradient of a bias, of all keys and the queries of this CTA. */
template <class S>
static __device__ __forceinline__ void backward_clear_bias(const weft_hopper_backward_params &p, const backward_place &at) {
    const int first = at.block * S::queries, rows = min(S::queries, p.seq - first);
    float *to = p.full.grad_bias + (((int64_t)at.batch * p.heads + at.head) * p.seq + first) * p.kv_seq;
    for (int64_t i = threadIdx.x; i < (int64_t)rows * p.kv_seq; i += WEFT_HOPPER_BACKWARD_QUERY_THREADS) {
        to[i] = 0;
    }
}

/* Notes a query's delta and its logarithm. Returns what it adds to the gradient of its head's sink. */
template <class S>
static __device__ __forceinline__ float backward_keep(const weft_hopper_backward_params &p, const backward_place &at,
                                                      const backward_notes<S> &notes, int row, float delta) {
    const int query = at.block * S::queries + row;
    const bool counts = backward_counts<S>(p, at.batch, query);
    const float lse = counts ? p.lse[((int64_t)at.batch * p.heads + at.head) * p.seq + query] : -INFINITY;
    const weft_hopper_backward_noted noted = notes.at(at.batch, at.head, at.block);
    const int64_t place = notes.place(noted, row);
    *(float *)(notes.template numbers<0>(noted) + place) = lse == -INFINITY ? INFINITY : S::full ? lse : lse * 1.44269504f;
    *(float *)(notes.template numbers<1>(noted) + place) = delta;
    if constexpr (S::general) {
        if (p.scores.sinks && lse != -INFINITY) {
            return -exp2_flushed((p.scores.sinks[at.head] - lse) * 1.44269504f) * delta;
        }
    }
    return 0;
}

/* Makes the notes of the block of this CTA. Returns what the thread's queries add to the gradient of its head's sink. */
template <class S>
static __device__ __forceinline__ float backward_note(const weft_hopper_backward_params &p, const backward_place &at,
                                                      const backward_notes<S> &notes) {
    float sink_part = 0;                                                         /* general */
    constexpr int lanes = S::depth_v > 128 ? 32 : S::depth_v / 8;                /* of a row */
    constexpr int rows = WEFT_HOPPER_BACKWARD_QUERY_THREADS / lanes;             /* at a time */
    const int lane = (int)threadIdx.x % lanes, first = (int)threadIdx.x / lanes; /* row */
    if (!S::wide && threadIdx.x == 0) {
        *weft_hopper_backward_adds(&p, notes.at(at.batch, at.head, at.block)) = 0;
    }
    if constexpr (S::general && !S::wide) { /* it has no registers for O and dO beside */
        backward_number<S>(p, at, notes);
    }
    constexpr int some =
        S::queries / rows < 4 ? S::queries / rows : 4; /* rows of a thread whose O and dO are asked for at a time */
#pragma unroll
    for (int part = 0; part < S::queries / rows; part += some) {
        uint4 o[some], grad_o[some];
#pragma unroll
        for (int i = 0; i < some; i++) {
            const int query = at.block * S::queries + first + (part + i) * rows;
            o[i] = grad_o[i] = uint4{0, 0, 0, 0};
            if (backward_counts<S>(p, at.batch, query) && lane * 8 < p.head_dim_v) {
                const int64_t offset =
                    at.batch * p.o_strides.batch + at.head * p.o_strides.head + query * p.o_strides.seq + lane * 8;
                o[i] = *(const uint4 *)((const char *)p.o + 2 * offset);
                grad_o[i] = *(const uint4 *)((const char *)p.grad_o_data + 2 * offset);
            }
        }
        if constexpr (!S::general && !S::wide) {
            if (part == 0) {
                backward_number<S>(p, at, notes);
            }
        }
        float mine = 0; /* the delta of a row: each of the first lanes notes one */
#pragma unroll
        for (int i = 0; i < some; i++) {
            float delta = backward_dot<S>(o[i], grad_o[i]);
#pragma unroll
            for (int apart = lanes / 2; apart > 0; apart /= 2) {
                delta += __shfl_xor_sync(0xffffffffu, delta, apart);
            }
            mine = lane == i ? delta : mine;
        }
        if (lane < some) {
            sink_part += backward_keep<S>(p, at, notes, first + (part + lane) * rows, mine);
        }
    }
    return sink_part;
}

template <class S> static __device__ __forceinline__ void backward_begin(const weft_hopper_backward_params &p) {
    const backward_place at(p);
    const backward_notes<S> notes(p);
    grid_let_next();
    float sink_part = notes.has(at.block) ? backward_note<S>(p, at, notes) : 0;
    if constexpr (S::general) {
        if (p.scores.sinks) {
            sink_part = backward_sum(sink_part);
            if (threadIdx.x == 0) {
                p.scores.sink_parts[blockIdx.x] = sink_part;
            }
        }
    }
    if constexpr (S::full) {
        if (p.full.grad_bias) {
            backward_clear_bias<S>(p, at);
        }
    }
}

/* Rounds sums of dQ. Each thread takes what one thread of `main` computed, two columns of every eight; four lanes exchange
 * theirs, so that each stores eight at a time. */
template <class S> static __device__ __forceinline__ void backward_end(const weft_hopper_backward_params &p) {
    const backward_place at(p);
    grid_wait();
    if constexpr (S::general) {
        if (p.scores.grad_sinks && at.block == 0 && at.batch == 0) {
            backward_sink(p, at.head, (int)gridDim.x / (p.heads * p.blocks));
        }
    }
    const backward_notes<S> notes(p);
    if (!notes.has(at.block)) {
        return;
    }
    const weft_hopper_backward_noted noted = notes.at(at.batch, at.head, at.block);
    constexpr int all_octets = S::dq_columns / 8;
    const int thread = (int)threadIdx.x % 128, group = (int)threadIdx.x / 128, lane = thread % 32;
    const int first_row = thread / 32 * 16 + lane / 4; /* of the warpgroup's; the other is 8 further on */
    const backward_sums_of_block<S> block(p, at.block);
    const int octets = block.octets(p, group), rows = block.rows(group);
    const char *from = block.at((int64_t)at.batch * p.heads + at.head, at.block) + group * block.bytes(0);
    const bool any = grid_load_relaxed(weft_hopper_backward_adds(&p, noted)) > 0; /* else no key is seen */
    float4 sums[all_octets];
    if (block.lacks_rows()) {
        const char *mine = from + first_row * octets * 32 + lane % 4 * 8;
#pragma unroll
        for (int i = 0; i < all_octets; i++) {
            const bool has = any && i < octets;
            const float2 none = {0, 0}, *two = (const float2 *)(mine + i * 32);
            const float2 upper = has && first_row < rows ? two[0] : none;
            const float2 lower = has && first_row + 8 < rows ? two[octets * 32] : none;
            sums[i] = float4{upper.x, upper.y, lower.x, lower.y};
        }
    } else {
#pragma unroll
        for (int i = 0; i < all_octets; i++) {
            sums[i] = any && i < octets ? ((const float4 *)from)[i * 128 + thread] : float4{0, 0, 0, 0};
        }
    }
    __syncthreads(); /* all know it: notes may be overwritten */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = at.block * S::queries + (S::by_queries ? group * 64 : 0) + first_row + r * 8;
        const bool has = backward_has_row<S>(p, row);
        char *to =
            (char *)p.grad_q + 2 * (at.batch * p.q_strides.batch + at.head * p.q_strides.head + row * p.q_strides.seq);
#pragma unroll
        for (int first = 0; first < all_octets; first += 4) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float4 &four = sums[first + i];
                words[i] = r ? pack_halves<S::bf16>(four.z * p.scale, four.w * p.scale)
                             : pack_halves<S::bf16>(four.x * p.scale, four.y * p.scale);
            }
            backward_transpose(words);
            const int column = S::dq_column(group, first) + lane % 4 * 8;
            if (has && column < p.head_dim) {
                store_16(to + 2 * column, words, WEFT_KEEP_NORMAL);
            }
        }
    }
}

#endif
