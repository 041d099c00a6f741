/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks for tiles and has K, V, Q and dO copied: one thread, the producer. Who adds dQ to memory: two warps. And, in the
 * general form, who works out which keys queries see: a warp. */
#ifndef WEFT_CUDA_SM90_BACKWARD_FEED_CUH
#define WEFT_CUDA_SM90_BACKWARD_FEED_CUH

#include "cuda/sm90/backward/shape.cuh"

/* A visit, as the others are told of it. */
template <class S>
static __device__ __forceinline__ backward_job backward_job_of(const weft_hopper_backward_params &p,
                                                               const weft_visit &visit) {
    const int number = (int)visit.tile.block, part = (int)visit.tile.head;
    return {1,
            (int)visit.tile.batch,
            part / p.splits,
            part / p.line_parts * p.group,
            number,
            number * S::keys,
            (int)visit.steps,
            (int)visit.first,
            (int)visit.edge,
            (int)visit.wrap,
            visit.direction,
            (int)visit.full_begin,
            (int)visit.full_end};
}

/* General: the same with what counts of it. */
template <class S>
static __device__ __forceinline__ backward_general_job backward_general_job_of(const weft_hopper_backward_params &p,
                                                                               const weft_visit &visit) {
    const weft_sequence sequence = weft_sequence_at(&p.walk.reach.sequences, visit.cut.sequence);
    const weft_rows &rows = visit.cut.rows;
    backward_general_job job;
    (backward_job &)job = backward_job_of<S>(p, visit);
    job.key = (int)rows.begin;
    job.sequence = (int)visit.cut.sequence;
    job.rows = (int)(rows.end - rows.begin);
    job.key_begin = (int)weft_between(sequence.columns.begin - rows.begin, 0, job.rows);
    job.key_end = (int)weft_between(sequence.columns.end - rows.begin, 0, job.rows);
    job.query_begin = (int)sequence.rows.begin;
    job.query_end = (int)sequence.used_end;
    if constexpr (S::pairs) {
        if (p.lists.main) {
            const weft_walk &walk = p.walk;
            const int64_t line = weft_walk_line(&walk, job.batch, visit.tile.row);
            job.first = S::wide ? job.first - job.wrap : walk.comings[line * walk.cols + job.number].first;
            job.steps = 0;
            for (int member = 0; member < p.group; member++) {
                job.steps += backward_list(p, job.batch, job.first_head + member, job.number).count();
            }
        }
    }
    return job;
}

/* The worker's next tile, or the CTA's part of it. The worker is in shared memory, to leave the thread's few registers
 * alone. */
template <class S>
static __device__ __forceinline__ backward_job_of_form<S> backward_next_job(const weft_hopper_backward_params &p,
                                                                            backward_desk<S> &desk) {
    weft_worker worker = desk.worker;
    weft_visit visit = {};
    const weft_deal deal = {p.walk.workers, -1, S::general ? WEFT_REACH_BAND : WEFT_REACH_ANY, 1, (int32_t)cluster_rank()};
    int more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
    if constexpr (S::general) {
        while (more && visit.cut.rows.begin >= visit.cut.rows.end) { /* of a packed batch: without keys */
            more = weft_worker_next_dealt(&p.walk, &worker, deal, &visit);
        }
        desk.worker = worker;
        return more ? backward_general_job_of<S>(p, visit) : backward_general_job();
    } else {
        desk.worker = worker;
        return more ? backward_job_of<S>(p, visit) : backward_job();
    }
}

/* Starts the worker, before the CTA's threads meet. Plain: with its first tile, where the plan says which that is. What the
 * general form visits also depends on what a run brings, such as a tree, and on its band, which a plan need not have. */
template <class S>
static __device__ __forceinline__ void backward_start(const weft_hopper_backward_params &p, backward_desk<S> &desk) {
    const int64_t number =
        p.side_of_sm ? weft_worker_by_side(&p.walk, p.side_of_sm[sm_index()], p.counter) : (int64_t)cluster_index();
    desk.worker = weft_worker_start_at(&p.walk, number, p.counter);
    desk.job[0].more = 0;
    if constexpr (!S::general) {
        if (p.walk.firsts && number < weft_smaller(p.walk.workers, p.walk.order.count)) {
            desk.job[0] = backward_job_of<S>(p, p.walk.firsts[number * p.splits + cluster_rank()]);
            desk.worker.visits = 1;
        }
    }
}

