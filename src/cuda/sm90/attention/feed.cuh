/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks for tiles, and who has Q, K and V copied: one thread, the producer; under masks others beside it. Of pages they
 * are two warps: see feed_pages.cuh. */
#ifndef WEFT_CUDA_SM90_ATTENTION_FEED_CUH
#define WEFT_CUDA_SM90_ATTENTION_FEED_CUH

#include "cuda/plan/counter_pool.cuh"
#include "cuda/sm90/attention/pages.cuh"

/* Asks for the CTA's tiles. */
template <class S> struct hopper_clerk {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;

    __device__ __forceinline__ void start() const {
        const int64_t number = p.worker_of_sm ? p.worker_of_sm[sm_index()] : S::splits ? cluster_index() : blockIdx.x;
        desk.worker = weft_worker_start_at(&p.walk, number, p.counter);
    }

    /* Of the launch, for dynamic dispatch. Where it has to find them, it does so when they are first needed: under the
     * first tile. */
    __device__ __forceinline__ uint64_t *counters() const {
        if (p.pool && !desk.worker.counter) {
            desk.worker.counter = counter_pool_join(p.pool, &p);
        }
        return p.pool ? desk.worker.counter : p.counter;
    }

    /* The worker's next tile, if there is one. */
    __device__ __forceinline__ bool next_visit(weft_visit &visit, bool first) const {
        weft_worker worker = desk.worker;
        const weft_deal deal = {p.walk.workers, -1, S::reach, 0, 0};
        bool more;
        do {
            worker.counter = first ? nullptr : counters(); /* the first needs none */
            more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
            first = false;
        } while (S::masks && more && visit.cut.rows.begin >= visit.cut.rows.end); /* of a packed batch: without queries */
        desk.worker = worker;
        return more;
    }

    /* The step that a tile begins with. One that rotates begins where its last query stands. */
    __device__ __forceinline__ int first_of(const weft_visit &visit) const {
        if (!p.rotates) {
            return (int)visit.first;
        }
        const weft_reach &reach = p.walk.reach;
        const weft_sequence sequence = weft_sequence_at(&reach.sequences, visit.cut.sequence);
        const int64_t row = weft_smaller(visit.cut.rows.end, sequence.used_end) - 1,
                      key = sequence.columns.begin + weft_band_position(&reach.band, &sequence, row);
        const int step = (int)((uint32_t)weft_larger(key, 0) / S::keys);
        return (int)weft_between(step, weft_smaller(visit.first, visit.last), weft_larger(visit.first, visit.last));
    }

    /* A visit, as consumers are told of it. */
    __device__ __forceinline__ hopper_job job_of(const weft_visit &visit) const {
        const int down = visit.direction < 0, batch = (int)visit.tile.batch, head = (int)visit.tile.head;
        if constexpr (S::masks) {
            return {1,
                    batch,
                    head,
                    (int)visit.cut.rows.begin,
                    (int)visit.steps,
                    (S::rotates && p.rotates) || down,
                    (int)visit.cut.rows.end,
                    (int)(down ? visit.last : visit.first),
                    (int)visit.cut.sequence,
                    S::pairs     ? (int)visit.listed
                    : S::rotates ? first_of(visit)
                                 : 0};
        }
        const int row = max((int)visit.tile.block * (S::tile_m >> p.pack_bits) - (int)p.walk.reach.lead, 0);
        const int others = S::splits ? (int)cluster_rank() : 0, parts = S::splits ? (int)cluster_size() : 1;
        const int steps =
            S::splits ? max((int)visit.steps - others + parts - 1, 0) / parts : (int)visit.steps; /* this CTA's */
        return {1, batch, head, row, steps, down, 0, 0, 0, 0};
    }

    /* Pages: where a visit's keys are. */
    __device__ __forceinline__ hopper_keys keys_of(const weft_visit &visit) const {
        const weft_reach &reach = p.walk.reach;
        const weft_sequence sequence = weft_sequence_at(&reach.sequences, visit.cut.sequence);
        const weft_rows &columns = sequence.columns, &rows = visit.cut.rows;
        weft_length_tell(&hopper_pages_of(p).all, &reach.sequences, visit.cut.sequence);
        return {{(int32_t)columns.begin, (int32_t)columns.end},
                {(int32_t)weft_band_seen(&reach.band, &sequence, rows.begin).begin,
                 (int32_t)weft_band_seen(&reach.band, &sequence, weft_smaller(rows.end, sequence.used_end) - 1).end},
                (int32_t)visit.tile.batch,
                (int32_t)weft_divide(visit.tile.head, &p.by_kv_group)};
    }

    /* The last CTA leaves the counters as the launch found them, so that the next one needs no order to zero them. */
    __device__ __forceinline__ void leave_zero() const {
        uint64_t *all = counters();
        __threadfence(); /* after what this CTA counted */
        if (atomicAdd((unsigned long long *)&all[WEFT_HOPPER_DONE], 1ull) == gridDim.x - 1) {
            for (int i = 0; i < WEFT_HOPPER_COUNTERS; i++) {
                all[i] = 0;
            }
            if (p.pool) {
                counter_pool_give_back(all);
            }
        }
    }
};

