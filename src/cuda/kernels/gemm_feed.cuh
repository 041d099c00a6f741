/* The warps that do not multiply: one asks for tiles, one loads them. */
#ifndef WEFT_CUDA_KERNELS_GEMM_FEED_CUH
#define WEFT_CUDA_KERNELS_GEMM_FEED_CUH

#include "cuda/kernels/gemm_shape.cuh"
#include "cuda/ptx/thread.cuh"

/* Sends four numbers to shared memory of the cluster; they count as bytes at the barrier, which lies in the same CTA. Only
 * in a cluster: alone, a CTA may not. */
static __device__ __forceinline__ void gemm_send(uint32_t to, uint32_t barrier, const int32_t *from) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(barrier)
                 : "memory");
}

/* The same within the CTA; the barrier is told afterwards. */
static __device__ __forceinline__ void gemm_put(uint32_t to, const int32_t *from) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]),
                 "r"(from[3])
                 : "memory");
}

/* Which of A and B the next wave reads again, as bits: 1, A; 2, B. All workers of a wave have the same answer. */
static __device__ __forceinline__ int32_t gemm_again(const weft_gemm_params &p, int64_t wave) {
    return p.band_waves != 0 && (uint32_t)(wave + 1) % (uint32_t)p.band_waves != 0 ? p.wave_again : 0;
}

/* The next job of the walk; no steps when it is over. */
template <class S> static __device__ __forceinline__ gemm_job gemm_next(const weft_gemm_params &p, weft_worker &worker) {
    weft_visit visit;
    gemm_job job = {};
    worker.counter = p.counter; /* which need not be kept in registers */
    if (WEFT_GEMM_LEAN(S::tile_m, S::tile_n)) {
        worker.side = -1; /* likewise: only tickets need it */
    }
    if (weft_worker_next(&p.walk, &worker, &visit)) {
        job.row = (int32_t)(p.swapped ? visit.tile.n : visit.tile.m);
        job.col = (int32_t)(p.swapped ? visit.tile.m : visit.tile.n);
        job.batch = (int32_t)visit.tile.batch;
        job.first = (int32_t)visit.first;
        job.direction = visit.direction;
        job.steps = (int32_t)visit.steps;
        job.again = gemm_again(p, worker.turn);
    }
    return job;
}

/* Waits until all workers have loaded nearly all of their tiles of the wave before, so that what one reads is still there
 * for the others. `target` tiles are that. Whoever waits in vain goes on alone: another kernel may hold the SMs that the
 * others need. */
static __device__ __forceinline__ bool gemm_fall_in(const uint32_t *begun, uint32_t target) {
#pragma unroll 1
    for (int i = 0; i < GEMM_PATIENCE; i++) {
        uint32_t now;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(begun) : "memory");
        if (now >= target) {
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
        gemm_put(slot, &job.row);
        gemm_put(slot + 16, &job.direction);
        mbarrier_arrive(slot_full);
        return;
    }
    for (uint32_t cta = 0; cta < me.ctas; cta++) {
        const uint32_t to = cluster_address(slot, cta), full = cluster_address(slot_full, cta);
        gemm_send(to, full, &job.row);
        gemm_send(to + 16, full, &job.direction);
    }
}

/* Walks the schedule for the whole cluster, as far ahead as there is room for jobs. One thread of the first CTA; `first` is
 * the first job, or has no steps: then it is still to be asked for. Returns how many it sent, the one without steps
 * included. */
template <class S>
static __device__ __forceinline__ uint32_t gemm_schedule(const weft_gemm_params &p, const gemm_place &me,
                                                         weft_worker &worker, const gemm_job &first) {
    uint32_t sent = 0;
    if (first.steps != 0) {
        gemm_hand_out<S>(me, first, sent++);
    }
    for (;; sent++) {
        mbarrier_wait(GEMM_DESK(S, me, job_empty) + 8 * (sent % GEMM_JOBS), ~sent / GEMM_JOBS & 1);
        const gemm_job job = gemm_next<S>(p, worker);
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

/* The next job after those `taken`, read by a whole warp, of which one lane then gives the slot back. In a cluster one warp
 * of the CTA, which `arms`, makes the barrier wait for the bytes of the slot's next job before that. */
template <class S> static __device__ __forceinline__ gemm_job gemm_take(const gemm_place &me, uint32_t &taken, bool arms) {
    gemm_job job;
    const uint32_t at = taken % GEMM_JOBS;
    mbarrier_wait(GEMM_DESK(S, me, job_full) + 8 * at, taken / GEMM_JOBS & 1);
    const uint32_t from = GEMM_DESK(S, me, jobs) + (uint32_t)sizeof(gemm_job) * at;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(job.row), "=r"(job.col), "=r"(job.batch), "=r"(job.first)
                 : "r"(from)
                 : "memory");
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(job.direction), "=r"(job.steps) : "r"(from + 16) : "memory");
    if (arms) {
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(job.again) : "r"(from + 24) : "memory");
    }
    __syncwarp();
    const bool elected = elect_one();
    if (arms && elected && me.ctas > 1) {
        mbarrier_expect(GEMM_DESK(S, me, job_full) + 8 * at, sizeof(gemm_job));
    }
    mbarrier_give_back_at(GEMM_DESK(S, me, job_empty) + 8 * at, 0, elected);
    taken++;
    return job;
}

