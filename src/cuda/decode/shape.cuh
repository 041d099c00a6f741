/* What the decode kernel knows when it is compiled. */
#ifndef WEFT_CUDA_DECODE_SHAPE_CUH
#define WEFT_CUDA_DECODE_SHAPE_CUH

#include "cuda/decode/params.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/movmatrix.cuh"

template <int DTYPE, int DEPTH, int ROWS, int STAGES, bool FRESH> struct decode_shape {
    static constexpr bool fresh = FRESH; /* there may be keys to append, and rotation */
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int depth = DEPTH;
    static constexpr int rows = ROWS; /* of a tile: the narrow side of every product */
    static constexpr int sides = ROWS / 8;
    static constexpr int slices = DEPTH / 16; /* of a product's depth, and tiles of the output's columns */
    static constexpr int chunks = DEPTH / 8;  /* of 16 bytes in a row */
    static constexpr int stages = STAGES;
    static constexpr int threads = 32 * WEFT_DECODE_WARPS;
    static constexpr int row_bytes = 2 * DEPTH;
    static constexpr int block_bytes = WEFT_DECODE_BLOCK * row_bytes;
    static constexpr int stage_bytes = 2 * block_bytes; /* K, then V */
    static constexpr int ring_bytes = WEFT_DECODE_RING_BYTES(DEPTH, STAGES);
    static constexpr int sum_row = WEFT_DECODE_SUM_ROW(DEPTH);
    static constexpr int columns = ROWS * DEPTH / threads; /* of a row that a thread merges, four at a time */
    static constexpr int row_threads = DEPTH / columns;    /* that share a row */
    static constexpr int low_levels =                      /* of the tree, in registers */
        ROWS == 8 && DEPTH <= 128 ? (FRESH && DEPTH == 64 ? 1 : 3)
        : DEPTH == 64             ? 1
                                  : 0;
    static_assert(columns % 4 == 0 && DEPTH % 64 == 0, "");
};

/* The place of a chunk in a block: eight rows of one column lie in different banks. */
template <class S> static __device__ __forceinline__ uint32_t decode_place(int row, int chunk) {
    return (uint32_t)(row * S::row_bytes + 16 * (chunk ^ (row & 7)));
}

/* Sums over some keys: of a row's columns, and of the row. Scores are in base 2. */
template <int COUNT> struct decode_node {
    float max, sum;
    float columns[COUNT];
};

/* The node of two neighbours, the one with lower keys first. A node without keys has -inf, 0 and zeros. */
template <int COUNT>
static __device__ __forceinline__ void decode_merge(decode_node<COUNT> &left, const decode_node<COUNT> &right) {
    const float max = fmaxf(left.max, right.max), at = max == -INFINITY ? 0.0f : max;
    const float a = exp2_flushed(left.max - at), b = exp2_flushed(right.max - at);
    left.max = max;
    left.sum = left.sum * a + right.sum * b;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        left.columns[i] = left.columns[i] * a + right.columns[i] * b;
    }
}

/* The nodes of a tree that wait for their right neighbours, a place for each level and a bit of `waiting`. Node `number` of
 * level `level` goes up: who ends a pair is merged with the one that waits, if there is one. */
template <int COUNT, int PLACES>
static __device__ __forceinline__ void decode_push(decode_node<COUNT> (&places)[PLACES], uint32_t &waiting, int number,
                                                   const decode_node<COUNT> &from) {
    decode_node<COUNT> node = from;
    int level = 0;
    for (; number >> level & 1; level++) {
        if (waiting >> level & 1) {
            decode_merge(places[level], node);
            node = places[level];
            waiting &= ~(1u << level);
        }
    }
    places[level] = node;
    waiting |= 1u << level;
}

/* The same in registers, for so few levels; false: the node has found its place, else it is one of level LEVELS now. */
template <int LEVELS, int COUNT, int PLACES>
static __device__ __forceinline__ bool decode_rise(decode_node<COUNT> (&places)[PLACES], uint32_t &waiting, int number,
                                                   decode_node<COUNT> &node) {
    bool up = true;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        if (up) {
            if (!(number >> level & 1)) {
                places[level] = node;
                waiting |= 1u << level;
                up = false;
            } else if (waiting >> level & 1) {
                decode_merge(places[level], node);
                node = places[level];
                waiting &= ~(1u << level);
            }
        }
    }
    return up;
}

/* Merges a node, if there is `any`, with all that waits, from the lowest level on. */
template <int COUNT, int PLACES>
static __device__ __forceinline__ void decode_fold(decode_node<COUNT> (&places)[PLACES], uint32_t waiting,
                                                   decode_node<COUNT> &node, bool &any) {
    for (; waiting; waiting &= waiting - 1) {
        const int level = __ffs((int)waiting) - 1;
        if (any) {
            decode_merge(places[level], node);
        }
        node = places[level];
        any = true;
    }
}

/* The same in registers. */
template <int LEVELS, int COUNT, int PLACES>
static __device__ __forceinline__ void decode_fold_low(decode_node<COUNT> (&places)[PLACES], uint32_t waiting,
                                                       decode_node<COUNT> &node, bool &any) {
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        if (waiting >> level & 1) {
            if (any) {
                decode_merge(places[level], node);
            }
            node = places[level];
            any = true;
        }
    }
}

#endif
