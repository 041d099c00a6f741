/* SPDX-License-Identifier: Apache-2.0 */
/* From sums in registers to C in memory: pieces of 16 rows x 128 bytes, through shared memory and the copy engine, each
 * warp for itself. While a piece is on its way the warp goes on, into the next tile too. */
#ifndef WEFT_CUDA_SM90_GEMM_STORE_CUH
#define WEFT_CUDA_SM90_GEMM_STORE_CUH

#include "cuda/ptx/math.cuh"
#include "cuda/ptx/stmatrix.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/sm90/gemm/end.cuh"

/* A warp's pieces: two places, taken in turns. Which warp it is, is worked out anew each time: there are few registers
 * beside the sums. */
struct gemm_pieces {
    uint32_t first_at;   /* shared address of those of the first warp that multiplies */
    uint32_t first_full; /* of its two barriers that say that an old piece of C is there */
    uint32_t stored;     /* pieces so far */
    uint32_t vectors;    /* where what an epilogue has for the columns to be stored is: see gemm_vectors */
    int32_t end;         /* of a group: the row behind its last */

    __device__ __forceinline__ uint32_t at(uint32_t place) const {
        return first_at + ((thread_index() / 32 - 4) * 2 + place) * WEFT_GEMM_PIECE_BYTES;
    }

    /* A place of the warpgroup's first warp, which no piece is in until the second of this tile. */
    __device__ __forceinline__ uint32_t of_group() const {
        return first_at + ((thread_index() / 128 - 1) * 8 + ((stored + 1) & 1)) * WEFT_GEMM_PIECE_BYTES;
    }

    __device__ __forceinline__ uint32_t full(uint32_t place) const {
        return first_full + ((thread_index() / 32 - 4) * 2 + place) * 8;
    }
};

/* Asks for the piece at (x, y) of the old C or of a residual, which will be stored after `later` others. One lane. */
template <class S>
static __device__ __forceinline__ void gemm_fetch_old(const weft_gemm_params &p, const gemm_pieces &pieces, uint32_t later,
                                                      int32_t x, int32_t y, int32_t z, bool elected) {
    const uint32_t place = (pieces.stored + later) & 1;
    if (elected) {
        tma_store_wait_read<0>();
        mbarrier_expect(pieces.full(place), WEFT_GEMM_PIECE_BYTES);
        tma_load_3d(pieces.at(place), gemm_map_of_added<S>(p, z), pieces.full(place), x, y, z);
    }
}

/* One piece of C in 16 bits: 16 rows x 64 columns from `column` on, sum[4 j ..] as wgmma leaves them. Sixteen columns at a
 * time and addresses worked out anew: there are few registers beside the sums. */
template <bool BF16, class E>
static __device__ __forceinline__ void gemm_put_halves(const E &end, int32_t column, const float *sum, uint32_t place,
                                                       float alpha, bool with_old, float beta) {
    const uint32_t lane = thread_index() % 32;
    const uint32_t row = lane % 16, block = lane / 16; /* whose address this lane gives */
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 2) {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] = alpha * sum[4 * j + i];
        }
        if (with_old) {
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) { /* row i % 2 of block i / 2 */
                uint32_t old[1];
                const uint32_t from =
                    place + (lane / 4 + 8 * (i % 2)) * 128 + (((j + i / 2) ^ (lane / 4)) * 16) + lane % 4 * 4;
                shared_load(from, old);
                x[2 * i] += beta * half_to_float<BF16>(old[0] & 0xffff);
                x[2 * i + 1] += beta * half_to_float<BF16>(old[0] >> 16);
            }
            __syncwarp();
        }
        end.template add_up<2>(x, column + 8 * (int32_t)j);
        const uint32_t four[4] = {pack_halves<BF16>(x[0], x[1]), pack_halves<BF16>(x[2], x[3]),
                                  pack_halves<BF16>(x[4], x[5]), pack_halves<BF16>(x[6], x[7])};
        stmatrix_x4(place + row * 128 + (((j + block) ^ (row % 8)) * 16), four);
    }
}

/* One piece of C in fp32: 16 rows x 32 columns. Each lane reads and writes the same places. */
template <class E>
static __device__ __forceinline__ void gemm_put_floats(const E &end, int32_t column, const float *sum, uint32_t place,
                                                       float alpha, bool with_old, float beta) {
    const uint32_t lane = thread_index() % 32, row = lane / 4;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        float both[4];
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t to = place + (row + 8 * half) * 128 + (((2 * j + lane % 4 / 2) ^ row) * 16) + lane % 2 * 8;
            float x = alpha * sum[4 * j + 2 * half], y = alpha * sum[4 * j + 2 * half + 1];
            if (with_old) {
                float old[2];
                shared_load(to, old);
                x += beta * old[0];
                y += beta * old[1];
            }
            shared_store(to, {x, y});
            both[2 * half] = x;
            both[2 * half + 1] = y;
        }
        end.template add_up<1>(both, column + 8 * (int32_t)j);
    }
}

