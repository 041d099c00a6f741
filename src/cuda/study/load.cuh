/* Copies from global to shared memory for general variants: rows of any head dim, however they are aligned. */
#ifndef WEFT_CUDA_STUDY_LOAD_CUH
#define WEFT_CUDA_STUDY_LOAD_CUH

#include "cuda/study/shape.cuh"

/* Where the rows of a tensor are, and how they are read. */
struct study_source {
    const char *first; /* row 0 */
    int64_t stride;    /* bytes */
    int elements;      /* of a row */
    int unit;          /* bytes that can be read at a time: 16, 4 or 2 */
};

/* Starts copying ROWS rows of DEPTH elements, from row `row` on. Rows before `begin` and from `end` on become zeros, as
 * does what lies behind a row's last element. */
template <class S, int ROWS, int DEPTH>
static __device__ __forceinline__ void study_load(uint32_t to, const study_source &from, int row, int begin, int end) {
    constexpr int chunks = DEPTH / 8;
    constexpr int lanes = chunks <= 8 ? 8 : chunks <= 16 ? 16 : chunks <= 32 ? 32 : chunks <= 64 ? 64 : 128;
    constexpr int at_once = S::threads / lanes;
    static_assert(chunks <= lanes && at_once > 0 && ROWS % at_once == 0, "threads have chunks of their own");
    static_assert(!S::swizzled || at_once % 8 == 0, "rows of a thread are swizzled alike");
    extern __shared__ __align__(256) unsigned char study_shared[];
    const uint32_t thread = thread_index();
    const int chunk = (int)(thread % lanes), first = (int)(thread / lanes);
    if (chunk >= chunks) {
        return;
    }
    const int bytes = 2 * min(max(from.elements - 8 * chunk, 0), 8);
    const uint32_t after = (uint32_t)(row + first - begin), count = (uint32_t)(end - begin); /* before `begin`: huge */
    const int64_t step = at_once * from.stride;
    const char *source = from.first + (row + first) * from.stride + 16 * chunk;
    to += study_offset<S>(first, chunk);
    if (from.unit == 16) {
#pragma unroll
        for (int next = 0; next < ROWS; next += at_once) {
            cp_async_16_first(to + (uint32_t)(next * S::row_bytes), source, after + next < count ? bytes : 0);
            source += step;
        }
        return;
    }
#pragma unroll 1
    for (int next = 0; next < ROWS; next += at_once) {
        const int here = after + next < count ? bytes : 0;
#pragma unroll 1
        for (int at = 0; at < 16; at += 4) {
            const int left = min(max(here - at, 0), 4);
            const uint16_t *two = (const uint16_t *)(source + at);
            if (from.unit == 4) {
                cp_async_4_first(to + at, two, left);
            } else { /* no copy is that small */
                const uint32_t low = left > 0 ? two[0] : 0, high = left > 2 ? two[1] : 0;
                *(uint32_t *)(study_shared + (to - (uint32_t)__cvta_generic_to_shared(study_shared)) + at) =
                    low | high << 16;
            }
        }
        source += step;
        to += at_once * S::row_bytes;
    }
}

#endif
