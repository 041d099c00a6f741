/* SPDX-License-Identifier: Apache-2.0 */
/* What a variant of the study kernel is made of, and how its rows lie in shared memory. */
#ifndef WEFT_CUDA_STUDY_SHAPE_CUH
#define WEFT_CUDA_STUDY_SHAPE_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/study/params.h"

/* The columns of a row of variants.def, and what follows from them. HEAD_DIM_V: 0 where the variant is a plain one. */
template <weft_dtype DTYPE, int HEAD_DIM, int TILE_M, int TILE_N, weft_study_math MATH, int WARPS, int PIECE, int RING,
          int Q_HELD, int OVERLAP, int HEAD_DIM_V = 0, int SPLIT = 1>
struct study_shape {
    static constexpr bool general = HEAD_DIM_V != 0;
    static constexpr bool bf16 = DTYPE == WEFT_BF16, precise = MATH == WEFT_STUDY_PRECISE, q_held = Q_HELD != 0,
                          overlap = OVERLAP != 0;
    static constexpr int head_dim = HEAD_DIM, tile_m = TILE_M, piece = PIECE, ring = RING, threads = 32 * WARPS;
    static constexpr int depth = (HEAD_DIM + 15) / 16 * 16; /* head_dim in whole k steps of an mma */
    static constexpr int q_steps =
        q_held ? depth / 16 : 1;        /* k steps of Q in registers; one is not used when none is held */
    static constexpr int split = SPLIT; /* warps that share queries, each with columns of its own */
    static constexpr int warp_rows = TILE_M * SPLIT / WARPS; /* queries of a warp */
    static constexpr int bands = warp_rows / 16;             /* the same in mma rows */
    static constexpr int depth_v = general ? HEAD_DIM_V : depth;
    static constexpr int columns = depth_v / SPLIT; /* of V and O that a warp computes */
    static constexpr int pieces = TILE_N / PIECE;   /* of a step */
    static constexpr int row_bytes = WEFT_STUDY_ROW_BYTES(HEAD_DIM);
    static constexpr bool swizzled = row_bytes % 128 == 0;
    static constexpr int lanes_per_row = HEAD_DIM <= 64 ? 8 : 16;        /* that copy a row, 16 bytes each */
    static constexpr bool ahead = WEFT_STUDY_TILES(HEAD_DIM, RING) == 2; /* the next tile begins before this one ends */
    static constexpr int q_bytes = TILE_M * row_bytes;
    static constexpr int ring_at = WEFT_STUDY_TILES(HEAD_DIM, RING) * q_bytes; /* Q first, then the ring */
    static constexpr int slot_bytes = PIECE * row_bytes;
    static constexpr bool lean = bands * (columns + PIECE) > 340; /* scores and output leave hardly a register free */

    static_assert(TILE_M * SPLIT % (16 * WARPS) == 0 && TILE_N % PIECE == 0 && PIECE % 16 == 0 && RING >= 2,
                  "see variants.def");
    static_assert(OVERLAP == 0 || RING == 4, "two slots each for K and V");
    static_assert(swizzled || row_bytes / 16 % 2 == 1, "eight rows must lie in different banks");
    static_assert(!general || (depth_v <= depth && !ahead),
                  "output goes through the rows of Q; a tile begins after another");
    static_assert(SPLIT == 1 || !swizzled, "a warp's columns are neighbours");
};

/* The first row of a thread's warp in its tile. */
template <class S> static __device__ __forceinline__ uint32_t study_warp_row(uint32_t thread) {
    return thread / 32 / S::split * S::warp_rows;
}

/* Offset of a row's 16-byte chunk. Swizzled, the chunks of eight rows that are read together are in different banks. */
template <class S> static __device__ __forceinline__ uint32_t study_offset(int row, int chunk) {
    const int column = S::swizzled ? chunk ^ (row & 7) : chunk;
    return (uint32_t)(row * S::row_bytes + column * 16);
}

/* This lane's chunk of a 16 x 16 block, for ldmatrix. Q and V: rows 0-15 of chunk 0, then of chunk 1. */
template <class S> static __device__ __forceinline__ uint32_t study_lane_at() {
    const int lane = (int)(threadIdx.x % 32);
    return study_offset<S>(lane % 16, lane / 16);
}

/* K: both chunks of rows 0-7, then of rows 8-15, so that the two registers of an mma's B operand are neighbours. */
template <class S> static __device__ __forceinline__ uint32_t study_key_lane_at() {
    const int lane = (int)((S::lean ? thread_index() : threadIdx.x) % 32);
    return study_offset<S>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

/* The address, in a buffer aligned to 256 bytes, of the same lane's chunk k steps of two chunks further. Swizzled, that
 * changes bits 5 and 6; from the fourth step on it is 128 bytes further, in a row of 256. */
template <class S> static __device__ __forceinline__ uint32_t study_k_step(uint32_t at, int k) {
    return S::swizzled ? (at ^ (uint32_t)(k % 4 * 32)) + (uint32_t)(k / 4 * 128) : at + (uint32_t)(k * 32);
}

/* Starts copying ROWS rows of a tensor, from row `row` on, from global memory (`stride` bytes apart) to shared; rows from
 * `end` on become zeros. */
template <class S, int ROWS>
static __device__ __forceinline__ void study_copy(uint32_t to, const char *from, int64_t stride, uint32_t row,
                                                  uint32_t end) {
    constexpr int rows_at_once = S::threads / S::lanes_per_row;
    const uint32_t thread = S::lean ? thread_index() : threadIdx.x;
    const int chunk = (int)(thread % S::lanes_per_row), first = (int)(thread / S::lanes_per_row);
    if (chunk >= S::depth / 8) {
        return;
    }
    int present = (int)(end - row); /* may be negative */
    if (S::head_dim < S::depth && chunk >= S::head_dim / 8) {
        present = 0;
    }
    from += (row + (uint32_t)first) * stride + chunk * 16;
    to += study_offset<S>(first, chunk);
#pragma unroll
    for (int next = 0; next < ROWS; next += rows_at_once) {
        if (ROWS % rows_at_once == 0 || first + next < ROWS) {
            const uint32_t turned = /* the swizzle of rows that are not a multiple of 8 further */
                rows_at_once % 8 == 0 ? 0 : study_offset<S>(first + next, chunk) - study_offset<S>(first, chunk);
            cp_async_16(to + (rows_at_once % 8 == 0 ? (uint32_t)(next * S::row_bytes) : turned), from,
                        first < present - next);
        }
        from += rows_at_once * stride;
    }
}

/* Changes the sign of the elements that this thread copied, once they have arrived. */
template <class S, int ROWS> static __device__ __forceinline__ void study_negate(unsigned char *rows) {
    constexpr int rows_at_once = S::threads / S::lanes_per_row;
    const int chunk = (int)(threadIdx.x % S::lanes_per_row);
    for (int row = (int)(threadIdx.x / S::lanes_per_row); row < ROWS && chunk < S::depth / 8; row += rows_at_once) {
        uint4 *at = (uint4 *)(rows + study_offset<S>(row, chunk));
        const uint32_t signs = 0x80008000u;
        const uint4 x = *at;
        *at = make_uint4(x.x ^ signs, x.y ^ signs, x.z ^ signs, x.w ^ signs);
    }
}

#endif