template <class S> struct hopper_producer {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;
    hopper_clerk<S> clerk;
    uint32_t base; /* shared address of Q, and of the rings behind it */
    hopper_slot<S::stages> k_slot, v_slot;
    int batch, kv_head; /* of the tile at hand */
    int step, left;     /* its next block of V, and how many are left with that one */
    int direction;
    int listed, step_of_k; /* pairs: see hopper_job; the step whose K came last */
    uint32_t tiles;        /* started so far */
    int until_look;        /* steps */

    __device__ __forceinline__ hopper_producer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                               uint32_t address)
        : p(params), desk(shared), clerk{params, shared}, base(address), left(0), tiles(0), until_look(0) {
    }

    /* Copies one block of K or V into its slot, once the consumers are done with what was there. */
    __device__ __forceinline__ void block(const weft_tensor_map *map, uint64_t *full, uint64_t *empty,
                                          hopper_slot<S::stages> &slot, uint32_t to, int number) const {
        const uint32_t barrier = shared_address(&full[slot.index]);
        mbarrier_wait(shared_address(&empty[slot.index]), slot.parity ^ 1);
        mbarrier_expect(barrier, S::kv_bytes);
#pragma unroll 1
        for (int box = 0; box < S::boxes; box++) {
            tma_load_4d(base + to + slot.index * S::kv_bytes + box * S::kv_box, map, barrier, box * 64, number * S::keys,
                        kv_head, batch, WEFT_KEEP_LAST);
        }
        slot.next();
    }

    /* What a number of a tile's list stands for. */
    __device__ __forceinline__ hopper_step step_at(int number) const {
        const weft_blocks &blocks = p.walk.reach.blocks;
        if (listed < 0) {
            return {number, -1};
        }
        return {(int)weft_blocks_step(&blocks, listed, number), weft_blocks_bits(&blocks, listed, number)};
    }

    __device__ __forceinline__ void block_of_k(int number) {
        if constexpr (S::pairs) {
            const hopper_step next = step_at(number); /* the list is asked for before room is waited for */
            mbarrier_wait(shared_address(&desk.k_empty[k_slot.index]), k_slot.parity ^ 1);
            desk.listed[k_slot.index] = next;
            step_of_k = number = next.step;
        }
        block(&p.k, desk.k_full, desk.k_empty, k_slot, S::k_at, number);
    }

    __device__ __forceinline__ int step_after(int number) const {
        if constexpr (S::rotates) {
            return hopper_step_after(number, direction, desk.fed.begin, desk.fed.steps);
        }
        return number + direction;
    }

    __device__ __forceinline__ int next_step() const {
        return step_after(step);
    }

    /* The next block of V and the K that is used before it, of the step after. */
    __device__ __forceinline__ void next_blocks() {
        const int step_of_v = S::pairs ? step_of_k : step;
        if (left > 1) {
            block_of_k(next_step());
        }
        block(&p.v, desk.v_full, desk.v_empty, v_slot, S::v_at, step_of_v);
        step = next_step();
        left--;
        if (p.pace.steps && --until_look == 0) {
            look();
        }
    }

    /* Waits until this worker is not too far ahead. Waiting is a help, not a need: who waits for long, because the others
     * do not run at the same time, waits no more. */
    __device__ __forceinline__ void look() {
        unsigned long long *all = (unsigned long long *)clerk.counters() + WEFT_HOPPER_LOOKS;
        const int64_t enough = (++desk.looks - p.pace.slack) * p.walk.workers;
        until_look = p.pace.steps;
        atomicAdd(all, 1ull);
        for (int tries = 0; desk.paced && (int64_t) * (volatile unsigned long long *)all < enough; tries++) {
            if (tries == 400) { /* 40 us and more */
                desk.paced = 0;
            }
            __nanosleep(100);
        }
    }

    /* At the start of a tile. The last wave is not whole: its workers would wait for those that have no tile. */
    __device__ __forceinline__ void set_pace(int steps) {
        until_look = p.pace.steps;
        desk.looks = desk.worker.wave * (steps / p.pace.steps);
        desk.paced = desk.paced && (desk.worker.wave + 1) * p.walk.workers <= p.walk.order.count;
    }

    /* The place of the next tile's queries, once the consumers are done with what was there; they are told what is next.
     * Under masks that is done. */
    __device__ __forceinline__ uint32_t place(const hopper_job &job) {
        const uint32_t slot = tiles % S::q_slots;
        if constexpr (!S::masks) {
            mbarrier_wait(shared_address(&desk.q_empty[slot]), tiles / S::q_slots % 2 ^ 1);
            desk.jobs[slot] = job;
        }
        tiles++;
        return slot;
    }

    /* The first K of a tile, its Q, and what follows. */
    __device__ __forceinline__ void start(const hopper_job &job) {
        batch = job.batch;
        kv_head = (int)weft_divide(job.head, &p.by_kv_group);
        step = S::rotates ? job.first : job.downward ? job.begin + job.steps - 1 : job.begin;
        direction = job.downward ? -1 : 1;
        left = job.steps;
        if constexpr (S::rotates) {
            desk.fed = {job.begin, job.steps};
        }
        listed = S::pairs ? job.listed : 0;
        if (S::splits) { /* of all steps, which go upward, this CTA's */
            step = (int)cluster_rank();
            direction = (int)cluster_size();
        }
        if (!S::masks && p.pace.steps) {
            set_pace(left);
        }
        if (left > 0) { /* there may be room for K before there is for Q */
            block_of_k(step);
        }
        const uint32_t slot = place(job), full = shared_address(&desk.q_full[slot]);
        if (left > 0) {
            mbarrier_expect(full, S::q_bytes);
#pragma unroll 1
            for (int box = 0; box < S::boxes; box++) {
                tma_load_5d(base + slot * S::q_bytes + box * S::q_box, &p.q, full, box * 64, 0, job.row, job.head, batch,
                            WEFT_KEEP_FIRST);
            }
            next_blocks();
        } else {
            mbarrier_arrive(full);
        }
    }

    /* Feeds the tile at hand until so many steps are left. */
    __device__ __forceinline__ void feed(int until) {
        while (left > until) {
            next_blocks();
        }
    }

    /* The next tile, when this one has been fed. */
    __device__ __forceinline__ hopper_job next_job() {
        if constexpr (S::masks) {
            mbarrier_arrive(shared_address(&desk.wanted));
            feed(0);
            mbarrier_wait(shared_address(&desk.told[tiles % S::q_slots]), tiles / S::q_slots % 2);
            return desk.jobs[tiles % S::q_slots];
        } else {
            weft_visit visit = {};
            const bool more = clerk.next_visit(visit, tiles == 0);
            feed(0);
            return more ? clerk.job_of(visit) : hopper_job();
        }
    }

    /* Blocks go in the order in which they are used. */
    __device__ __forceinline__ void run() {
        desk.paced = 1;
        if constexpr (!S::masks) {
            clerk.start();
        }
        for (;;) {
            const hopper_job job = next_job();
            if (!job.more) {
                break;
            }
            start(job);
            feed(S::ahead);
        }
        if (!S::splits) { /* there, the one tile was all */
            mbarrier_arrive(shared_address(&desk.q_full[place({})]));
        }
        if (p.counter || p.pool) {
            clerk.leave_zero();
        }
    }
};

