/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions with some of the features that a problem may ask for, drawn at random. */
#ifndef TESTS_FEATURES_H
#define TESTS_FEATURES_H

#include "masks.h"
#include "problem/problem.h"

enum { FEATURES = 16 }; /* those of WEFT_HAS_UNCACHED, and results in fp32 */

/* What is asked of a bias: any type, and some axes repeated. */
static inline void draw_bias(uint64_t *random, weft_attention *p) {
    p->extras |= WEFT_BIAS;
    p->bias_type = (int32_t)random_between(random, WEFT_BIAS_DTYPE, WEFT_BIAS_BOOL);
    if (random_between(random, 0, 1)) {
        const int64_t lines = random_between(random, 0, 1), batches = random_between(random, 0, 1);
        p->bias_key_stride = random_between(random, 1, 2);
        p->bias_strides.seq = p->kv_seq * p->bias_key_stride + 1;
        p->bias_strides.head = lines * p->seq * p->bias_strides.seq;
        p->bias_strides.batch = batches * p->heads * p->seq * p->bias_strides.seq;
    }
}

/* Gives a problem, whose sizes and mask are drawn, the features of these bits; those that exclude each other give way. The
 * blocks of a block mask have multiples of `side` queries and keys. */
static inline void draw_features(uint64_t *random, weft_attention *p, int32_t bits, int64_t side, drawn_lengths *lengths) {
    const weft_lengths none = {0, 0, 0, 0, 0};
    const weft_pairs no_pairs = {0, 0, 0, 0, 0};
    lengths->all = none;
    lengths->pairs = no_pairs;
    p->seq = bits & WEFT_HAS_TREE ? (p->seq - 1) % 64 + 1 : p->seq;
    if (bits & WEFT_HAS_CHUNK) {
        draw_chunk(random, p);
    }
    if (bits & WEFT_HAS_PREFIX) {
        draw_prefix(random, p);
    }
    if (bits & WEFT_HAS_LENGTHS) {
        draw_lengths(random, p, !(bits & (WEFT_HAS_BIAS | WEFT_HAS_BLOCKS)) && random_between(random, 0, 2), lengths);
    }
    if (bits & WEFT_HAS_BLOCKS) {
        draw_blocks(random, p, side, lengths);
    }
    if (bits & WEFT_HAS_TREE) {
        draw_tree(random, p, lengths);
    }
    p->softcap = bits & WEFT_HAS_SOFTCAP ? (double)random_between(random, 1, 60) / 4 : 0;
    p->dropout = bits & WEFT_HAS_DROPOUT ? (double)random_between(random, 1, 9) / 10 : 0;
    p->extras |= (bits & WEFT_HAS_SINKS ? WEFT_SINKS : 0) | (bits & WEFT_HAS_MAX ? WEFT_MAX : 0);
    if (bits & WEFT_HAS_ALIBI) {
        p->extras |= WEFT_ALIBI;
        p->alibi_stride = random_between(random, 0, 1) * (p->heads + 1);
    }
    if (bits & WEFT_HAS_BIAS) {
        draw_bias(random, p);
    }
    p->head_dim += bits & WEFT_HAS_ODD_DIM ? random_between(random, 1, 7) : 0;
    p->head_dim = bits & WEFT_HAS_LARGE_DIM ? WEFT_MAX_HEAD_DIM - p->head_dim : p->head_dim;
    p->head_dim_v = bits & WEFT_HAS_OTHER_DIM ? random_between(random, 1, p->head_dim + 20) : 0;
    p->head_dim_v = p->head_dim_v > WEFT_MAX_HEAD_DIM ? WEFT_MAX_HEAD_DIM : p->head_dim_v;
    p->o_dtype = bits & WEFT_HAS_FP32_OUT ? 1 + WEFT_FP32 : 0;
}

/* The bit of a feature by its number. */
static inline int32_t feature_at(int64_t number) {
    return number == FEATURES - 1 ? WEFT_HAS_FP32_OUT : 1 << number;
}

/* A feature and another, or the same: in as many rounds as there are features every one comes first once. */
static inline int32_t draw_pair(uint64_t *random, int round) {
    return feature_at(round % FEATURES) | feature_at(random_between(random, 0, FEATURES - 1));
}

#endif
