/* SPDX-License-Identifier: Apache-2.0 */
/* The producer warpgroup: a warp has blocks of K and V copied, two copy Q, and one works out what there is to do
 * (deal.cuh).
 *
 * What lies in a cache beside the keys that count may be anything, NaN included, and a weight of 0 does not hide a NaN. So
 * rows that do not count are zeros: the copy engine is asked for a page outside of the tensor in their place. */
#ifndef WEFT_CUDA_SM90_MLA_FEED_CUH
#define WEFT_CUDA_SM90_MLA_FEED_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/sm90/mla/deal.cuh"

/* In place of a page's number: the tensors have no such page, as weft_page_of() says; no key of it counts. */
enum { MLA_NO_PAGE = -1, MLA_NO_KEYS = -2 };

/* The pages of a block: lane i has those of copies i and i + 32. */
struct mla_pages {
    int number[2];
};

struct mla_feeder {
    const weft_mla_params &p;
    mla_desk &desk;
    uint32_t ring;   /* shared address of the slots */
    uint32_t number; /* blocks so far */
    uint32_t wrong;  /* slots whose word in desk.wrong is not 0, a bit each */

    static __device__ __forceinline__ int lane() {
        return (int)(thread_index() % 32);
    }

    __device__ __forceinline__ mla_pages find(const mla_view &view, int block) const {
        mla_pages pages;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int copy = lane() + 32 * i, first = block * WEFT_MLA_KEYS + copy * p.rows;
            pages.number[i] = MLA_NO_KEYS;
            if (copy < p.copies && view.begin - first < p.rows && view.end > first) {
                pages.number[i] = (int)weft_page_of(&p.all.pages, view.batch, view.origin + first).page;
            }
        }
        return pages;
    }

    /* The keys of a block whose page there is none of; tells of them, as far as a query sees them. */
    __device__ __forceinline__ uint64_t wrong_of(const mla_view &view, int block, const mla_pages &pages) const {
        uint64_t keys = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int first = block * WEFT_MLA_KEYS + (lane() + 32 * i) * p.rows;
            if (pages.number[i] == MLA_NO_PAGE && first < view.seen_end && first + p.rows > view.seen_from) {
                weft_page_tell(&p.all.pages, view.batch, view.origin + first);
            }
            for (uint32_t bad = __ballot_sync(~0u, pages.number[i] == MLA_NO_PAGE); bad; bad &= bad - 1) {
                const int copy = __ffs((int)bad) - 1 + 32 * i;
                keys |= ~0ull >> (64 - p.rows) << copy * p.rows;
            }
        }
        return keys;
    }

    /* Boxes begin .. end - 1 of some rows. */
    __device__ __forceinline__ void copy(const mla_view &view, uint32_t to, const weft_tensor_map *k,
                                         const weft_tensor_map *v, int begin, int end, uint32_t barrier, int row,
                                         int page) const {
#pragma unroll 1
        for (int box = begin; box < end; box++) {
            const bool is_k = box == WEFT_MLA_BOXES - 1;
            tma_load_4d(to + box * WEFT_MLA_BOX, is_k ? k : v, barrier, is_k ? 0 : 64 * box, row, view.kv_head, page,
                        p.keep);
        }
    }

    /* The same of a copy of which some keys count and others do not: eight rows at a time, or one; by a lane. */
    __device__ __forceinline__ void copy_some(const mla_view &view, uint32_t to, int first, int begin, int end,
                                              uint32_t barrier, int row, int page) const {
        const int step = p.rows < 8 ? 1 : 8, mine = first + lane() * step;
        const int from = view.begin - mine, until = view.end - mine; /* rows that count */
        if (lane() * step >= p.rows) {
            return;
        }
        row += lane() * step;
        to += (uint32_t)(lane() * step * 128);
        if ((from <= 0 && until >= step) || from >= step || until <= 0) { /* all or none */
            copy(view, to, step == 1 ? &p.k.one : &p.k.eight, step == 1 ? &p.v.one : &p.v.eight, begin, end, barrier, row,
                 from <= 0 && until >= step ? page : MLA_NO_KEYS);
            return;
        }
#pragma unroll 1
        for (int i = 0; i < step; i++) {
            copy(view, to + i * 128, &p.k.one, &p.v.one, begin, end, barrier, row + i,
                 i >= from && i < until ? page : MLA_NO_KEYS);
        }
    }

    /* Boxes begin .. end - 1 of a block. */
    __device__ __forceinline__ void copy_boxes(const mla_view &view, uint32_t to, int block, const mla_pages &pages,
                                               int begin, int end, uint32_t barrier) const {
        if (elect_one()) {
            mbarrier_expect(barrier, (uint32_t)(end - begin) * WEFT_MLA_BOX);
        }
        __syncwarp();
        const int page_rows = (int)p.all.pages.page;
#pragma unroll 1
        for (int i = 0; i < p.copies; i++) {
            const int first = block * WEFT_MLA_KEYS + i * p.rows;
            const int page = __shfl_sync(~0u, i < 32 ? pages.number[0] : pages.number[1], i % 32);
            const int column = view.origin + first;
            const int row = page_rows == 0
                                ? column
                                : column - (int)weft_divide_short((uint32_t)column, &p.all.pages.by_page) * page_rows;
            const uint32_t place = to + (uint32_t)(i * p.rows * 128);
            if (page >= 0 && (view.begin > first || view.end - first < p.rows)) {
                copy_some(view, place, first, begin, end, barrier, row, page);
            } else if (elect_one()) {
                copy(view, place, &p.k.many, &p.v.many, begin, end, barrier, row, page);
            }
            __syncwarp();
        }
    }

    /* Any block. */
    __device__ __forceinline__ void feed(const mla_view &view, int block, const mla_pages &pages) {
        const uint32_t slot = mla_slot(number), before = mla_parity(number) ^ 1;
        const uint32_t to = ring + slot * WEFT_MLA_BLOCK_BYTES;
#pragma unroll 1
        for (int part = 0; part < MLA_PARTS; part++) {
            const int box = part * WEFT_MLA_WIDE, end = min(box + WEFT_MLA_WIDE, (int)WEFT_MLA_BOXES);
            mbarrier_wait(shared_address(&desk.empty[slot][box >= 4]), before);
            if (part == MLA_PARTS - 1) {
                const uint64_t keys = wrong_of(view, block, pages);
                wrong = (wrong & ~(1u << slot)) | (keys ? 1u << slot : 0);
                if (elect_one()) {
                    desk.wrong[slot] = keys; /* before this thread arrives for K */
                }
            }
            copy_boxes(view, to, block, pages, box, end, shared_address(&desk.full[slot][part]));
        }
    }

    /* A block of 64 rows of a page, all of which count; by one lane. K, where weights were, comes last. */
    __device__ __forceinline__ void feed_whole(int kv_head, int page, int row) const {
        const uint32_t slot = mla_slot(number), before = mla_parity(number) ^ 1;
        const uint32_t to = settled(ring + slot * WEFT_MLA_BLOCK_BYTES);
        const uint32_t full = settled(shared_address(&desk.full[slot][0])), empty = shared_address(&desk.empty[slot][0]);
        mbarrier_wait(empty, before);
#pragma unroll
        for (int part = 0; part < MLA_PARTS - 1; part++) {
            if (part == (MLA_PARTS - 1) / 2) {
                mbarrier_wait(empty + 8, before);
            }
            mbarrier_expect(full + 8 * part, WEFT_MLA_WIDE * WEFT_MLA_BOX);
            tma_load_5d(to + part * WEFT_MLA_WIDE * WEFT_MLA_BOX, &p.wide.v, full + 8 * part, 0, row, WEFT_MLA_WIDE * part,
                        kv_head, page, p.keep);
        }
        mbarrier_expect(full + 8 * (MLA_PARTS - 1), WEFT_MLA_BOX);
        tma_load_4d(to + (WEFT_MLA_BOXES - 1) * WEFT_MLA_BOX, &p.k.many, full + 8 * (MLA_PARTS - 1), 0, row, kv_head, page,
                    p.keep);
    }

    /* Blocks of a run, up to 32 of them; lane i looks up the page of the i-th. */
    __device__ __forceinline__ void feed_wide(const mla_view &view, int begin, int end) {
        const int first = (begin + lane()) * WEFT_MLA_KEYS;
        weft_page_row at = {MLA_NO_PAGE, 0};
        if (begin + lane() < end && first >= view.begin && first + WEFT_MLA_KEYS <= view.end) {
            at = weft_page_of(&p.all.pages, view.batch, view.origin + first);
        }
        const int my_page = (int)at.page, my_row = (int)at.row, kv_head = view.kv_head;
        const uint32_t whole = __ballot_sync(~0u, my_page >= 0);
#pragma unroll 1
        for (int i = 0; i < end - begin; i++, number++) {
            const int page = __shfl_sync(~0u, my_page, i), row = __shfl_sync(~0u, my_row, i);
            if (whole >> i & 1 && !(wrong >> mla_slot(number) & 1)) {
                if (elect_one()) {
                    feed_whole(kv_head, page, row);
                }
                __syncwarp();
            } else {
                feed(view, begin + i, find(view, begin + i));
            }
        }
    }

    __device__ __forceinline__ void feed_run(const mla_view &view) {
        const int last = view.last;
        if (p.wide.has_v) {
#pragma unroll 1
            for (int block = view.first; block < last; block += 32) {
                feed_wide(view, block, min(block + 32, last));
            }
            return;
        }
        mla_pages next = find(view, view.first);
#pragma unroll 1
        for (int block = view.first; block < last; block++, number++) {
            const mla_pages pages = next;
            next = find(view, block + 1); /* looked up before it is needed */
            feed(view, block, pages);
        }
    }

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (uint32_t nth = 0;; nth++) {
            const mla_task &task = mla_take(desk, nth);
            if (!task.is_there) {
                return;
            }
            feed_run(task.view);
            mla_give_back(desk, nth);
        }
    }
};

