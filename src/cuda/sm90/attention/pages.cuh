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

/* The pages of a tile. */
template <class S> struct hopper_pager {
    const weft_hopper_pages &pages;
    const hopper_keys &keys;

    static __device__ __forceinline__ int lane() {
        return (int)(thread_index() % 32);
    }

    /* The first key of a lane's page of a step. */
    __device__ __forceinline__ int column(int step, int of) const {
        return step * S::keys + of * pages.rows;
    }

    __device__ __forceinline__ bool has_keys(int column) const {
        return column < keys.run.end && column + pages.rows > keys.run.begin;
    }

    /* Which page of K and V the lane's part of a step is in. Any step will do. */
    __device__ __forceinline__ int find(int step) const {
        const int at = column(step, lane());
        return lane() < pages.copies && has_keys(at) ? (int)weft_page_of(&pages.all, keys.batch, at).page : HOPPER_NO_KEYS;
    }

    /* Has the L1 fetch what find() is going to read. */
    __device__ __forceinline__ void prefetch(int step) const {
        const int at = column(step, lane());
        if (pages.all.page > 0 && lane() < pages.copies && has_keys(at)) {
            read_for_l1(pages.all.table + keys.batch * pages.all.stride +
                        weft_divide_short((uint32_t)at, &pages.all.by_page));
        }
    }

    /* The row of a page that a key is in. */
    __device__ __forceinline__ int row(int column) const {
        const uint32_t page = (uint32_t)pages.all.page;
        return page == 0 ? column : column - (int)(weft_divide_short((uint32_t)column, &pages.all.by_page) * page);
    }

    /* One box for every 64 columns, to `to`. Page below 0: zeros. UNROLL: of so many. */
    template <int UNROLL>
    static __device__ __forceinline__ void copy(uint32_t to, const weft_tensor_map *map, uint32_t barrier, int row,
                                                int kv_head, int page) {
#pragma unroll UNROLL
        for (int box = 0; box < S::boxes; box++) {
            tma_load_4d(to + box * S::kv_box, map, barrier, box * 64, row, kv_head, page, WEFT_KEEP_LAST);
        }
    }

    /* A page of which some keys count and others do not, by the warp: eight rows at a time, or one. */
    __device__ __forceinline__ void copy_some(uint32_t to, const weft_hopper_rows &maps, uint32_t barrier, int first,
                                              int page) const {
        const int from = row(first);
#pragma unroll 1
        for (int i = lane() * 8; i < pages.rows; i += 32 * 8) {
            const int begin = keys.run.begin - first - i, end = keys.run.end - first - i; /* of these eight */
            if ((begin <= 0 && end >= 8) || begin >= 8 || end <= 0) {
                copy<1>(to + i * 128, &maps.eight, barrier, from + i, keys.kv_head,
                        begin <= 0 && end >= 8 ? page : HOPPER_NO_KEYS);
                continue;
            }
#pragma unroll 1
            for (int j = 0; j < 8; j++) {
                copy<1>(to + (i + j) * 128, &maps.one, barrier, from + i + j, keys.kv_head,
                        j >= begin && j < end ? page : HOPPER_NO_KEYS);
            }
        }
    }

    /* NaN for the pages whose bits are set. */
    __device__ __forceinline__ void poison(uint32_t to, uint32_t which) const {
        const int32_t nan = 0x7fff7fff, nans[4] = {nan, nan, nan, nan}; /* two, in fp16 and in bf16 */
        for (; which; which &= which - 1) {
            const uint32_t first = to + (uint32_t)((__ffs((int)which) - 1) * pages.rows * 128);
#pragma unroll 1
            for (int i = lane() * 16; i < S::boxes * pages.rows * 128; i += 32 * 16) {
                const int box = i / (pages.rows * 128);
                shared_store(first + box * S::kv_box + (i - box * pages.rows * 128), nans);
            }
        }
        fence_shared_for_async();
        __syncwarp();
    }

    /* A block of K or V; page: what find() said of the step. The place is free by now. One lane asks for whole pages: their
     * numbers come to it by shuffles, which takes less than lanes that ask one after the other. */
    template <bool K>
    __device__ __forceinline__ void block(uint32_t to, const weft_tensor_map *map, const weft_hopper_rows &maps,
                                          uint32_t barrier, int step, int page) const {
        const int first = column(step, lane()), from = row(max(column(step, 0), 0));
        const int bytes = pages.rows * 128, kv_head = keys.kv_head; /* of a page; read here, not for every copy */
        const bool whole = first >= keys.run.begin && first + pages.rows <= keys.run.end;
        const uint32_t none = K ? __ballot_sync(0xffffffffu, page == HOPPER_NO_PAGE) : 0;
        const uint32_t some = __ballot_sync(0xffffffffu, page >= 0 && !whole);
        if (K && none) {
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
        for (int i = 0; i < pages.copies; i += 4) {
            int numbers[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                numbers[j] = __shfl_sync(0xffffffffu, page, i + j);
            }
            if (elect_one()) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (i + j < pages.copies && !((none | some) >> (i + j) & 1)) {
                        copy<S::boxes>(to + (i + j) * bytes, map, barrier, from, kv_head, numbers[j]);
                    }
                }
            }
        }
        for (uint32_t left = some; left; left &= left - 1) {
            const int of = __ffs((int)left) - 1;
            copy_some(to + of * bytes, maps, barrier, column(step, of), __shfl_sync(0xffffffffu, page, of));
        }
    }
};

#endif
