/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer warpgroup's way through the keys of its tiles: scores, mask, softmax, values.
 *
 * Steps follow each other across tiles: while the tensor cores multiply a step's weights by V, the exponentials of the next
 * step are computed, and where that one is the first of the next tile, it is that tile's. So a tile stays open after its
 * last step, until its last weights have met V and its output can be stored. */
#ifndef WEFT_CUDA_SM90_ATTENTION_SWEEP_CUH
#define WEFT_CUDA_SM90_ATTENTION_SWEEP_CUH

#include "cuda/sm90/attention/bias.cuh"

template <class S> struct hopper_consumer {
    const weft_hopper_attention_params &p;
    hopper_desk<S> &desk;
    uint32_t q, k, v; /* shared addresses of the rings; of Q, where this warpgroup's rows begin */
    uint32_t group;
    uint32_t tiles; /* begun so far */
    hopper_job job; /* the tile at hand */
    float slope;    /* scores: by which they fall, in base 2 */
    int position;   /* slopes: how far the thread's first row is behind its first key of step 0 */
    int ahead;      /* slopes: steps whose keys are before all rows of this warpgroup; 0 where scores are capped */
    int behind;     /* slopes: the step from which on keys are behind all of them; likewise, beyond all steps */
    bool steep;     /* scores: whether some of the tile were beyond what weft_hopper_cap will do for */
    /* Pairs, of the step at hand: see hopper_step; whether some are hidden, and then which. */
    int bits_at;
    bool hides_pairs;
    std::conditional_t<S::pairs, hopper_words<S>, hopper_nothing> words;
    int to_give_back; /* the place of queries where output is, until the copy engine has read it; -1: none */
    hopper_slot<S::stages, S::splits ? S::groups : 1> k_slot, v_slot;
    hopper_bias_reader<S> bias;

    __device__ __forceinline__ hopper_consumer(const weft_hopper_attention_params &params, hopper_desk<S> &shared,
                                               uint32_t base, uint32_t number)
        : p(params), desk(shared), q(base + (S::splits ? 0 : number * 64 * 128)), k(base + S::k_at), v(base + S::v_at),
          group(number), tiles(0), job(), slope(0), position(0), ahead(0), behind(INT32_MAX), steep(false), bits_at(-1),
          hides_pairs(false), words(), to_give_back(-1), k_slot(S::splits ? number : 0), v_slot(S::splits ? number : 0),
          bias(params.bias, shared, base, number) {
        if (group == S::groups - 1) {
            pass_turn();
        }
    }

    /* Ping-pong: warpgroups start their products one after the other, so that one computes exponentials while another
     * multiplies. */
    __device__ __forceinline__ void take_turn() const {
        if (p.ping_pong) {
            barrier_sync(1 + group, 256);
        }
    }

    __device__ __forceinline__ void pass_turn() const {
        if (p.ping_pong) {
            barrier_arrive(group == S::groups - 1 ? 1 : 2 + group, 256);
        }
    }

    /* Of every warp, one lane. */
    __device__ __forceinline__ void release(uint64_t &barrier) const {
        if (thread_index() % 32 == 0) {
            mbarrier_arrive(shared_address(&barrier));
        }
    }

    __device__ __forceinline__ void wait_k() const {
        mbarrier_wait(shared_address(&desk.k_full[k_slot.index]), k_slot.parity);
    }

    __device__ __forceinline__ void wait_v() const {
        mbarrier_wait(shared_address(&desk.v_full[v_slot.index]), v_slot.parity);
    }

    /* Waits for the next tile's queries. Returns whether there is one. The lane that gives Q back is the one that reads
     * what the tile is, so that nothing else orders its reads before the next writes. */
    __device__ __forceinline__ bool next_tile() {
        const uint32_t slot = tiles % S::q_slots;
        hopper_job read = {};
        give_back_q();
        mbarrier_wait(shared_address(&desk.q_full[slot]), tiles / S::q_slots % 2);
        if (thread_index() % 32 == 0) {
            read = desk.jobs[slot];
        }
        tiles++;
        steep = false; /* bits are those of the tile's own scores, whatever this warp has computed before */
        job = {hopper_same(read.more), hopper_same(read.batch), hopper_same(read.head),
               hopper_same(read.row),  hopper_same(read.steps), hopper_same(read.downward)};
        if constexpr (S::masks) {
            job.end = hopper_same(read.end);
            job.begin = hopper_same(read.begin);
            job.sequence = hopper_same(read.sequence);
            job.listed = S::pairs ? hopper_same(read.listed) : 0;
        }
        if constexpr (S::scores) {
            if (p.alibi && job.more) {
                find_slope();
            }
        }
        return job.more;
    }

    __device__ __forceinline__ void find_slope() {
        const weft_sequence sequence = weft_sequence_at(&p.walk.reach.sequences, job.sequence);
        slope = p.alibi[job.sequence * p.alibi_stride + job.head] * 1.442695041f;
        const int first = (int)(sequence.columns.begin + weft_band_position(&p.walk.reach.band, &sequence, job.row));
        position = first + row(0) - (int)(thread_index() % 4 * 2);
        ahead = p.cap > 0 ? 0 : hopper_same(max(first + (int)group * 64, 0)) / S::keys;
        if (S::rotates && p.cap <= 0) {
            behind = (hopper_same(max(first + (int)group * 64 + 63, 0)) + S::keys - 1) / S::keys;
        }
    }

    /* What this warpgroup sees of the tile at hand. */
    __device__ __forceinline__ hopper_share share() const {
        if constexpr (S::masks) {
            hopper_share own = {};
            if (thread_index() % 32 == 0) {
                own = desk.views[(tiles - 1) % S::q_slots].shares[group];
            }
            return {hopper_same(own.own),    hopper_same(own.full),  hopper_same(own.unmasked),
                    hopper_same(own.before), hopper_same(own.after), hopper_same(own.first),
                    hopper_same(own.stride), hopper_same(own.whole), hopper_same(own.part)};
        } else {
            return hopper_share_of<S>(p, job, group);
        }
    }

    /* The tile's Q is not needed any more. */
    __device__ __forceinline__ void release_q() const {
        __syncwarp();
        release(desk.q_empty[(tiles - 1) % S::q_slots]);
    }

    /* The same, where output goes by way of it: one of these threads had it copied, and waits until it is read. */
    __device__ __forceinline__ void give_back_q() {
        if (to_give_back >= 0 && thread_index() % 32 == 0) {
            tma_store_wait_read<0>();
            mbarrier_arrive(shared_address(&desk.q_empty[to_give_back]));
        }
        to_give_back = -1;
    }

    /* last: whether Q is not needed any more either. */
    __device__ __forceinline__ void release_k(bool last) {
        release(desk.k_empty[k_slot.index]);
        k_slot.next();
        if (last && !S::stages_o && !S::splits) {
            release_q();
        }
    }

    __device__ __forceinline__ void release_v() {
        release(desk.v_empty[v_slot.index]);
        v_slot.next();
    }

    /* Starts scores = Q K^T for the block at hand. */
    template <int COUNT> __device__ __forceinline__ void start_scores(float (&scores)[COUNT]) const {
        /* Worked out anew each time: descriptions of all 16 columns, held from step to step, are registers. */
        const uint64_t a = wgmma_operand(settled(q + (tiles - 1) % S::q_slots * S::q_bytes)),
                       b = wgmma_operand(settled(k + k_slot.index * S::kv_bytes));
        wgmma_hold(scores);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::depth / 16; i++) { /* 16 columns are 32 bytes, 64 a box */
            wgmma<2 * COUNT>::template shared<S::bf16, false, false>(
                scores, wgmma_further(a, i / 4 * S::q_box + i % 4 * 32), wgmma_further(b, i / 4 * S::kv_box + i % 4 * 32),
                i > 0);
        }
        wgmma_commit();
        wgmma_hold(scores);
    }

    /* Starts out += weights V for the first KEYS keys of the block at hand, or without `add` out = weights V. */
    template <int KEYS>
    __device__ __forceinline__ void start_values(float (&out)[S::depth / 2], const uint32_t (&weights)[S::keys / 4],
                                                 bool add) const {
        const uint64_t b = wgmma_operand(settled(v + v_slot.index * S::kv_bytes), 1024, S::kv_box);
        wgmma_hold(out);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++) { /* 16 keys are two atoms of 1024 bytes */
            wgmma<S::depth>::template registers<S::bf16, true>(out, &weights[4 * i], wgmma_further(b, i * 2048),
                                                               i > 0 || add);
        }
        wgmma_commit();
        wgmma_hold(out);
    }

    /* The same for the last weights of a tile; part: whether they are of a short step. A branch in the middle of a batch of
     * products would have the compiler fence them anew: each side has a batch of its own. */
    __device__ __forceinline__ void start_last_values(float (&out)[S::depth / 2], const uint32_t (&weights)[S::keys / 4],
                                                      bool add, bool part) const {
        if constexpr (S::part > 0) {
            if (part) {
                start_values<S::part>(out, weights, true);
                return;
            }
        }
        start_values<S::keys>(out, weights, add);
    }

    /* The thread's row r, or r + 8, of the tile. */
    __device__ __forceinline__ int row(int further) const {
        const uint32_t thread = thread_index();
        return (int)((S::splits ? 0 : group * 64) + thread % 128 / 32 * 16 + thread % 32 / 4) + further;
    }

    /* Keys that such a row sees. */
    __device__ __forceinline__ int seen(int further) const {
        return min(max(job.row + (row(further) >> p.pack_bits) + 1 + p.offset, 0), p.kv_seq);
    }

    /* The same under masks: the run of keys that a row sees, counted from a step's first; rows beyond the tile's queries
     * see what they like. */
    __device__ __forceinline__ hopper_run run(int further, int step) const {
        const hopper_run seen =
            desk.views[(tiles - 1) % S::q_slots].runs[min(row(further) >> p.pack_bits, job.end - job.row - 1)];
        return {seen.begin - step * S::keys, seen.end - step * S::keys};
    }

    /* Pairs: asks for the words of a step's keys, see weft_pairs_word(). They come while products are computed. */
    __device__ __forceinline__ void find_words(int step) {
        const weft_blocks &blocks = p.walk.reach.blocks;
        const uint64_t *trees = blocks.pairs.tree;
        const int tree_begin = desk.views[(tiles - 1) % S::q_slots].tree_begin, key = step * S::keys;
        const uint32_t columns = max((int)blocks.columns, 32); /* a mask's only block may be narrower than a step */
        const int last = (int)((columns - (uint32_t)key % columns) / 32) - 1;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int query = job.row + min(row(half * 8) >> p.pack_bits, job.end - job.row - 1);
            const uint32_t *from = weft_blocks_words(&blocks, bits_at, query, key);
            const uint64_t tree = trees ? trees[(int64_t)job.batch * p.seq + query] : 0;
#pragma unroll
            for (int i = 0; i < S::keys / 32; i++) {
                words.of[half][i] = from ? from[min(i, last)] : 0xffffffffu;
                words.of[half][i] &= trees ? weft_tree_word(tree, tree_begin, key + i * 32) : 0xffffffffu;
            }
        }
    }

    /* The step of the K at hand: of pairs, what the number of its list stands for. */
    __device__ __forceinline__ int step_of(int number, const hopper_share &share) {
        if constexpr (S::pairs) {
            hopper_step read = {};
            if (thread_index() % 32 == 0) { /* the lane that gives K back */
                read = desk.listed[k_slot.index];
            }
            bits_at = hopper_same(read.bits_at);
            number = hopper_same(read.step);
            hides_pairs = bits_at >= 0 || (p.walk.reach.blocks.pairs.tree && number >= share.unmasked);
            if (hides_pairs) {
                find_words(number);
            }
        }
        return number;
    }

    /* Hides what the thread's rows do not see of a step: keys before where a row's begin, behind where they end, or both;
     * and pairs. */
    template <int COUNT>
    __device__ __forceinline__ void mask(float (&scores)[COUNT], const hopper_share &share, int step,
                                         float hidden = -INFINITY) const {
        if constexpr (S::masks) {
            const hopper_run runs[2] = {run(0, step), run(8, step)};
            if (step < share.full) {
                hopper_mask<true>(scores, hidden, runs[0].begin, runs[1].begin);
            }
            if (step >= share.unmasked) {
                hopper_mask<false>(scores, hidden, runs[0].end, runs[1].end);
            }
            if constexpr (S::pairs) {
                if (hides_pairs) {
                    hopper_hide(scores, hidden, words.of);
                }
            }
        } else {
            hopper_mask<false>(scores, hidden, seen(0) - step * S::keys, seen(8) - step * S::keys);
        }
    }

    /* How far the thread's rows are behind its first key of a step. */
    __device__ __forceinline__ void find_away(float (&away)[2], int step) const {
        away[0] = (float)(position - step * S::keys);
        away[1] = away[0] + 8;
    }

    /* What scores, capped where they are to be, are multiplied by to be exponents in base 2. */
    __device__ __forceinline__ float unit() const {
        return S::scores && p.cap > 0 ? 1.0f : p.scale_log2;
    }

    /* Caps scores and lets them fall by distance, or adds their bias. */
    template <int COUNT> __device__ __forceinline__ void finish_scores(float (&scores)[COUNT], int step) {
        if constexpr (S::scores) {
            if (p.cap > 0) {
                steep = hopper_cap(scores, p, steep);
            }
            if (p.alibi) {
                float away[2];
                find_away(away, step);
                hopper_lower(scores, unit(), slope, away);
            }
        }
        if constexpr (S::bias) {
            bias.add(scores);
        }
    }

    /* Exponentials of a step's scores over the shifts as they are, and their sums. Returns whether those of this thread are
     * wrong. Every branch has its sums: they are computed between exponentials. */
    template <int COUNT>
    __device__ __forceinline__ bool guess(float (&scores)[COUNT], float (&sums)[2], const hopper_rows &rows,
                                          const hopper_share &share, int step) {
        const bool masked = S::masks && step >= share.unmasked;
        /* Most have no scores to finish, and are not to go around all that follows. At head dim 256 this would spill. */
        if constexpr (S::pages && S::depth <= 128) {
            if (!p.alibi && p.cap <= 0) {
                if (masked) {
                    mask(scores, share, step);
                }
                hopper_exponentials<S>(scores, rows, p.scale_log2);
                hopper_add<S>(sums, scores);
                return false;
            }
        }
        if constexpr (S::scores) {
            const bool before = step < ahead;
            if ((before || (S::rotates && step >= behind)) && !masked) {
                float away[2];
                find_away(away, step);
                hopper_lowered_exponentials<S>(scores, sums, rows, p.scale_log2, before ? slope : -slope, away,
                                               before && rows.level);
                return false;
            }
            if (p.cap > 0 && !p.alibi) {
                bool wrong = false;
                if (steep) {
                    hopper_steep_exponentials<S>(scores, rows, p.cap, p.scale_log2);
                } else {
                    wrong = hopper_capped_exponentials<S>(scores, rows, p.small);
                }
                if (masked) {
                    mask(scores, share, step, 0);
                }
                hopper_add<S>(sums, scores);
                return wrong;
            }
        }
        if constexpr (S::bias) {
            const bool wrong = bias.exponentials(scores, rows, p.scale_log2);
            if (masked) {
                mask(scores, share, step, 0);
            }
            hopper_add<S>(sums, scores);
            return wrong;
        }
        finish_scores(scores, step);
        if (masked) {
            mask(scores, share, step);
        }
        hopper_exponentials<S>(scores, rows, scale());
        hopper_add<S>(sums, scores);
        return false;
    }

    /* What finished scores are multiplied by to be exponents in base 2. */
    __device__ __forceinline__ float scale() const {
        return S::bias ? HOPPER_LOG2E : S::scores && p.alibi ? 1.0f : unit();
    }

    /* The scores of a step become weights, when those of the step before, which are in the same registers, have met V:
     * that is waited for last, when it is there. Returns whether the output has to be rescaled.
     *
     * In bf16 the largest score is looked for in a tile's first step only, and in those in which rows begin to see keys.
     * Else exponentials are taken over the shift as it is, and only when their sum says that one may be beyond the lag is
     * the work done again, with a new shift. */
    template <int COUNT>
    __device__ __forceinline__ bool soften(float (&scores)[COUNT], uint32_t (&weights)[S::keys / 4], hopper_rows &rows,
                                           const hopper_share &share, int step, bool first) {
        bool moved = false;
        float sums[2];
        /* Where pairs are hidden rows may see their first key. */
        const bool begins = S::masks && (step < share.full || (S::pairs && hides_pairs));
        const bool masked = begins || step >= share.unmasked;
        bias.wait();
        if (first || begins || !S::bf16 || (!S::masks && masked)) {
            finish_scores(scores, step);
            if (masked) {
                mask(scores, share, step);
            }
            moved = hopper_shift<S>(rows, scores, scale(), 8 * slope);
            hopper_exponentials<S>(scores, rows, scale());
            hopper_add<S>(sums, scores);
            wgmma_wait<0>();
            hopper_round<S>(weights, scores);
        } else {
            const bool wrong = guess(scores, sums, rows, share, step);
            wgmma_wait<0>();
            hopper_round<S>(weights, scores);
            if (barrier_any(8 + group, 128, wrong || !(sums[0] + sums[1] <= HOPPER_MOST * (COUNT / 2)))) {
                steep = steep || __any_sync(0xffffffffu, wrong);
                start_scores(scores);
                wgmma_wait<0>();
                wgmma_hold(scores);
                finish_scores(scores, step);
                if (S::masks && masked) {
                    mask(scores, share, step);
                }
                moved = hopper_shift<S>(rows, scores, scale(), 8 * slope);
                hopper_exponentials<S>(scores, rows, scale());
                hopper_add<S>(sums, scores);
                hopper_round<S>(weights, scores);
            }
        }
        rows.sum[0] += sums[0];
        rows.sum[1] += sums[1];
        bias.give_back();
        return moved;
    }

    /* Blocks that other warpgroups use and this one does not see. */
    __device__ __forceinline__ void skip_k(int blocks) {
        for (int i = 0; i < blocks; i++) {
            take_turn();
            pass_turn();
            wait_k();
            bias.wait();
            __syncwarp(); /* no lane still waits when one gives back for all */
            release_k(false);
            bias.give_back();
        }
    }

    __device__ __forceinline__ void skip_v(int blocks) {
        for (int i = 0; i < blocks; i++) {
            wait_v();
            __syncwarp();
            release_v();
        }
    }

    __device__ __forceinline__ void skip(int blocks) {
        for (int i = 0; i < blocks; i++) {
            skip_k(1);
            skip_v(1);
        }
    }

    /* The first step of a tile, when none is open. */
    __device__ __forceinline__ void begin(uint32_t (&weights)[S::keys / 4], hopper_rows &rows, const hopper_share &share) {
        float scores[S::keys / 2];
        wait_k();
        const int step = step_of(share.first, share);
        take_turn();
        start_scores(scores);
        pass_turn();
        wgmma_wait<0>();
        wgmma_hold(scores);
        rows = {{HOPPER_NO_SHIFT, HOPPER_NO_SHIFT}, {0, 0}, {1, 1}};
        soften(scores, weights, rows, share, step, true);
        release_k(share.own == 1);
    }

    /* The first step of a tile, while the last weights of the one before meet V. add: whether that one had others; part:
     * whether they are of a short step. */
    __device__ __forceinline__ void join(float (&out)[S::depth / 2], uint32_t (&weights)[S::keys / 4], bool add, bool part,
                                         hopper_rows &rows, const hopper_share &share) {
        float scores[S::keys / 2];
        wait_k();
        const int step = step_of(share.first, share);
        take_turn();
        start_scores(scores);
        wait_v();
        start_last_values(out, weights, add, part);
        pass_turn();
        wgmma_wait<1>();
        wgmma_hold(scores);
        rows = {{HOPPER_NO_SHIFT, HOPPER_NO_SHIFT}, {0, 0}, {1, 1}};
        soften(scores, weights, rows, share, step, true);
        wgmma_hold(out);
        release_k(share.own == 1);
        release_v();
    }

    /* A step after the first, the i-th in the order of visiting, of so many keys. */
    template <int KEYS>
    __device__ __forceinline__ void go_on(float (&out)[S::depth / 2], uint32_t (&weights)[S::keys / 4], hopper_rows &rows,
                                          const hopper_share &share, int i, int number) {
        float scores[KEYS / 2];
        wait_k();
        const int step = step_of(number, share);
        take_turn();
        start_scores(scores);
        wait_v();
        start_values<S::keys>(out, weights, i > 1);
        pass_turn();
        wgmma_wait<1>();
        wgmma_hold(scores);
        if (S::stages_o && i == 1) {
            give_back_q(); /* the copy engine has long read the last tile's output */
        }
        const bool moved = soften(scores, weights, rows, share, step, false);
        wgmma_hold(out);
        release_k(i == share.whole + share.part - 1);
        release_v();
        if (moved) {
            hopper_rescale<S>(out, rows);
        }
    }

    /* The steps after the first. */
    __device__ __forceinline__ void sweep(float (&out)[S::depth / 2], uint32_t (&weights)[S::keys / 4], hopper_rows &rows,
                                          const hopper_share &share) {
        int step = share.first;
        for (int i = 1; i < share.whole; i++) {
            step = S::rotates ? hopper_step_after(step, share.stride, job.begin, job.steps) : step + share.stride;
            go_on<S::keys>(out, weights, rows, share, i, step);
        }
        if constexpr (S::part > 0) {
            if (share.part) {
                go_on<S::part>(out, weights, rows, share, share.whole, step + share.stride);
            }
        }
    }

    /* The last weights of a tile meet V; add, part: see join(). */
    __device__ __forceinline__ void close(float (&out)[S::depth / 2], const uint32_t (&weights)[S::keys / 4], bool add,
                                          bool part) {
        wait_v();
        start_last_values(out, weights, add, part);
        wgmma_wait<0>();
        wgmma_hold(out);
        release_v();
    }
};

#endif
