/* SPDX-License-Identifier: Apache-2.0 */
/* General: rows that do not count may be NaN, which a weight of 0 does not hide. They become zeros before products see
 * them.
 */
#ifndef WEFT_CUDA_SM90_BACKWARD_CLEAN_CUH
#define WEFT_CUDA_SM90_BACKWARD_CLEAN_CUH

#include "cuda/sm90/backward/shape.cuh"

/* Zeros for the rows before `begin` and from `end` on of ROWS rows in BOXES boxes, as the copy engine leaves them: by
 * THREADS threads, of which this is the one of that number. */
template <int ROWS, int BOXES, int THREADS>
static __device__ __forceinline__ void backward_clean(uint32_t place, uint32_t thread, int begin, int end) {
    const int32_t zeros[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int i = (int)thread; i < ROWS * BOXES * 8; i += THREADS) {
        const int row = i / 8 % ROWS; /* of 128 bytes in each box */
        if (row < begin || row >= end) {
            shared_store(place + (uint32_t)i * 16, zeros);
        }
    }
}

/* Products of all these threads, who share a barrier of this number, see the zeros. */
template <int THREADS> static __device__ __forceinline__ void backward_cleaned(uint32_t barrier) {
    fence_shared_for_async();
    barrier_sync(barrier, THREADS);
}

/* Keys of a tile that do not count. By both consumers. */
template <class S>
static __device__ __forceinline__ void backward_clean_keys(const backward_general_job &job, uint32_t base, uint32_t group) {
    const uint32_t thread = group * 128 + thread_index() % 128;
    const int begin = job.key_begin, end = job.key_end;
    if (begin > 0 || end < S::keys) {
        backward_clean<S::keys, S::boxes, 256>(base + S::k_at, thread, begin, end);
        backward_clean<S::keys, S::boxes_v, 256>(base + S::v_at, thread, begin, end);
        backward_cleaned<256>(1);
    }
}

#endif
