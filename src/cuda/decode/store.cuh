/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs, and sums that wait to be merged. */
#ifndef WEFT_CUDA_DECODE_STORE_CUH
#define WEFT_CUDA_DECODE_STORE_CUH

#include "cuda/decode/deal.cuh"

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

/* What a row's sums are multiplied by to be its output, and its LSE, once all its keys are in. */
struct decode_total {
    float scale, lse;
};

static __device__ __forceinline__ decode_total decode_total_of(const weft_decode_params &p, int head, float max,
                                                               float sum) {
    if (p.sinks) {
        const float sink = 1.4426950408889634f * p.sinks[head];
        if (sum == 0) { /* no key is seen */
            max = sink;
            sum = 1;
        } else {
            sum += exp2f(sink - max);
        }
    }
    decode_total total;
    total.scale = sum == 0 ? 0 : 1 / sum; /* NaN stays */
    total.lse = sum == 0 ? -INFINITY : 0.6931471805599453f * (max + log2f(sum));
    return total;
}

/* A thread's columns of a row: 4 part .. + 3, and so on every 4 times as many threads as share the row. */
template <class S, int COUNT>
static __device__ __forceinline__ void decode_store(const weft_decode_params &p, const weft_sequence &s, int batch,
                                                    int tile, int row, int part, const decode_node<COUNT> &node) {
    constexpr int threads = S::depth / COUNT;
    const int kv_head = tile / p.tiles, index = tile % p.tiles * S::rows + row;
    const int query = (int)weft_divide(index, &p.by_group), head = kv_head * p.group + index - query * p.group;
    if (query >= s.rows.end - s.rows.begin) {
        return;
    }
    const decode_total total = decode_total_of(p, head, node.max, node.sum);
    const int64_t at = batch * p.o_strides.batch + (s.rows.begin + query) * p.o_strides.seq + head * p.o_strides.head;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const int column = 4 * part + i * threads;
        if (column < p.head_dim_v) {
            *(uint2 *)((uint16_t *)p.o + at + column) =
                make_uint2(pack_halves<S::bf16>(total.scale * node.columns[i], total.scale * node.columns[i + 1]),
                           pack_halves<S::bf16>(total.scale * node.columns[i + 2], total.scale * node.columns[i + 3]));
        }
    }
    if (p.lse && part == 0) {
        p.lse[((int64_t)batch * p.heads + head) * p.seq + s.rows.begin + query] = total.lse;
    }
}

/* Leaves a run's node for the launch that merges. */
template <class S>
static __device__ __forceinline__ void decode_leave(const weft_decode_params &p, int place, int row, int part,
                                                    const decode_node<S::columns> &node) {
    float *to = p.sums + ((int64_t)place * S::rows + row) * S::depth + 4 * part;
#pragma unroll
    for (int i = 0; i < S::columns; i += 4) {
        *(float4 *)(to + i * S::row_threads) =
            make_float4(node.columns[i], node.columns[i + 1], node.columns[i + 2], node.columns[i + 3]);
    }
    if (part == 0) {
        *(float2 *)(p.stats + 2 * ((int64_t)place * S::rows + row)) = make_float2(node.max, node.sum);
    }
}

#endif
