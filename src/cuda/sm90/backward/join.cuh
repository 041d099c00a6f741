/* Where tiles are split: dV and dK of the parts become dV and dK, as threads of `main` held them: see store.cuh. */
#ifndef WEFT_CUDA_SM90_BACKWARD_JOIN_CUH
#define WEFT_CUDA_SM90_BACKWARD_JOIN_CUH

#include "cuda/sm90/backward/store.cuh"

/* The keys of a tile: the first, and where those end that are there. */
template <class S>
static __device__ __forceinline__ weft_rows backward_keys_of(const weft_hopper_backward_params &p, int batch, int number) {
    if constexpr (S::general) {
        return weft_reach_cut(&p.walk.reach, batch, number, 1).rows;
    } else {
        return {(int64_t)number * S::keys, p.kv_seq};
    }
}

/* Adds 32 columns of dV or dK of a tile, those of one part after the other, and stores them: narrow, each half of the
 * threads those of 64 keys; wide, each has 32 columns. unit: which of all, by batch, head of keys, tile and columns. */
template <class S>
static __device__ __forceinline__ void backward_join_unit(const weft_hopper_backward_params &p, int unit) {
    constexpr int tile_units = (S::depth_v + S::depth) * S::keys / WEFT_HOPPER_BACKWARD_JOINED;
    const int half = (int)threadIdx.x / 128, thread = (int)threadIdx.x % 128, lane = thread % 32;
    const int cols = (int)p.walk.cols, number = unit / tile_units % cols, line = unit / tile_units / cols;
    const int head = line % p.kv_heads, batch = line / p.kv_heads;
    const int columns = unit % tile_units * (S::wide ? 64 : 32) + (S::wide ? half * 32 : 0); /* of both */
    const bool of_v = columns < S::depth_v;
    const weft_rows keys = backward_keys_of<S>(p, batch, number);
    if (keys.begin >= keys.end) { /* of a packed batch: nobody had such a tile */
        return;
    }
    const float4 *from = (const float4 *)(p.parts + backward_part<S>(p, batch, head * p.splits, number)) +
                         columns * (S::keys / 4) + (S::wide ? 0 : half * 128) + thread;
    const int64_t apart = (int64_t)cols * (S::keys * (S::depth_v + S::depth) / 4); /* from part to part */
    float4 sums[4] = {};
#pragma unroll 2
    for (int part = 0; part < p.splits; part++, from += apart) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 more = from[i * (S::keys * 2)];
            sums[i] = float4{sums[i].x + more.x, sums[i].y + more.y, sums[i].z + more.z, sums[i].w + more.w};
        }
    }
    const float factor = !of_v ? p.scale : S::full ? p.full.kept : 1.0f;
    const weft_strides &strides = of_v ? p.v_strides : p.k_strides;
    const int column = columns - (of_v ? 0 : S::depth_v) + lane % 4 * 8;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int64_t key = keys.begin + (S::wide ? 0 : half * 64) + thread / 32 * 16 + r * 8 + lane / 4;
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = r ? pack_halves<S::bf16>(sums[i].z * factor, sums[i].w * factor)
                         : pack_halves<S::bf16>(sums[i].x * factor, sums[i].y * factor);
        }
        backward_transpose(words);
        if (key < keys.end && column < (of_v ? p.head_dim_v : p.head_dim)) {
            char *to = (char *)(of_v ? p.grad_v : p.grad_k);
            const int64_t at = batch * strides.batch + head * strides.head + key * strides.seq + column;
            store_16(to + 2 * at, words, WEFT_KEEP_NORMAL);
        }
    }
}

template <class S> static __device__ __forceinline__ void backward_join(const weft_hopper_backward_params &p) {
    const int lines = (int)p.walk.order.grid.batch * p.kv_heads;
    const int units = lines * (int)p.walk.cols * ((S::depth_v + S::depth) * S::keys / WEFT_HOPPER_BACKWARD_JOINED);
    for (int unit = (int)blockIdx.x; unit < units; unit += (int)gridDim.x) {
        backward_join_unit<S>(p, unit);
    }
}

#endif
