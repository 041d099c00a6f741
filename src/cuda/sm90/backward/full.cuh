/* SPDX-License-Identifier: Apache-2.0 */
/* Full: a dense bias and dropout, for the pairs of queries and keys that a consumer's thread holds of a step.
 *
 * They are 64 rows and 64 columns of a warpgroup, as products leave them: element i of block j is row 8 (i / 2) and column
 * 8 j + i % 2, both counted from the thread's first. Rows are keys and columns queries; in dq.cuh it is the other way
 * round. The bias comes straight from memory: shared memory has no room for it beside the rest. */
#ifndef WEFT_CUDA_SM90_BACKWARD_FULL_CUH
#define WEFT_CUDA_SM90_BACKWARD_FULL_CUH

#include "cuda/sm90/backward/shape.cuh"
#include "problem/dropout.h"

/* The thread's first row and column. */
static __device__ __forceinline__ int backward_thread_row() {
    const int thread = (int)thread_index();
    return thread % 128 / 32 * 16 + thread % 32 / 4;
}

static __device__ __forceinline__ int backward_thread_column() {
    return (int)thread_index() % 4 * 2;
}

/* Pairs whose rows are keys: which they are. A thread does not keep that but looks again. */
template <class S> struct backward_key_pairs {
    static constexpr bool by_key = true;
    const backward_desk<S> &desk;
    uint32_t stage; /* the step's */
    uint32_t first; /* of the tile's keys: the warpgroup's first */

    __device__ __forceinline__ int64_t line(const weft_hopper_backward_params &p) const { /* of queries */
        return (int64_t)desk.steps[stage].batch * p.heads + desk.steps[stage].head;
    }

    __device__ __forceinline__ const char *bias(const weft_hopper_backward_full &f) const { /* of the line */
        return (const char *)f.bias + desk.steps[stage].batch * f.batch_bytes + desk.steps[stage].head * f.head_bytes;
    }

    __device__ __forceinline__ int query() const { /* the thread's first */
        return desk.steps[stage].row + backward_thread_column();
    }

    __device__ __forceinline__ int key() const {
        return desk.steps[stage].key + (int)first + backward_thread_row();
    }

    /* By how much scores fall with distance; how far the thread's first column stands behind its first row. */
    __device__ __forceinline__ float slope(const weft_hopper_backward_params &) const {
        return desk.views.slope[stage];
    }

    __device__ __forceinline__ float away() const {
        return desk.views.away[stage] + (float)(backward_thread_column() - backward_thread_row() - (int)first);
    }
};

/* What is added to the scores of a step's pairs, half of the columns at a time: registers for all there are not. */
template <bool BF16, class PAIRS> struct backward_added {
    float of[16];

    /* Asks for a bias of elements T, whose bits `of` gets as they are: nobody waits for them yet. */
    template <class T>
    __device__ __forceinline__ void load_as(const char *bias, int64_t column_bytes, int64_t row_bytes, int columns,
                                            int rows) {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int column = i / 4 * 8 + i % 2, row = i / 2 % 2 * 8;
            const char *from = bias + column * column_bytes + row * row_bytes;
            of[i] = column < columns && row < rows ? __uint_as_float(*(const T *)from) : 0;
        }
    }

    template <int HALF> __device__ __forceinline__ void load(const weft_hopper_backward_params &p, const PAIRS &pairs) {
        const weft_hopper_backward_full &f = p.full;
        const int query = pairs.query() + (PAIRS::by_key ? HALF * 32 : 0);
        const int key = pairs.key() + (PAIRS::by_key ? 0 : HALF * 32);
        const int queries = p.seq - query, keys = p.kv_seq - key; /* that are there, from these on */
        const char *bias = pairs.bias(f) + query * f.query_bytes + key * f.key_bytes;
        const int64_t column_bytes = PAIRS::by_key ? f.query_bytes : f.key_bytes;
        const int64_t row_bytes = PAIRS::by_key ? f.key_bytes : f.query_bytes;
        const int columns = PAIRS::by_key ? queries : keys, rows = PAIRS::by_key ? keys : queries;
        if (!f.bias) {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                of[i] = 0;
            }
        } else if (f.bias_type == WEFT_BIAS_BOOL) {
            load_as<uint8_t>(bias, column_bytes, row_bytes, columns, rows);
        } else if (f.bias_type == WEFT_BIAS_FP32) {
            load_as<uint32_t>(bias, column_bytes, row_bytes, columns, rows);
        } else {
            load_as<uint16_t>(bias, column_bytes, row_bytes, columns, rows);
        }
    }

    /* Makes what was loaded what is added, -inf where a key is hidden. */
    template <int HALF> __device__ __forceinline__ void settle(const weft_hopper_backward_params &p, const PAIRS &pairs) {
        if (p.full.bias && p.full.bias_type == WEFT_BIAS_BOOL) {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                of[i] = (uint32_t)__float_as_int(of[i]) ? 0 : -INFINITY;
            }
        } else if (p.full.bias && p.full.bias_type == WEFT_BIAS_DTYPE) {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                of[i] = half_to_float<BF16>((uint32_t)__float_as_int(of[i]));
            }
        }
        if (p.scores.alibi) {
            const float slope = pairs.slope(p), away = pairs.away() + (float)(HALF * 32);
#pragma unroll
            for (int i = 0; i < 16; i++) {
                of[i] = fmaf(-slope, fabsf(away + (float)(i / 4 * 8 + i % 2 - i / 2 % 2 * 8)), of[i]);
            }
        }
    }

    /* Scores that are not capped become what weights are exponentials of. Hidden ones stay so: their bias may be NaN. */
    template <int HALF> __device__ __forceinline__ void add(float scale, float (&scores)[32]) const {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float &score = scores[HALF * 16 + i];
            score = score == -INFINITY ? score : fmaf(score, scale, of[i]);
        }
    }
};

