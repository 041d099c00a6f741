/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a panel of scores before they are weights: cap, slopes, bias, block masks and tree masks; and of weights
 * before they meet V: dropout.
 * A panel has one row for each key and one column for each query, as weft_cpu_panel has it. */
#ifndef WEFT_CPU_ATTENTION_SCORES_H
#define WEFT_CPU_ATTENTION_SCORES_H

#include "cpu/kernel/kernel.h"

/* Queries of one head, all of one sequence. */
typedef struct weft_cpu_queries {
    int64_t batch, head;
    weft_rows rows;
    int64_t number; /* of the sequence */
    weft_sequence sequence;
} weft_cpu_queries;

typedef struct weft_cpu_scores {
    const weft_attention *p;
    const weft_cpu_kernel *kernel;
    weft_band band;
    weft_sequences sequences;
    weft_blocks blocks;
    const float *alibi;
    const void *bias;
    uint64_t seed;
    float scale;  /* of the products */
    int changes;  /* 1: scores are capped or biased: see weft_cpu_scores_change() */
    int drops;    /* 1: weights are dropped: see weft_cpu_scores_keep() */
    float factor; /* what makes scores to base 2 of products, or of what they were changed to */
} weft_cpu_scores;

/* `scale` is the problem's, or its absolute value where the queries take the sign. */
weft_cpu_scores weft_cpu_scores_of(const weft_attention *problem, const weft_cpu_kernel *kernel, double scale,
                                   const float *alibi, const void *bias, uint64_t seed);

/* The queries of a tile's rows. */
weft_cpu_queries weft_cpu_queries_of(const weft_cpu_scores *s, int64_t batch, int64_t head, weft_rows rows, int64_t number);

/* A panel of these queries from `row` on, whose columns past the last query stand for it, and of `keys` keys from `key`. */
typedef struct weft_cpu_place {
    const weft_cpu_queries *queries;
    int64_t row, key, keys;
    int masked;      /* 1: a block mask or a tree mask may hide some of these pairs: see weft_cpu_scores_hide() */
    int32_t bits_at; /* of the keys' block of the mask: see weft_pairs */
    int searches;    /* 1: rows and keys may be of several blocks, so that bits_at is looked up */
} weft_cpu_place;

/* Products become scores to base 2. `slopes` is null, or becomes what the cap multiplies gradients by. */
void weft_cpu_scores_change(const weft_cpu_scores *s, const weft_cpu_place *at, float *scores, float *slopes);

/* What is hidden becomes infinite, so that its weight is 0. */
void weft_cpu_scores_hide(const weft_cpu_scores *s, const weft_cpu_place *at, float *scores);

/* Whether the panel's query of a column sees one of its keys, if its band shows it. */
int weft_cpu_scores_show(const weft_cpu_scores *s, const weft_cpu_place *at, int64_t column, int64_t key);

/* What dropout multiplies the panel's weights by: 0 or 1 / (1 - dropout). */
void weft_cpu_scores_keep(const weft_cpu_scores *s, const weft_cpu_place *at, float *kept);

/* to (count) *= by (count) */
static inline void weft_cpu_multiply_floats(int64_t count, float *to, const float *by) {
    for (int64_t i = 0; i < count; i++) {
        to[i] *= by[i];
    }
}

#endif
