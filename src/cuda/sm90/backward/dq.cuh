/* SPDX-License-Identifier: Apache-2.0 */
/* Wide: dQ, in a launch of its own. A CTA has a tile of 128 queries of a head, 64 for each of two warpgroups, and sweeps
 * the keys that they see, 64 at a step.
 *
 *   S = Q K^T, P = exp2(S scale - sums)      dP = dO V^T, dS = P (dP - deltas)      dQ += dS K
 *
 * dS is an operand in the registers that it was computed in, so that nothing goes by way of shared memory. A sum of dQ in
 * memory would be added to for every 64 keys, 64 KB a step at head dim 256: more than the L2 takes beside all else. Two of
 * five products more are faster, and every tile has its dQ to itself.
 *
 * A warpgroup starts dQ of a step and the scores of the next together, and then computes while the other has the tensor
 * cores. */
#ifndef WEFT_CUDA_SM90_BACKWARD_DQ_CUH
#define WEFT_CUDA_SM90_BACKWARD_DQ_CUH

#include "cuda/sm90/backward/clean.cuh"
#include "cuda/sm90/backward/feed.cuh"
#include "cuda/sm90/backward/full.cuh"
#include "cuda/sm90/backward/product.cuh"
#include "cuda/sm90/backward/queries.cuh"
#include "cuda/sm90/backward/store.cuh"

/* W: a backward_wide_shape. */
template <class W> struct backward_dq_shape {
    static constexpr bool general = W::general, full = W::full, pairs = W::pairs, bf16 = W::bf16;
    static constexpr int depth = W::depth, depth_v = W::depth_v, boxes = W::boxes, boxes_v = W::boxes_v;
    static constexpr bool wide = W::wide;
    static constexpr int queries = W::queries; /* of a block, which has notes */
    static constexpr int rows = WEFT_HOPPER_BACKWARD_DQ_QUERIES, keys = WEFT_HOPPER_BACKWARD_DQ_KEYS, groups = rows / 64;
    static constexpr int k_stages = 2, v_stages = WEFT_HOPPER_BACKWARD_V_STAGES(depth);
    static constexpr uint32_t box = 64 * 128; /* bytes of 64 rows of 64 columns, whatever is in them */
    static constexpr uint32_t depth_bytes = boxes * box, depth_v_bytes = boxes_v * box;
    static constexpr uint32_t q_at = 0, o_at = groups * depth_bytes, k_at = o_at + groups * depth_v_bytes,
                              v_at = k_at + k_stages * depth_bytes, bytes = v_at + v_stages * depth_v_bytes;
    static constexpr int kept = general ? 0 : depth > 192 ? 64 : 128, kept_v = 0; /* see backward_product */
    static constexpr int consumer_registers = W::consumer_registers, producer_registers = W::producer_registers;
    static_assert(bytes + WEFT_HOPPER_BACKWARD_DESK == WEFT_HOPPER_BACKWARD_DQ_BYTES(depth, depth_v), "see there");
};

/* A tile of queries and its steps. */
struct backward_dq_job {
    int32_t more;                 /* 0: there is none, and no further one */
    int32_t batch, head;          /* of queries */
    int32_t row, rows;            /* the first query, and how many; what lies behind them is another's, or is not there */
    int32_t first, steps;         /* blocks of keys; under a block mask: of its list */
    int32_t direction;            /* from one to the next */
    int32_t full_begin, full_end; /* blocks full_begin .. full_end - 1 need no mask */
    int32_t sequence;             /* general: that its queries are of */
    int32_t key_begin, key_end;   /* general: keys of it that count */
    int32_t position;             /* general: the first query's among all keys */
};

/* Pairs: a step under a block mask. */
struct backward_dq_step {
    int32_t block;
    int32_t bits_at[2]; /* of the warpgroups' queries */
};