/* The same of 16 rows x COLUMNS that lie in C column by column: 32 bytes of each, whose halves change places in every other
 * four, as the copy engine's swizzle has it. */
template <bool BF16, int COLUMNS>
static __device__ __forceinline__ void gemm_put_transposed(const float *sum, uint32_t place, float alpha) {
    const uint32_t lane = thread_index() % 32;
    const uint32_t column = lane / 16 * 8 + lane % 8, half = lane / 8 % 2; /* whose address this lane gives */
#pragma unroll
    for (uint32_t j = 0; j < COLUMNS / 8; j += 2) {
        const float *x = sum + 4 * j;
        const uint32_t four[4] = {
            pack_halves<BF16>(alpha * x[0], alpha * x[1]), pack_halves<BF16>(alpha * x[2], alpha * x[3]),
            pack_halves<BF16>(alpha * x[4], alpha * x[5]), pack_halves<BF16>(alpha * x[6], alpha * x[7])};
        stmatrix_x4_transposed(place + (8 * j + column) * 32 + ((half ^ (column / 4 % 2)) * 16), four);
    }
}

/* Columns of a piece of N, and of how many there are. */
template <weft_dtype C, int N>
static constexpr int gemm_piece_columns = N < (C == WEFT_FP32 ? 32 : 64) ? N
                                          : C == WEFT_FP32               ? 32
                                                                         : 64;

/* The first column of piece c of N columns. The last piece ends with them, and so may begin within the one before it. */
template <weft_dtype C, int N> static __device__ __forceinline__ constexpr int gemm_piece_at(int c) {
    constexpr int columns = gemm_piece_columns<C, N>;
    return c * columns + columns <= N ? c * columns : N - columns;
}

/* Stores the first `rows` of the piece at `place`, which begins at column x and row y of matrix z of C: 16 bytes of a row
 * at a time, and at the end of a line its elements. */
template <weft_dtype C>
static __device__ __forceinline__ void gemm_store_some_rows(const weft_gemm_params &p, uint32_t place, int32_t x, int32_t y,
                                                            int32_t z, int32_t rows) {
    constexpr int bytes = C == WEFT_FP32 ? 4 : 2, together = 16 / bytes;
    const weft_hopper_grouped_params &all = gemm_grouped(p);
    const uint32_t lane = thread_index() % 32, chunk = lane % 8;
    const int32_t col = x + (int32_t)chunk * together, count = min(all.n - col, together);
#pragma unroll 1
    for (int32_t i = (int32_t)(lane / 8); i < rows && i < 16; i += 4) {
        uint32_t words[4];
        shared_load(place + (uint32_t)i * 128 + ((chunk ^ ((uint32_t)i % 8)) * 16), words);
        char *to = (char *)all.c + bytes * (z * all.c_stride + (y + i) * all.ldc + col);
        if (count == together) {
            *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
#pragma unroll
            for (int j = 0; j < together; j++) {
                if (j < count && bytes == 4) {
                    ((uint32_t *)to)[j] = words[j % 4];
                } else if (j < count) {
                    ((uint16_t *)to)[j] = (uint16_t)(words[j / 2] >> 16 * (j % 2));
                }
            }
        }
    }
}