/* Q of a tile by the copy engine: 64 heads of a query, or as many queries as make 64 rows. Rows behind the sequence's last
 * are its neighbours', or zeros: nobody looks at what becomes of them. */
static __device__ __forceinline__ void mla_load_q(const weft_mla_params &params, mla_desk &desk, const mla_view &view,
                                                  uint32_t to) {
    const weft_decode_params &p = params.all;
    const int query = (int)weft_divide(view.row, &p.by_group), at = view.query + query;
    const int head = view.kv_head * p.group + view.row - query * p.group;
    const uint32_t barrier = shared_address(&desk.q_full);
    mbarrier_expect(barrier, WEFT_MLA_BLOCK_BYTES);
#pragma unroll
    for (int box = 0; box < WEFT_MLA_BOXES - 1; box += WEFT_MLA_WIDE) {
        tma_load_5d(to + box * WEFT_MLA_BOX, &params.wide.qv, barrier, 0, head, at, box, view.batch);
    }
    tma_load_4d(to + (WEFT_MLA_BOXES - 1) * WEFT_MLA_BOX, &params.wide.q, barrier, 0, head, at, view.batch);
}

/* The same by the threads of some warps. Rows that there are none of are zeros. */
static __device__ __forceinline__ void mla_copy_q(const weft_mla_params &params, mla_desk &desk, const mla_view &view,
                                                  uint32_t to) {
    constexpr int threads = 32 * MLA_Q_WARPS, chunks = WEFT_MLA_BOXES * 8; /* of 16 bytes in a row */
    const weft_decode_params &p = params.all;
    const int thread = (int)threadIdx.x - 32;
#pragma unroll 4
    for (int i = thread; i < WEFT_MLA_ROWS * chunks; i += threads) {
        const int row = i / chunks, chunk = i - row * chunks, box = chunk / 8;
        const int index = view.row + row, query = (int)weft_divide_short((uint32_t)index, &p.by_group);
        const int64_t at = view.query + query, head = view.kv_head * p.group + index - query * p.group;
        const bool is_q = box == WEFT_MLA_BOXES - 1;
        const weft_strides &s = is_q ? p.q_strides : params.qv_strides;
        const int element = 8 * (is_q ? chunk % 8 : chunk);
        const bool there = row < view.count && element < (is_q ? p.head_dim : p.head_dim_v);
        const char *from = (const char *)(is_q ? p.q : params.qv);
        if (there) {
            from += 2 * (view.batch * s.batch + at * s.seq + head * s.head + element);
        }
        cp_async_16(to + (uint32_t)(box * WEFT_MLA_BOX + row * 128 + 16 * (chunk % 8 ^ row % 8)), from, there);
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_shared_for_async();
    __syncwarp();
    mbarrier_arrive_warp(shared_address(&desk.q_full));
}

/* Q of the CTA's runs. */
static __device__ __forceinline__ void mla_feed_q(const weft_mla_params &p, mla_desk &desk, uint32_t to) {
    const bool is_first = threadIdx.x / 32 == 1;
    uint32_t tiles = 0; /* so far */
#pragma unroll 1
    for (uint32_t nth = 0;; nth++) {
        const mla_task &task = mla_take(desk, nth);
        if (!task.is_there) {
            return;
        }
        /* Who does not copy must not wait either: Q could be free again, and taken, before it looks. */
        if (task.view.first < task.view.last && (is_first || !p.wide.has_q)) {
            mbarrier_wait(shared_address(&desk.q_empty), (tiles++ & 1) ^ 1);
            if (!p.wide.has_q) {
                mla_copy_q(p, desk, task.view, to);
            } else if (elect_one()) {
                mla_load_q(p, desk, task.view, to);
            }
        }
        mla_give_back(desk, nth);
    }
}

#endif
