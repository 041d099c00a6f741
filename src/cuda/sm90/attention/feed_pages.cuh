/* SPDX-License-Identifier: Apache-2.0 */
/* The producers of K and V from a KV cache: a warp for each.
 *
 * Nearly all steps of a tile have keys that all count. Such a step has one path, as short as it can be, because a step of
 * the consumers is not much longer than what it takes to ask for one: an entry of the list is read a step before anybody
 * looks at it; a page that has room for a step is one request; and K and V are asked for side by side. */
#ifndef WEFT_CUDA_SM90_ATTENTION_FEED_PAGES_CUH
#define WEFT_CUDA_SM90_ATTENTION_FEED_PAGES_CUH

#include "cuda/sm90/attention/feed.cuh"

/* A step, and where it lies. */
struct hopper_paged_step {
    int step;
    int page; /* the lane's: what the list says, which nobody has looked at before K is copied */
    int row;  /* of the page, where it has room for the step; else 0 */
};

/* IS_K: of K, and of Q; else of V. DEEP: see weft_hopper_pages. */
template <class S, bool IS_K, bool DEEP> struct hopper_page_producer {
    const weft_hopper_attention_params &p;
    const weft_hopper_pages &pages;
    hopper_desk<S> &desk;
    uint32_t base; /* shared address of Q, and of the rings behind it */
    hopper_slot<S::stages> slot;
    uint32_t tiles; /* begun so far */
    /* Of the tile at hand. */
    int kv_head;
    int begin, steps, direction;
    int whole, wholes;   /* steps whose keys all count: the first, and how many */
    const int32_t *list; /* the sequence's entries, from the lane's on */

    __device__ __forceinline__ hopper_page_producer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                                    uint32_t address)
        : p(params), pages(hopper_pages_of(params)), desk(shared), base(address), tiles(0) {
    }

    __device__ __forceinline__ hopper_keys &keys() const {
        return desk.fed_keys[IS_K];
    }

    __device__ __forceinline__ hopper_pager<S> pager() const {
        return {pages, keys()};
    }

    __device__ __forceinline__ bool is_whole(int step) const {
        return (uint32_t)(step - whole) < (uint32_t)wholes;
    }

    /* Whether the lane's page of a step has keys that count. */
    __device__ __forceinline__ bool counts(int step) const {
        return is_whole(step) || pager().has_keys(pager().column(step, pager().part()));
    }

    __device__ __forceinline__ hopper_paged_step look_up(int step) const {
        hopper_paged_step at = {step, 0, DEEP || pages.copies == 1 ? step * S::keys : 0};
        if (pages.page > 0) {
            uint32_t entry = (uint32_t)(step * pages.copies);
            if (DEEP || pages.copies == 1) {
                entry = weft_divide_short((uint32_t)at.row, &pages.all.by_page);
                at.row -= (int)entry * pages.page;
            }
            if (counts(step)) {
                at.page = list[entry];
            }
        } else {
            at.page = keys().batch;
        }
        return at;
    }

    /* What the page is, when it is to be known. */
    __device__ __forceinline__ int checked(const hopper_paged_step &at) const {
        return !counts(at.step) ? HOPPER_NO_KEYS : (uint32_t)at.page < pages.count ? at.page : HOPPER_NO_PAGE;
    }

    __device__ __forceinline__ void copy(uint32_t to, uint32_t barrier, int row, int page) const {
#pragma unroll
        for (int box = 0; box < S::boxes; box++) {
            tma_load_4d(to + box * S::kv_box, IS_K ? &p.k : &p.v, barrier, box * 64, row, kv_head, page, WEFT_KEEP_LAST);
        }
    }

    /* A block whose keys all count, COUNT pages at a time. One lane asks for all of it; numbers of pages come to it by
     * shuffles, which takes less than lanes that ask one after the other. */
    template <int COUNT>
    __device__ __forceinline__ void copy_pages(uint32_t to, uint32_t barrier, const hopper_paged_step &at) const {
        const int bytes = pages.rows * 128;
#pragma unroll 1
        for (int i = 0; i < pages.copies; i += COUNT) {
            int numbers[COUNT];
#pragma unroll
            for (int j = 0; j < COUNT; j++) {
                numbers[j] = __shfl_sync(0xffffffffu, at.page, i + j);
            }
            if (elect_one()) {
#pragma unroll
                for (int j = 0; j < COUNT; j++) {
                    copy(to + (i + j) * bytes, barrier, at.row, numbers[j]);
                }
            }
            __syncwarp();
        }
    }

    __device__ __forceinline__ void copy_whole(uint32_t to, uint32_t barrier, const hopper_paged_step &at) const {
        if (elect_one()) {
            mbarrier_expect(barrier, S::kv_bytes);
            if constexpr (DEEP) {
                tma_load_5d(to, IS_K ? &p.k : &p.v, barrier, 0, at.row, 0, kv_head, at.page, WEFT_KEEP_LAST);
            }
        }
        __syncwarp();
        if constexpr (!DEEP) {
            if (pages.copies >= 4) {
                copy_pages<4>(to, barrier, at);
            } else {
                copy_pages<1>(to, barrier, at);
            }
        }
    }

    /* Pages of V are not looked at: one that is none becomes zeros. */
    __device__ __forceinline__ void block(const hopper_paged_step &at) {
        const uint32_t to = base + (IS_K ? S::k_at : S::v_at) + slot.index * S::kv_bytes;
        const uint32_t full = shared_address(IS_K ? &desk.k_full[slot.index] : &desk.v_full[slot.index]);
        const uint32_t empty = shared_address(IS_K ? &desk.k_empty[slot.index] : &desk.v_empty[slot.index]);
        const bool is_short = __any_sync(0xffffffffu, !is_whole(at.step) || (IS_K && (uint32_t)at.page >= pages.count));
        mbarrier_wait(empty, slot.parity ^ 1);
        if (is_short) {
            pager().template block<IS_K>(to, IS_K ? pages.k : pages.v, full, at.step, at.row, checked(at));
        } else {
            copy_whole(to, full, at);
        }
        slot.next();
    }

    /* The job stays where it is until its queries have come. */
    __device__ __forceinline__ void queries() const {
        if (elect_one()) {
            const uint32_t at = settled(tiles - 1) % S::q_slots, full = shared_address(&desk.q_full[at]);
            const hopper_job &job = desk.jobs[at];
            const int row = job.row, head = job.head, batch = job.batch;
            mbarrier_expect(full, S::q_bytes);
#pragma unroll
            for (int box = 0; box < S::boxes; box++) {
                tma_load_5d(base + at * S::q_bytes + box * S::q_box, &p.q, full, box * 64, 0, row, head, batch,
                            WEFT_KEEP_FIRST);
            }
        }
        __syncwarp();
    }

    /* Has nothing to add to the queries. */
    __device__ __forceinline__ void no_queries() const {
        if (elect_one()) {
            mbarrier_arrive(shared_address(&desk.q_full[(tiles - 1) % S::q_slots]));
        }
        __syncwarp();
    }

    __device__ __forceinline__ void ask() const {
        if (elect_one()) {
            mbarrier_arrive(shared_address(&desk.wanted));
        }
        __syncwarp();
    }

    /* The tile that was told of last. Returns whether there is one. */
    __device__ __forceinline__ bool feed_next() {
        const uint32_t place = tiles % S::q_slots;
        mbarrier_wait(shared_address(&desk.told[place]), tiles / S::q_slots % 2);
        const hopper_job &job = desk.jobs[place];
        const hopper_keys &told = desk.keys[place];
        const bool more = hopper_same(job.more);
        const int from = hopper_same(told.run.begin), to = hopper_same(told.run.end);
        int step = hopper_same(job.first);
        kv_head = hopper_same(told.kv_head);
        begin = hopper_same(job.begin);
        steps = hopper_same(job.steps);
        direction = hopper_same(job.downward) ? -1 : 1;
        list = pages.all.table + told.batch * pages.all.stride + pager().part();
        whole = (from + S::keys - 1) / S::keys;
        wholes = max(to / S::keys - whole, 0);
        tiles++;
        __syncwarp(); /* no lane still copies for the last tile */
        if (elect_one()) {
            keys() = told;
        }
        __syncwarp(); /* and all lanes have read the job before one lets go of it */
        if (!IS_K || !more || steps == 0) {
            no_queries();
        }
        if (!more) {
            return false;
        }
        if (IS_K && steps == 0) {
            ask();
        }
        hopper_paged_step next = {};
        if (steps > 0) {
            next = look_up(step);
        }
#pragma unroll 1
        for (int left = steps; left > 0; left--) {
            const hopper_paged_step at = next;
            if (left > 1) {
                step = hopper_step_after(step, direction, begin, steps);
                next = look_up(step);
            }
            block(at);
            if constexpr (IS_K) {
                if (left == steps) { /* there may be room for K before there is for Q */
                    queries();
                }
                if (left == S::ahead || (left == steps && left < S::ahead)) {
                    ask();
                }
            }
        }
        return true;
    }

    __device__ __forceinline__ void run() {
        if (IS_K) {
            ask();
        }
        while (feed_next()) {
        }
        if (IS_K && (p.counter || p.pool) && elect_one()) {
            const hopper_clerk<S> clerk = {p, desk};
            clerk.leave_zero();
        }
    }
};

/* By a warp: all of a CTA's K, or all of its V. */
template <class S>
static __device__ __forceinline__ void hopper_feed_pages(const weft_hopper_attention_params &p, hopper_desk<S> &desk,
                                                         uint32_t base, bool is_k) {
    const bool deep = hopper_pages_of(p).deep;
    if (is_k && deep) {
        hopper_page_producer<S, true, true>(p, desk, base).run();
    } else if (is_k) {
        hopper_page_producer<S, true, false>(p, desk, base).run();
    } else if (deep) {
        hopper_page_producer<S, false, true>(p, desk, base).run();
    } else {
        hopper_page_producer<S, false, false>(p, desk, base).run();
    }
}

#endif
