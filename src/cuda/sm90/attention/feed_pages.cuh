/* The producer of K and V from a KV cache: a warp.
 *
 * Nearly all steps of a tile have keys that all count. Such a step has one path, as short as it can be, because a step of
 * the consumers is not much longer than what it takes to ask for one: what it goes by is the same in all lanes and known to
 * be so, hence in registers of the warp, which the copy engine is asked with; an entry of the list is read a step before
 * anybody looks at it; and a page that has room for a step is one request. */
#ifndef WEFT_CUDA_SM90_ATTENTION_FEED_PAGES_CUH
#define WEFT_CUDA_SM90_ATTENTION_FEED_PAGES_CUH

#include "cuda/sm90/attention/feed.cuh"

/* A step, and where it lies. */
struct hopper_paged_step {
    int step;
    int page; /* the lane's: what the list says, which nobody has looked at before K is copied */
    int row;  /* of the page, where it has room for the step; else 0 */
};

/* DEEP: see weft_hopper_pages. */
template <class S, bool DEEP> struct hopper_page_producer {
    const weft_hopper_attention_params &p;
    const weft_hopper_pages &pages;
    hopper_desk<S> &desk;
    uint32_t base; /* shared address of Q, and of the rings behind it */
    hopper_slot<S::stages> k_slot, v_slot;
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

    __device__ __forceinline__ hopper_pager<S> pager() const {
        return {pages, desk.fed_keys};
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
            at.page = desk.fed_keys.batch;
        }
        return at;
    }

    /* What the page is, when it is to be known. */
    __device__ __forceinline__ int checked(const hopper_paged_step &at) const {
        return !counts(at.step) ? HOPPER_NO_KEYS : (uint32_t)at.page < pages.count ? at.page : HOPPER_NO_PAGE;
    }

    /* A block whose keys all count. One lane asks for all of it. */
    __device__ __forceinline__ void copy_whole(uint32_t to, const weft_tensor_map *map, uint32_t barrier,
                                               const hopper_paged_step &at) const {
        if constexpr (DEEP) {
            if (elect_one()) {
                mbarrier_expect(barrier, S::kv_bytes);
                tma_load_5d(to, map, barrier, 0, at.row, 0, kv_head, at.page, WEFT_KEEP_LAST);
            }
            __syncwarp();
        } else {
            copy_pages(to, map, barrier, at);
        }
    }

    /* The same of several pages, whose numbers come to the lane by shuffles: that takes less than lanes that ask one after
     * the other. */
    __device__ __forceinline__ void copy_pages(uint32_t to, const weft_tensor_map *map, uint32_t barrier,
                                               const hopper_paged_step &at) const {
#pragma unroll 1
        for (int i = 0; i < pages.copies; i += 4) {
            int numbers[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                numbers[j] = __shfl_sync(0xffffffffu, at.page, i + j);
            }
            if (elect_one()) {
                if (i == 0) {
                    mbarrier_expect(barrier, S::kv_bytes);
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (i + j < pages.copies) {
#pragma unroll
                        for (int box = 0; box < S::boxes; box++) {
                            tma_load_4d(to + (i + j) * pages.rows * 128 + box * S::kv_box, map, barrier, box * 64, at.row,
                                        kv_head, numbers[j], WEFT_KEEP_LAST);
                        }
                    }
                }
            }
            __syncwarp();
        }
    }

    __device__ __forceinline__ void block_of_k(hopper_paged_step &at) {
        const uint32_t to = base + S::k_at + k_slot.index * S::kv_bytes, full = shared_address(&desk.k_full[k_slot.index]);
        const bool is_short = __any_sync(0xffffffffu, !is_whole(at.step) || (uint32_t)at.page >= pages.count);
        mbarrier_wait(shared_address(&desk.k_empty[k_slot.index]), k_slot.parity ^ 1);
        if (is_short) {
            at.page = checked(at);
            pager().block(true, to, pages.k, full, at.step, at.row, at.page);
        } else {
            copy_whole(to, &p.k, full, at);
        }
        k_slot.next();
    }

    /* The same of V, whose page is looked at no more: one that is none becomes zeros. */
    __device__ __forceinline__ void block_of_v(const hopper_paged_step &at) {
        const uint32_t to = base + S::v_at + v_slot.index * S::kv_bytes, full = shared_address(&desk.v_full[v_slot.index]);
        mbarrier_wait(shared_address(&desk.v_empty[v_slot.index]), v_slot.parity ^ 1);
        if (is_whole(at.step)) {
            copy_whole(to, &p.v, full, at);
        } else {
            pager().block(false, to, pages.v, full, at.step, at.row, at.page);
        }
        v_slot.next();
    }

    /* The job stays where it is until its queries have come. */
    __device__ __forceinline__ void queries() const {
        if (elect_one()) {
            const uint32_t slot = settled(tiles - 1) % S::q_slots, full = shared_address(&desk.q_full[slot]);
            const hopper_job &job = desk.jobs[slot];
            const int row = job.row, head = job.head, batch = job.batch;
            mbarrier_expect(full, S::q_bytes);
#pragma unroll
            for (int box = 0; box < S::boxes; box++) {
                tma_load_5d(base + slot * S::q_bytes + box * S::q_box, &p.q, full, box * 64, 0, row, head, batch,
                            WEFT_KEEP_FIRST);
            }
        }
        __syncwarp();
    }

    /* No further copy: the tile has no steps, or there is none. */
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
        const uint32_t slot = tiles % S::q_slots;
        mbarrier_wait(shared_address(&desk.told[slot]), tiles / S::q_slots % 2);
        const hopper_job &job = desk.jobs[slot];
        const hopper_keys &keys = desk.keys[slot];
        const bool more = hopper_same(job.more);
        const int from = hopper_same(keys.run.begin), to = hopper_same(keys.run.end);
        int step = hopper_same(job.first);
        kv_head = hopper_same(keys.kv_head);
        begin = hopper_same(job.begin);
        steps = hopper_same(job.steps);
        direction = hopper_same(job.downward) ? -1 : 1;
        tiles++;
        if (!more) {
            return false;
        }
        whole = (from + S::keys - 1) / S::keys;
        wholes = max(to / S::keys - whole, 0);
        list = pages.all.table + keys.batch * pages.all.stride + pager().part();
        __syncwarp(); /* no lane still copies for the last tile */
        if (elect_one()) {
            desk.fed_keys = keys;
        }
        __syncwarp(); /* and all lanes have read the job before one lets go of it */
        if (steps == 0) {
            no_queries();
            ask();
            return true;
        }
        hopper_paged_step next = look_up(step), last = next;
#pragma unroll 1
        for (int left = steps; left >= 0; left--) { /* blocks of V; they go in the order in which they are used */
            const hopper_paged_step before = last;
            if (left > 0) {
                block_of_k(next);
                last = next;
            }
            if (left > 1) {
                step = hopper_step_after(step, direction, begin, steps);
                next = look_up(step);
            }
            if (left == steps) { /* there may be room for K before there is for Q */
                queries();
                continue;
            }
            block_of_v(before);
            if (left == S::ahead || (left == steps - 1 && left < S::ahead)) {
                ask();
            }
        }
        return true;
    }

    __device__ __forceinline__ void run() {
        ask();
        while (feed_next()) {
        }
        no_queries();
        if ((p.counter || p.pool) && elect_one()) {
            const hopper_clerk<S> clerk = {p, desk};
            clerk.leave_zero();
        }
    }
};

#endif