/* A step, as consumers are told of it. */
template <class S, class COURSE>
static __device__ __forceinline__ backward_step_of_form<S>
backward_step_at(const weft_hopper_backward_params &p, const backward_job_of_form<S> &job, const COURSE &at) {
    const int row = at.block * S::queries;
    const int flags = (at.left > 1 ? BACKWARD_MORE : 0) | (S::ragged && p.seq - row < S::queries ? BACKWARD_LACKS : 0);
    const bool part = at.block < job.full_begin || at.block >= job.full_end || at.bits_at >= 0;
    if constexpr (S::general) {
        const backward_general_step step = {flags, part || job.rows < S::keys,
                                            min(max(job.query_begin - row, 0), S::queries),
                                            min(max(job.query_end - row, 0), S::queries)};
        if constexpr (S::full) {
            return {step, row, job.key, job.first_head + at.head, job.batch};
        } else {
            return step;
        }
    } else {
        const int last = p.kv_seq - 1 - job.key;
        return {flags, part || last < S::keys - 1, last, row + p.offset - job.key};
    }
}

template <int BOXES>
static __device__ __forceinline__ void backward_load(uint32_t to, uint32_t box_bytes, const weft_tensor_map &map,
                                                     uint32_t barrier, int row, int head, int batch) {
#pragma unroll
    for (int box = 0; box < BOXES; box++) {
        tma_load_4d(to + box * box_bytes, &map, barrier, box * 64, row, head, batch);
    }
}

/* Whether a worker may take its next tile when all adds of the one at hand have been made only: that one may be waiting for
 * adds of tiles that were not given out yet, and whoever is given one must begin it. */
static __device__ __forceinline__ bool backward_takes_late(const weft_hopper_backward_params &p) {
    return p.walk.dispatch == WEFT_DISPATCH_DYNAMIC && !p.walk.next;
}

/* Where the producer is: the stages of Q, with which steps go, and those of dO. Narrow, a stage has both. */
template <class S> struct backward_rings {
    const weft_hopper_backward_params &p;
    backward_desk<S> &desk;
    uint32_t base;
    backward_notes<S> notes;
    int lacked; /* 0 to begin with; BACKWARD_LACKED: the step before had a block that lacks queries */
    backward_slot<S::stages> slot;

    /* Has Q, dO and numbers of a step copied. */
    template <class COURSE> __device__ __forceinline__ void feed(const backward_job_of_form<S> &job, const COURSE &at) {
        const uint32_t full = shared_address(&desk.full[slot.index]), to = base + S::ring_at + slot.index * S::stage_bytes;
        const uint32_t numbers = base + S::numbers_at + slot.index * S::numbers_bytes;
        const int head = job.first_head + at.head, row = at.block * S::queries;
        mbarrier_wait(shared_address(&desk.empty[slot.index]), slot.parity ^ 1);
        backward_step_of_form<S> step = backward_step_at<S>(p, job, at);
        step.flags |= lacked;
        lacked = step.flags & BACKWARD_LACKS ? BACKWARD_LACKED : 0;
        desk.steps[slot.index] = step;
        mbarrier_expect(full, 2 * S::q_bytes + S::numbers_bytes);
        backward_load<S::boxes>(to, S::q_box, p.q, full, row, head, job.batch);
        notes.template load<0>(job.batch, head, at.block, numbers, full);
        backward_load<S::boxes>(to + S::q_bytes, S::q_box, p.grad_o, full, row, head, job.batch);
        notes.template load<1>(job.batch, head, at.block, numbers + S::queries * 4, full);
        slot.next();
    }
};

template <class S> struct backward_wide_rings {
    const weft_hopper_backward_params &p;
    backward_desk<S> &desk;
    uint32_t base;
    backward_notes<S> notes;
    backward_slot<S::stages> slot;
    backward_slot<S::o_stages> o_slot;

    template <class COURSE> __device__ __forceinline__ void feed(const backward_job_of_form<S> &job, const COURSE &at) {
        const uint32_t full = shared_address(&desk.full[slot.index]);
        const uint32_t o_full = shared_address(&desk.links.o_full[o_slot.index]);
        const int head = job.first_head + at.head, row = at.block * S::queries;
        mbarrier_wait(shared_address(&desk.empty[slot.index]), slot.parity ^ 1);
        desk.steps[slot.index] = backward_step_at<S>(p, job, at);
        mbarrier_expect(full, S::q_bytes + S::numbers_bytes);
        backward_load<S::boxes>(base + S::ring_at + slot.index * S::q_bytes, S::q_box, p.q, full, row, head, job.batch);
        notes.template load<0>(job.batch, head, at.block, base + S::numbers_at + slot.index * S::numbers_bytes, full);
        mbarrier_wait(shared_address(&desk.links.o_empty[o_slot.index]), o_slot.parity ^ 1);
        mbarrier_expect(o_full, S::o_bytes + S::numbers_bytes);
        backward_load<S::boxes_v>(base + S::o_ring_at + o_slot.index * S::o_bytes, S::q_box, p.grad_o, o_full, row, head,
                                  job.batch);
        notes.template load<1>(job.batch, head, at.block, base + S::deltas_at + o_slot.index * S::numbers_bytes, o_full);
        slot.next();
        o_slot.next();
    }
};

