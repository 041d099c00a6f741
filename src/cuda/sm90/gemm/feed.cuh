/* SPDX-License-Identifier: Apache-2.0 */
/* The warps that do not multiply: one asks for tiles, one loads them. */
#ifndef WEFT_CUDA_SM90_GEMM_FEED_CUH
#define WEFT_CUDA_SM90_GEMM_FEED_CUH

#include "cuda/ptx/thread.cuh"
#include "cuda/sm90/gemm/shape.cuh"

/* Which of A and B the next wave reads again, as bits: 1, A; 2, B. All workers of a wave have the same answer. */
static __device__ __forceinline__ int32_t gemm_again(const weft_gemm_params &p, int64_t wave) {
    return p.band_waves != 0 && (uint32_t)(wave + 1) % (uint32_t)p.band_waves != 0 ? p.wave_again : 0;
}

/* Makes a job go forward whose tiles have elements of C in common with others: those at the ends, which begin within C, and
 * their neighbours. Sums depend on the direction, and who stores last is chance. */
template <class S> static __device__ __forceinline__ void gemm_settle_direction(const weft_gemm_params &p, gemm_job &job) {
    const int32_t columns = gemm_columns_of<S>(p);
    const bool rows_meet = !S::grouped && p.last_row % S::tile_m != 0 && (job.row + p.cluster_m) * S::tile_m > p.last_row;
    const bool columns_meet = p.last_col % columns != 0 && (job.col + p.cluster_n) * columns > p.last_col;
    if (job.direction < 0 && (rows_meet || columns_meet)) {
        job.first = 0;
        job.direction = 1;
    }
}

/* The next job of the walk; no steps when it is over. `side` is the worker's where positions are dealt out by side. */
template <class S>
static __device__ __forceinline__ gemm_job gemm_next(const weft_gemm_params &p, weft_worker &worker, int32_t side) {
    weft_visit visit;
    gemm_job job = {};
    worker.counter = p.counter; /* which need not be kept in registers */
    const weft_deal deal = {0, WEFT_GEMM_LEAN(S::tile_m, S::tile_n) ? -1 : side, WEFT_REACH_PREFIX, 0, 0};
    if (weft_worker_next_dealt(&p.walk, &worker, deal, &visit)) {
        job.row = (int32_t)(p.swapped ? visit.tile.n : visit.tile.m);
        job.col = (int32_t)(p.swapped ? visit.tile.m : visit.tile.n);
        job.batch = (int32_t)visit.tile.batch;
        job.first = (int32_t)visit.first;
        job.direction = visit.direction;
        job.steps = (int32_t)visit.steps;
        job.again = gemm_again(p, worker.wave);
        gemm_settle_direction<S>(p, job);
    }
    return job;
}

/* The next job that has rows of a group. */
template <class S>
static __device__ __forceinline__ gemm_job gemm_next_of_groups(const weft_gemm_params &p, weft_worker &worker,
                                                               weft_group_finger &finger) {
    const weft_hopper_grouped_params &all = gemm_grouped(p);
    weft_visit visit;
    weft_group_rows rows;
    gemm_job job = {};
    worker.counter = p.counter;
    const weft_deal deal = {0, -1, WEFT_REACH_PREFIX, 0, 0};
    if (weft_groups_next(&p.walk, &all.groups, all.step, &worker, deal, &finger, &visit, &rows)) {
        job.row = rows.first;
        job.col = (int32_t)visit.tile.n;
        job.batch = rows.group;
        job.first = (int32_t)visit.first;
        job.direction = visit.direction;
        job.steps = (int32_t)visit.steps;
        job.left = rows.count;
        gemm_settle_direction<S>(p, job);
    }
    return job;
}

/* Waits until all workers have loaded nearly all of their tiles of the wave before, so that what one reads is still there
 * for the others. `target` tiles are that. Whoever waits in vain goes on alone: another kernel may hold the SMs that the
 * others need. */
static __device__ __forceinline__ bool gemm_fall_in(const uint32_t *begun, uint32_t target) {
#pragma unroll 1
    for (int i = 0; i < GEMM_PATIENCE; i++) {
        if (grid_load_relaxed(begun) >= target) {
            return true;
        }
    }
    return false;
}

