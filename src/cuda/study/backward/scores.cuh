/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the scores of a piece and of the gradients of its weights, where queries pass a tile of keys: see
 * general.cuh for the other way round. A lane has keys as rows, and queries as columns. */
#ifndef WEFT_CUDA_STUDY_BACKWARD_SCORES_CUH
#define WEFT_CUDA_STUDY_BACKWARD_SCORES_CUH

#include "cuda/study/backward/feed.cuh"

/* A lane's first row of its tile, and its first column of a piece. */
template <class S> static __device__ __forceinline__ int study_lane_row() {
    const uint32_t thread = thread_index();
    return (int)(study_warp_row<S>(thread) + thread % 32 / 4);
}

static __device__ __forceinline__ int study_lane_column() {
    return (int)(thread_index() % 4 * 2);
}

/* What is added to the score of a query and a key, both counted from the tensors' first, and which hides the key where it
 * is -inf. */
template <class S>
static __device__ __forceinline__ float study_bias_of_pair(const weft_study_params &p, const study_backward_job &job,
                                                           int head, int query, int key) {
    const weft_study_general &g = p.general;
    const int64_t row = min(max(query, 0), p.seq - 1), column = min(max(key, 0), p.kv_seq - 1);
    const int64_t at = job.visit.tile.batch * g.bias_strides.batch + head * g.bias_strides.head + row * g.bias_strides.seq +
                       column * g.bias_key_stride;
    return study_bias_at<S>((const char *)g.bias, at, g.bias_type);
}

/* Applies `change` to every score of a piece, with its query and key. */
template <class S, class CHANGE>
static __device__ __forceinline__ void study_each_pair(const study_backward_job &job, const study_meeting<S> &m,
                                                       float (&scores)[1][S::piece / 8][4], CHANGE change) {
    const int key = job.first_row + study_lane_row<S>(), query = m.column() + study_lane_column();
#pragma unroll
    for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[0][n][i] = change(scores[0][n][i], query + n * 8 + i % 2, key + i / 2 * 8);
        }
    }
}

/* study_settle_piece() where rows are keys. */
template <class S>
static __device__ __forceinline__ void study_settle_keys(const weft_study_params &p, const study_backward_job &job,
                                                         const study_meeting<S> &m, int stage,
                                                         float (&scores)[1][S::piece / 8][4]) {
    const weft_study_general &g = p.general;
    const weft_reach &reach = p.walk.reach;
    const bool masked = study_is_masked<S>(p, job, m.step);
    study_each_pair<S>(job, m, scores,
                       [&](float score, int, int) { return g.cap != 0 ? study_capped<S>(g, score) : score * g.scale; });
    if (g.alibi) {
        const float slope = 1.44269504f * g.alibi[job.visit.cut.sequence * g.alibi_stride + m.head];
        const int64_t position = weft_band_position(&reach.band, &job.sequence, 0) + job.sequence.columns.begin;
        study_each_pair<S>(job, m, scores, [&](float score, int query, int key) {
            return score - slope * fabsf((float)(position + query - key));
        });
    }
    if (g.bias) {
        study_each_pair<S>(job, m, scores, [&](float score, int query, int key) {
            return study_biased(score, study_bias_of_pair<S>(p, job, m.head, query, key));
        });
    }
    if (m.bits_at >= 0 || (masked && reach.blocks.pairs.tree)) {
        study_each_pair<S>(job, m, scores, [&](float score, int query, int key) {
            const int64_t row = min(query, p.seq - 1);
            const uint32_t word = weft_pairs_word(&reach.blocks, &job.sequence, m.bits_at,
                                                  job.visit.tile.batch * p.seq + row, row, key / 32 * 32);
            return word >> key % 32 & 1 ? score : -INFINITY;
        });
    }
    if (masked) {
        const study_run *runs = study_runs<S>() + stage * S::piece - m.column(); /* by query */
        study_each_pair<S>(job, m, scores, [&](float score, int query, int key) {
            return key >= runs[query].begin && key < runs[query].end ? score : -INFINITY;
        });
    }
}

/* A word of four, by a number that is not known when this is compiled: an array would be put into memory. */
static __device__ __forceinline__ uint32_t study_pick(const weft_philox &w, int which) {
    const uint32_t low = which & 1 ? w.word[1] : w.word[0], high = which & 1 ? w.word[3] : w.word[2];
    return which & 2 ? high : low;
}

/* Which weights of block n, rows `row` and row + 8 of keys, count as 0: a bit for each of the lane's four. Four
 * neighbouring keys share their random words, if the first is a multiple of 4. So the four lanes that have these keys work
 * out the words of one element each, and give each other their own. All lanes of the warp come here. */
static __device__ __forceinline__ uint32_t study_dropped_keys(const weft_study_general &g, int64_t line, int query, int row,
                                                              int first_row) {
    uint32_t dropped = 0;
    if (first_row % 4 != 0) {
#pragma unroll 1
        for (int i = 0; i < 4; i++) {
            const int key = row + i / 2 * 8;
            const uint32_t word = study_pick(weft_dropout_words(g.dropout_seed, line, query + i % 2, key), key % 4);
            dropped |= (word < g.dropout_limit ? 1u : 0u) << i;
        }
        return dropped;
    }
    const int mine = row % 4; /* the element whose words this lane works out */
    const weft_philox w = weft_dropout_words(g.dropout_seed, line, query + mine % 2, row - mine + mine / 2 * 8);
#pragma unroll
    for (int apart = 0; apart < 4; apart++) {
        const uint32_t word = __shfl_xor_sync(0xffffffffu, study_pick(w, mine ^ apart), 4 * apart);
        dropped |= (word < g.dropout_limit ? 1u : 0u) << (mine ^ apart);
    }
    return dropped;
}