/* Masks: a warp has lengths on their way, all at once, before they are searched one after the other. */
static __device__ __forceinline__ void hopper_read_lengths(const weft_sequences &all) {
    const weft_lengths &l = all.lengths;
    const int32_t *const arrays[] = {l.q_starts, l.kv_starts, l.q_used, l.kv_used, l.kv_pad};
#pragma unroll
    for (int i = 0; i < 5; i++) {
        const int at = (int)threadIdx.x % 32 * 8; /* 32 bytes come together */
        if (arrays[i] && at < all.count) {
            read_for_l1(arrays[i] + at);
        }
    }
}

/* Masks: a thread beside the producer asks for tiles, while those before them are computed. The producer would be late with
 * blocks if it had to. */
template <class S>
static __device__ __forceinline__ void hopper_ask(const weft_hopper_attention_params &p, hopper_desk<S> &desk) {
    const hopper_clerk<S> clerk = {p, desk};
    clerk.start();
    for (uint32_t tiles = 0, more = 1; more; tiles++) {
        const uint32_t slot = tiles % S::q_slots;
        weft_visit visit = {};
        mbarrier_wait_idly(shared_address(&desk.wanted), tiles % 2);
        const hopper_job job = clerk.next_visit(visit, tiles == 0) ? clerk.job_of(visit) : hopper_job();
        std::conditional_t<S::pages, hopper_keys, hopper_nothing> keys = {};
        if constexpr (S::pages) {
            keys = job.more ? clerk.keys_of(visit) : keys;
        }
        mbarrier_wait_idly(shared_address(&desk.q_empty[slot]), tiles / S::q_slots % 2 ^ 1);
        desk.jobs[slot] = job;
        desk.keys[slot] = keys;
        mbarrier_arrive(shared_address(&desk.told[slot]));
        more = (uint32_t)job.more;
    }
}

