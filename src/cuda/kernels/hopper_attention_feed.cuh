/* What goes before the consumers: a thread that asks for tiles, and one, the producer, that has Q, K and V copied. */
#ifndef WEFT_CUDA_KERNELS_HOPPER_ATTENTION_FEED_CUH
#define WEFT_CUDA_KERNELS_HOPPER_ATTENTION_FEED_CUH

#include "cuda/kernels/hopper_attention_shape.cuh"

/* Asks for tiles, one ahead of the producer. An answer takes hundreds of clocks, and its place among batches, heads and
 * blocks some more, while the producer has blocks to copy. */
template <class S> struct hopper_asker {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;

    /* Has K and V of the tile fetched into the L2. Where all tiles of a head see all keys, each does its part; under a
     * causal mask the last one, which sees the most and is the first to be visited, does it for all. */
    __device__ __forceinline__ void fetch(const hopper_job &job) const {
        const int block = job.block, blocks = (int)p.walk.cols;
        int from = 0, to = job.steps;
        if (!p.walk.reach.causal) {
            from = block * job.steps / blocks;
            to = (block + 1) * job.steps / blocks;
        } else if (block < blocks - 1) {
            return;
        }
#pragma unroll 1
        for (int step = from; step < to; step++) {
#pragma unroll 1
            for (int box = 0; box < S::boxes; box++) {
                tma_fetch_4d(&p.k, box * 64, step * S::keys, job.kv_head, job.batch);
                tma_fetch_4d(&p.v, box * 64, step * S::keys, job.kv_head, job.batch);
            }
        }
    }

    /* The last CTA leaves the counters as the launch found them, so that the next one needs no order to zero them. */
    __device__ __forceinline__ void leave_zero() const {
        unsigned long long *counters = (unsigned long long *)p.counter;
        __threadfence(); /* after what this CTA counted */
        if (atomicAdd(&counters[WEFT_HOPPER_DONE], 1ull) == gridDim.x - 1) {
            for (int i = 0; i < WEFT_HOPPER_COUNTERS; i++) {
                counters[i] = 0;
            }
        }
    }

    /* The next tile, if there is one. */
    __device__ __forceinline__ int place(hopper_job &job) const {
        weft_worker worker = desk.worker;
        weft_visit visit = {};
        job.more = weft_worker_next(&p.walk, &worker, &visit);
        desk.worker = worker;
        job.batch = (int)visit.tile.batch;
        job.head = (int)visit.tile.head;
        job.kv_head = (int)weft_divide(job.head, &p.by_kv_group);
        job.block = (int)visit.tile.block;
        job.row = job.block * (S::tile_m >> p.pack_bits);
        job.steps = (int)visit.steps;
        job.downward = visit.direction < 0;
        return job.more;
    }

    __device__ __forceinline__ void run() {
        desk.worker = weft_worker_start(&p.walk, p.worker_of_sm ? p.worker_of_sm[sm_index()] : blockIdx.x, p.counter);
        int more = 1;
        for (uint32_t tile = 0; more; tile++) {
            hopper_job &job = desk.jobs[tile % HOPPER_JOBS];
            mbarrier_wait(shared_address(&desk.job_taken), tile % 2 ^ 1);
            more = place(job);
            mbarrier_arrive(shared_address(&desk.job_told));
            if (p.early && more) {
                fetch(job);
            }
        }
        if (p.counter) {
            leave_zero();
        }
    }
};

template <class S> struct hopper_producer {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;
    uint32_t base; /* shared address of Q, and of the rings behind it */
    hopper_slot<S::stages> k_slot, v_slot;
    int batch, kv_head; /* of the tile at hand */
    int step, left;     /* its next block of V, and how many are left with that one */
    int direction;
    uint32_t tiles; /* started so far */

    __device__ __forceinline__ hopper_producer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                               uint32_t address)
        : p(params), desk(shared), base(address), left(0), tiles(0) {
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
    }

    /* The first K of a tile, its Q, and what follows. There may be room for K before there is for Q. */
    __device__ __forceinline__ void start(const hopper_job &job) {
        const uint32_t slot = tiles % S::q_slots, full = shared_address(&desk.q_full[slot]);
        batch = job.batch;
        kv_head = job.kv_head;
        left = job.steps;
        step = job.downward ? left - 1 : 0;
        direction = job.downward ? -1 : 1;
        if (left > 0) {
            block_of_k(step);
        }
        mbarrier_wait(shared_address(&desk.q_empty[slot]), tiles / S::q_slots % 2 ^ 1);
        if (left > 0) {
            mbarrier_expect(full, S::q_bytes);
#pragma unroll 1
            for (int box = 0; box < S::boxes; box++) {
                tma_load_5d(base + slot * S::q_bytes + box * S::q_box, &p.q, full, box * 64, 0, job.row, job.head, batch,
                            WEFT_KEEP_FIRST);
            }
        } else {
            mbarrier_arrive(full); /* no keys, or no tile */
        }
        tiles++;
    }

    /* Blocks go in the order in which they are used. */
    __device__ __forceinline__ void run() {
        for (int more = 1; more;) {
            mbarrier_wait(shared_address(&desk.job_told), tiles % 2);
            const hopper_job job = desk.jobs[tiles % HOPPER_JOBS];
            mbarrier_arrive(shared_address(&desk.job_taken));
            more = job.more;
            start(job);
            while (left > 0) {
                next_blocks();
            }
        }
    }
};

#endif
