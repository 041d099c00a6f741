/* SPDX-License-Identifier: Apache-2.0 */
/* dK or dV of a tile, from the registers of a warpgroup to memory: by way of shared memory that its warps alone have. Where
 * tiles are split, see join.cuh. */
#ifndef WEFT_CUDA_SM90_BACKWARD_STORE_CUH
#define WEFT_CUDA_SM90_BACKWARD_STORE_CUH

#include "cuda/sm90/backward/shape.cuh"

/* Keys of a tile. */
template <class S>
static __device__ __forceinline__ int backward_rows(const weft_hopper_backward_params &p,
                                                    const backward_job_of_form<S> &job) {
    if constexpr (S::general) {
        return job.rows;
    } else {
        return p.kv_seq - job.key;
    }
}

/* 64 columns of the warp's 16 rows to shared memory, rounded. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_put_box(uint32_t place, uint32_t row, uint32_t lane, int box,
                                                        const float (&sums)[COUNT], float factor) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = 32 * box + 4 * j + 2 * i;
            words[i] = pack_halves<S::bf16>(sums[at] * factor, sums[at + 1] * factor);
        }
        stmatrix_x4(place + row * 128 + (((uint32_t)j + lane / 16) ^ row % 8) * 16, words);
    }
}

/* The first `rows` rows of a tile, if it has so many, of which the warpgroup has 64 from `first` on; of each, `columns`.
 * place: rows of 128 bytes for the tile, of which the warpgroup's are overwritten, with 64 columns at a time; to: the
 * tile's first row. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_store(int rows, int columns, uint32_t first, const float (&sums)[COUNT],
                                                      float factor, uint32_t place, char *to, int64_t stride) {
    const uint32_t thread = thread_index(), lane = thread % 32, warp = first + thread % 128 / 32 * 16;
    const uint32_t row = warp + lane % 16;
#pragma unroll
    for (int box = 0; box < COUNT / 32; box++) {
        backward_put_box<S>(place, row, lane, box, sums, factor);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) { /* 16 rows of 8 pieces */
            const int r = (int)warp + i * 4 + (int)lane / 8, piece = (int)lane % 8, column = 64 * box + 8 * piece;
            if (r < rows && column < columns) {
                uint32_t words[4];
                shared_load(place + (uint32_t)r * 128 + ((uint32_t)(piece ^ r) % 8) * 16, words);
                store_16(to + r * stride + 2 * column, words, WEFT_KEEP_NORMAL);
            }
        }
        __syncwarp();
    }
}

/* Plain: the same by the copy engine, which is at it while the consumers begin with the next tile. It takes the place of
 * both blocks of dS, by turns: `boxes` counts. No row behind the last key is stored. key: the tile's first. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_store_late(uint32_t first, const float (&sums)[COUNT], float factor,
                                                           uint32_t ds, uint32_t &boxes, const weft_tensor_map *map,
                                                           int rows, int key, int head, int batch) {
    const uint32_t thread = thread_index(), lane = thread % 32, warp = first + thread % 128 / 32 * 16;
    const uint32_t row = warp + lane % 16;
#pragma unroll
    for (int box = 0; box < COUNT / 32; box++, boxes++) {
        const uint32_t place = ds + boxes % 2 * S::ds_bytes;
        if (boxes >= 2) { /* what was there has been read */
            if (lane == 0) {
                tma_store_wait_read<1>();
            }
            __syncwarp();
        }
        backward_put_box<S>(place, row, lane, box, sums, factor);
        fence_shared_for_async();
        __syncwarp();
        if (lane == 0) {
            if ((int)warp < rows) {
                tma_store_4d(map, place + warp * 128, 64 * box, key + (int)warp, head, batch);
            }
            tma_store_commit();
        }
    }
}

/* Before the next tile's dS is put there. */
static __device__ __forceinline__ void backward_await_late() {
    if (thread_index() % 32 == 0) {
        tma_store_wait_read<0>();
    }
    __syncwarp();
}

/* Word j of the i-th of four neighbouring lanes becomes word i of the j-th. */
static __device__ __forceinline__ void backward_transpose(uint32_t (&words)[4]) {
    const uint32_t lane = threadIdx.x;
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
        const bool upper = (lane & apart) != 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if ((i & apart) == 0) {
                const uint32_t theirs = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + apart], apart);
                words[i] = upper ? theirs : words[i];
                words[i + apart] = upper ? words[i + apart] : theirs;
            }
        }
    }
}

/* Wide: sums of a warpgroup to memory without shared memory. A thread has two rows, eight apart, and of each two columns of
 * every eight; four lanes exchange theirs, so that each stores eight at a time. has: whether its rows are to be stored; to:
 * the first of them. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_store_rows(const bool (&has)[2], int columns, const float (&sums)[COUNT],
                                                           float factor, char *to, int64_t stride) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
        for (int first = 0; first < COUNT / 4; first += 4) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = 4 * (first + i) + 2 * r;
                words[i] = pack_halves<S::bf16>(sums[at] * factor, sums[at + 1] * factor);
            }
            backward_transpose(words);
            const int column = first * 8 + (int)threadIdx.x % 4 * 8;
            if (has[r] && column < columns) {
                store_16(to + r * 8 * stride + 2 * column, words, WEFT_KEEP_NORMAL);
            }
        }
    }
}

#endif
