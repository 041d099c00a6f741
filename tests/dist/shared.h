/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions over ranks, drawn at random. */
#ifndef WEFT_TESTS_DIST_SHARED_H
#define WEFT_TESTS_DIST_SHARED_H

#include "../masks.h"
#include "../random.h"
#include "dist/dist.h"
#include "problem/problem.h"

typedef struct shared_problem {
    weft_attention p;
    weft_ranks ranks;
    drawn_lengths lengths;
} shared_problem;

static inline int64_t least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A mask that ranks share: none, causal, a window, chunks, a prefix, or a packed batch under one of the first three. */
static inline void draw_shared_mask(uint64_t *random, shared_problem *s) {
    weft_attention *p = &s->p;
    const int64_t kind = random_between(random, 0, 7);
    p->mask = kind == 0 ? WEFT_MASK_NONE : kind < 3 ? WEFT_MASK_CAUSAL : (weft_mask)random_between(random, 1, 4);
    if (p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        p->left = random_between(random, -1, p->kv_seq);
        p->right = random_between(random, -1, p->kv_seq / 2);
    }
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        p->offset = random_between(random, 0, 3) ? p->kv_seq - p->seq : random_between(random, -p->seq, p->kv_seq);
    }
    if (kind == 5) {
        p->chunk = random_between(random, 1, p->kv_seq);
    } else if (kind == 6 && (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT)) {
        p->prefix = random_between(random, 1, p->kv_seq);
    }
}

/* Sequences of a packed batch: queries and keys of each, alike or not. */
static inline void draw_shared_packed(uint64_t *random, shared_problem *s) {
    weft_attention *p = &s->p;
    const int64_t most = (int64_t)(sizeof s->lengths.q_starts / sizeof *s->lengths.q_starts) - 1;
    const int alike = random_between(random, 0, 1) == 1;
    p->batch = 1;
    p->sequences = random_between(random, 1, least_of(most, 6));
    p->kv_seq = alike ? p->seq : p->kv_seq;
    s->lengths.q_starts[0] = s->lengths.kv_starts[0] = 0;
    for (int64_t i = 1; i <= p->sequences; i++) {
        const int32_t q = s->lengths.q_starts[i - 1], k = s->lengths.kv_starts[i - 1];
        s->lengths.q_starts[i] = (int32_t)random_between(random, q, i == p->sequences ? p->seq : q + (p->seq - q) / 2);
        s->lengths.kv_starts[i] =
            alike ? s->lengths.q_starts[i]
                  : (int32_t)random_between(random, k, i == p->sequences ? p->kv_seq : k + (p->kv_seq - k) / 2);
    }
    p->lengths.q_starts = s->lengths.q_starts;
    p->lengths.kv_starts = alike ? NULL : s->lengths.kv_starts;
}

static inline void draw_ranks(uint64_t *random, shared_problem *s, int64_t least, int64_t most) {
    const weft_attention *p = &s->p;
    weft_ranks *r = &s->ranks;
    r->ranks = random_between(random, least, least_of(most, least_of(p->seq, p->kv_seq)));
    r->cut = (int32_t)random_between(random, 0, WEFT_CUT_BALANCED);
    if (r->cut == WEFT_CUT_STRIPED && (p->chunk > 0 || (p->extras & WEFT_ALIBI))) {
        r->cut = WEFT_CUT_ZIGZAG;
    }
    r->exchange = (int32_t)random_between(random, 0, WEFT_EXCHANGE_ALL_GATHER);
    r->order = (int32_t)random_between(random, 0, WEFT_RANK_ORDERS);
    r->sweep = random_between(random, 0, 2) ? WEFT_SWEEP_CHOOSE : WEFT_SWEEP_FORWARD;
    r->columns = random_between(random, 0, r->ranks);
    r->most_keys = random_between(random, 0, 3) ? 0 : random_between(random, least_of(3, p->kv_seq), p->kv_seq);
    for (int64_t u = random_between(random, 1, 4); u > 1; u--) {
        if (r->ranks % u == 0 && p->heads % u == 0 && (p->kv_heads % u == 0 || u % p->kv_heads == 0)) {
            r->head_ranks = u;
            r->exchange = u == r->ranks && random_between(random, 0, 1) ? WEFT_EXCHANGE_HEADS : r->exchange;
            break;
        }
    }
}

/* A problem of at most so many rows, over ranks between these. */
static inline void draw_shared_among(uint64_t *random, shared_problem *s, int64_t most_rows, int64_t least_ranks,
                                     int64_t most_ranks) {
    static const int64_t heads[][2] = {{1, 1}, {2, 1}, {4, 2}, {6, 3}, {4, 4}, {8, 2}};
    const weft_attention fresh = WEFT_ATTENTION_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    const int64_t h = random_between(random, 0, 5);
    s->p = fresh;
    s->ranks = none;
    s->p.operation = random_between(random, 0, 1) ? WEFT_ATTENTION : WEFT_ATTENTION_BACKWARD;
    s->p.batch = random_between(random, 1, 2);
    s->p.heads = heads[h][0];
    s->p.kv_heads = heads[h][1];
    s->p.seq = random_between(random, least_ranks, most_rows);
    s->p.kv_seq = random_between(random, 0, 2) ? s->p.seq : random_between(random, least_ranks, most_rows);
    s->p.head_dim = 8 * random_between(random, 1, 4);
    s->p.head_dim_v = random_between(random, 0, 2) ? 0 : 8 * random_between(random, 1, 4);
    if (random_between(random, 0, 2) == 0) {
        draw_shared_packed(random, s);
    }
    draw_shared_mask(random, s);
    draw_ranks(random, s, least_ranks, most_ranks);
}

static inline void draw_shared(uint64_t *random, shared_problem *s, int64_t most_rows, int64_t most_ranks) {
    draw_shared_among(random, s, most_rows, 1, most_ranks);
}

#endif