template <class S>
static __device__ __forceinline__ void backward_produce(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                        uint32_t base) {
    std::conditional_t<S::wide, backward_wide_rings<S>, backward_rings<S>> rings = {p, desk, base, p};
    for (uint32_t tiles = 0;; tiles++) {
        if constexpr (!S::wide) {
            if (tiles > 0 && backward_takes_late(p)) {
                mbarrier_wait(shared_address(&desk.links.job_done), (tiles - 1) % 2);
            }
        }
        const uint32_t kv_full = shared_address(&desk.kv_full);
        if (tiles > 0 || !desk.job[0].more) { /* else backward_start() has found it */
            const backward_job_of_form<S> next = backward_next_job<S>(p, desk);
            mbarrier_wait(shared_address(&desk.kv_empty), tiles % 2 ^ 1);
            if constexpr (S::watchers > 0) {
                mbarrier_wait(shared_address(&desk.job_seen), tiles % 2 ^ 1);
            }
            desk.job[tiles % 2] = next;
        }
        const backward_job_of_form<S> &job = desk.job[tiles % 2];
        if (!job.more) {
            mbarrier_arrive(kv_full);
            return;
        }
        mbarrier_expect(kv_full, S::kv_bytes + S::v_bytes);
        backward_load<S::boxes>(base + S::k_at, S::kv_box, p.k, kv_full, job.key, job.head, job.batch);
        backward_load<S::boxes_v>(base + S::v_at, S::kv_box, p.v, kv_full, job.key, job.head, job.batch);
        if (tiles == 0) {
            grid_wait(); /* what follows needs what `begin` writes */
        }
        if (backward_is_listed<S>(p)) {
            for (backward_listed_course at(p, job); at.left > 0; at.next()) {
                rings.feed(job, at);
            }
            continue;
        }
        for (backward_course at(p, job); at.left > 0; at.next()) {
            rings.feed(job, at);
        }
    }
}

/* For watchers: waits for a tile's job. No lane reads the one before any more, and none misses this one.
 */
template <class S> static __device__ __forceinline__ void backward_await_job(backward_desk<S> &desk, uint32_t tiles) {
    mbarrier_wait_idly(shared_address(&desk.kv_full), tiles % 2);
    __syncwarp();
    mbarrier_arrive_warp(shared_address(&desk.job_seen));
}

/* Pairs: the bits of a step, whose first query is `row`. */
static __device__ __forceinline__ backward_bits backward_bits_of(const weft_hopper_backward_params &p,
                                                                 const backward_general_job &job,
                                                                 const weft_sequence &sequence, int32_t bits_at, int row) {
    const weft_blocks &blocks = p.walk.reach.blocks;
    backward_bits bits = {};
    bits.last = p.seq - 1 - row;
    if (bits_at >= 0) {
        const uint32_t columns = (uint32_t)blocks.columns;
        bits.words = weft_blocks_words(&blocks, bits_at, row, job.key);
        bits.stride = (int)(columns / 32);
        bits.last_word = (int)((columns - (uint32_t)job.key % columns) / 32) - 1;
    }
    if (blocks.pairs.tree) {
        bits.tree = blocks.pairs.tree + (int64_t)job.batch * p.seq + row;
        bits.tree_at = (int)(job.key - weft_tree_begin(&sequence));
    }
    return bits;
}

/* General: a warp works out which of a tile's keys the queries of each step see, where some do not see some, and by how
 * much scores fall. */
