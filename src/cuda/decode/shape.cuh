/* SPDX-License-Identifier: Apache-2.0 */
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
    static constexpr int alone = 0;      /* all sequences' runs are of one level */
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

/* The place of a chunk of 16 bytes in a block. Rows are 16 bytes apart more than they are long: eight of one column lie in
 * different banks. */
template <class S> static __device__ __forceinline__ uint32_t decode_place(int row, int chunk) {
    return (uint32_t)(row * S::row_bytes + 16 * (chunk ^ (row & 7)));
}

/* By how much the sums of two neighbours are multiplied when they become one. A node without keys has -inf, 0 and zeros.
 * Whoever merges does it by these two functions: the bits are the same in whatever thread's hands a column is. */
static __device__ __forceinline__ float decode_factors(float left, float right, float &a, float &b) {
    const float max = fmaxf(left, right), at = max == -INFINITY ? 0.0f : max;
    a = exp2_flushed(left - at);
    b = exp2_flushed(right - at);
    return max;
}

static __device__ __forceinline__ float decode_add(float left, float a, float right, float b) {
    return fmaf(left, a, right * b);
}

/* Sums over some keys: of a row's columns, and of the row. Scores are in base 2. */
template <int COUNT> struct decode_node {
    float max, sum;
    float columns[COUNT];

    /* Becomes the node of its neighbour with lower keys and itself. */
    __device__ __forceinline__ void follow(const decode_node &left) {
        float a, b;
        max = decode_factors(left.max, max, a, b);
        sum = decode_add(left.sum, a, sum, b);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            columns[i] = decode_add(left.columns[i], a, columns[i], b);
        }
    }
};

/* The nodes of a tree that wait for their right neighbours, a place for each level and a bit of `waiting`. Node `number` of
 * level `level` goes up: who ends a pair is merged with the one that waits, if there is one. */
template <class NODE, int PLACES>
static __device__ __forceinline__ void decode_push(NODE (&places)[PLACES], uint32_t &waiting, int number, NODE &node) {
    int level = 0;
    for (; number >> level & 1; level++) {
        if (waiting >> level & 1) {
            node.follow(places[level]);
            waiting &= ~(1u << level);
        }
    }
    places[level] = node;
    waiting |= 1u << level;
}

/* The same in registers, for so few levels; false: the node has found its place, else it is one of level LEVELS now. */
template <int LEVELS, class NODE, int PLACES>
static __device__ __forceinline__ bool decode_rise(NODE (&places)[PLACES], uint32_t &waiting, int number, NODE &node) {
    bool up = true;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        if (up) {
            if (!(number >> level & 1)) {
                places[level] = node;
                waiting |= 1u << level;
                up = false;
            } else if (waiting >> level & 1) {
                node.follow(places[level]);
                waiting &= ~(1u << level);
            }
        }
    }
    return up;
}

/* Merges a node, if there is `any`, with all that waits, from the lowest level on. */
template <class NODE, int PLACES>
static __device__ __forceinline__ void decode_fold(NODE (&places)[PLACES], uint32_t waiting, NODE &node, bool &any) {
    for (; waiting; waiting &= waiting - 1) {
        const int level = __ffs((int)waiting) - 1;
        if (any) {
            node.follow(places[level]);
        } else {
            node = places[level];
        }
        any = true;
    }
}

/* The same in registers. */
template <int LEVELS, class NODE, int PLACES>
static __device__ __forceinline__ void decode_fold_low(NODE (&places)[PLACES], uint32_t waiting, NODE &node, bool &any) {
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        if (waiting >> level & 1) {
            if (any) {
                node.follow(places[level]);
            } else {
                node = places[level];
            }
            any = true;
        }
    }
}

/* Merges nodes first .. first + COUNT - 1 of a level, of which those from `from` to `to` - 1 are there, into the first.
 * COUNT is a power of two and `first` a multiple of it. */
template <class NODE, int COUNT>
static __device__ __forceinline__ void decode_merge_all(NODE (&nodes)[COUNT], int first, int from, int to) {
#pragma unroll
    for (int apart = 1; apart < COUNT; apart *= 2) { /* pairs, pairs of pairs, ... */
#pragma unroll
        for (int i = 0; i < COUNT; i += 2 * apart) {
            if (first + i + apart < to && first + i + 2 * apart > from) { /* there is a right one */
                if (first + i + apart > from) {
                    nodes[i + apart].follow(nodes[i]);
                }
                nodes[i] = nodes[i + apart];
            }
        }
    }
}

#endif