/* Hands a job to all CTAs of the cluster, as the one after `sent` others. */
template <class S>
static __device__ __forceinline__ void gemm_hand_out(const gemm_place &me, const gemm_job &job, uint32_t sent) {
    const uint32_t at = sent % GEMM_JOBS;
    const uint32_t slot = GEMM_DESK(S, me, jobs) + (uint32_t)sizeof(gemm_job) * at;
    const uint32_t slot_full = GEMM_DESK(S, me, job_full) + 8 * at;
    if (me.ctas == 1) {
        shared_store(slot, {job.row, job.col, job.batch, job.first});
        shared_store(slot + 16, {job.direction, job.steps, job.again, job.left});
        mbarrier_arrive(slot_full);
        return;
    }
    for (uint32_t cta = 0; cta < me.ctas; cta++) {
        const uint32_t to = cluster_address(slot, cta), full = cluster_address(slot_full, cta);
        cluster_send(to, full, {job.row, job.col, job.batch, job.first});
        cluster_send(to + 16, full, {job.direction, job.steps, job.again, job.left});
    }
}

/* Walks the schedule for the whole cluster, the worker `index`, as far ahead as there is room for jobs. One thread of the
 * first CTA. Only what reads memory waits for the launches before. Returns how many jobs it sent, the one without steps
 * included. */
template <class S>
static __device__ __forceinline__ uint32_t gemm_schedule(const weft_gemm_params &p, const gemm_place &me, uint32_t index) {
    weft_worker worker;
    uint32_t sent = 0;
    int32_t side = -1;
    [[maybe_unused]] weft_group_finger finger = {0, 0};
    if (index < (uint32_t)p.first.count) {
        worker = weft_first_worker(index); /* everybody knows its first tile */
    } else {
        if (S::grouped || p.counter || p.walk.order.table) {
            grid_wait();
        }
        side = p.side_of_sm ? p.side_of_sm[sm_index()] : -1;
        worker =
            side < 0 ? weft_worker_start(&p.walk, index, p.counter) : weft_worker_start_by_side(&p.walk, side, p.counter);
    }
    for (;; sent++) {
        mbarrier_wait(GEMM_DESK(S, me, job_empty) + 8 * (sent % GEMM_JOBS), ~sent / GEMM_JOBS & 1);
        gemm_job job;
        if constexpr (S::grouped) {
            job = gemm_next_of_groups<S>(p, worker, finger);
        } else {
            job = gemm_next<S>(p, worker, side);
        }
        sent = settled(sent); /* nothing that follows from it is kept in registers meanwhile */
        gemm_hand_out<S>(me, job, sent);
        if (job.steps == 0) {
            return settled(sent + 1);
        }
    }
}

/* Waits until all CTAs have given back all jobs: the first CTA stays until nobody will arrive at its barriers any more. */
template <class S> static __device__ __forceinline__ void gemm_see_off(const gemm_place &me, uint32_t sent) {
    for (uint32_t i = 0; i < GEMM_JOBS; i++, sent++) {
        mbarrier_wait(GEMM_DESK(S, me, job_empty) + 8 * (sent % GEMM_JOBS), ~sent / GEMM_JOBS & 1);
    }
}

/* Who takes a job. In a cluster the warp that loads A makes the barrier wait for the bytes of the slot's next job. */
enum gemm_taker { GEMM_MULTIPLIES, GEMM_LOADS_A, GEMM_LOADS_B };

