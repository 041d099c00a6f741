/* Outputs, and sums that wait to be merged. */
#ifndef WEFT_CUDA_DECODE_STORE_CUH
#define WEFT_CUDA_DECODE_STORE_CUH

#include "cuda/decode/load.cuh"

template <class S>
static __device__ __forceinline__ decode_keys decode_keys_of(const weft_decode_params &p, const weft_sequence &s,
                                                             int sequence, int kv_head, bool writes) {
    decode_keys keys;
    const weft_sequences *all = &p.runs.sequences;
    keys.batch = p.packed ? 0 : sequence;
    keys.origin = (int)weft_sequence_origin(all, sequence);
    keys.begin = (int)(s.columns.begin - keys.origin);
    keys.end = keys.fresh = (int)(s.columns.end - keys.origin);
    keys.k = (const char *)p.k + 2 * kv_head * p.k_strides.head;
    keys.v = (const char *)p.v + 2 * kv_head * p.v_strides.head;
    keys.k_page = 2 * p.k_strides.batch;
    keys.v_page = 2 * p.v_strides.batch;
    keys.k_row = 2 * p.k_strides.seq;
    keys.v_row = 2 * p.v_strides.seq;
    keys.k_new = keys.v_new = 0;
    keys.k_new_row = 2 * p.k_new_strides.seq;
    keys.v_new_row = 2 * p.v_new_strides.seq;
    keys.position = 0;
    keys.writes = writes;
    keys.by_row = p.pages.page > 0 && (p.pages.page % WEFT_DECODE_BLOCK != 0 || keys.origin % WEFT_DECODE_BLOCK != 0);
    keys.whole = p.head_dim == S::depth && p.head_dim_v == S::depth;
    if (S::fresh && p.k_new) {
        /* As many as there is room for: kv_used and they are the sequence's keys. */
        const int32_t *starts = all->new_starts ? all->new_starts : all->lengths.q_starts;
        const int used = all->lengths.kv_used ? min(max(all->lengths.kv_used[sequence], 0), (int)all->keys)
                                              : (int)(all->keys - all->append);
        keys.fresh = max(min(used, keys.end), keys.begin);
        const int64_t first = (starts ? max(starts[sequence], 0) : 0) - keys.fresh;
        keys.k_new = (const char *)p.k_new + 2 * (keys.batch * p.k_new_strides.batch + first * p.k_new_strides.seq +
                                                  kv_head * p.k_new_strides.head);
        keys.v_new = (const char *)p.v_new + 2 * (keys.batch * p.v_new_strides.batch + first * p.v_new_strides.seq +
                                                  kv_head * p.v_new_strides.head);
    }
    if (S::fresh && p.rotary_dim && p.positions) {
        keys.position = p.positions[sequence] - keys.fresh;
    }
    return keys;
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
    float sum = node.sum, max = node.max;
    if (p.sinks) {
        const float sink = 1.4426950408889634f * p.sinks[head];
        if (sum == 0) { /* no key is seen */
            max = sink;
            sum = 1;
        } else {
            sum += exp2f(sink - max);
        }
    }
    const float scale = sum == 0 ? 0 : 1 / sum; /* NaN stays */
    const int64_t at = batch * p.o_strides.batch + (s.rows.begin + query) * p.o_strides.seq + head * p.o_strides.head;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const int column = 4 * part + i * threads;
        if (column < p.head_dim_v) {
            *(uint2 *)((uint16_t *)p.o + at + column) =
                make_uint2(pack_halves<S::bf16>(scale * node.columns[i], scale * node.columns[i + 1]),
                           pack_halves<S::bf16>(scale * node.columns[i + 2], scale * node.columns[i + 3]));
        }
    }
    if (p.lse && part == 0) {
        p.lse[((int64_t)batch * p.heads + head) * p.seq + s.rows.begin + query] =
            sum == 0 ? -INFINITY : 0.6931471805599453f * (max + log2f(sum));
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
