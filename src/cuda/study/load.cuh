/* SPDX-License-Identifier: Apache-2.0 */
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

/* Which 16-byte chunk of rows a thread copies, and of which rows: `first`, and every at_once-th behind it. */
template <class S, int DEPTH> struct study_share {
    static constexpr int chunks = DEPTH / 8;
    static constexpr int lanes = chunks <= 8 ? 8 : chunks <= 16 ? 16 : chunks <= 32 ? 32 : chunks <= 64 ? 64 : 128;
    static constexpr int at_once = S::threads / lanes;
    static_assert(chunks <= lanes && at_once > 0, "threads have chunks of their own");
    static_assert(!S::swizzled || at_once % 8 == 0, "rows of a thread are swizzled alike");
};

/* Copies the first `bytes` of 16, in units of 4 or 2 bytes; the others become zeros. */
static __device__ __forceinline__ void study_copy_units(uint32_t to, const char *source, int unit, int bytes) {
    extern __shared__ __align__(256) unsigned char study_shared[];
#pragma unroll 1
    for (int at = 0; at < 16; at += 4) {
        const int left = min(max(bytes - at, 0), 4);
        const uint16_t *two = (const uint16_t *)(source + at);
        if (unit == 4) {
            cp_async_4_first(to + at, two, left);
        } else { /* no copy is that small */
            const uint32_t low = left > 0 ? two[0] : 0, high = left > 2 ? two[1] : 0;
            *(uint32_t *)(study_shared + (to - (uint32_t)__cvta_generic_to_shared(study_shared)) + at) = low | high << 16;
        }
    }
}

/* Starts copying ROWS rows of DEPTH elements, from row `row` on. Rows before `begin` and from `end` on become zeros, as
 * does what lies behind a row's last element. */
template <class S, int ROWS, int DEPTH>
static __device__ __forceinline__ void study_load(uint32_t to, const study_source &from, int row, int begin, int end) {
    using share = study_share<S, DEPTH>;
    static_assert(ROWS % share::at_once == 0, "threads copy as many rows each");
    const uint32_t thread = thread_index();
    const int chunk = (int)(thread % share::lanes), first = (int)(thread / share::lanes);
    if (chunk >= share::chunks) {
        return;
    }
    const int bytes = 2 * min(max(from.elements - 8 * chunk, 0), 8);
    const uint32_t after = (uint32_t)(row + first - begin), count = (uint32_t)(end - begin); /* before `begin`: huge */
    const int64_t step = share::at_once * from.stride;
    const char *source = from.first + (row + first) * from.stride + 16 * chunk;
    to += study_offset<S>(first, chunk);
    if (from.unit == 16) {
#pragma unroll
        for (int next = 0; next < ROWS; next += share::at_once) {
            cp_async_16_first(to + (uint32_t)(next * S::row_bytes), source, after + next < count ? bytes : 0);
            source += step;
        }
        return;
    }
#pragma unroll 1
    for (int next = 0; next < ROWS; next += share::at_once) {
        study_copy_units(to, source, from.unit, after + next < count ? bytes : 0);
        source += step;
        to += share::at_once * S::row_bytes;
    }
}

/* The pages of a batch. */
struct study_pages {
    const weft_pages *all;
    int64_t batch;
    int64_t stride;    /* bytes from page to page */
    const int *needed; /* columns that some query of the tile sees: from the first number to before the second */
};

/* The first byte of a column's row; null: its page is none. from.first is row 0 of page 0. */
static __device__ __forceinline__ const char *study_row_in_page(const study_source &from, const study_pages &pages,
                                                                int column) {
    const weft_page_row at = weft_page_of(pages.all, pages.batch, column);
    return at.page < 0 ? nullptr : from.first + at.page * pages.stride + at.row * from.stride;
}

/* study_load() of rows that lie in pages, each row looked up by itself. Rows of pages that are none are not read: with NANS
 * they become NaN, else zeros. WIDE: from.unit is 16. */
template <class S, int ROWS, int DEPTH, bool NANS, bool WIDE>
static __device__ __forceinline__ void study_load_rows(uint32_t to, const study_source &from, const study_pages &pages,
                                                       int row, int begin, int end) {
    extern __shared__ __align__(256) unsigned char study_shared[];
    using share = study_share<S, DEPTH>;
    const uint32_t thread = thread_index();
    const int chunk = (int)(thread % share::lanes), first = (int)(thread / share::lanes);
    if (chunk >= share::chunks) {
        return;
    }
    const int bytes = 2 * min(max(from.elements - 8 * chunk, 0), 8);
    to += study_offset<S>(first, chunk);
#pragma unroll(WIDE ? 4 : 1)
    for (int next = 0; next < ROWS; next += share::at_once) {
        const int column = row + first + next;
        const bool counts = column >= begin && column < end;
        const char *source = counts ? study_row_in_page(from, pages, column) : nullptr;
        const int here = source ? bytes : 0;
        source = (source ? source : from.first) + 16 * chunk;
        if (NANS && counts && here == 0 && bytes > 0) {
            if (column >= pages.needed[0] && column < pages.needed[1]) {
                weft_page_tell(pages.all, pages.batch, column);
            }
            const uint32_t nans = 0x7fff7fffu; /* in fp16 and in bf16 */
            *(uint4 *)(study_shared + (to - (uint32_t)__cvta_generic_to_shared(study_shared))) =
                make_uint4(nans, nans, nans, nans);
        } else if (WIDE) {
            cp_async_16_first(to, source, here);
        } else {
            study_copy_units(to, source, from.unit, here);
        }
        to += share::at_once * S::row_bytes;
    }
}

/* Whether ROWS rows from `row` on are in one page; `from` is then as if that page were the tensor. */
template <int ROWS>
static __device__ __forceinline__ bool study_one_page(study_source &from, const study_pages &pages, int row, int begin,
                                                      int end) {
    if (pages.all->page % ROWS != 0) {
        return false;
    }
    const int column = min(max(row, begin), end - 1); /* what else the list has is not looked at */
    const char *found = study_row_in_page(from, pages, column);
    from.first = found ? found - column * from.stride : from.first;
    return found != nullptr;
}

#endif