template <class S, class COURSE>
static __device__ __forceinline__ void backward_look_tile(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                          const backward_general_job &job, backward_slot<S::stages> &slot) {
    const weft_reach &reach = p.walk.reach;
    const int lane = (int)threadIdx.x % 32;
    const weft_sequence sequence = weft_sequence_at(&reach.sequences, job.sequence);
    const int64_t away = weft_band_position(&reach.band, &sequence, 0) + sequence.columns.begin - job.key;
    for (COURSE at(p, job); at.left > 0; at.next(), slot.next()) {
        const bool hides = backward_step_at<S>(p, job, at).hides;
        mbarrier_wait(shared_address(&desk.empty[slot.index]), slot.parity ^ 1);
        for (int i = lane; hides && i < S::queries; i += 32) {
            const int row = at.block * S::queries + i;
            weft_rows seen = {0, 0};
            if (row >= job.query_begin && row < job.query_end) {
                seen = weft_band_seen(&reach.band, &sequence, row);
            }
            const int begin = (int)weft_between(seen.begin - job.key, 0, S::keys);
            const int end = (int)weft_between(seen.end - job.key, begin, S::keys);
            desk.views.runs[slot.index][i] = (uint16_t)(begin + (end - begin) * 256);
        }
        if (lane == 0) {
            const int64_t slope = job.sequence * p.scores.alibi_stride + job.first_head + at.head;
            desk.views.slope[slot.index] = p.scores.alibi ? (S::full ? 1 : 1.44269504f) * p.scores.alibi[slope] : 0;
            desk.views.away[slot.index] = (float)(away + at.block * S::queries);
        }
        if constexpr (S::pairs) {
            if (lane == 0 && hides) {
                desk.views.bits[slot.index] = backward_bits_of(p, job, sequence, at.bits_at, at.block * S::queries);
            }
        }
        __syncwarp();
        mbarrier_arrive_warp(shared_address(&desk.full[slot.index]));
    }
}

template <class S>
static __device__ __forceinline__ void backward_look(const weft_hopper_backward_params &p, backward_desk<S> &desk) {
    backward_slot<S::stages> slot;
    for (uint32_t tiles = 0;; tiles++) {
        const backward_general_job &job = desk.job[tiles % 2];
        backward_await_job(desk, tiles);
        if (!job.more) {
            return;
        }
        if (backward_is_listed<S>(p)) {
            backward_look_tile<S, backward_listed_course>(p, desk, job, slot);
        } else {
            backward_look_tile<S, backward_course>(p, desk, job, slot);
        }
    }
}

/* The block of a tile's i-th step, for any head. */
static __device__ __forceinline__ int backward_block_at(const backward_job &job, int i) {
    const int block = job.first + i * job.direction, beyond = (block - job.edge) * job.direction;
    return beyond > 0 ? job.wrap + (beyond - 1) * job.direction : block;
}

/* Adds to sums of dQ, or is the first to store them. */
static __device__ __forceinline__ void backward_add_bytes(char *to, uint32_t from, uint32_t bytes, bool first) {
    if (first) {
        bulk_store(to, from, bytes);
    } else {
        bulk_add((float *)to, from, bytes);
    }
}

/* Adds a block of dQ to its sums, when it is this tile's turn. One lane. adder: who adds; number: how many it has added so
 * far; line: the head's number; adds: where the block's are counted. */
template <class S>
static __device__ __forceinline__ void backward_add_block(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                          uint32_t base, uint32_t adder, uint32_t number, int64_t line,
                                                          int block, uint32_t *adds, uint32_t turn) {
    const backward_sums_of_block<S> sums(p, block);
    const uint32_t bytes = S::queries * (uint32_t)p.head_dim * 4; /* columns behind the head dim are no sums */
    char *to = sums.at(line, block);
    const uint32_t from = base + S::dq_at + adder * S::dq_bytes;
    mbarrier_wait(shared_address(&desk.links.dq_full[adder]), number % 2);
    while (turn > 0 && grid_load_acquire(adds) != turn) {
    }
    if (turn > 0) {
        fence_global_for_async();
    }
    if (sums.lacks_rows() || (S::by_queries && bytes < S::dq_bytes)) { /* a warpgroup's are not right behind the other's */
        const uint32_t first = sums.bytes(0), other = sums.bytes(1);
        backward_add_bytes(to, from, first, turn == 0);
        if (other > 0) {
            backward_add_bytes(to + first, from + S::dq_bytes / 2, other, turn == 0);
        }
    } else {
        backward_add_bytes(to, from, bytes, turn == 0);
    }
    tma_store_commit();
    tma_store_wait_read<0>();
    mbarrier_arrive(shared_address(&desk.links.dq_empty[adder]));
    tma_store_wait<0>();
    fence_global_for_async();
    grid_add_release(adds, 1);
}

