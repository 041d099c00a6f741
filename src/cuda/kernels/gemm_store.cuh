/* From sums in registers to C in memory: pieces of 16 rows x 128 bytes, through shared memory and the copy engine, each
 * warp for itself. While a piece is on its way the warp goes on, into the next tile too. */
#ifndef WEFT_CUDA_KERNELS_GEMM_STORE_CUH
#define WEFT_CUDA_KERNELS_GEMM_STORE_CUH

#include "cuda/kernels/gemm_shape.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/stmatrix.cuh"

/* A warp's pieces: two places, taken in turns. */
struct gemm_pieces {
    uint32_t at;      /* shared address of the two */
    uint32_t full;    /* of the two barriers that say that an old piece of C is there */
    uint32_t stored;  /* pieces so far */
    uint32_t fetched; /* old pieces asked for so far */
};

/* Asks for the old piece of C at (x, y). One lane; the place that it goes to is the one after next to be stored from, or
 * the next. */
static __device__ __forceinline__ void gemm_fetch_old(const weft_gemm_params &p, gemm_pieces &pieces, int32_t x, int32_t y,
                                                      int32_t batch, bool elected) {
    const uint32_t place = pieces.fetched++ & 1;
    if (elected) {
        tma_store_wait_read<0>();
        mbarrier_expect(pieces.full + 8 * place, WEFT_GEMM_PIECE_BYTES);
        tma_load_3d(pieces.at + place * WEFT_GEMM_PIECE_BYTES, &p.c, pieces.full + 8 * place, x, y, batch);
    }
}

static __device__ __forceinline__ float gemm_half_to_float(uint32_t half, bool bf16) {
    float value;
    if (bf16) {
        value = __uint_as_float(half << 16);
    } else {
        asm("{.reg .b16 h;\nmov.b32 {h, _}, %1;\ncvt.f32.f16 %0, h;}" : "=f"(value) : "r"(half));
    }
    return value;
}

/* One piece of C in 16 bits: 16 rows x 64 columns, sum[4 j ..] as wgmma leaves them. */
template <bool BF16>
static __device__ __forceinline__ void gemm_put_halves(float (&sum)[32], uint32_t place, bool with_old, float beta) {
    const uint32_t lane = threadIdx.x % 32;
    if (with_old) {
        const uint32_t row = lane / 4;
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                uint32_t old;
                const uint32_t from = place + (row + 8 * half) * 128 + ((j ^ row) * 16) + lane % 4 * 4;
                asm volatile("ld.shared.b32 %0, [%1];" : "=r"(old) : "r"(from) : "memory");
                sum[4 * j + 2 * half] += beta * gemm_half_to_float(old & 0xffff, BF16);
                sum[4 * j + 2 * half + 1] += beta * gemm_half_to_float(old >> 16, BF16);
            }
        }
        __syncwarp();
    }
    const uint32_t row = lane % 16, block = lane / 16; /* whose address this lane gives */
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 2) {
        const uint32_t four[4] = {
            pack_halves<BF16>(sum[4 * j], sum[4 * j + 1]), pack_halves<BF16>(sum[4 * j + 2], sum[4 * j + 3]),
            pack_halves<BF16>(sum[4 * j + 4], sum[4 * j + 5]), pack_halves<BF16>(sum[4 * j + 6], sum[4 * j + 7])};
        stmatrix_x4(place + row * 128 + (((j + block) ^ (row % 8)) * 16), four);
    }
}

/* One piece of C in fp32: 16 rows x 32 columns. Each lane reads and writes the same places. */
static __device__ __forceinline__ void gemm_put_floats(const float (&sum)[16], uint32_t place, bool with_old, float beta) {
    const uint32_t lane = threadIdx.x % 32, row = lane / 4;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t to = place + (row + 8 * half) * 128 + (((2 * j + lane % 4 / 2) ^ row) * 16) + lane % 2 * 8;
            float x = sum[4 * j + 2 * half], y = sum[4 * j + 2 * half + 1];
            if (with_old) {
                float old_x, old_y;
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(old_x), "=f"(old_y) : "r"(to) : "memory");
                x += beta * old_x;
                y += beta * old_y;
            }
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
        }
    }
}

/* Columns of a piece. */
template <weft_dtype C> static constexpr int gemm_piece_columns = C == WEFT_FP32 ? 32 : 64;

/* Stores a warp's 16 rows of `sums`, N columns, at column x and row y of C. */
template <weft_dtype C, int N>
static __device__ __forceinline__ void gemm_store_rows(const weft_gemm_params &p, gemm_pieces &pieces, float (&sums)[N / 2],
                                                       int32_t x, int32_t y, int32_t batch) {
    constexpr int columns = gemm_piece_columns<C>, count = N / columns;
    const bool with_old = p.beta != 0, elected = elect_one();
#pragma unroll
    for (int c = 0; c < count; c++, pieces.stored++) {
        const uint32_t place = pieces.at + (pieces.stored & 1) * WEFT_GEMM_PIECE_BYTES;
        if (with_old) {
            if (c + 1 < count) {
                gemm_fetch_old(p, pieces, x + (c + 1) * columns, y, batch, elected);
            }
            mbarrier_wait(pieces.full + 8 * (pieces.stored & 1), pieces.stored / 2 & 1);
        } else {
            if (elected) {
                tma_store_wait_read<1>();
            }
            __syncwarp();
        }
        float scaled[columns / 2];
#pragma unroll
        for (int i = 0; i < columns / 2; i++) {
            scaled[i] = p.alpha * sums[c * columns / 2 + i];
        }
        if constexpr (C == WEFT_FP32) {
            gemm_put_floats(scaled, place, with_old, p.beta);
        } else {
            gemm_put_halves<C == WEFT_BF16>(scaled, place, with_old, p.beta);
        }
        fence_shared_for_async();
        __syncwarp();
        if (elected) {
            if (p.c_first) {
                tma_store_first_3d(&p.c, place, x + c * columns, y, batch);
            } else {
                tma_store_3d(&p.c, place, x + c * columns, y, batch);
            }
            tma_store_commit();
        }
    }
}

/* Stores a warp's part of BLOCKS times 64 rows: 16 of each. The first old piece is on its way already. */
template <weft_dtype C, int N, int BLOCKS>
static __device__ __forceinline__ void gemm_store_as(const weft_gemm_params &p, gemm_pieces &pieces,
                                                     float (&sums)[BLOCKS][N / 2], int32_t x, int32_t y, int32_t batch) {
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        if (block > 0 && p.beta != 0) {
            gemm_fetch_old(p, pieces, x, y + 64 * block, batch, elect_one());
        }
        gemm_store_rows<C, N>(p, pieces, sums[block], x, y + 64 * block, batch);
    }
}

template <int N, int BLOCKS>
static __device__ __forceinline__ void gemm_store(const weft_gemm_params &p, gemm_pieces &pieces,
                                                  float (&sums)[BLOCKS][N / 2], int32_t x, int32_t y, int32_t batch) {
    if (p.c_dtype == WEFT_FP32) {
        gemm_store_as<WEFT_FP32, N>(p, pieces, sums, x, y, batch);
    } else if (p.c_dtype == WEFT_BF16) {
        gemm_store_as<WEFT_BF16, N>(p, pieces, sums, x, y, batch);
    } else {
        gemm_store_as<WEFT_FP16, N>(p, pieces, sums, x, y, batch);
    }
}

#endif
