/* The producer: one thread that asks for tiles and has Q, K and V copied. */
#ifndef WEFT_CUDA_SM90_ATTENTION_FEED_CUH
#define WEFT_CUDA_SM90_ATTENTION_FEED_CUH

#include "cuda/plan/counter_pool.cuh"
#include "cuda/sm90/attention/shape.cuh"

template <class S> struct hopper_producer {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;
    uint32_t base; /* shared address of Q, and of the rings behind it */
    hopper_slot<S::stages> k_slot, v_slot;
    int batch, kv_head; /* of the tile at hand */
    int step, left;     /* its next block of V, and how many are left with that one */
    int direction;
    uint32_t tiles; /* started so far */
    int until_look; /* steps */

    __device__ __forceinline__ hopper_producer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                               uint32_t address)
        : p(params), desk(shared), base(address), left(0), tiles(0), until_look(0) {
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

    __device__ __forceinline__ void block_of_k(int number) {
        block(&p.k, desk.k_full, desk.k_empty, k_slot, S::k_at, number);
    }

    /* The next block of V and the K that is used before it, of the step after. */
    __device__ __forceinline__ void next_blocks() {
        if (left > 1) {
            block_of_k(step + direction);
        }
        block(&p.v, desk.v_full, desk.v_empty, v_slot, S::v_at, step);
        step += direction;
        left--;
        if (p.pace.steps && --until_look == 0) {
            look();
        }
    }

    /* Waits until this worker is not too far ahead. Waiting is a help, not a need: who waits for long, because the others
     * do not run at the same time, waits no more. */
    __device__ __forceinline__ void look() {
        unsigned long long *all = (unsigned long long *)counters() + WEFT_HOPPER_LOOKS;
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
    __device__ __forceinline__ void set_pace(const weft_visit &visit) {
        until_look = p.pace.steps;
        desk.looks = desk.worker.wave * (visit.steps / p.pace.steps);
        desk.paced = desk.paced && (desk.worker.wave + 1) * p.walk.workers <= p.walk.order.count;
    }

    /* Waits until the consumers are done with the queries that are where the next ones go, and tells them what is next.
     * Returns the barrier of those queries. */
    __device__ __forceinline__ uint32_t tell(const hopper_job &job) {
        mbarrier_wait(shared_address(&desk.q_empty[tiles % S::q_slots]), tiles / S::q_slots % 2 ^ 1);
        desk.jobs[tiles % S::q_slots] = job;
        if constexpr (S::masks) {
            mbarrier_arrive(shared_address(&desk.told[tiles % S::q_slots]));
        }
        return shared_address(&desk.q_full[tiles++ % S::q_slots]);
    }

    /* Under masks, and where two tiles have room, the next tile is told as soon as it is known, so that what its queries
     * see is there when they are. Only where its place is free: who still holds it may wait for blocks that are yet to
     * come. */
    static constexpr bool tells_early = S::masks && S::q_slots > 1;

    __device__ __forceinline__ bool has_place() const {
        return mbarrier_try(shared_address(&desk.q_empty[tiles % S::q_slots]), tiles / S::q_slots % 2 ^ 1);
    }

    __device__ __forceinline__ hopper_job masked_job(const weft_visit &visit) const {
        return {1,
                (int)visit.tile.batch,
                (int)visit.tile.head,
                (int)visit.cut.rows.begin,
                (int)visit.steps,
                visit.direction < 0,
                (int)visit.cut.rows.end,
                (int)(visit.direction < 0 ? visit.last : visit.first),
                (int)visit.cut.sequence};
    }

    /* The first K of a tile, its Q, and what follows. told: the barrier of its queries, where it was told, else 0. */
    __device__ __forceinline__ void start(const weft_visit &visit, uint32_t told) {
        const int lead = (int)p.walk.reach.lead, head = (int)visit.tile.head;
        const int row =
            S::masks ? (int)visit.cut.rows.begin : max((int)visit.tile.block * (S::tile_m >> p.pack_bits) - lead, 0);
        const uint32_t to = base + (tells_early && told ? tiles - 1 : tiles) % S::q_slots * S::q_bytes;
        batch = (int)visit.tile.batch;
        kv_head = (int)weft_divide(head, &p.by_kv_group);
        step = (int)visit.first;
        left = (int)visit.steps;
        direction = visit.direction;
        if (S::splits) { /* of all steps, which go upward, this CTA's */
            direction = (int)cluster_size();
            step = (int)cluster_rank();
            left = max(left - step + direction - 1, 0) / direction;
        }
        if (p.pace.steps) {
            set_pace(visit);
        }
        if (left > 0) { /* there may be room for K before there is for Q */
            block_of_k(step);
        }
        const uint32_t full = tells_early && told ? told
                              : S::masks          ? tell(masked_job(visit))
                                                  : tell({1, batch, head, row, left, direction < 0, 0, 0, 0});
        if (left > 0) {
            mbarrier_expect(full, S::q_bytes);
#pragma unroll 1
            for (int box = 0; box < S::boxes; box++) {
                tma_load_5d(to + box * S::q_box, &p.q, full, box * 64, 0, row, head, batch, WEFT_KEEP_FIRST);
            }
            next_blocks();
        } else {
            mbarrier_arrive(full);
        }
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
    __device__ __forceinline__ bool next_visit(weft_visit &visit) const {
        weft_worker worker = desk.worker;
        const weft_deal deal = {p.walk.workers, -1, S::reach};
        worker.counter = tiles > 0 || S::masks ? counters() : nullptr; /* the first needs none, if it has queries */
        const bool more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
        desk.worker = worker;
        return more;
    }

    /* Blocks go in the order in which they are used. The next tile is asked for when as many blocks of this one are left as
     * the rings hold: early enough for an answer that takes two thousand clocks, late enough that few workers take a tile
     * that another would begin sooner. */
    __device__ __forceinline__ void run() {
        weft_visit visit = {};
        desk.paced = 1;
        desk.worker = weft_worker_start_at(&p.walk,
                                           p.worker_of_sm ? p.worker_of_sm[sm_index()]
                                           : S::splits    ? cluster_index()
                                                          : blockIdx.x,
                                           p.counter);
        for (;;) {
            bool more = next_visit(visit);
            while (S::masks && more && visit.cut.rows.begin >= visit.cut.rows.end) {
                more = next_visit(visit); /* of a packed batch: a tile without queries */
            }
            uint32_t told = 0;
            if (tells_early && more && has_place()) {
                told = tell(masked_job(visit));
            }
            while (left > 0) {
                next_blocks();
            }
            if (!more) {
                break;
            }
            start(visit, told);
            while (left > S::stages) {
                next_blocks();
            }
        }
        if (!S::splits) { /* there, the one tile was all */
            mbarrier_arrive(tell({}));
        }
        if (p.counter || p.pool) {
            leave_zero();
        }
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

/* Masks: a warp beside the producer works out what the queries of each tile see, while the tiles before it are computed. */
template <class S>
static __device__ __forceinline__ void hopper_find_runs(const weft_hopper_attention_params &p, hopper_desk<S> &desk) {
    const weft_reach &reach = p.walk.reach;
    for (uint32_t tiles = 0;; tiles++) {
        const uint32_t slot = tiles % S::q_slots;
        mbarrier_wait(shared_address(&desk.told[slot]), tiles / S::q_slots % 2);
        const hopper_job job = desk.jobs[slot];
        int64_t number = job.sequence;
        weft_sequence sequence = weft_sequence_at(&reach.sequences, number);
        for (int i = (int)threadIdx.x % 32; job.steps > 0 && i < job.end - job.row; i += 32) {
            const int64_t row = job.row + i;
            if (reach.joined && row >= sequence.rows.end) {
                number = weft_sequence_from(&reach.sequences, number, row);
                sequence = weft_sequence_at(&reach.sequences, number);
            }
            const weft_rows seen = weft_band_seen(&reach.band, &sequence, row);
            desk.runs[slot][i] = {(int32_t)seen.begin, (int32_t)seen.end};
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            mbarrier_arrive(shared_address(&desk.q_full[slot]));
        }
        if (!job.more) {
            break;
        }
    }
}

#endif