/* The next job after those `taken`, read by a whole warp, of which one lane then gives the slot back. */
template <class S, gemm_taker WHO>
static __device__ __forceinline__ gemm_job gemm_take(const gemm_place &me, uint32_t &taken) {
    gemm_job job;
    const uint32_t at = taken % GEMM_JOBS;
    mbarrier_wait(GEMM_DESK(S, me, job_full) + 8 * at, taken / GEMM_JOBS & 1);
    const uint32_t from = GEMM_DESK(S, me, jobs) + (uint32_t)sizeof(gemm_job) * at;
    int32_t where[4], sweep[2], again[1];
    shared_load(from, where);
    job.row = where[0];
    job.col = where[1];
    job.batch = where[2];
    job.first = where[3];
    shared_load(from + 16, sweep);
    job.direction = sweep[0];
    job.steps = sweep[1];
    if (WHO != GEMM_MULTIPLIES) {
        shared_load(from + 24, again);
        job.again = again[0];
    } else if (S::grouped) {
        shared_load(from + 28, again);
        job.left = again[0];
    }
    __syncwarp();
    const bool elected = elect_one();
    if (WHO == GEMM_LOADS_A && elected && me.ctas > 1) {
        mbarrier_expect(GEMM_DESK(S, me, job_full) + 8 * at, sizeof(gemm_job));
    }
    mbarrier_give_back_at(GEMM_DESK(S, me, job_empty) + 8 * at, 0, elected);
    taken++;
    return job;
}

/* The first job of the worker `index`, where it is known without the order. */
static __device__ __forceinline__ gemm_job gemm_first(const weft_gemm_params &p, uint32_t index) {
    gemm_job job = {};
    weft_first_position(&p.first, (int32_t)index, &job.row, &job.col);
    job.row *= p.cluster_m;
    job.col *= p.cluster_n;
    job.direction = 1;
    job.steps = p.first.steps;
    job.again = p.band_waves > 1 ? p.wave_again : 0;
    return job;
}

/* The first job of this cluster: everybody works it out, or takes it from the one who walks the schedule. */
template <class S, gemm_taker WHO>
static __device__ __forceinline__ gemm_job gemm_first_or_take(const weft_gemm_params &p, const gemm_place &me,
                                                              uint32_t &taken) {
    const uint32_t index = cluster_index();
    return index < (uint32_t)p.first.count ? gemm_first(p, index) : gemm_take<S, WHO>(me, taken);
}

/* Loads one box of A or B: for this CTA, or for all those that share it, whose bits are in `sharers`. */
static __device__ __forceinline__ void gemm_load(uint32_t to, const weft_tensor_map *map, uint32_t full, uint32_t sharers,
                                                 int32_t x, int32_t y, int32_t batch, uint64_t keep) {
    if (sharers) {
        tma_multicast_3d(to, map, full, (uint16_t)sharers, x, y, batch, keep);
    } else {
        tma_load_3d(to, map, full, x, y, batch, keep);
    }
}

/* What a CTA loads of A or B in a step: its share of the boxes. */
struct gemm_boxes {
    uint32_t first, apart; /* rows of A or columns of B: where its first box is in the tile, and how far on the next */
    uint32_t sharers;      /* the CTAs that it loads for, as bits; 0: for itself */
};

template <gemm_taker WHO>
static __device__ __forceinline__ gemm_boxes gemm_boxes_of(const weft_gemm_params &p, const gemm_place &me) {
    const uint32_t along_m = (uint32_t)p.cluster_m, along_n = (uint32_t)p.cluster_n;
    gemm_boxes boxes = {me.in_n * (uint32_t)p.a_rows, along_n * (uint32_t)p.a_rows, 0};
    if (WHO == GEMM_LOADS_A && along_n > 1) {
        boxes.sharers = ((1u << along_n) - 1) << (me.first + me.in_m * along_n);
    }
    if (WHO == GEMM_LOADS_B) {
        boxes = {me.in_m * (uint32_t)p.b_rows, along_m * (uint32_t)p.b_rows, 0};
        for (uint32_t i = 0; i < along_m && along_m > 1; i++) {
            boxes.sharers |= 1u << (me.first + i * along_n + me.in_n);
        }
    }
    return boxes;
}

/* Where a CTA's boxes of a job lie: the map and its coordinates but for k, which begins `shift` before a multiple of 64. */
struct gemm_source {
    const weft_tensor_map *map;
    int32_t at, z, shift;
};