/* backward_add() for a tile under a block mask: the blocks of its steps come from memory as turns do. */
template <class S>
static __device__ __forceinline__ void backward_add_listed(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                           uint32_t base, uint32_t adder, const backward_job &job,
                                                           uint32_t &steps) {
    constexpr int every = 2;
    const int lane = (int)threadIdx.x % 32;
    const backward_notes<S> notes(p);
    const backward_turn_at turn_at(p, job.number);
    for (int member = 0; member < p.group; member++) {
        const int head = job.first_head + member;
        const int64_t line = (int64_t)job.batch * p.heads + head;
        const backward_list list(p, job.batch, head, job.number);
        const int count = list.count(), first = job.direction < 0 ? count - 1 : job.first % max(count, 1);
        const auto block_from = [&](int i) -> int { /* of this lane: of its steps from the i-th of the tile on */
                                                    const int at = first + min(i + every * lane, count - 1) * job.direction;
                                                    return i < count ? list[at >= count ? at - count : at][0] : 0;
        };
        int i = (int)((steps + adder) % every), blocks = 0, next = block_from(i);
        uint32_t turns = 0, next_turns = *turn_at.in(notes.at(job.batch, head, next));
        for (int mine = 0; i < count; i += every, mine++) {
            if (mine % 32 == 0) {
                blocks = next;
                turns = next_turns;
                next = block_from(i + 32 * every);
                next_turns = *turn_at.in(notes.at(job.batch, head, next));
            }
            const uint32_t turn = __shfl_sync(0xffffffffu, turns, mine % 32);
            const int block = __shfl_sync(0xffffffffu, blocks, mine % 32);
            if (lane == 0) {
                backward_add_block<S>(p, desk, base, adder, (steps + i) / every, line, block,
                                      weft_hopper_backward_adds(&p, notes.at(job.batch, head, block)), turn);
            }
            __syncwarp();
        }
        steps += count;
    }
}

/* A warp adds dQ to the sums in memory. It has every other step: one warp those of even numbers, another those of odd ones,
 * so that one goes on while the other waits for its add to be done. It asks for the turns of 32 of its steps long before
 * the first: while products read shared memory, loads take longer than a step. */
template <class S>
static __device__ __forceinline__ void backward_add(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                    uint32_t base, uint32_t adder) {
    constexpr int every = 2;
    const int lane = (int)threadIdx.x % 32;
    uint32_t steps = 0; /* before the head at hand */
    grid_wait();        /* for what `begin` writes */
    const backward_notes<S> notes(p);
    for (uint32_t tiles = 0;; tiles++) {
        const backward_job &job = desk.job[tiles % 2];
        backward_await_job(desk, tiles);
        if (!job.more) {
            return;
        }
        if (backward_is_listed<S>(p)) {
            backward_add_listed<S>(p, desk, base, adder, job, steps);
        }
        const backward_turn_at turn_at(p, job.number);
        for (int member = 0; !backward_is_listed<S>(p) && member < p.group; member++, steps += job.steps) {
            const int head = job.first_head + member;
            const int64_t line = (int64_t)job.batch * p.heads + head;
            const auto turns_from =
                [&](int i) -> uint32_t { /* of its steps from the i-th of the tile on */
                                         if (i >= job.steps) {
                                             return 0;
                                         }
                                         const int block = backward_block_at(job, min(i + every * lane, job.steps - 1));
                                         return *turn_at.in(notes.at(job.batch, head, block));
            };
            int i = (int)((steps + adder) % every);
            uint32_t turns = 0, next = turns_from(i);
            for (int mine = 0; i < job.steps; i += every, mine++) {
                if (mine % 32 == 0) {
                    turns = next;
                    next = turns_from(i + 32 * every);
                }
                const uint32_t turn = __shfl_sync(0xffffffffu, turns, mine % 32);
                if (lane == 0) { /* it alone waits: who is late would wait for the next but one */
                    const int block = backward_block_at(job, i);
                    backward_add_block<S>(p, desk, base, adder, (steps + i) / every, line, block,
                                          weft_hopper_backward_adds(&p, notes.at(job.batch, head, block)), turn);
                }
                __syncwarp();
            }
        }
        if (lane == 0 && backward_takes_late(p)) {
            mbarrier_arrive(shared_address(&desk.links.job_done));
        }
    }
}

#endif
