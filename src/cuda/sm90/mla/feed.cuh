/* The producer warpgroup: a warp has blocks of K and V copied, the others copy Q.
 *
 * What lies in a cache beside the keys that count may be anything, NaN included, and a weight of 0 does not hide a NaN. So
 * rows that do not count are zeros: the copy engine is asked for a page outside of the tensor in their place. */
#ifndef WEFT_CUDA_SM90_MLA_FEED_CUH
#define WEFT_CUDA_SM90_MLA_FEED_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/sm90/mla/shape.cuh"

/* In place of a page's number: the tensors have no such page, as weft_page_of() says; no key of it counts. */
enum { MLA_NO_PAGE = -1, MLA_NO_KEYS = -2 };

/* The pages of a block: lane i has those of copies i and i + 32. */
struct mla_pages {
    int number[2];
};

struct mla_feeder {
    const weft_mla_params &p;
    mla_desk &desk;
    uint32_t ring; /* shared address of the slots */
    mla_view view;

    static __device__ __forceinline__ int lane() {
        return (int)(thread_index() % 32);
    }

    /* Keys of a copy, from its first on, that count: begin .. end - 1 of p.rows. */
    __device__ __forceinline__ int counts_from(int first) const {
        return view.begin - first;
    }
    __device__ __forceinline__ int counts_to(int first) const {
        return view.end - first;
    }

    __device__ __forceinline__ mla_pages find(int block) const {
        mla_pages pages;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int copy = lane() + 32 * i, first = block * WEFT_MLA_KEYS + copy * p.rows;
            pages.number[i] = MLA_NO_KEYS;
            if (copy < p.copies && counts_from(first) < p.rows && counts_to(first) > 0) {
                pages.number[i] = (int)weft_page_of(&p.all.pages, view.batch, view.origin + first).page;
            }
        }
        return pages;
    }

    /* The keys of a block whose page there is none of; tells of them, as far as a query sees them. */
    __device__ __forceinline__ uint64_t wrong_of(int block, const mla_pages &pages) const {
        uint64_t wrong = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int first = block * WEFT_MLA_KEYS + (lane() + 32 * i) * p.rows;
            if (pages.number[i] == MLA_NO_PAGE && first < view.seen_end && first + p.rows > view.seen_from) {
                weft_page_tell(&p.all.pages, view.batch, view.origin + first);
            }
            for (uint32_t bad = __ballot_sync(~0u, pages.number[i] == MLA_NO_PAGE); bad; bad &= bad - 1) {
                const int copy = __ffs((int)bad) - 1 + 32 * i;
                wrong |= ~0ull >> (64 - p.rows) << copy * p.rows;
            }
        }
        return wrong;
    }

    /* Boxes begin .. end - 1 of some rows. */
    __device__ __forceinline__ void copy(uint32_t to, const weft_tensor_map *k, const weft_tensor_map *v, int begin,
                                         int end, uint32_t barrier, int row, int page) const {
#pragma unroll 1
        for (int box = begin; box < end; box++) {
            const bool is_k = box == WEFT_MLA_BOXES - 1;
            tma_load_4d(to + box * WEFT_MLA_BOX, is_k ? k : v, barrier, is_k ? 0 : 64 * box, row, view.kv_head, page,
                        p.keep);
        }
    }

    /* The same of a copy of which some keys count and others do not: eight rows at a time, or one; by a lane. */
    __device__ __forceinline__ void copy_some(uint32_t to, int first, int begin, int end, uint32_t barrier, int row,
                                              int page) const {
        const int step = p.rows < 8 ? 1 : 8;
        const int from = counts_from(first + lane() * step), until = counts_to(first + lane() * step);
        if (lane() * step >= p.rows) {
            return;
        }
        row += lane() * step;
        to += (uint32_t)(lane() * step * 128);
        if ((from <= 0 && until >= step) || from >= step || until <= 0) { /* all or none */
            copy(to, step == 1 ? &p.k.one : &p.k.eight, step == 1 ? &p.v.one : &p.v.eight, begin, end, barrier, row,
                 from <= 0 && until >= step ? page : MLA_NO_KEYS);
            return;
        }
#pragma unroll 1
        for (int i = 0; i < step; i++) {
            copy(to + i * 128, &p.k.one, &p.v.one, begin, end, barrier, row + i,
                 i >= from && i < until ? page : MLA_NO_KEYS);
        }
    }

    /* Boxes begin .. end - 1 of a block. */
    __device__ __forceinline__ void copy_boxes(uint32_t to, int block, const mla_pages &pages, int begin, int end,
                                               uint32_t barrier) const {
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
            if (page >= 0 && (counts_from(first) > 0 || counts_to(first) < p.rows)) {
                copy_some(place, first, begin, end, barrier, row, page);
            } else if (elect_one()) {
                copy(place, &p.k.many, &p.v.many, begin, end, barrier, row, page);
            }
            __syncwarp();
        }
    }

    /* A block of the run at hand, the number-th of the CTA. */
    __device__ __forceinline__ void feed(int block, uint32_t number, const mla_pages &pages) const {
        const uint32_t slot = mla_slot(number), before = mla_parity(number) ^ 1;
        const uint32_t to = ring + slot * WEFT_MLA_BLOCK_BYTES;
        mbarrier_wait(shared_address(&desk.empty[slot][0]), before);
        copy_boxes(to, block, pages, 0, 2, shared_address(&desk.full[slot][0]));
        copy_boxes(to, block, pages, 2, 4, shared_address(&desk.full[slot][1]));
        mbarrier_wait(shared_address(&desk.empty[slot][1]), before);
        copy_boxes(to, block, pages, 4, 6, shared_address(&desk.full[slot][2]));
        copy_boxes(to, block, pages, 6, 8, shared_address(&desk.full[slot][3]));
        const uint64_t wrong = wrong_of(block, pages);
        if (elect_one()) {
            desk.wrong[slot] = wrong; /* before this thread arrives for K */
        }
        copy_boxes(to, block, pages, 8, 9, shared_address(&desk.full[slot][4]));
    }

    __device__ __forceinline__ void run() {
        decode_deal<WEFT_MLA_ROWS> deal(p.all);
        decode_run run;
        uint32_t number = 0;
#pragma unroll 1
        for (int place = (int)blockIdx.x; mla_find(p, deal, place, run); place += (int)gridDim.x) {
            view = mla_view_of(p.all, run);
            weft_length_tell(&p.all.pages, &p.all.runs.sequences, run.sequence);
            mla_pages next = find(view.first);
#pragma unroll 1
            for (int block = view.first; block < view.last; block++) {
                const mla_pages pages = next;
                next = find(block + 1); /* looked up before it is needed */
                feed(block, number++, pages);
            }
        }
    }
};

