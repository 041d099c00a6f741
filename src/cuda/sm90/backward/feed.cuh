/* Who asks for tiles and has K, V, Q and dO copied: one thread, the producer. And who adds dQ to memory: a thread for each
 * warpgroup. */
#ifndef WEFT_CUDA_SM90_BACKWARD_FEED_CUH
#define WEFT_CUDA_SM90_BACKWARD_FEED_CUH

#include "cuda/sm90/backward/shape.cuh"

/* A visit, as the others are told of it. */
template <class S>
static __device__ __forceinline__ backward_job backward_job_of(const weft_hopper_backward_params &p,
                                                               const weft_visit &visit) {
    const int begin = (int)visit.first, steps = (int)visit.steps, number = (int)visit.tile.block;
    const int tiles = (int)p.walk.cols;
    const int first = p.causal ? begin : (int)((uint32_t)(number * steps) / (uint32_t)tiles);
    return {1,     (int)visit.tile.batch, (int)visit.tile.head, number, number * S::keys, steps, begin, begin + steps,
            first, (int)visit.full_begin, (int)visit.full_end};
}

/* The worker's next tile. The worker is in shared memory, to leave the thread's few registers alone. */
template <class S>
static __device__ __forceinline__ backward_job backward_next_job(const weft_hopper_backward_params &p,
                                                                 backward_desk<S> &desk) {
    weft_worker worker = desk.worker;
    weft_visit visit = {};
    const weft_deal deal = {p.walk.workers, -1, WEFT_REACH_ANY};
    const int more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
    desk.worker = worker;
    return more ? backward_job_of<S>(p, visit) : backward_job();
}

template <class S>
static __device__ __forceinline__ void backward_load(uint32_t to, uint32_t box_bytes, const weft_tensor_map &map,
                                                     uint32_t barrier, int row, int head, int batch) {
#pragma unroll
    for (int box = 0; box < S::boxes; box++) {
        tma_load_4d(to + box * box_bytes, &map, barrier, box * 64, row, head, batch);
    }
}

template <class S>
static __device__ __forceinline__ void backward_produce(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                        uint32_t base) {
    desk.worker = weft_worker_start_at(&p.walk, blockIdx.x, p.counter);
    backward_slot<S::stages> slot;
    for (uint32_t tiles = 0;; tiles++) {
        const backward_job job = backward_next_job<S>(p, desk);
        const bool more = job.more;
        const uint32_t kv_full = shared_address(&desk.kv_full);
        mbarrier_wait(shared_address(&desk.kv_empty), tiles % 2 ^ 1);
        desk.job = job;
        if (!more) {
            mbarrier_arrive(kv_full);
            return;
        }
        mbarrier_expect(kv_full, 2 * S::kv_bytes);
        backward_load<S>(base + S::k_at, S::kv_box, p.k, kv_full, job.key, job.head, job.batch);
        backward_load<S>(base + S::v_at, S::kv_box, p.v, kv_full, job.key, job.head, job.batch);
        for (backward_course at(job, p.group); at.left > 0; at.next(), slot.next()) {
            const uint32_t full = shared_address(&desk.full[slot.index]),
                           to = base + S::ring_at + slot.index * S::stage_bytes;
            const uint32_t numbers = base + S::numbers_at + slot.index * S::numbers_bytes;
            const int head = job.head * p.group + at.head, row = at.block * S::queries;
            const int64_t line = backward_block(p, job, at) * S::queries;
            mbarrier_wait(shared_address(&desk.empty[slot.index]), slot.parity ^ 1);
            const int last = p.kv_seq - 1 - job.key;
            desk.steps[slot.index] = {at.left > 1,
                                      at.block < job.full_begin || at.block >= job.full_end || last < S::keys - 1, last,
                                      row + p.offset - job.key};
            mbarrier_expect(full, 2 * S::q_bytes + S::numbers_bytes);
            backward_load<S>(to, S::q_box, p.q, full, row, head, job.batch);
            bulk_load(numbers, p.log2_sums + line, S::queries * 4, full);
            backward_load<S>(to + S::q_bytes, S::q_box, p.grad_o, full, row, head, job.batch);
            bulk_load(numbers + S::queries * 4, p.deltas + line, S::queries * 4, full);
        }
    }
}

/* How many tiles of keys add to a block of queries before this one. */
template <class S>
static __device__ __forceinline__ uint32_t backward_turn(const weft_hopper_backward_params &p, const backward_job &job,
                                                         int block) {
    const int tiles = (int)p.walk.cols;
    if (p.causal) { /* the later a tile begins the earlier it is there */
        const int last = min((block + 1) * S::queries, p.seq) - 1 + p.offset; /* key that is seen */
        return (uint32_t)(min(last / S::keys, tiles - 1) - job.number);
    }
    const int before =
        (int)((uint32_t)((block + 1) * tiles + job.steps - 1) / (uint32_t)job.steps); /* tiles that begin up to here */
    return (uint32_t)(before - 1 - job.number + (block < job.first ? tiles : 0));
}

/* Adds dQ of every other step to the sums in memory, when it is this tile's turn: one thread those of even numbers, another
 * those of odd ones, so that one goes on while the other waits for its add to be done. */
template <class S>
static __device__ __forceinline__ void backward_add(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                    uint32_t base, uint32_t place) {
    const uint32_t from = base + S::dq_at + place * S::dq_bytes;
    uint32_t steps = 0;
    for (uint32_t tiles = 0;; tiles++) {
        mbarrier_wait_idly(shared_address(&desk.kv_full), tiles % 2);
        const backward_job job = desk.job;
        if (!job.more) {
            return;
        }
        for (backward_course at(job, p.group); at.left > 0; at.next(), steps++) {
            if (steps % 2 != place) {
                continue;
            }
            const int64_t block = backward_block(p, job, at);
            const uint32_t turn = backward_turn<S>(p, job, at.block);
            float *to = p.sums + block * (S::queries * S::depth);
            mbarrier_wait(shared_address(&desk.dq_full[place]), steps / 2 % 2);
            while (turn > 0 && grid_load_acquire(p.turns + block) != turn) {
            }
            if (turn > 0) {
                fence_for_async();
                bulk_add(to, from, S::dq_bytes);
            } else {
                bulk_store(to, from, S::dq_bytes);
            }
            tma_store_commit();
            tma_store_wait_read<0>();
            mbarrier_arrive(shared_address(&desk.dq_empty[place]));
            tma_store_wait<0>();
            fence_for_async();
            grid_add_release(p.turns + block, 1);
        }
        mbarrier_arrive(shared_address(&desk.kv_empty));
    }
}

#endif
