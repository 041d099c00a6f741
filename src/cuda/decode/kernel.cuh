/* SPDX-License-Identifier: Apache-2.0 */
/* Decode: attention of few queries over the keys of a cache. Reading K and V takes the time; all else hides behind it.
 *
 * A CTA takes runs of keys (deal.cuh), and of every leaf of a run each warp has a quarter, which it loads itself, blocks
 * ahead, and waits for no other warp. After a leaf the warps' sums are merged through shared memory; each thread then has
 * some columns of a row, of which it builds the tree above. */
#ifndef WEFT_CUDA_DECODE_KERNEL_CUH
#define WEFT_CUDA_DECODE_KERNEL_CUH

#include "cuda/decode/merge.cuh"
#include "cuda/decode/sweep.cuh"

/* What the lanes' rows see. */
template <class S>
static __device__ __forceinline__ void decode_see(const weft_decode_params &p, const decode_run &run,
                                                  const weft_sequence &s, const decode_keys &keys, bool is_alike,
                                                  decode_rows<S> &rows) {
    const int lane = (int)(threadIdx.x % 32), kv_head = run.tile / p.tiles, tile = run.tile - kv_head * p.tiles;
    const int count = (int)(s.rows.end - s.rows.begin) * p.group;
    rows.from = 0;
    rows.to = INT32_MAX;
    weft_rows seen = {s.columns.end, s.columns.end};
    if (p.most == 1) { /* all rows see the same */
        seen = is_alike ? p.seen : weft_band_seen(&p.runs.band, &s, s.rows.begin);
    }
#pragma unroll
    for (int i = 0; i < 2 * S::sides; i++) {
        const int index = tile * S::rows + i / 2 * 8 + 2 * (lane % 4) + i % 2;
        rows.begin[i] = rows.end[i] = keys.end;
        rows.slope[i] = rows.at[i] = 0;
        if (index < count) {
            const int query = (int)weft_divide(index, &p.by_group);
            if (p.most > 1) {
                seen = weft_band_seen(&p.runs.band, &s, s.rows.begin + query);
            }
            rows.begin[i] = (int)seen.begin - keys.origin;
            rows.end[i] = (int)seen.end - keys.origin;
            if (p.alibi) {
                const int head = kv_head * p.group + index - query * p.group;
                rows.slope[i] = 1.4426950408889634f * p.alibi[run.sequence * p.alibi_stride + head];
                rows.at[i] =
                    (float)(weft_band_position(&p.runs.band, &s, s.rows.begin + query) + s.columns.begin - keys.origin);
            }
            rows.from = max(rows.from, rows.begin[i]);
            rows.to = min(rows.to, rows.end[i]);
        }
    }
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
        rows.from = max(rows.from, __shfl_xor_sync(~0u, rows.from, lanes));
        rows.to = min(rows.to, __shfl_xor_sync(~0u, rows.to, lanes));
    }
}

/* Q as the right operand: of row lane / 4 of each side. */
template <class S>
static __device__ __forceinline__ void decode_queries(const weft_decode_params &p, const decode_run &run,
                                                      const weft_sequence &s, const decode_keys &keys,
                                                      uint32_t (&q)[S::slices][S::sides][2]) {
    const int lane = (int)(threadIdx.x % 32), kv_head = run.tile / p.tiles, tile = run.tile - kv_head * p.tiles;
    const int count = (int)(s.rows.end - s.rows.begin) * p.group;
#pragma unroll
    for (int side = 0; side < S::sides; side++) {
        const int index = tile * S::rows + 8 * side + lane / 4, query = (int)weft_divide(index, &p.by_group);
        const bool there = index < count;
        const char *row = (const char *)p.q;
        if (there) {
            row += 2 * (keys.batch * p.q_strides.batch + (s.rows.begin + query) * p.q_strides.seq +
                        (kv_head * p.group + index - query * p.group) * p.q_strides.head);
        }
#pragma unroll
        for (int i = 0; i < S::slices; i++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int element = 16 * i + 8 * half + 2 * (lane % 4);
                uint32_t two = 0;
                if (there && (keys.whole || element < p.head_dim)) {
                    two =
                        S::fresh && p.rotary_dim
                            ? decode_turn_two<S>(p, row, element, keys.position + keys.fresh + (p.rotary_moves ? query : 0))
                            : *(const uint32_t *)(row + 2 * element);
                }
                q[i][side][half] = two;
            }
        }
    }
}

/* The warps' sums to shared memory, transposed back: rows of S::sum_row floats, then each warp's largest scores and sums.
 */
