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

/* Up to 8 elements, one by one; those from `present` on are zeros. */
static __device__ __forceinline__ uint4 study_gather(const char *from, int present) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t low = 2 * i < present ? ((const uint16_t *)from)[2 * i] : 0;
        const uint32_t high = 2 * i + 1 < present ? ((const uint16_t *)from)[2 * i + 1] : 0;
        words[i] = low | high << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* Starts copying ROWS rows of DEPTH elements, from row `row` on. Rows before `begin` and from `end` on become zeros, as
 * does what lies behind a row's last element. */
template <class S, int ROWS, int DEPTH>
static __device__ __forceinline__ void study_load(uint32_t to, const study_source &from, int row, int begin, int end) {
    constexpr int chunks = DEPTH / 8;
    extern __shared__ __align__(256) unsigned char study_shared[];
#pragma unroll 2
    for (int i = (int)thread_index(); i < ROWS * chunks; i += S::threads) {
        const int local = i / chunks, chunk = i % chunks, left = from.elements - 8 * chunk;
        const int here = row + local >= begin && row + local < end ? min(max(left, 0), 8) : 0;
        const char *source = from.first + (int64_t)(row + local) * from.stride + 16 * chunk;
        const uint32_t at = to + study_offset<S>(local, chunk);
        if (from.unit == 16) {
            cp_async_16_first(at, source, 2 * here);
        } else if (from.unit == 4) {
#pragma unroll
            for (int word = 0; word < 4; word++) {
                cp_async_4_first(at + 4 * word, source + 4 * word, min(max(2 * here - 4 * word, 0), 4));
            }
        } else {
            *(uint4 *)(study_shared + (at - (uint32_t)__cvta_generic_to_shared(study_shared))) = study_gather(source, here);
        }
    }
}

#endif