template <class S> struct backward_dq_desk {
    uint64_t q_full, q_empty; /* and dO */
    uint64_t k_full[S::k_stages], k_empty[S::k_stages];
    uint64_t v_full[S::v_stages], v_empty[S::v_stages];
    backward_dq_job job[2]; /* of even tiles and of odd ones */
    std::conditional_t<S::pairs, backward_dq_step[S::k_stages], backward_nothing> steps;

    /* Sets up the barriers. One thread. */
    __device__ __forceinline__ void begin() {
        mbarrier_init(shared_address(&q_full), 1);
        mbarrier_init(shared_address(&q_empty), 4 * S::groups * MBARRIER_WARP);
        for (int i = 0; i < S::k_stages; i++) {
            mbarrier_init(shared_address(&k_full[i]), 1);
            mbarrier_init(shared_address(&k_empty[i]), 4 * S::groups * MBARRIER_WARP);
        }
        for (int i = 0; i < S::v_stages; i++) {
            mbarrier_init(shared_address(&v_full[i]), 1);
            mbarrier_init(shared_address(&v_empty[i]), 4 * S::groups * MBARRIER_WARP);
        }
        mbarrier_init_done();
    }
};

/* The worker's next tile. */
template <class S>
static __device__ __forceinline__ backward_dq_job backward_dq_next(const weft_hopper_backward_params &p,
                                                                   weft_worker &worker) {
    const weft_deal deal = {p.walk.workers, -1, S::general ? WEFT_REACH_BAND : WEFT_REACH_ANY, 0, 0};
    weft_visit visit = {};
    backward_dq_job job = {};
    do {
        if (!weft_worker_next_dealt(&p.walk, &worker, deal, &visit)) {
            return job;
        }
    } while (S::general && visit.cut.rows.begin >= visit.cut.rows.end); /* of a packed batch: without queries */
    job.more = 1;
    job.batch = (int)visit.tile.batch;
    job.head = (int)visit.tile.head;
    job.first = (int)visit.first;
    job.steps = (int)visit.steps;
    job.direction = visit.direction;
    job.full_begin = (int)visit.full_begin;
    job.full_end = (int)visit.full_end;
    if constexpr (S::general) {
        const weft_sequence sequence = weft_sequence_at(&p.walk.reach.sequences, visit.cut.sequence);
        job.row = (int)visit.cut.rows.begin;
        job.rows = (int)(visit.cut.rows.end - visit.cut.rows.begin);
        job.sequence = (int)visit.cut.sequence;
        job.key_begin = (int)sequence.columns.begin;
        job.key_end = (int)sequence.columns.end;
        job.position = (int)(weft_band_position(&p.walk.reach.band, &sequence, job.row) + sequence.columns.begin);
        if constexpr (S::pairs) {
            if (p.lists.queries) {
                job.steps = backward_queries_list(p, job.batch, job.head, job.row / S::rows).count();
                job.first = job.direction < 0 ? job.steps - 1 : 0;
            }
        }
    } else {
        job.row = (int)visit.tile.block * S::rows;
        job.rows = p.seq - job.row;
    }
    return job;
}