/* Stores a warp's 16 rows of `sums`, of which the first are N columns of C, at column x and row y. */
template <class S, weft_dtype C, bool ADDS, int N, int SUMS>
static __device__ __forceinline__ void gemm_store_rows(const weft_gemm_params &p, gemm_pieces &pieces, float (&sums)[SUMS],
                                                       int32_t x, int32_t y, int32_t z) {
    const gemm_end<ADDS> end(p, y, z);
    constexpr int columns = gemm_piece_columns<C, N>, count = (N + columns - 1) / columns;
    const bool with_old = gemm_has_old<S>(p), elected = elect_one();
#pragma unroll
    for (int c = 0; c < count; c++, pieces.stored++) {
        const int at = gemm_piece_at<C, N>(c);
        const uint32_t place = pieces.at(pieces.stored & 1);
        if (with_old) {
            if (c + 1 < count) {
                gemm_fetch_old<S>(p, pieces, 1, x + gemm_piece_at<C, N>(c + 1), y, z, elected);
            }
            mbarrier_wait(pieces.full(pieces.stored & 1), pieces.stored / 2 & 1);
        } else {
            if (elected) {
                tma_store_wait_read<1>();
            }
            __syncwarp();
        }
        const float *piece = &sums[at / 2]; /* in registers: all loops are unrolled */
        if constexpr (S::transposed) {
            gemm_put_transposed<C == WEFT_BF16, columns>(piece, place, p.alpha);
        } else if constexpr (C == WEFT_FP32) {
            gemm_put_floats(end, x + at, piece, place, p.alpha, with_old, p.beta);
        } else {
            gemm_put_halves<C == WEFT_BF16>(end, x + at, piece, place, p.alpha, with_old, p.beta);
        }
        fence_shared_for_async();
        __syncwarp();
        if constexpr (S::grouped) {
            if (y + 16 > pieces.end) { /* rows of other groups, or of none, are among them */
                gemm_store_some_rows<C>(p, place, x + at, y, z, pieces.end - y);
                if (elected) {
                    tma_store_commit(); /* of nothing: pieces are counted */
                }
                continue;
            }
        }
        if (elected) {
            const int32_t first = S::transposed ? y : x + at, second = S::transposed ? x + at : y;
            if (p.c_first) {
                tma_store_first_3d(gemm_map_of_c<S>(p, z), place, first, second, z);
            } else {
                tma_store_3d(gemm_map_of_c<S>(p, z), place, first, second, z);
            }
            tma_store_commit();
        }
    }
}

/* Stores a warp's part of BLOCKS times 64 rows: 16 of each. The first old piece is on its way already. */
template <class S, weft_dtype C, bool ADDS, int N, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_store_as(const weft_gemm_params &p, gemm_pieces &pieces,
                                                     float (&sums)[BLOCKS][SUMS], int32_t x, int32_t y, int32_t z) {
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        if (block > 0 && gemm_has_old<S>(p)) {
            gemm_fetch_old<S>(p, pieces, 0, x, y + 64 * block, z, elect_one());
        }
        gemm_store_rows<S, C, ADDS, N>(p, pieces, sums[block], x, y + 64 * block, z);
    }
}

template <class S, bool ADDS, int N, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_store_any(const weft_gemm_params &p, gemm_pieces &pieces,
                                                      float (&sums)[BLOCKS][SUMS], int32_t x, int32_t y, int32_t z) {
    if constexpr (!S::transposed) {
        if (p.c_dtype == WEFT_FP32) {
            gemm_store_as<S, WEFT_FP32, ADDS, N>(p, pieces, sums, x, y, z);
            return;
        }
    }
    if (p.c_dtype == WEFT_BF16) {
        gemm_store_as<S, WEFT_BF16, ADDS, N>(p, pieces, sums, x, y, z);
    } else {
        gemm_store_as<S, WEFT_FP16, ADDS, N>(p, pieces, sums, x, y, z);
    }
}

/* Stores results of N columns of C, and leaves their sums where an epilogue asks for them: by code of its own. */
template <class S, int N, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_store_results(const weft_gemm_params &p, gemm_pieces &pieces,
                                                          float (&sums)[BLOCKS][SUMS], int32_t x, int32_t y, int32_t z) {
    if constexpr (S::fused) {
        if (gemm_fused(p).epilogue.shares) {
            gemm_store_any<S, true, N>(p, pieces, sums, x, y, z);
            return;
        }
    }
    gemm_store_any<S, false, N>(p, pieces, sums, x, y, z);
}

/* Stores `sums` of N columns of B, as many of C or, gated, half. */
template <class S, int N, int BLOCKS>
static __device__ __forceinline__ void gemm_store(const weft_gemm_params &p, gemm_pieces &pieces,
                                                  float (&sums)[BLOCKS][N / 2], int32_t x, int32_t y, int32_t z) {
    if constexpr (S::fused && N == S::tile_n && WEFT_GEMM_HAS_GATES(S::tile_n)) {
        if (gemm_fused(p).epilogue.gate) {
            gemm_apply<S, N / 2, true>(p, sums, pieces.vectors, y, z);
            gemm_store_results<S, N / 2>(p, pieces, sums, x, y, z);
            return;
        }
    }
    if constexpr (S::fused) {
        gemm_apply<S, N, false>(p, sums, pieces.vectors, y, z);
    }
    gemm_store_results<S, N>(p, pieces, sums, x, y, z);
}

#endif