template <class S> static __device__ __forceinline__ void decode_put(float *shared, int warp, decode_sums<S> &sums) {
    const int lane = (int)(threadIdx.x % 32);
    float *stats = shared + WEFT_DECODE_WARPS * S::rows * S::sum_row + warp * 2 * S::rows;
#pragma unroll
    for (int side = 0; side < S::sides; side++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = 8 * side + 2 * (lane % 4) + i;
            float sum = sums.sum[2 * side + i];
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes *= 2) {
                sum += __shfl_xor_sync(~0u, sum, lanes);
            }
            if (lane < 4) {
                stats[2 * row] = sums.max[2 * side + i];
                stats[2 * row + 1] = sum;
            }
            float *to = shared + (warp * S::rows + row) * S::sum_row + lane / 4;
#pragma unroll
            for (int j = 0; j < S::slices; j++) {
                to[16 * j] = sums.o[j][side][i];
                to[16 * j + 8] = sums.o[j][side][i + 2];
            }
        }
    }
}

/* A thread's columns of the leaf. */
template <class S> static __device__ __forceinline__ void decode_take(const float *shared, decode_node<S::columns> &leaf) {
    const int row = (int)threadIdx.x / S::row_threads, part = (int)threadIdx.x % S::row_threads;
    const float *stats = shared + WEFT_DECODE_WARPS * S::rows * S::sum_row + 2 * row;
    leaf.max = -INFINITY;
    leaf.sum = 0;
#pragma unroll
    for (int warp = 0; warp < WEFT_DECODE_WARPS; warp++) {
        leaf.max = fmaxf(leaf.max, stats[warp * 2 * S::rows]);
    }
    const float from = leaf.max == -INFINITY ? 0.0f : leaf.max;
#pragma unroll
    for (int i = 0; i < S::columns; i++) {
        leaf.columns[i] = 0;
    }
#pragma unroll
    for (int warp = 0; warp < WEFT_DECODE_WARPS; warp++) {
        const float scale = exp2_flushed(stats[warp * 2 * S::rows] - from);
        const float *columns = shared + (warp * S::rows + row) * S::sum_row + 4 * part;
        leaf.sum += scale * stats[warp * 2 * S::rows + 1];
#pragma unroll
        for (int i = 0; i < S::columns; i += 4) {
            const float4 four = *(const float4 *)(columns + i * S::row_threads);
            leaf.columns[i] += scale * four.x;
            leaf.columns[i + 1] += scale * four.y;
            leaf.columns[i + 2] += scale * four.z;
            leaf.columns[i + 3] += scale * four.w;
        }
    }
}

/* Tells of keys of a block whose page there is none of, as far as a query sees them or they are new. */
template <class S>
static __device__ __forceinline__ void decode_tell(const weft_decode_params &p, const decode_rows<S> &rows,
                                                   const decode_keys &keys, int key, uint32_t bad) {
#pragma unroll 1
    for (int i = 0; i < WEFT_DECODE_BLOCK; i++) {
        bool needs = S::fresh && key + i >= keys.fresh && key + i < keys.end;
#pragma unroll
        for (int row = 0; row < 2 * S::sides; row++) {
            needs |= key + i >= rows.begin[row] && key + i < rows.end[row];
        }
        if (needs && bad >> i & 1) {
            weft_page_tell(&p.pages, keys.batch, keys.origin + key + i);
        }
    }
}