/* Which weights of this lane count as 0: bit 4 n + i for element i of block n of a piece. */
template <class S>
static __device__ __forceinline__ uint32_t study_dropped(const weft_study_params &p, const study_backward_job &job,
                                                         const study_meeting<S> &m) {
    const weft_study_general &g = p.general;
    const int64_t line = job.visit.tile.batch * p.heads + m.head;
    const int row = job.first_row + study_lane_row<S>();
    uint32_t dropped = 0;
    if (g.dropout_limit == 0) {
        return 0;
    }
#pragma unroll 1
    for (int n = 0; n < S::piece / 8; n++) {
        if constexpr (S::keys) {
            const int query = m.column() + study_lane_column() + n * 8;
            dropped |= study_dropped_keys(g, line, query, row, job.first_row) << 4 * n;
        } else {
            uint32_t words[2][2];
            study_random_words(words, g.dropout_seed, line, row, m.column() + n * 8);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                dropped |= (words[i / 2][i % 2] < g.dropout_limit ? 1u : 0u) << (4 * n + i);
            }
        }
    }
    return dropped;
}

/* The sum and the delta of an element's query: the row's where rows are queries. */
template <class S> struct study_query {
    float log2_sum[2], delta[2]; /* of the halves of a lane's rows; not where queries pass */

    __device__ __forceinline__ float sum_of(int stage, int n, int i) const {
        return S::keys ? study_numbers<S>(stage)[n * 8 + study_lane_column() + i % 2] : log2_sum[i / 2];
    }
    __device__ __forceinline__ float delta_of(int stage, int n, int i) const {
        return S::keys ? study_numbers<S>(stage)[S::piece + n * 8 + study_lane_column() + i % 2] : delta[i / 2];
    }
};

/* Elements that are dropped become 0, the others are multiplied. */
template <class S>
static __device__ __forceinline__ void study_drop_elements(float (&elements)[1][S::piece / 8][4], uint32_t dropped,
                                                           float factor) {
#pragma unroll
    for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            elements[0][n][i] = dropped >> (4 * n + i) & 1 ? 0 : elements[0][n][i] * factor;
        }
    }
}

/* Applies `use` to every element of a piece, and to its place in the gradient of the bias: where rows are queries, and by
 * one of the warps that have them. */
template <class S, class USE>
static __device__ __forceinline__ void study_each_bias(const weft_study_backward_params &p, const study_backward_job &job,
                                                       const study_meeting<S> &m, float (&elements)[1][S::piece / 8][4],
                                                       USE use) {
    const weft_study_params &f = p.forward;
    const int row = study_lane_row<S>(), key = m.column() + study_lane_column();
    const int64_t line = job.visit.tile.batch * f.heads + m.head;
    float *to = p.grad_bias + (line * f.seq + job.first_row + row) * f.kv_seq + key;
    if (thread_index() / 32 % S::split != 0) {
        return;
    }
#pragma unroll
    for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (row + i / 2 * 8 < job.rows && key + n * 8 + i % 2 < f.kv_seq) {
                use(to[(int64_t)(i / 2 * 8) * f.kv_seq + n * 8 + i % 2], elements[0][n][i]);
            }
        }
    }
}

/* Makes raw scores S weights P, and gradients of weights dP gradients of scores dS = P (dP - delta): with dropout, dP is of
 * the weights that are left, and so is what P meets dO with; a cap multiplies dS by its slope. The gradient of a bias is dS
 * without a cap's slope: there dP - delta waits in memory for its weight, as registers are few. */
template <class S>
static __device__ __forceinline__ void
study_differentiate(const weft_study_backward_params &all, const study_backward_job &job, const study_meeting<S> &m,
                    int stage, const study_query<S> &query, float (&scores)[1][S::piece / 8][4],
                    float (&grads)[1][S::piece / 8][4]) {
    const weft_study_params &p = all.forward;
    const weft_study_general &g = p.general;
    const bool wants_bias = !S::keys && all.grad_bias;
    const uint32_t dropped = study_dropped<S>(p, job, m);
    if (g.dropout_limit != 0) {
        study_drop_elements<S>(grads, dropped, g.kept);
    }
#pragma unroll
    for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            grads[0][n][i] -= query.delta_of(stage, n, i);
        }
    }
    if (g.cap != 0) {
        if (wants_bias) {
            study_each_bias<S>(all, job, m, grads, [](float &to, float grad) { to = grad; });
        }
#pragma unroll
        for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float part = study_capped<S>(g, scores[0][n][i]) / g.cap;
                grads[0][n][i] *= 1 - part * part;
            }
        }
    }
    if constexpr (S::keys) {
        study_settle_keys<S>(p, job, m, stage, scores);
    } else {
        study_settle_piece<S>(p, job, m.step * S::pieces + m.part, m.bits_at, scores);
    }
#pragma unroll
    for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[0][n][i] = study_exp2<S>(scores[0][n][i] - query.sum_of(stage, n, i));
            grads[0][n][i] *= scores[0][n][i];
        }
    }
    if (wants_bias && g.cap != 0) {
        study_each_bias<S>(all, job, m, scores, [](float &to, float weight) { to *= weight; });
    } else if (wants_bias) {
        study_each_bias<S>(all, job, m, grads, [](float &to, float grad) { to = grad; });
    }
    if (g.dropout_limit != 0) {
        study_drop_elements<S>(scores, dropped, 1);
    }
}

#endif
