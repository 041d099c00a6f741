/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of K and V from a KV cache: the producer is a warp, and each of its lanes looks up a page of a block.
 *
 * What lies in the cache beside the keys that count may be anything, NaN included, and a weight of 0 does not hide a NaN.
 * So rows that do not count are zeros here: the copy engine is asked for rows outside of the tensor in their place. A page
 * that the tensors do not have becomes NaN in K, so that only rows that see its keys do. */
#ifndef WEFT_CUDA_SM90_ATTENTION_PAGES_CUH
#define WEFT_CUDA_SM90_ATTENTION_PAGES_CUH

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/attention/shape.cuh"

/* In place of a page's number: the tensors have no such page, as weft_page_of() says; no key of it counts. */
enum { HOPPER_NO_PAGE = -1, HOPPER_NO_KEYS = -2 };

/* The parameters of a variant, by its form. */
template <int FORM> struct hopper_params { using type = weft_hopper_attention_params; };
template <> struct hopper_params<WEFT_HOPPER_PAGES> { using type = weft_hopper_paged_params; };

static __device__ __forceinline__ const weft_hopper_attention_params &hopper_common(const weft_hopper_attention_params &p) {
    return p;
}
static __device__ __forceinline__ const weft_hopper_attention_params &hopper_common(const weft_hopper_paged_params &p) {
    return p.all;
}

/* The pages of such a variant's parameters. */
static __device__ __forceinline__ const weft_hopper_pages &hopper_pages_of(const weft_hopper_attention_params &p) {
    return ((const weft_hopper_paged_params *)&p)->pages;
}

/* The pages of a tile. Each lane has one of a step, or the same as others if there are fewer. Blocks of which all keys
 * count are the producer's own business: see feed_pages.cuh. block() is for all others, and takes its time. */
template <class S> struct hopper_pager {
    const weft_hopper_pages &pages;
    const hopper_keys &keys;

    static __device__ __forceinline__ int lane() {
        return (int)(thread_index() % 32);
    }

    /* Which page of a step is the lane's. */
    __device__ __forceinline__ int part() const {
        return lane() & (pages.copies - 1);
    }

    /* The first key of a page of a step. */
    __device__ __forceinline__ int column(int step, int part) const {
        return step * S::keys + part * pages.rows;
    }

    __device__ __forceinline__ bool has_keys(int column) const {
        return column < keys.run.end && column + pages.rows > keys.run.begin;
    }

    /* Has the L1 fetch the entries of a step. */
    __device__ __forceinline__ void prefetch(int step) const {
        const int at = column(step, part());
        if (pages.all.page > 0 && has_keys(at)) {
            read_for_l1(pages.all.table + keys.batch * pages.all.stride +
                        weft_divide_short((uint32_t)at, &pages.all.by_page));
        }
    }

    /* One box for every 64 columns of some rows, to `to`. Page below 0: zeros. */
    static __device__ __forceinline__ void copy(uint32_t to, const weft_tensor_map *map, uint32_t barrier, int row,
                                                int kv_head, int page) {
#pragma unroll 1
        for (int box = 0; box < S::boxes; box++) {
            tma_load_4d(to + box * S::kv_box, map, barrier, box * 64, row, kv_head, page, WEFT_KEEP_LAST);
        }
    }

    /* Rows of a page from `row` on, the first of them key `first`, by the warp: eight at a time, or one. Those that do not
     * count become zeros. */
    __device__ __forceinline__ void copy_some(uint32_t to, const weft_hopper_rows &maps, uint32_t barrier, int first,
                                              int row, int page) const {
#pragma unroll 1
        for (int i = lane() * 8; i < pages.rows; i += 32 * 8) {
            const int begin = keys.run.begin - first - i, end = keys.run.end - first - i; /* of these eight */
            if ((begin <= 0 && end >= 8) || begin >= 8 || end <= 0) {
                copy(to + i * 128, &maps.eight, barrier, row + i, keys.kv_head,
                     begin <= 0 && end >= 8 ? page : HOPPER_NO_KEYS);
                continue;
            }
#pragma unroll 1
            for (int j = 0; j < 8; j++) {
                copy(to + (i + j) * 128, &maps.one, barrier, row + i + j, keys.kv_head,
                     j >= begin && j < end ? page : HOPPER_NO_KEYS);
            }
        }
    }

    /* NaN for the pages whose bits are set. */
    __device__ __forceinline__ void poison(uint32_t to, uint32_t which) const {
        const int32_t nan = 0x7fff7fff, nans[4] = {nan, nan, nan, nan}; /* two, in fp16 and in bf16 */
        for (; which; which &= which - 1) {
#pragma unroll 1
            for (int box = 0; box < S::boxes; box++) {
                const uint32_t first = to + box * S::kv_box + (uint32_t)((__ffs((int)which) - 1) * pages.rows * 128);
#pragma unroll 1
                for (int i = lane() * 16; i < pages.rows * 128; i += 32 * 16) {
                    shared_store(first + i, nans);
                }
            }
        }
        fence_shared_for_async();
        __syncwarp();
    }

    /* A block of K or V. The place is free by now. row: of the page, where a step has only one; else 0. */
    template <bool IS_K>
    __device__ __forceinline__ void block(uint32_t to, const weft_hopper_rows &maps, uint32_t barrier, int step, int row,
                                          int page) const {
        const int first = column(step, part()), bytes = pages.rows * 128;
        const uint32_t none = __ballot_sync(0xffffffffu, IS_K && page == HOPPER_NO_PAGE) & ((1u << pages.copies) - 1);
        if (none) {
            if (page == HOPPER_NO_PAGE && first < keys.seen.end && first + pages.rows > keys.seen.begin) {
                weft_page_tell(&pages.all, keys.batch, first);
            }
            poison(to, none);
        }
        if (elect_one()) {
            mbarrier_expect(barrier, S::kv_bytes - __popc(none) * bytes * S::boxes);
        }
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < pages.copies; i++) {
            const int number = __shfl_sync(0xffffffffu, page, i);
            if (!(none >> i & 1)) {
                copy_some(to + i * bytes, maps, barrier, column(step, i), row, number);
            }
        }
    }
};

#endif