/* Asks for tiles and has Q, dO, K and V copied. One thread. */
template <class S>
static __device__ __forceinline__ void backward_dq_produce(const weft_hopper_backward_params &p, backward_dq_desk<S> &desk,
                                                           uint32_t base) {
    weft_worker worker = weft_worker_start_at(&p.walk, blockIdx.x, p.counter);
    backward_slot<S::k_stages> k;
    backward_slot<S::v_stages> v;
    for (uint32_t tiles = 0;; tiles++) {
        const backward_dq_job job = backward_dq_next<S>(p, worker);
        const uint32_t q_full = shared_address(&desk.q_full);
        mbarrier_wait(shared_address(&desk.q_empty), tiles % 2 ^ 1);
        desk.job[tiles % 2] = job;
        if (!job.more) {
            mbarrier_arrive(q_full);
            return;
        }
        mbarrier_expect(q_full, S::groups * (S::depth_bytes + S::depth_v_bytes));
        for (int i = 0; i < S::groups; i++) {
            const int row = job.row + i * 64;
            backward_load<S::boxes>(base + S::q_at + i * S::depth_bytes, S::box, p.q, q_full, row, job.head, job.batch);
            backward_load<S::boxes_v>(base + S::o_at + i * S::depth_v_bytes, S::box, p.grad_o, q_full, row, job.head,
                                      job.batch);
        }
        const int head = job.head / (p.heads / p.kv_heads);
        for (int i = 0, at = job.first; i < job.steps; i++, at += job.direction) {
            const uint32_t k_full = shared_address(&desk.k_full[k.index]), v_full = shared_address(&desk.v_full[v.index]);
            int block = at;
            mbarrier_wait(shared_address(&desk.k_empty[k.index]), k.parity ^ 1);
            if constexpr (S::pairs) {
                if (p.lists.queries) {
                    const int32_t *from = backward_queries_list(p, job.batch, job.head, job.row / S::rows)[at];
                    block = from[0];
                    desk.steps[k.index] = {block, {from[1], from[2]}};
                }
            }
            mbarrier_expect(k_full, S::depth_bytes);
            backward_load<S::boxes>(base + S::k_at + k.index * S::depth_bytes, S::box, p.k, k_full, block * S::keys, head,
                                    job.batch);
            mbarrier_wait(shared_address(&desk.v_empty[v.index]), v.parity ^ 1);
            mbarrier_expect(v_full, S::depth_v_bytes);
            backward_load<S::boxes_v>(base + S::v_at + v.index * S::depth_v_bytes, S::box, p.v, v_full, block * S::keys,
                                      head, job.batch);
            k.next();
            v.next();
        }
    }
}

/* One of the two queries of a thread. */
struct backward_dq_row {
    float log2_sum, delta; /* infinite where it sees no key; full: of a natural logarithm */
    int32_t begin, count;  /* keys that it sees: the first, and how many */
};

template <class S>
static __device__ __forceinline__ backward_dq_row backward_dq_row_at(const weft_hopper_backward_params &p,
                                                                     const backward_dq_job &job, int row) {
    backward_dq_row at = {INFINITY, 0, 0, 0};
    const int query = job.row + row;
    if (row >= job.rows) {
        return at;
    }
    const backward_notes<S> notes(p);
    const weft_hopper_backward_noted noted = notes.at(job.batch, job.head, query / 64);
    const int64_t place = notes.place(noted, query % 64);
    const float *log2_sum = (const float *)(notes.template numbers<0>(noted) + place);
    const float *delta = (const float *)(notes.template numbers<1>(noted) + place);
    at.log2_sum = S::general ? *log2_sum : grid_load(log2_sum);
    at.delta = S::general ? *delta : grid_load(delta);
    if constexpr (S::general) {
        const weft_reach &reach = p.walk.reach;
        const weft_sequence sequence = weft_sequence_at(&reach.sequences, job.sequence);
        const weft_rows seen = weft_band_seen(&reach.band, &sequence, query);
        at.begin = (int)seen.begin;
        at.count = (int)weft_larger(seen.end - seen.begin, 0);
    } else {
        at.count = p.causal ? max(min(p.kv_seq, query + p.offset + 1), 0) : p.kv_seq;
    }
    return at;
}

/* Whether a query of the tile has a gradient other than zero. */
template <class S>
static __device__ __forceinline__ bool backward_dq_counts(const weft_hopper_backward_params &p, const backward_dq_job &job,
                                                          int row) {
    const weft_sequence sequence = weft_sequence_at(&p.walk.reach.sequences, job.sequence);
    return job.row + row >= sequence.rows.begin && job.row + row < sequence.used_end;
}

/* Full: the pairs of a thread, whose rows are queries: which they are. See backward_key_pairs. */
struct backward_query_pairs {
    static constexpr bool by_key = false;
    const backward_dq_job &job;
    int block; /* of keys */
    int first; /* of the tile's queries: the warpgroup's first */