/* Masks: a warp works out what the queries of each tile see. */
template <class S>
static __device__ __forceinline__ void hopper_look(const weft_hopper_attention_params &p, hopper_desk<S> &desk) {
    const weft_reach &reach = p.walk.reach;
    const int lane = (int)threadIdx.x % 32;
    for (uint32_t tiles = 0, more = 1; more; tiles++) {
        const uint32_t slot = tiles % S::q_slots;
        mbarrier_wait_idly(shared_address(&desk.told[slot]), tiles / S::q_slots % 2);
        /* Who told has waited for the same. This warp sees by itself that nobody reads what it is going to write. */
        mbarrier_wait_idly(shared_address(&desk.q_empty[slot]), tiles / S::q_slots % 2 ^ 1);
        const hopper_job job = desk.jobs[slot];
        hopper_view<S> &view = desk.views[slot];
        if constexpr (S::pages) { /* the producer is going to look up the pages of the first step */
            const hopper_pager<S> pager = {hopper_pages_of(p), desk.keys[slot]};
            pager.prefetch(job.first);
        }
        int64_t number = job.sequence;
        weft_sequence sequence = weft_sequence_at(&reach.sequences, number);
        for (int i = lane; job.steps > 0 && i < job.end - job.row; i += 32) {
            const int64_t row = job.row + i;
            if (reach.joined && row >= sequence.rows.end) {
                number = weft_sequence_from(&reach.sequences, number, row);
                sequence = weft_sequence_at(&reach.sequences, number);
            }
            const weft_rows seen = weft_band_seen(&reach.band, &sequence, row);
            view.runs[i] = {(int32_t)seen.begin, (int32_t)seen.end};
        }
        __syncwarp();
        if (lane < S::groups) {
            const bool tree = S::pairs && reach.blocks.pairs.tree;
            const int tree_begin = tree ? (int)weft_tree_begin(&sequence) : INT32_MAX;
            view.shares[lane] = hopper_share_of_runs<S>(p, job, view.runs, tree_begin, (uint32_t)lane);
            if (S::pairs) {
                view.tree_begin = tree_begin; /* all lanes the same */
            }
        }
        __syncwarp();
        if (lane == 0) {
            mbarrier_arrive(shared_address(&desk.q_full[slot]));
        }
        more = (uint32_t)job.more;
    }
}

#endif
