/* SPDX-License-Identifier: Apache-2.0 */
/* What a variant of the portable GEMM is made of, and how A and B lie in shared memory. */
#ifndef WEFT_CUDA_GEMM_SHAPE_CUH
#define WEFT_CUDA_GEMM_SHAPE_CUH

#include "cuda/gemm/params.h"
#include "cuda/ptx/thread.cuh"

/* A step of A or B in shared memory: lines along the contiguous axis, as in global memory, in chunks of 16 bytes. LENGTH is
 * the tile's along m or n. MN: lines run along m or n, and there are as many as the step is long; else they run along k. */
template <bool MN, int LENGTH, int STEP, int THREADS> struct portable_operand {
    static constexpr bool mn = MN;
    static constexpr int lines = MN ? STEP : LENGTH, chunks = (MN ? LENGTH : STEP) / 8;
    static constexpr int line_bytes = 16 * chunks, bytes = lines * line_bytes;
    /* Every thread copies the same chunk of `passes` lines, `at_once` apart. */
    static constexpr int at_once = THREADS / chunks, passes = lines / at_once;

    static_assert(line_bytes == 64 || line_bytes % 128 == 0, "see offset()");
    static_assert(at_once % 8 == 0 && lines % at_once == 0, "the lines of a thread are swizzled alike");

    /* Where a chunk of a line is. Swizzled, so that the same chunk of eight lines, which ldmatrix reads at once, is in
     * different banks; of lines of 64 bytes two fill all banks. */
    static __device__ __forceinline__ uint32_t offset(uint32_t line, uint32_t chunk) {
        const uint32_t column = line_bytes == 64 ? chunk ^ (line / 2 % 4) : chunk ^ (line % 8);
        return line * line_bytes + column * 16;
    }
};

/* The columns of a row of variants.def, and what follows from them. */
template <weft_dtype DTYPE, bool A_MN, bool B_MN, int TILE_M, int TILE_N, int STEP, int WARPS_M, int WARPS_N, int STAGES,
          int FORM>
struct portable_shape {
    static constexpr bool bf16 = DTYPE == WEFT_BF16, tf32 = DTYPE == WEFT_FP32; /* two halves are an element of TF32 */
    static constexpr bool any = FORM & 1, fused = FORM & 2, grouped = FORM & 4;
    static constexpr int tile_m = TILE_M, tile_n = TILE_N, step = STEP, stages = STAGES;
    static constexpr int warps_n = WARPS_N, threads = 32 * WARPS_M * WARPS_N;
    static constexpr int warp_m = TILE_M / WARPS_M, warp_n = TILE_N / WARPS_N; /* of C that a warp computes */
    static constexpr int rows = warp_m / 16, cols = warp_n / 8;                /* the same in products of mma.sync */
    static constexpr int parts = STEP / 16;                                    /* of a step: k of such a product */
    using a = portable_operand<A_MN, TILE_M, STEP, threads>;
    using b = portable_operand<B_MN, TILE_N, STEP, threads>;
    static constexpr int stage_bytes = a::bytes + b::bytes, ring_bytes = stages * stage_bytes;
    /* Of sums, which a warp stores at a time: see store.cuh. With an epilogue there is room for those of gates and values.
     */
    static constexpr int piece_bytes = 16 * 32 * 4 * (fused ? 2 : 1);

    static_assert(warp_m % 16 == 0 && (warp_m == 32 || warp_m == 64) && (warp_n == 32 || warp_n == 64), "see variants.def");
    static_assert(parts % 2 == 0 && STAGES >= 3 && STAGES <= 5, "see kernel.cuh");
    static_assert(stage_bytes >= WARPS_M * WARPS_N * piece_bytes, "a stage has room for every warp's piece");
};

/* A tile to compute, as one thread fetches it for all. */
struct portable_job {
    const char *a, *b;              /* its first element in its first step */
    char *c;                        /* its first element */
    int32_t m_left, n_left, k_left; /* what there is of each from there on */
    int32_t direction, steps;       /* 0 steps: there is no tile */
    int32_t batch;                  /* with an epilogue */
};

/* What a variant with an epilogue takes besides. */
static __device__ __forceinline__ const weft_portable_gemm_fused_params &
portable_fused(const weft_portable_gemm_params &p) {
    return reinterpret_cast<const weft_portable_gemm_fused_params &>(p);
}

/* The columns of B that a tile of a gated product has: of every `warp_n` the first half are gates, the second their values.
 * `at`: such a column, or the first of eight, counted from the tile's first; its distance in B, and its gate's in C. */
template <class S> static __device__ __forceinline__ int32_t portable_gate_at(int32_t at) {
    constexpr int half = S::warp_n / 2;
    return at / S::warp_n * half + at % half;
}

template <class S>
static __device__ __forceinline__ int32_t portable_column_at(const weft_portable_gemm_params &p, int32_t at) {
    const int32_t gate = portable_fused(p).epilogue.gate;
    return portable_gate_at<S>(at) + (at % S::warp_n >= S::warp_n / 2 ? gate : 0);
}

/* Columns of C in a tile. */
template <class S> static __device__ __forceinline__ int32_t portable_columns_of(const weft_portable_gemm_params &p) {
    if constexpr (S::fused) {
        return portable_fused(p).epilogue.gate ? S::tile_n / 2 : S::tile_n;
    }
    return S::tile_n;
}

/* Tiles that are known: the one at work, those of which something is in the ring, and one more. */
enum { PORTABLE_JOBS = 8 };

/* What the threads of a CTA share beside the ring. */
struct portable_desk {
    weft_worker worker;
    portable_job jobs[PORTABLE_JOBS];
};

/* How many tiles behind the one at work are known once its first step is done: as many as copies reach while it is at work.
 * Copies that run before that reach one less. Under dynamic dispatch these tiles are taken from others, so there are no
 * more than that. */
template <class S> static __device__ __forceinline__ uint32_t portable_ahead(int32_t steps) {
    static_assert(S::stages + 2 <= PORTABLE_JOBS, "no job is overwritten that is needed");
    return steps >= S::stages ? 1 : S::stages;
}

/* Shared address of the stage behind one. */
template <class S> static __device__ __forceinline__ uint32_t portable_stage_after(uint32_t stage, uint32_t ring) {
    return stage + S::stage_bytes == ring + S::ring_bytes ? ring : stage + S::stage_bytes;
}

#endif