    __device__ __forceinline__ int64_t line(const weft_hopper_backward_params &p) const {
        return (int64_t)job.batch * p.heads + job.head;
    }

    __device__ __forceinline__ const char *bias(const weft_hopper_backward_full &f) const {
        return (const char *)f.bias + job.batch * f.batch_bytes + job.head * f.head_bytes;
    }

    __device__ __forceinline__ int query() const {
        return job.row + first + backward_thread_row();
    }

    __device__ __forceinline__ int key() const {
        return block * WEFT_HOPPER_BACKWARD_DQ_KEYS + backward_thread_column();
    }

    __device__ __forceinline__ float slope(const weft_hopper_backward_params &p) const {
        return p.scores.alibi[job.sequence * p.scores.alibi_stride + job.head];
    }

    __device__ __forceinline__ float away() const {
        return (float)(key() - job.position - first - backward_thread_row());
    }
};

/* As the other, of backward_key_pairs. A block of keys begins at a multiple of 4, so that two lanes have four keys with the
 * same words, of each of their two queries: the first lane works out those of one query, the second those of the other. */
static __device__ __forceinline__ uint32_t backward_dropped(const weft_hopper_backward_params &p,
                                                            const backward_query_pairs &pairs) {
    const weft_hopper_backward_full &f = p.full;
    const int64_t line = pairs.line(p);
    const int odd = (int)thread_index() % 2, query = pairs.query() + odd * 8, key = pairs.key();
    uint32_t mine = 0; /* bit 4 j + i for the i-th of those keys */
#pragma unroll 1
    for (int j = 0; j < 8; j++) {
        const weft_philox w = weft_dropout_words(f.dropout_seed, line, query, key + j * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            mine |= (w.word[i] < f.dropout_limit ? 1u : 0u) << (4 * j + i);
        }
    }
    const uint32_t theirs = __shfl_xor_sync(0xffffffffu, mine, 1), low = 0x33333333u;
    return odd ? (theirs >> 2 & low) | (mine & ~low) : (mine & low) | (theirs << 2 & ~low);
}