/* Goes through the scores of a step, whose products are there and of whose bias the first half was asked for. Calls
 * begin(), and then half(0) and half(1), numbers that are known when this is compiled, when those columns are biased; or,
 * CAPPED, neither scaled nor biased, and the bias is in `added`. */
template <bool CAPPED, bool BF16, class PAIRS, class BEGIN, class HALF>
static __device__ __forceinline__ void backward_by_halves(const weft_hopper_backward_params &p, const PAIRS &pairs,
                                                          backward_added<BF16, PAIRS> &added, float (&scores)[32],
                                                          const BEGIN &begin, const HALF &half) {
    added.template settle<0>(p, pairs);
    if constexpr (!CAPPED) {
        added.template add<0>(p.scale, scores);
        added.template load<1>(p, pairs);
    }
    begin();
    half(std::integral_constant<int, 0>());
    if constexpr (CAPPED) {
        added.template load<1>(p, pairs);
    }
    added.template settle<1>(p, pairs);
    if constexpr (!CAPPED) {
        added.template add<1>(p.scale, scores);
    }
    half(std::integral_constant<int, 1>());
}

/* The weight of a pair, from what backward_by_halves() leaves; added: what is to be added where CAPPED. slope: the cap's. A
 * score and its query's sum are in natural units: exponents over a sum, however large the two are, are small. */
template <bool CAPPED>
static __device__ __forceinline__ float backward_weight(const weft_hopper_backward_params &p, float score, float added,
                                                        float sum, float &slope) {
    slope = 1;
    if constexpr (CAPPED) {
        const float part = reciprocal_flushed(1 + exp2_flushed(score * p.scores.cap_scale));
        const float whole = fmaf(p.full.cap, 1 - 2 * part, added);
        score = score == -INFINITY ? score : whole; /* hidden, which a cap would undo */
        slope = 4 * part * (1 - part);
    }
    return exp2_flushed((score - sum) * 1.44269504f);
}

/* dS of a pair, before the slope of a cap. Weights that are dropped count as 0 in dV and dP, where others are multiplied by
 * `kept`; dV is when it is stored. */
static __device__ __forceinline__ float backward_ds(const weft_hopper_backward_params &p, float weight, bool drops,
                                                    float grad, float delta) {
    return weight * ((drops ? 0 : grad * p.full.kept) - delta);
}

/* dS of two blocks of a thread's pairs, from the j-th on, to the gradient of the bias. What is 0 is there already, and a
 * pair of a query that is not there is 0. That of a key that is not there may be NaN, where dP is infinite. */
template <class PAIRS>
static __device__ __forceinline__ void backward_store_bias(const weft_hopper_backward_params &p, const PAIRS &pairs, int j,
                                                           const float (&d)[8]) {
    const int query = pairs.query() + (PAIRS::by_key ? j * 8 : 0), key = pairs.key() + (PAIRS::by_key ? 0 : j * 8);
    float *to = p.full.grad_bias + (pairs.line(p) * p.seq + query) * p.kv_seq + key;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int column = i / 4 * 8 + i % 2, row = i / 2 % 2 * 8;
        if (d[i] != 0 && key + (PAIRS::by_key ? row : column) < p.kv_seq) {
            to[PAIRS::by_key ? column * p.kv_seq + row : row * p.kv_seq + column] = d[i];
        }
    }
}

/* A word of four, by a number that is not known when this is compiled: an array would be put into memory. */
static __device__ __forceinline__ uint32_t backward_pick(const weft_philox &w, int which) {
    const uint32_t low = which & 1 ? w.word[1] : w.word[0], high = which & 1 ? w.word[3] : w.word[2];
    return which & 2 ? high : low;
}

/* Which weights of a step this thread drops: bit 4 j + i for element i of block j. Four neighbouring keys of a query share
 * their words, if the first is a multiple of 4: then the four lanes that hold them work out the words of one element each,
 * and give each other their own. */
template <class S>
static __device__ __forceinline__ uint32_t backward_dropped(const weft_hopper_backward_params &p,
                                                            const backward_key_pairs<S> &pairs) {
    const weft_hopper_backward_full &f = p.full;
    const int64_t line = pairs.line(p);
    const int key = pairs.key(), mine = key % 4; /* the element whose words this lane works out */
    const bool shared = pairs.desk.steps[pairs.stage].key % 4 == 0;
    int query = pairs.query();
    uint32_t dropped = 0;
#pragma unroll 1
    for (int j = 0; j < 8; j++, query += 8) {
        uint32_t four = 0;
        if (shared) {
            const weft_philox w = weft_dropout_words(f.dropout_seed, line, query + mine % 2, key - mine + mine / 2 * 8);
#pragma unroll
            for (int apart = 0; apart < 4; apart++) {
                const uint32_t word = __shfl_xor_sync(0xffffffffu, backward_pick(w, mine ^ apart), 4 * apart);
                four |= (word < f.dropout_limit ? 1u : 0u) << (mine ^ apart);
            }
        } else {
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
                const int other = key + i / 2 * 8;
                const weft_philox w = weft_dropout_words(f.dropout_seed, line, query + i % 2, other);
                four |= (backward_pick(w, other % 4) < f.dropout_limit ? 1u : 0u) << i;
            }
        }
        dropped |= four << 4 * j;
    }
    return dropped;
}

#endif
