/* Full: a dense bias and dropout, for the pairs of queries and keys that a consumer's thread holds.
 *
 * Rows are keys, columns queries: element i of block j is query 8 j + i % 2 and key 8 (i / 2), both counted from the
 * thread's first. The bias comes straight from memory: shared memory has no room for it beside the rest. */
#ifndef WEFT_CUDA_SM90_BACKWARD_FULL_CUH
#define WEFT_CUDA_SM90_BACKWARD_FULL_CUH

#include "cuda/sm90/backward/shape.cuh"
#include "problem/dropout.h"

/* The thread's first key of its tile, and its first query of a block. */
static __device__ __forceinline__ int backward_thread_key(uint32_t group) {
    const int thread = (int)thread_index();
    return (int)group * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
}

static __device__ __forceinline__ int backward_thread_query() {
    return (int)thread_index() % 4 * 2;
}

/* What is added to the scores of a step's pairs, half of the queries at a time: registers for all there are not. Nor does a
 * thread keep where they are: it looks again. */
template <class S> struct backward_added {
    float of[S::queries / 4];

    /* Asks for a bias of elements T, whose bits `of` gets as they are: nobody waits for them yet. */
    template <class T>
    __device__ __forceinline__ void load_as(const char *bias, int64_t query_bytes, int64_t key_bytes, int queries,
                                            int keys) {
#pragma unroll
        for (int i = 0; i < S::queries / 4; i++) {
            const int query = i / 4 * 8 + i % 2, key = i / 2 % 2 * 8;
            const char *from = bias + query * query_bytes + key * key_bytes;
            of[i] = query < queries && key < keys ? __uint_as_float(*(const T *)from) : 0;
        }
    }

    template <int HALF>
    __device__ __forceinline__ void load(const weft_hopper_backward_params &p, const backward_full_step &step,
                                         uint32_t group) {
        const weft_hopper_backward_full &f = p.full;
        const int query = step.row + HALF * S::queries / 2 + backward_thread_query();
        const int key = step.key + backward_thread_key(group);
        const int queries = p.seq - query, keys = p.kv_seq - key; /* that are there, from these on */
        const char *bias = (const char *)f.bias + step.batch * f.batch_bytes + step.head * f.head_bytes +
                           query * f.query_bytes + key * f.key_bytes;
        if (!f.bias) {
#pragma unroll
            for (int i = 0; i < S::queries / 4; i++) {
                of[i] = 0;
            }
        } else if (f.bias_type == WEFT_BIAS_BOOL) {
            load_as<uint8_t>(bias, f.query_bytes, f.key_bytes, queries, keys);
        } else if (f.bias_type == WEFT_BIAS_FP32) {
            load_as<uint32_t>(bias, f.query_bytes, f.key_bytes, queries, keys);
        } else {
            load_as<uint16_t>(bias, f.query_bytes, f.key_bytes, queries, keys);
        }
    }

    /* Makes what was loaded what is added, -inf where a key is hidden. */
    template <int HALF>
    __device__ __forceinline__ void settle(const weft_hopper_backward_params &p, const backward_views<S> &views,
                                           uint32_t stage, uint32_t group) {
        if (p.full.bias && p.full.bias_type == WEFT_BIAS_BOOL) {
#pragma unroll
            for (int i = 0; i < S::queries / 4; i++) {
                of[i] = (uint32_t)__float_as_int(of[i]) ? 0 : -INFINITY;
            }
        } else if (p.full.bias && p.full.bias_type == WEFT_BIAS_DTYPE) {
#pragma unroll
            for (int i = 0; i < S::queries / 4; i++) {
                of[i] = half_to_float<S::bf16>((uint32_t)__float_as_int(of[i]));
            }
        }
        if (p.scores.alibi) {
            const int first = HALF * S::queries / 2 + backward_thread_query() - backward_thread_key(group);
            const float slope = views.slope[stage], away = views.away[stage] + (float)first;
#pragma unroll
            for (int i = 0; i < S::queries / 4; i++) {
                of[i] = fmaf(-slope, fabsf(away + (float)(i / 4 * 8 + i % 2 - i / 2 % 2 * 8)), of[i]);
            }
        }
    }

    /* Scores that are not capped become what weights are exponentials of. Hidden ones stay so: their bias may be NaN. */
    template <int HALF> __device__ __forceinline__ void add(float scale, float (&scores)[S::queries / 2]) const {
#pragma unroll
        for (int i = 0; i < S::queries / 4; i++) {
            float &score = scores[HALF * S::queries / 4 + i];
            score = score == -INFINITY ? score : fmaf(score, scale, of[i]);
        }
    }
};

/* dS of two blocks of a thread's pairs, from the j-th on, to the gradient of the bias. What is 0 is there already, and a
 * pair that is not there, or is of two sequences, is 0. */
template <class S>
static __device__ __forceinline__ void backward_store_bias(const weft_hopper_backward_params &p,
                                                           const backward_full_step &step, uint32_t group, int j,
                                                           const float (&d)[8]) {
    const int64_t line = (int64_t)step.batch * p.heads + step.head;
    const int query = step.row + backward_thread_query() + j * 8, key = step.key + backward_thread_key(group);
    float *to = p.full.grad_bias + (line * p.seq + query) * p.kv_seq + key;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (d[i] != 0) {
            to[(i / 4 * 8 + i % 2) * p.kv_seq + i / 2 % 2 * 8] = d[i];
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
                                                            const backward_full_step &step, uint32_t group) {
    const weft_hopper_backward_full &f = p.full;
    const int64_t line = (int64_t)step.batch * p.heads + step.head;
    const int key = step.key + backward_thread_key(group), mine = key % 4; /* the element whose words this lane works out */
    const bool shared = step.key % 4 == 0;
    int query = step.row + backward_thread_query();
    uint32_t dropped = 0;
    static_assert(S::queries == 64, "a bit for each of the thread's pairs");
#pragma unroll 1
    for (int j = 0; j < S::queries / 8; j++, query += 8) {
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
