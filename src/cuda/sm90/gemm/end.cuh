/* SPDX-License-Identifier: Apache-2.0 */
/* What a product with an epilogue does to a warp's sums, in registers, before they are stored. A lane has rows in pairs
 * that are eight apart, and of every eight columns two: sum[4 b] and sum[4 b + 1] are of the first row, sum[4 b + 2] and
 * sum[4 b + 3] of the second. */
#ifndef WEFT_CUDA_SM90_GEMM_END_CUH
#define WEFT_CUDA_SM90_GEMM_END_CUH

#include "cuda/gemm/epilogue.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/sm90/gemm/shape.cuh"

/* What an epilogue multiplies the columns of a tile by and adds to them. A thread of a warpgroup fetches that of two
 * columns when the tile begins, since a load takes longer than a microsecond where the copy engine has asked for all that
 * the ring holds. At the end of the tile all put theirs to shared memory, from where each reads those of its own columns.
 */
template <class S> struct gemm_vectors {
    float own[4]; /* scale and bias of one column, then of the other */

    __device__ __forceinline__ gemm_vectors(const weft_gemm_params &p, int32_t x, int32_t z) {
        if constexpr (S::fused) {
            const weft_gemm_epilogue &e = gemm_fused(p).epilogue;
            const int32_t at = first(), column = x + at + gemm_value_after<S>(p, (uint32_t)at);
            float scale[2] = {1, 1}, bias[2] = {0, 0};
            if (at < S::tile_n) {
                epilogue_two_scales(e, z, column, scale);
                epilogue_two_biases(e, z, column, bias);
            }
            own[0] = scale[0];
            own[1] = bias[0];
            own[2] = scale[1];
            own[3] = bias[1];
        }
    }

    /* The first of the two columns, in the tile. */
    static __device__ __forceinline__ int32_t first() {
        return (int32_t)(thread_index() % 128 * 2);
    }

    /* Whether there are any. */
    static __device__ __forceinline__ bool wanted(const weft_gemm_params &p) {
        if constexpr (S::fused) {
            return gemm_fused(p).epilogue.column_scale || gemm_fused(p).epilogue.bias;
        }
        return false;
    }

    /* `to`: for 8 bytes of each column, which nobody else uses. */
    __device__ __forceinline__ void put(uint32_t to) const {
        if (first() < S::tile_n) {
            shared_store(to + (uint32_t)first() * 8, own);
        }
        gemm_meet_group();
    }
};

/* z of N columns of B, in place: sums from number `first` on. vectors: where their scales and biases are. */
template <int N, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_scale(float (&sums)[BLOCKS][SUMS], const float (&row)[BLOCKS][2], int first,
                                                  uint32_t vectors) {
#pragma unroll
    for (int c = 0; c < N / 8; c++) {
        float of[4]; /* scale and bias of a column, then of the next */
        shared_load(vectors + thread_index() % 4 * 16 + (uint32_t)c * 64, of);
#pragma unroll
        for (int i = 0; i < 4 * BLOCKS; i++) {
            float *sum = &sums[i / 4][first + 4 * c + i % 4];
            *sum = *sum * (row[i / 4][i / 2 % 2] * of[i % 2 * 2]) + of[i % 2 * 2 + 1];
        }
    }
}

/* The same where there are none. */
template <int N, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_scale(float (&sums)[BLOCKS][SUMS], const float (&row)[BLOCKS][2], int first) {
#pragma unroll
    for (int i = 0; i < N / 2 * BLOCKS; i++) {
        sums[i / (N / 2)][first + i % (N / 2)] *= row[i / (N / 2)][i / 2 % 2];
    }
}

/* Activates the first N / 2 sums of a lane. Their code is there once, for a part of the sums, which then go round:
 * registers have no index, and the code of all of them, of which a warp executes a few hundred instructions once a tile,
 * takes longer to fetch than to execute. */
template <int N, int SUMS> static __device__ __forceinline__ void gemm_activate(int32_t activation, float (&sums)[SUMS]) {
    constexpr int all = N / 2, part = all % 32 == 0 ? 32 : 16;
    if (activation == WEFT_IDENTITY) {
        return;
    }
#pragma unroll 1
    for (int i = 0; i < all; i += part) {
        float first[part];
#pragma unroll
        for (int j = 0; j < part; j++) {
            first[j] = sums[j];
        }
        weft_epilogue_activate(activation, part, first);
#pragma unroll
        for (int j = 0; j < all; j++) {
            sums[j] = j + part < all ? sums[(j + part) % all] : first[j + part - all];
        }
    }
}