/* Loads one box of A or B: for this CTA, or for all those that share it, whose bits are in `sharers`. */
template <bool MN>
static __device__ __forceinline__ void gemm_load(uint32_t to, const weft_tensor_map *map, uint32_t full, uint32_t sharers,
                                                 int32_t mn, int32_t k, int32_t batch, uint64_t keep) {
    const int32_t x = MN ? mn : k, y = MN ? k : mn;
    if (sharers) {
        tma_multicast_3d(to, map, full, (uint16_t)sharers, x, y, batch, keep);
    } else {
        tma_load_3d(to, map, full, x, y, batch, keep);
    }
}

/* Keeps the ring full, tile after tile without a break. A whole warp, of which one lane asks the copy engine. CTAs that
 * share A or B take turns at its boxes and load them for all. Nothing is loaded before the launches before this one are
 * over; the first job is known by then. At the end it waits until the stages are free, since others of the cluster arrive
 * at their barriers. */
template <class S> static __device__ __forceinline__ void gemm_feed(const weft_gemm_params &p, const gemm_place &me) {
    uint32_t jobs = 0;
    gemm_turn<S::stages> turn = {0, 1};
    const uint32_t along_m = (uint32_t)p.cluster_m, along_n = (uint32_t)p.cluster_n;
    const uint32_t a_rows = (uint32_t)p.a_rows, b_rows = (uint32_t)p.b_rows;
    uint32_t column = 0; /* the CTAs of this one's column */
    for (uint32_t i = 0; i < along_m; i++) {
        column |= 1u << (me.first + i * along_n + me.in_n);
    }
    const uint32_t a_sharers = along_n > 1 ? ((1u << along_n) - 1) << (me.first + me.in_m * along_n) : 0;
    const uint32_t b_sharers = along_m > 1 ? column : 0;
    bool patient = p.begun && me.rank == 0;
    uint32_t target = 0;
    grid_wait();
    for (;;) {
        const gemm_job job = gemm_take<S>(me, jobs, true);
        if (job.steps == 0) {
            break;
        }
        if (patient) {
            patient = gemm_fall_in(p.begun, target);
            target += (uint32_t)p.walk.workers;
        }
        const int32_t row = (job.row + (int32_t)me.in_m) * S::tile_m, col = (job.col + (int32_t)me.in_n) * S::tile_n;
        const gemm_share share = gemm_share_of<S>(p, me, job.steps);
        const uint64_t a_keep = job.again & 1 ? p.again_keep : p.a_keep, b_keep = job.again & 2 ? p.again_keep : p.b_keep;
        const int32_t nearly = p.begun && me.rank == 0 ? (share.steps > p.lead ? share.steps - p.lead : 0) : -1;
        int32_t k = (job.first + job.direction * share.begin) * WEFT_GEMM_STEP;
        for (int32_t i = 0; i < share.steps; i++, k += job.direction * WEFT_GEMM_STEP, turn.next()) {
            const uint32_t full = GEMM_DESK(S, me, full) + 8 * turn.at;
            mbarrier_wait(GEMM_DESK(S, me, empty) + 8 * turn.at, turn.parity);
            if (elect_one()) {
                const uint32_t stage = me.base + turn.at * S::stage_bytes;
                if (i == nearly) {
                    atomicAdd(p.begun, 1u);
                }
                mbarrier_expect(full, S::stage_bytes);
                for (uint32_t r = me.in_n * a_rows; r < S::tile_m; r += along_n * a_rows) {
                    gemm_load<S::a_mn>(stage + r * 128, &p.a, full, a_sharers, row + (int32_t)r, k, job.batch, a_keep);
                }
                for (uint32_t r = me.in_m * b_rows; r < S::tile_n; r += along_m * b_rows) {
                    gemm_load<S::b_mn>(stage + (S::tile_m + r) * 128, &p.b, full, b_sharers, col + (int32_t)r, k, job.batch,
                                       b_keep);
                }
            }
            __syncwarp();
        }
    }
    for (int i = 0; i < S::stages; i++, turn.next()) {
        mbarrier_wait(GEMM_DESK(S, me, empty) + 8 * turn.at, turn.parity);
    }
}

#endif