/* Q of a tile, by warps 1 to 3. Rows that there are none of are zeros. */
static __device__ __forceinline__ void mla_copy_q(const weft_mla_params &params, mla_desk &desk, const mla_view &view,
                                                  uint32_t to) {
    constexpr int threads = 96, chunks = WEFT_MLA_BOXES * 8; /* of 16 bytes in a row */
    const weft_decode_params &p = params.all;
    const int thread = (int)threadIdx.x - 32;
#pragma unroll 1
    for (int i = thread; i < WEFT_MLA_ROWS * chunks; i += threads) {
        const int row = i / chunks, chunk = i - row * chunks, box = chunk / 8;
        const int index = view.row + row, query = (int)weft_divide(index, &p.by_group);
        const int64_t at = view.s.rows.begin + query, head = view.kv_head * p.group + index - query * p.group;
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
    if (threadIdx.x % 32 == 0) {
        mbarrier_arrive(shared_address(&desk.q_full));
    }
}

/* By a warp, once the sums of a run are in the workspace, the number-th of the CTA: counts it, and tells the consumers
 * whether it was the last of its sequence and tile. They go on meanwhile. */
static __device__ __forceinline__ void mla_count(const weft_mla_params &p, mla_desk &desk, uint32_t number) {
    mbarrier_wait(shared_address(&desk.left), number % 2);
    if (threadIdx.x % 32 == 0) {
        const decode_run &run = desk.runs[number % 4];
        const int at = run.place - run.number * run.tiles; /* the place of the first one */
        __threadfence();                                   /* what consumers left, before it is counted */
        desk.is_last = atomicAdd(&p.done[at], 1u) + 1 == (unsigned)run.count;
        __threadfence(); /* what other CTAs left, after they counted it */
        mbarrier_arrive(shared_address(&desk.counted));
    }
    __syncwarp();
}

/* Q of the CTA's runs, by warps 1 to 3, of which the first also counts runs that have ended. */
static __device__ __forceinline__ void mla_feed_q(const weft_mla_params &params, mla_desk &desk, uint32_t to) {
    const weft_decode_params &p = params.all;
    decode_deal<WEFT_MLA_ROWS> deal(p);
    decode_run run;
    uint32_t number = 0, counted = 0, found = 0; /* tiles, and runs whose sums are left */
#pragma unroll 1
    for (int place = (int)blockIdx.x; mla_find(params, deal, place, run); place += (int)gridDim.x) {
        const bool leaves = run.count > 1 && threadIdx.x / 32 == 1;
        if (leaves && threadIdx.x % 32 == 0) {
            desk.runs[found % 4] = run; /* three are of use at a time */
        }
        const mla_view view = mla_view_of(p, run);
        if (view.first < view.last) {
            mbarrier_wait(shared_address(&desk.q_empty), (number++ & 1) ^ 1);
            mla_copy_q(params, desk, view, to);
        }
        if (counted < found) { /* the run before, which ended when Q was free */
            mla_count(params, desk, counted++);
        }
        found += leaves;
    }
    if (counted < found) {
        mla_count(params, desk, counted);
    }
}

#endif
