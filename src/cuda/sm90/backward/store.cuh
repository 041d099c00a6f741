/* dK or dV of a tile, from the registers of a warpgroup to memory: through rows of shared memory that it alone has. */
#ifndef WEFT_CUDA_SM90_BACKWARD_STORE_CUH
#define WEFT_CUDA_SM90_BACKWARD_STORE_CUH

#include "cuda/sm90/backward/shape.cuh"

/* Whether the r-th key behind the tile's first is one of the tile. */
template <class S>
static __device__ __forceinline__ bool backward_has_key(const weft_hopper_backward_params &p,
                                                        const backward_job_of_form<S> &job, int r) {
    if constexpr (S::general) {
        return r < job.rows;
    } else {
        return job.key + r < p.kv_seq;
    }
}

/* place: K's or V's, of which the warpgroup's 64 rows are overwritten; to: the tile's first row. */
template <class S>
static __device__ __forceinline__ void
backward_store(const weft_hopper_backward_params &p, const backward_job_of_form<S> &job, uint32_t group,
               const float (&sums)[S::depth / 2], float factor, uint32_t place, char *to, int64_t stride) {
    const uint32_t thread = thread_index(), lane = thread % 32, warp = group * 64 + thread % 128 / 32 * 16;
    const uint32_t row = warp + lane % 16;
#pragma unroll
    for (int j = 0; j < S::depth / 8; j += 2) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = pack_halves<S::bf16>(sums[4 * j + 2 * i] * factor, sums[4 * j + 2 * i + 1] * factor);
        }
        const uint32_t chunk = (uint32_t)j % 8 + lane / 16;
        stmatrix_x4(place + (uint32_t)j / 8 * S::kv_box + row * 128 + (chunk ^ row % 8) * 16, words);
    }
    __syncwarp();
    constexpr int chunks = S::depth / 8; /* of a row, 16 bytes each */
#pragma unroll
    for (int i = 0; i < 16 * chunks / 32; i++) {
        const int at = i * 32 + (int)lane, r = (int)warp + at / chunks, chunk = at % chunks;
        if (backward_has_key<S>(p, job, r) && 8 * chunk < p.head_dim) {
            uint32_t words[4];
            shared_load(place + (uint32_t)chunk / 8 * S::kv_box + (uint32_t)r * 128 + ((uint32_t)(chunk ^ r) % 8) * 16,
                        words);
            store_16(to + r * stride + 16 * chunk, words, WEFT_KEEP_NORMAL);
        }
    }
}

#endif