/* Runs, one after the other, until there are no more. */
template <class S, decode_way WAY> static __device__ __forceinline__ void decode_attention(const weft_decode_params &p) {
    extern __shared__ __align__(128) unsigned char decode_shared[];
    const int warp = (int)threadIdx.x / 32;
    unsigned char *ring = decode_shared + warp * S::stages * S::stage_bytes;
    const uint32_t ring_at = (uint32_t)__cvta_generic_to_shared(ring);
    float *put = (float *)(decode_shared + S::ring_bytes);
    static __shared__ decode_taken taken[2]; /* of this run and the next, in turn */
    const bool is_alike = decode_is_alike<WAY>(p), listed = decode_is_listed<WAY>(p);
    /* Where all sequences are alike, all about a run is in the parameters. Where runs are prepared, lengths are older than
     * the launch before, which is over if it made the list. Else it may have written them.
     * Behind the wait: who comes next may then read what is older than this launch. */
    const bool early = !S::fresh && (is_alike || listed);
    if (!early) {
        grid_wait();
        grid_let_next();
    }
    decode_deal<S::alone, WAY, S::fresh> deal(p);
    decode_run run;
    int turn = 0;
    if (listed) {
        if (threadIdx.x == 0) {
            decode_read_listed(p, (int)blockIdx.x, taken[1]);
        }
        __syncthreads();
    }
#pragma unroll 1
    for (int place = (int)blockIdx.x;; place += (int)gridDim.x) {
        if (!(listed ? decode_find_taken(p, taken[turn ^ 1], run) : deal.find(p, place, run))) {
            break;
        }
        const int kv_head = run.tile / p.tiles;
        const weft_sequence s = is_alike ? p.sequence : weft_sequence_at(&p.runs.sequences, run.sequence);
        const decode_keys keys = decode_keys_of<S>(p, s, run.sequence, kv_head, run.tile == kv_head * p.tiles);
        weft_length_tell(&p.pages, &p.runs.sequences, run.sequence);
        if (threadIdx.x == 0) {
            decode_tell_dealt(p, run);
        }
        const int blocks = (run.end - run.begin) * WEFT_DECODE_BLOCKS;
        const auto key_of = [&](int block) {
            return (run.begin + block / WEFT_DECODE_BLOCKS) * WEFT_LEAF + warp * WEFT_DECODE_KEYS +
                   block % WEFT_DECODE_BLOCKS * WEFT_DECODE_BLOCK;
        };
        if (early) {
            grid_wait();
            grid_let_next();
        }
        uint64_t wrong = 0; /* what is wrong with the blocks in shared memory, 16 bits for each */
        const auto load = [&](int block, int stage, decode_where where) {
            if (block < blocks) {
                wrong = (wrong & ~(0xffffull << 16 * stage)) | (uint64_t)decode_wrong(where) << 16 * stage;
                decode_load<S>(p, keys, key_of(block), where, ring_at + stage * S::stage_bytes,
                               ring + stage * S::stage_bytes);
            }
            cp_async_commit();
        };
#pragma unroll 1
        for (int block = 0; block < S::stages; block++) {
            load(block, block, decode_find(p, keys, key_of(block)));
        }
        decode_where next = decode_find(p, keys, key_of(S::stages)); /* looked up before it is needed */
        decode_rows<S> rows;
        decode_queries<S>(p, run, s, keys, rows.q);
        decode_see<S>(p, run, s, keys, is_alike, rows);
        decode_sums<S> sums;
        decode_node<S::columns> leaf, low[S::low_levels + 1],
            high[28]; /* what waits: in registers, and in the thread's memory */
        uint32_t low_waiting = 0, high_waiting = 0;
        int stage = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block++) {
            if (block % WEFT_DECODE_BLOCKS == 0) {
                sums.clear();
            }
            cp_async_wait<S::stages - 1>();
            __syncwarp();
            /* The last leaf takes longer than to ask for the next run. */
            if (listed && threadIdx.x == 0 && block >= blocks - WEFT_DECODE_BLOCKS) {
                if (block == blocks - WEFT_DECODE_BLOCKS) {
                    place = decode_take_place(p);
                } else if (block == blocks - 2) {
                    decode_read_listed(p, place, taken[turn]);
                }
            }
            const uint32_t bad = (uint32_t)(wrong >> 16 * stage) & 0xffff;
            decode_block<S>(p, rows, key_of(block), bad, ring_at + stage * S::stage_bytes, sums);
            if (bad) {
                decode_tell<S>(p, rows, keys, key_of(block), bad);
            }
            __syncwarp();
            load(block + S::stages, stage, next);
            next = decode_find(p, keys, key_of(block + S::stages + 1));
            stage = stage + 1 == S::stages ? 0 : stage + 1;
            if (block % WEFT_DECODE_BLOCKS == WEFT_DECODE_BLOCKS - 1) {
                decode_put<S>(put, warp, sums);
                __syncthreads();
                decode_take<S>(put, leaf);
                __syncthreads();
                const int number = run.begin + block / WEFT_DECODE_BLOCKS;
                if (decode_rise<S::low_levels>(low, low_waiting, number, leaf)) {
                    decode_push(high, high_waiting, number >> S::low_levels, leaf);
                }
            }
        }
        bool any = false;
        decode_fold_low<S::low_levels>(low, low_waiting, leaf, any);
        decode_fold(high, high_waiting, leaf, any);
        if (!any) {
            leaf.max = -INFINITY;
            leaf.sum = 0;
#pragma unroll
            for (int i = 0; i < S::columns; i++) {
                leaf.columns[i] = 0;
            }
        }
        const int row = (int)threadIdx.x / S::row_threads, part = (int)threadIdx.x % S::row_threads;
        if (run.count == 1) {
            decode_store<S>(p, s, keys.batch, run.tile, row, part, leaf);
        } else {
            decode_leave<S>(p, run.place, row, part, leaf);
        }
        if (listed && blocks == 0) { /* nobody has asked */
            if (threadIdx.x == 0) {
                decode_read_listed(p, decode_take_place(p), taken[turn]);
            }
            __syncthreads();
        }
        turn ^= 1;
    }
}

#endif
