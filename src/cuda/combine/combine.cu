/* SPDX-License-Identifier: Apache-2.0 */
/* Combines parts of an attention: see params.h. */
#include "cuda/combine/params.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/math.cuh"

template <int N> struct alignas(N == 1 ? 2 : 16) combine_halves { uint16_t of[N]; };
template <int N> struct alignas(N == 1 ? 4 : 16) combine_floats { float of[N]; };

template <int N>
static __device__ __forceinline__ void combine_load(int32_t dtype, const void *from, int64_t element, float (&to)[N]) {
    if (dtype == WEFT_FP32) {
        const combine_floats<N> x = *(const combine_floats<N> *)((const float *)from + element);
#pragma unroll
        for (int e = 0; e < N; e++) {
            to[e] = x.of[e];
        }
        return;
    }
    const combine_halves<N> x = *(const combine_halves<N> *)((const uint16_t *)from + element);
#pragma unroll
    for (int e = 0; e < N; e++) {
        to[e] = dtype == WEFT_BF16 ? half_to_float<true>(x.of[e]) : half_to_float<false>(x.of[e]);
    }
}

template <int N>
static __device__ __forceinline__ void combine_store(int32_t dtype, void *to, int64_t element, const float (&from)[N]) {
    if (dtype == WEFT_FP32) {
        combine_floats<N> x;
#pragma unroll
        for (int e = 0; e < N; e++) {
            x.of[e] = from[e];
        }
        *(combine_floats<N> *)((float *)to + element) = x;
        return;
    }
    combine_halves<N> x;
#pragma unroll
    for (int e = 0; e < N; e++) {
        x.of[e] = (uint16_t)(dtype == WEFT_BF16 ? pack_halves<true>(from[e], 0) : pack_halves<false>(from[e], 0));
    }
    *(combine_halves<N> *)((uint16_t *)to + element) = x;
}

/* Where a chunk of a row begins, in elements. */
static __device__ __forceinline__ int64_t combine_index(const weft_combine_params &p, const weft_strides &s, int64_t row) {
    int64_t position = row, head = weft_divide_off(&position, &p.by_seq);
    const int64_t batch = weft_divide_off(&head, &p.by_heads);
    return batch * s.batch + position * s.seq + head * s.head;
}

/* Where the result has the LSE of a row. */
static __device__ __forceinline__ float *combine_lse_at(const weft_combine_params &p, int64_t row) {
    int64_t position = row;
    const int64_t head = weft_divide_off(&position, &p.by_seq);
    return p.lse + head * p.lse_stride + position;
}

/* A chunk of a row while terms are added to it. */
template <int N> struct combine_chunk { float largest, sum, sums[N]; };

/* Adds a term, whose LSE is at most the largest. */
template <int N>
static __device__ __forceinline__ void combine_add(combine_chunk<N> &to, float lse, int32_t dtype, const void *from,
                                                   int64_t element) {
    if (lse == -INFINITY) {
        return; /* whatever its output holds */
    }
    float values[N];
    const float weight = expf(lse - to.largest);
    combine_load<N>(dtype, from, element, values);
    to.sum += weight;
#pragma unroll
    for (int e = 0; e < N; e++) {
        to.sums[e] += weight * values[e];
    }
}

/* Returns the LSE of the row. In a sum all LSEs count as 0, and all terms weigh 1. */
template <int N>
static __device__ __forceinline__ float combine_row(const weft_combine_params &p, int64_t row, int64_t element) {
    const int64_t from = combine_index(p, p.part_strides, row) + element;
    const int64_t to = combine_index(p, p.o_strides, row) + element;
    const float old = !p.into ? -INFINITY : p.sum ? 0 : *combine_lse_at(p, row);
    combine_chunk<N> chunk = {old, 0, {}};
    for (int i = 0; i < p.count; i++) {
        chunk.largest = fmaxf(chunk.largest, p.sum ? 0 : p.lses[i][row]); /* a NaN has its say below */
    }
    combine_add<N>(chunk, old, p.o_dtype, p.o, to);
    for (int i = 0; i < p.count; i++) {
        combine_add<N>(chunk, p.sum ? 0 : p.lses[i][row], p.dtype, p.parts[i], from);
    }
    const bool any = chunk.sum != 0;
    const float total = p.sum ? 1 : chunk.sum;
#pragma unroll
    for (int e = 0; e < N; e++) {
        chunk.sums[e] = any ? chunk.sums[e] / total : 0;
    }
    combine_store<N>(p.o_dtype, p.o, to, chunk.sums);
    return any ? chunk.largest + logf(chunk.sum) : -INFINITY;
}

/* All threads of a row read what its LSE was, so it is written when all have. Tiles take turns with two sets of LSEs: who
 * is at the next tile's overwrites nothing that another thread has yet to store. */
template <int N> static __device__ __forceinline__ void combine_tiles(const weft_combine_params &p) {
    static __shared__ float lses[2][WEFT_COMBINE_ROWS];
    int set = 0;
    for (int64_t position = blockIdx.x; position < p.order.count; position += gridDim.x, set ^= 1) {
        const int64_t first = weft_order_tile(&p.order, position).col * WEFT_COMBINE_ROWS;
        const int64_t rows = weft_smaller(p.rows - first, WEFT_COMBINE_ROWS), chunks = rows * (int64_t)p.by_chunks.value;
        for (int64_t i = threadIdx.x; i < chunks; i += WEFT_COMBINE_THREADS) {
            int64_t chunk = i;
            const int64_t row = weft_divide_off(&chunk, &p.by_chunks);
            const float lse = combine_row<N>(p, first + row, N * chunk);
            if (chunk == 0) {
                lses[set][row] = lse;
            }
        }
        __syncthreads();
        if (p.lse && threadIdx.x < rows) {
            *combine_lse_at(p, first + threadIdx.x) = lses[set][threadIdx.x];
        }
    }
}

extern "C" __global__ void __launch_bounds__(WEFT_COMBINE_THREADS)
    combine_parts(const __grid_constant__ weft_combine_params p) {
    grid_wait(); /* parts are what the launches before have made */
    if (p.chunk == WEFT_COMBINE_CHUNK) {
        combine_tiles<WEFT_COMBINE_CHUNK>(p);
    } else {
        combine_tiles<1>(p);
    }
}