/* A warpgroup's way through the keys of a tile. */
template <class S> struct backward_dq_consumer {
    const weft_hopper_backward_params &p;
    backward_dq_desk<S> &desk;
    uint32_t base, group;
    int full_begin, full_end; /* the job's: while products run, shared memory answers late */
    backward_slot<S::k_stages> k;
    backward_slot<S::v_stages> v;
    backward_product<S::bf16, S::depth, S::kept> q_product;     /* Q K^T */
    backward_product<S::bf16, S::depth_v, S::kept_v> o_product; /* dO V^T */

    __device__ __forceinline__ backward_dq_consumer(const weft_hopper_backward_params &params, backward_dq_desk<S> &shared,
                                                    uint32_t address, uint32_t number)
        : p(params), desk(shared), base(address), group(number) {
    }

    __device__ __forceinline__ void release(uint64_t &barrier) const {
        mbarrier_arrive_warp(shared_address(&barrier));
    }

    /* The thread's first, of the tile; its other one is 8 further on. */
    __device__ __forceinline__ uint32_t row_of_thread() const {
        return group * 64 + thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4;
    }

    __device__ __forceinline__ uint32_t q_place() const {
        return base + S::q_at + group * S::depth_bytes;
    }

    __device__ __forceinline__ uint32_t o_place() const {
        return base + S::o_at + group * S::depth_v_bytes;
    }

    __device__ __forceinline__ uint32_t k_place() const {
        return base + S::k_at + k.index * S::depth_bytes;
    }

    /* General: zeros for keys of a step that do not count, in K or V. Both warpgroups come here. */
    template <int BOXES>
    __device__ __forceinline__ void clean(const backward_dq_job &job, int block, uint32_t place) const {
        const int begin = job.key_begin - block * S::keys, end = job.key_end - block * S::keys;
        if (begin > 0 || end < S::keys) {
            backward_clean<S::keys, BOXES, 256>(place, group * 128 + thread_index() % 128, begin, end);
            backward_cleaned<256>(1);
        }
    }

    /* Starts a product of all its columns. x, y: its operands. */
    template <class P>
    static __device__ __forceinline__ void start(const P &product, float (&scores)[S::keys / 2], uint32_t x, uint32_t y) {
        const uint64_t a = wgmma_operand(settled(x)), b = wgmma_operand(settled(y));
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < P::depth / 16; i++) {
            product.start(scores, a, b, i);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts the scores of a step, and its dP. */
    __device__ __forceinline__ void start_scores(const backward_dq_job &job, int &block,
                                                 float (&scores)[S::keys / 2]) const {
        mbarrier_wait(shared_address(&desk.k_full[k.index]), k.parity);
        if constexpr (S::pairs) {
            block = p.lists.queries ? desk.steps[k.index].block : block;
        }
        if constexpr (S::general) {
            clean<S::boxes>(job, block, k_place());
        }
        start(q_product, scores, q_place(), k_place());
    }

    __device__ __forceinline__ void start_grads(const backward_dq_job &job, int block, float (&grads)[S::keys / 2]) const {
        const uint32_t place = base + S::v_at + v.index * S::depth_v_bytes;
        mbarrier_wait(shared_address(&desk.v_full[v.index]), v.parity);
        if constexpr (S::general) {
            clean<S::boxes_v>(job, block, place);
        }
        start(o_product, grads, o_place(), place);
    }

    /* Hides keys of a block that queries do not see. */
    __device__ __forceinline__ void mask(const backward_dq_row (&rows)[2], int block, float (&scores)[S::keys / 2]) const {
        const int key = block * S::keys + (int)thread_index() % 4 * 2;
#pragma unroll
        for (int i = 0; i < S::keys / 2; i++) {
            const backward_dq_row &row = rows[i / 2 % 2];
            const uint32_t further = (uint32_t)(key - row.begin + i / 4 * 8 + i % 2);
            scores[i] = further < (uint32_t)row.count ? scores[i] : -INFINITY;
        }
    }

    /* Pairs: hides what bits of a block mask or a tree mask do. */
    __device__ __forceinline__ void hide(const backward_dq_job &job, int block, float (&scores)[S::keys / 2]) const {
        const weft_blocks &blocks = p.walk.reach.blocks;
        const int32_t bits_at = p.lists.queries ? desk.steps[k.index].bits_at[group] : WEFT_HOPPER_BACKWARD_NO_BITS;
        const int key = block * S::keys;
        if (bits_at == WEFT_HOPPER_BACKWARD_NO_BITS && !blocks.pairs.tree) {
            return;
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int query = job.row + min((int)row_of_thread() + half * 8, job.rows - 1);
            const uint32_t *from = weft_blocks_words(&blocks, bits_at, query, key);
            const uint32_t all = bits_at == WEFT_HOPPER_BACKWARD_NOT_LISTED ? 0 : 0xffffffffu;
            uint32_t words[2] = {from ? from[0] : all, from && key + 32 < p.kv_seq ? from[1] : all};
            if (blocks.pairs.tree) {
                const weft_sequence sequence = weft_sequence_at(&p.walk.reach.sequences, job.sequence);
                const int64_t begin = weft_tree_begin(&sequence);
                const uint64_t tree = blocks.pairs.tree[(int64_t)job.batch * p.seq + query];
                words[0] &= weft_tree_word(tree, begin, key);
                words[1] &= weft_tree_word(tree, begin, key + 32);
            }
#pragma unroll
            for (int i = 0; i < S::keys / 4; i++) {
                float &score = scores[i / 2 * 4 + half * 2 + i % 2];
                score = words[i / 8] >> (thread_index() % 4 * 2 + i / 2 % 4 * 8 + i % 2) & 1 ? score : -INFINITY;
            }
        }
    }

    /* Scores become what dP is multiplied by: weights. */
    __device__ __forceinline__ void weigh(const backward_dq_row (&rows)[2], float (&scores)[S::keys / 2]) const {
#pragma unroll
        for (int i = 0; i < S::keys / 2; i++) {
            scores[i] = exp2_flushed(fmaf(scores[i], p.scale_log2, -rows[i / 2 % 2].log2_sum));
        }
    }

    /* General: the same for scores that are capped, where CAPPED, and fall by distance: see backward_scores. */
    template <bool CAPPED>
    __device__ __forceinline__ void weigh_changed(const backward_dq_job &job, const backward_dq_row (&rows)[2], int block,
                                                  float (&scores)[S::keys / 2]) const {
        const float *alibi = p.scores.alibi;
        const float slope = alibi ? 1.44269504f * alibi[job.sequence * p.scores.alibi_stride + job.head] : 0;
        const float away = (float)(job.position + (int)row_of_thread() - block * S::keys - (int)thread_index() % 4 * 2);
#pragma unroll
        for (int i = 0; i < S::keys / 2; i++) {
            const backward_dq_row &row = rows[i / 2 % 2];
            float &score = scores[i];
            const float distance = fabsf(away + (float)(i / 2 % 2 * 8 - i / 4 * 8 - i % 2));
            const float fall = fmaf(slope, distance, row.log2_sum);
            if constexpr (CAPPED) {
                const float part = reciprocal_flushed(1 + exp2_flushed(score * p.scores.cap_scale));
                const float weight = exp2_flushed(fmaf(p.scores.cap, 1 - 2 * part, -fall));
                score = score == -INFINITY ? 0 : weight * (4 * part * (1 - part)); /* hidden, which a cap would undo */
            } else {
                score = exp2_flushed(fmaf(score, p.scale_log2, -fall));
            }
        }
    }

    __device__ __forceinline__ void weigh_step(const backward_dq_job &job, const backward_dq_row (&rows)[2], int block,
                                               float (&scores)[S::keys / 2]) const {
        bool hides = block < full_begin || block >= full_end;
        if constexpr (S::pairs) {
            if (p.lists.queries) {
                hides |= desk.steps[k.index].bits_at[group] != WEFT_HOPPER_BACKWARD_NO_BITS;
            }
        }
        if (hides) {
            mask(rows, block, scores);
            if constexpr (S::pairs) {
                hide(job, block, scores);
            }
        }
        if constexpr (S::general) {
            if (p.scores.cap > 0) {
                weigh_changed<true>(job, rows, block, scores);
                return;
            }
            if (p.scores.alibi) {
                weigh_changed<false>(job, rows, block, scores);
                return;
            }
        }
        weigh(rows, scores);
    }

    /* dS of a step, rounded. */
    __device__ __forceinline__ void differentiate(const backward_dq_row (&rows)[2], const float (&weights)[S::keys / 2],
                                                  const float (&grads)[S::keys / 2], uint32_t (&ds)[S::keys / 4]) const {
#pragma unroll
        for (int i = 0; i < S::keys / 4; i++) {
            const float delta = rows[i % 2].delta;
            ds[i] = pack_halves<S::bf16>(weights[2 * i] * (grads[2 * i] - delta),
                                         weights[2 * i + 1] * (grads[2 * i + 1] - delta));
        }
    }

    /* Full: dS of the HALF-th half of the thread's keys, rounded. A query that does not count may hold anything. */
    template <bool CAPPED, int HALF>
    __device__ __forceinline__ void differentiate_full(const backward_added<S::bf16, backward_query_pairs> &added,
                                                       uint32_t dropped, const backward_query_pairs &pairs,
                                                       const backward_dq_row (&rows)[2], const float (&scores)[S::keys / 2],
                                                       const float (&grads)[S::keys / 2],
                                                       uint32_t (&ds)[S::keys / 4]) const {
#pragma unroll
        for (int j = HALF * S::keys / 16; j < (HALF + 1) * S::keys / 16; j += 2) {
            float d[8], slope[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const backward_dq_row &row = rows[i / 2 % 2];
                const int at = 4 * j + i;
                const float weight =
                    backward_weight<CAPPED>(p, scores[at], added.of[at - HALF * S::keys / 4], row.log2_sum, slope[i]);
                d[i] = backward_ds(p, weight, dropped >> at & 1, grads[at], row.delta);
                d[i] = row.log2_sum < INFINITY ? d[i] : 0;
            }
            if (p.full.grad_bias) {
                backward_store_bias(p, pairs, j, d);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                ds[2 * j + i] = pack_halves<S::bf16>(d[2 * i] * slope[2 * i], d[2 * i + 1] * slope[2 * i + 1]);
            }
        }
    }

    template <bool CAPPED>
    __device__ __forceinline__ void finish_halves(backward_added<S::bf16, backward_query_pairs> &added, uint32_t dropped,
                                                  const backward_query_pairs &pairs, const backward_dq_row (&rows)[2],
                                                  float (&scores)[S::keys / 2], float (&grads)[S::keys / 2],
                                                  uint32_t (&ds)[S::keys / 4]) const {
        const auto begin = [&] {
            wgmma_wait<0>();
            wgmma_hold(grads);
            release(desk.v_empty[v.index]);
        };
        const auto half = [&](auto number) {
            differentiate_full<CAPPED, decltype(number)::value>(added, dropped, pairs, rows, scores, grads, ds);
        };
        backward_by_halves<CAPPED>(p, pairs, added, scores, begin, half);
    }

    /* Full: as finish(), which is below. */
    __device__ __forceinline__ void finish_full(const backward_dq_job &job, const backward_dq_row (&rows)[2], int block,
                                                float (&scores)[S::keys / 2], uint32_t (&ds)[S::keys / 4]) {
        const backward_query_pairs pairs = {job, block, (int)group * 64};
        backward_added<S::bf16, backward_query_pairs> added;
        float grads[S::keys / 2];
        start_grads(job, block, grads);
        const uint32_t dropped = p.full.dropout_limit ? backward_dropped(p, pairs) : 0;
        added.template load<0>(p, pairs);
        wgmma_wait<1>();
        wgmma_hold(scores);
        if (block < job.full_begin || block >= job.full_end) { /* it has no registers for these */
            mask(rows, block, scores);
        }
        if (p.full.cap > 0) {
            finish_halves<true>(added, dropped, pairs, rows, scores, grads, ds);
        } else {
            finish_halves<false>(added, dropped, pairs, rows, scores, grads, ds);
        }
        v.next();
    }

    /* A step's scores are on their way: its dP, and its dS. */
    __device__ __forceinline__ void finish(const backward_dq_job &job, const backward_dq_row (&rows)[2], int block,
                                           float (&scores)[S::keys / 2], uint32_t (&ds)[S::keys / 4]) {
        if constexpr (S::full) {
            finish_full(job, rows, block, scores, ds);
            return;
        }
        float grads[S::keys / 2];
        start_grads(job, block, grads);
        wgmma_wait<1>();
        wgmma_hold(scores);
        weigh_step(job, rows, block, scores);
        wgmma_hold(scores);
        mbarrier_wait(shared_address(&desk.v_full[v.index]), v.parity); /* a branch, or ptxas moves it all behind dP */
        wgmma_wait<0>();
        wgmma_hold(grads);
        release(desk.v_empty[v.index]);
        v.next();
        differentiate(rows, scores, grads, ds);
    }

    /* The steps of a tile, of which there is at least one. */
    __device__ __forceinline__ void sweep(const backward_dq_job &job, const backward_dq_row (&rows)[2],
                                          float (&sums)[S::depth / 2]) {
        float scores[S::keys / 2];
        uint32_t ds[S::keys / 4];
        int block = job.first;
        const int direction = job.direction;
        full_begin = job.full_begin;
        full_end = job.full_end;
        q_product.keep(q_place());
        o_product.keep(o_place());
        start_scores(job, block, scores);
        finish(job, rows, block, scores, ds);
        for (int left = job.steps - 1; left > 0; left--) {
            const uint32_t last = k.index;
            backward_start_sums<S::bf16, S::depth>(sums, ds, k_place()); /* dQ += dS K */
            k.next();
            block += direction;
            start_scores(job, block, scores);
            wgmma_wait<1>(); /* before dP begins, which takes the registers of dS */
            wgmma_hold(sums);
            release(desk.k_empty[last]);
            finish(job, rows, block, scores, ds);
        }
        release(desk.q_empty); /* nothing of Q and dO is read any more */
        backward_start_sums<S::bf16, S::depth>(sums, ds, k_place());
        wgmma_wait<0>();
        wgmma_hold(sums);
        release(desk.k_empty[k.index]);
        k.next();
    }
};

template <class S>
static __device__ __forceinline__ void backward_dq_consume(const weft_hopper_backward_params &p, backward_dq_desk<S> &desk,
                                                           uint32_t base, uint32_t group) {
    backward_dq_consumer<S> consumer(p, desk, base, group);
    const weft_strides &strides = p.q_strides;
    const int row = (int)consumer.row_of_thread();
    for (uint32_t tiles = 0;; tiles++) {
        mbarrier_wait(shared_address(&desk.q_full), tiles % 2);
        const backward_dq_job &job = desk.job[tiles % 2];
        if (!job.more) {
            return;
        }
        float sums[S::depth / 2];
#pragma unroll
        for (int i = 0; i < S::depth / 2; i++) {
            sums[i] = 0;
        }
        if (job.steps > 0) {
            const backward_dq_row rows[2] = {backward_dq_row_at<S>(p, job, row), backward_dq_row_at<S>(p, job, row + 8)};
            consumer.sweep(job, rows, sums);
        } else {
            __syncwarp(); /* who has not seen the barrier yet would wait for the next but one */
            consumer.release(desk.q_empty);
        }
        if constexpr (S::general) { /* what others have may be anything */
            const bool counts[2] = {backward_dq_counts<S>(p, job, row), backward_dq_counts<S>(p, job, row + 8)};
#pragma unroll
            for (int i = 0; i < S::depth / 2; i++) {
                sums[i] = counts[i / 2 % 2] ? sums[i] : 0;
            }
        }
        const bool has[2] = {row < job.rows, row + 8 < job.rows};
        char *to =
            (char *)p.grad_q + 2 * (job.batch * strides.batch + job.head * strides.head + (job.row + row) * strides.seq);
        backward_store_rows<S>(has, p.head_dim, sums, p.scale, to, 2 * strides.seq);
        __syncwarp(); /* no lane reads the job any more when the next one's places are given up */
    }
}

template <class W> static __device__ __forceinline__ void backward_dq(const weft_hopper_backward_params &p) {
    using S = backward_dq_shape<W>;
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    const uint32_t base = shared_address(hopper_shared);
    backward_dq_desk<S> &desk = *(backward_dq_desk<S> *)(hopper_shared + S::bytes);
    static_assert(sizeof desk <= WEFT_HOPPER_BACKWARD_DESK, "see there");
    const uint32_t group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); /* the producer's is 0 */
    if (threadIdx.x == 0) {
        desk.begin();
    }
    if constexpr (S::general) {
        grid_wait();
        for (int head = (int)blockIdx.x; p.scores.grad_sinks && head < p.heads; head += (int)gridDim.x) {
            backward_sink(p, head, (int)p.walk.order.grid.batch);
            __syncthreads(); /* before the next one's sum */
        }
    }
    __syncthreads();
    if (group == 0) {
        registers_lower<S::producer_registers>();
        if (threadIdx.x < 32 && elect_one()) {
            backward_dq_produce<S>(p, desk, base);
            if constexpr (!S::general) {
                grid_wait(); /* `main`, which it needs nothing of, may run beside it, but is over when this is */
            }
        }
    } else {
        registers_raise<S::consumer_registers>();
        backward_dq_consume<S>(p, desk, base, group - 1);
    }
}

#endif