template <class S, gemm_taker WHO>
static __device__ __forceinline__ gemm_source gemm_source_of(const weft_gemm_params &p, const gemm_place &me,
                                                             const gemm_boxes &boxes, const gemm_job &job) {
    const int32_t first = (int32_t)boxes.first, shift = gemm_shift_of<S>(p, job.row);
    if (WHO == GEMM_LOADS_B) {
        return {&p.b, first + gemm_col_of<S>(p, me, job), job.batch, shift};
    }
    const gemm_rows rows = gemm_rows_of_job<S>(p, me, job);
    return {gemm_map_of_a<S>(p, rows.z), first + gemm_row_of<S>(p, rows), rows.z, shift};
}

/* Keeps the ring full of A or of B, tile after tile without a break. A whole warp, of which one lane asks the copy engine;
 * a warp for each, since what a step costs here is what limits small tiles. CTAs that share A or B take turns at its boxes
 * and load them for all. Nothing is loaded before the launches before this one are over; the first job is known by then. At
 * the end the warp of A waits until the stages are free, since others of the cluster arrive at their barriers. */
template <class S, gemm_taker WHO>
static __device__ __forceinline__ void gemm_feed(const weft_gemm_params &p, const gemm_place &me) {
    constexpr bool is_b = WHO == GEMM_LOADS_B, mn = is_b ? S::b_mn : S::a_mn;
    constexpr uint32_t offset = is_b ? S::a_bytes : 0;
    const uint32_t end = (uint32_t)(is_b ? p.b_end : p.a_end);
    const gemm_boxes boxes = gemm_boxes_of<WHO>(p, me);
    const bool single = boxes.first + boxes.apart >= end && boxes.first < end;
    const bool elected = elect_one(), counts = elected && !is_b && p.begun && me.rank == 0;
    uint32_t jobs = 0;
    gemm_ring_slot<S::stages> slot = {0, 1};
    bool patient = !is_b && p.begun && me.rank == 0;
    uint32_t target = 0;
    gemm_job job = gemm_first_or_take<S, WHO>(p, me, jobs);
    for (; job.steps != 0; job = gemm_take<S, WHO>(me, jobs)) {
        gemm_share share = gemm_share_of<S>(p, me, job.steps);
        uint64_t keep = job.again & (is_b ? 2 : 1) ? p.again_keep : is_b ? p.b_keep : p.a_keep;
        gemm_source from = gemm_source_of<S, WHO>(p, me, boxes, job);
        int32_t k = (job.first + job.direction * share.begin) * WEFT_GEMM_STEP - from.shift;
        /* All of that is worked out before the launches before this one are over: it takes 500 clocks. */
        all_settled(share.steps, keep, from.at, from.z, k);
        grid_wait();
        if (patient) {
            patient = gemm_fall_in(p.begun, target);
            target += (uint32_t)p.walk.workers;
        }
#pragma unroll 1
        for (int32_t left = share.steps; left > 0; left--, k += job.direction * WEFT_GEMM_STEP, slot.next()) {
            const uint32_t full = GEMM_DESK(S, me, full) + 8 * slot.at;
            const uint32_t stage = me.base + slot.at * S::stage_bytes + offset + boxes.first * 128;
            mbarrier_wait(GEMM_DESK(S, me, empty) + 8 * slot.at, slot.parity);
            if (elected) {
                mbarrier_expect(full, end * 128);
                if (single) {
                    const int32_t here = from.at + (is_b ? gemm_value_after<S>(p, boxes.first) : 0);
                    gemm_load(stage, from.map, full, boxes.sharers, mn ? here : k, mn ? k : here, from.z, keep);
                } else {
                    for (uint32_t r = 0; boxes.first + r < end; r += boxes.apart) {
                        const int32_t here = from.at + (int32_t)r + (is_b ? gemm_value_after<S>(p, boxes.first + r) : 0);
                        gemm_load(stage + r * 128, from.map, full, boxes.sharers, mn ? here : k, mn ? k : here, from.z,
                                  keep);
                    }
                }
            }
            if (counts && left == (share.steps > p.pace_steps ? p.pace_steps : share.steps)) {
                atomicAdd(p.begun, 1u);
            }
        }
    }
    grid_wait(); /* where there was no job */
    for (int i = 0; i < S::stages && !is_b; i++, slot.next()) {
        mbarrier_wait(GEMM_DESK(S, me, empty) + 8 * slot.at, slot.parity);
    }
}

#endif
