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

template <int N>
static __device__ __forceinline__ void combine_chunk(const weft_combine_params &p, int64_t row, int64_t element) {
    const int64_t from = combine_index(p, p.part_strides, row) + element;
    float largest = -INFINITY, sum = 0, sums[N] = {};
    for (int i = 0; i < p.count; i++) {
        largest = fmaxf(largest, p.lses[i][row]); /* a NaN has its say below */
    }
    for (int i = 0; i < p.count; i++) {
        const float lse = p.lses[i][row];
        if (lse == -INFINITY) {
            continue; /* whatever its output holds */
        }
        float part[N];
        const float weight = expf(lse - largest);
        combine_load<N>(p.dtype, p.parts[i], from, part);
        sum += weight;
#pragma unroll
        for (int e = 0; e < N; e++) {
            sums[e] += weight * part[e];
        }
    }
    const bool any = sum != 0;
#pragma unroll
    for (int e = 0; e < N; e++) {
        sums[e] = any ? sums[e] / sum : 0;
    }
    combine_store<N>(p.o_dtype, p.o, combine_index(p, p.o_strides, row) + element, sums);
    if (element == 0 && p.lse) {
        p.lse[row] = any ? largest + logf(sum) : -INFINITY;
    }
}

template <int N> static __device__ __forceinline__ void combine_tiles(const weft_combine_params &p) {
    for (int64_t position = blockIdx.x; position < p.order.count; position += gridDim.x) {
        const int64_t first = weft_order_tile(&p.order, position).col * WEFT_COMBINE_ROWS;
        const int64_t chunks = weft_smaller(p.rows - first, WEFT_COMBINE_ROWS) * (int64_t)p.by_chunks.value;
        for (int64_t i = threadIdx.x; i < chunks; i += WEFT_COMBINE_THREADS) {
            int64_t chunk = i;
            const int64_t row = first + weft_divide_off(&chunk, &p.by_chunks);
            combine_chunk<N>(p, row, N * chunk);
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