/* Makes results of sums, in place: N columns of C from column x on, BLOCKS times 16 rows from row y on. GATED: the sums of
 * values lie behind those of as many gates. vectors: where scales and biases are, as gemm_vectors leaves them. */
template <class S, int N, bool GATED, int BLOCKS, int SUMS>
static __device__ __forceinline__ void gemm_apply(const weft_gemm_params &p, float (&sums)[BLOCKS][SUMS], uint32_t vectors,
                                                  int32_t y, int32_t z) {
    const weft_gemm_epilogue &e = gemm_fused(p).epilogue;
    const float all = epilogue_scale(e, z);
    const bool has_vectors = gemm_vectors<S>::wanted(p);
    if (all != 1 || e.row_scale || has_vectors) {
        float row[BLOCKS][2];
#pragma unroll
        for (int i = 0; i < 2 * BLOCKS; i++) {
            const int32_t own = y + (int32_t)(thread_index() % 32 / 4) + 64 * (i / 2) + 8 * (i % 2);
            row[i / 2][i % 2] = all * epilogue_row_scale(e, z, own);
        }
        if (has_vectors) {
            gemm_scale<N>(sums, row, 0, vectors);
            if constexpr (GATED) {
                gemm_scale<N>(sums, row, N / 2, vectors + N * 8);
            }
            if (p.split == 1) { /* they lie where pieces go: see gemm_finish() */
                fence_shared_for_async();
                gemm_meet_group();
            }
        } else {
            gemm_scale<N>(sums, row, 0);
            if constexpr (GATED) {
                gemm_scale<N>(sums, row, N / 2);
            }
        }
    }
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        gemm_activate<N>(e.activation, sums[block]);
#pragma unroll
        for (int i = 0; GATED && i < N / 2; i++) {
            sums[block][i] *= sums[block][N / 2 + i];
        }
    }
}

/* What is seen of a warp's results of 16 rows as they are stored: nothing, or, ADDS, the sums of columns. */
template <bool ADDS> struct gemm_end {
    __device__ __forceinline__ gemm_end(const weft_gemm_params &, int32_t, int32_t) {
    }

    template <int BLOCKS> __device__ __forceinline__ void add_up(const float *, int32_t) const {
    }
};

template <> struct gemm_end<true> {
    const weft_gemm_epilogue &e;
    int32_t y, batch;

    __device__ __forceinline__ gemm_end(const weft_gemm_params &p, int32_t y, int32_t z)
        : e(gemm_fused(p).epilogue), y(y), batch(z) {
    }

    /* Leaves the sums of BLOCKS times eight columns, from `column` of C on, over the warp's 16 rows. Lanes halve what they
     * add up as they go: the bits 8 and, of two blocks, 16 of a lane say which of its columns it ends with. */
    template <int BLOCKS> __device__ __forceinline__ void add_up(const float *x, int32_t column) const {
        if (y >= e.rows) {
            return;
        }
        const uint32_t lane = thread_index() % 32;
        const int32_t own = y + (int32_t)(lane / 4);
        const bool first = own < e.rows, second = own + 8 < e.rows;
        float sums[2 * BLOCKS];
#pragma unroll
        for (int i = 0; i < 2 * BLOCKS; i++) {
            const float *of = x + i / 2 * 4 + i % 2;
            sums[i] = (first ? of[0] : 0) + (second ? of[2] : 0);
        }
        if constexpr (BLOCKS == 2) {
            const bool upper = lane & 16;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float kept = upper ? sums[2 + i] : sums[i], sent = upper ? sums[i] : sums[2 + i];
                sums[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
            }
        }
        const bool odd = lane & 8;
        float sum = (odd ? sums[1] : sums[0]) + __shfl_xor_sync(0xffffffffu, odd ? sums[0] : sums[1], 8);
        sum += __shfl_xor_sync(0xffffffffu, sum, 4);
        if constexpr (BLOCKS == 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, 16);
        }
        const int32_t to = column + (int32_t)((BLOCKS == 2 ? lane / 16 * 8 : 0) + lane % 4 * 2 + lane / 8 % 2);
        if (lane % 8 < 4 && (BLOCKS == 2 || lane < 16) && to < e.columns) {
            *epilogue_share(e, batch, y, to) = sum;
        }
    }
};

#endif
