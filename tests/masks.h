/* SPDX-License-Identifier: Apache-2.0 */
/* Masks and lengths drawn at random, and what they say in words. */
#ifndef TESTS_MASKS_H
#define TESTS_MASKS_H

#include <weft/weft.h>

#include "pairs.h"

/* Any mask, with an offset and a window where it has them: some queries may see nothing, some keys may not be seen. */
static inline void draw_mask(uint64_t *random, weft_attention *p) {
    p->offset = p->left = p->right = 0;
    p->mask = (weft_mask)random_between(random, WEFT_MASK_NONE, WEFT_MASK_WINDOW_BOTTOM_RIGHT);
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        p->offset = p->kv_seq - p->seq + random_between(random, -p->kv_seq, p->seq);
    }
    if (p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        p->left = random_between(random, -1, p->kv_seq / 2);
        p->right = random_between(random, -1, p->kv_seq / 2);
    }
}

/* Chunks, and a prefix where the mask allows one. */
static inline void draw_chunk(uint64_t *random, weft_attention *p) {
    p->chunk = random_between(random, 1, p->kv_seq + 3);
}

static inline void draw_prefix(uint64_t *random, weft_attention *p) {
    p->chunk = 0;
    p->left = p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT ? -1 : 0;
    p->prefix = random_between(random, 1, p->kv_seq + 3);
}

/* Room for lengths, and those that count: what the problem has and what it leaves to the data. */
enum { MOST_SEQUENCES = 8 };
typedef struct drawn_lengths {
    int32_t q_starts[MOST_SEQUENCES + 1], kv_starts[MOST_SEQUENCES + 1];
    int32_t q_used[MOST_SEQUENCES], kv_used[MOST_SEQUENCES], kv_pad[MOST_SEQUENCES];
    weft_lengths all;
    drawn_pairs room;
    weft_pairs pairs; /* as `all` */
} drawn_lengths;

/* Ascending from 0, at most `most`; some are the same. */
static inline void draw_starts(uint64_t *random, int64_t count, int64_t most, int32_t *to) {
    to[0] = 0;
    for (int64_t i = 1; i <= count; i++) {
        const int64_t left = most - to[i - 1];
        to[i] = to[i - 1] + (int32_t)(random_between(random, 0, 4) == 0 ? 0 : random_between(random, 0, left));
    }
}

/* As much of a sequence as counts, often all or nothing. */
static inline int32_t draw_part(uint64_t *random, int64_t whole) {
    const int64_t kind = random_between(random, 0, 5);
    return (int32_t)(kind == 0 ? 0 : kind < 3 ? whole : random_between(random, 0, whole));
}

/* Gives an array of lengths to the problem, or leaves it to the data. */
static inline void place_lengths(uint64_t *random, weft_attention *p, int32_t bit, const int32_t **field,
                                 const int32_t **all, const int32_t *numbers) {
    *all = numbers;
    if (random_between(random, 0, 1)) {
        *field = numbers;
    } else {
        p->extras |= bit;
    }
}

/* Lengths that vary: a packed batch, or used lengths and padding. Problems have at most MOST_SEQUENCES batches. */
static inline void draw_lengths(uint64_t *random, weft_attention *p, int packed, drawn_lengths *to) {
    const weft_lengths none = {0, 0, 0, 0, 0};
    const int has_own_keys = (int)random_between(random, 0, 1), kinds = (int)random_between(random, packed ? 0 : 1, 7);
    p->lengths = to->all = none;
    p->sequences = packed ? random_between(random, 1, MOST_SEQUENCES) : 0;
    p->batch = packed ? 1 : p->batch;
    if (packed) {
        const int64_t most = has_own_keys || p->seq < p->kv_seq ? p->seq : p->kv_seq;
        draw_starts(random, p->sequences, most, to->q_starts);
        draw_starts(random, p->sequences, p->kv_seq, to->kv_starts);
        place_lengths(random, p, WEFT_STARTS, &p->lengths.q_starts, &to->all.q_starts, to->q_starts);
        if (has_own_keys) {
            place_lengths(random, p, WEFT_KV_STARTS, &p->lengths.kv_starts, &to->all.kv_starts, to->kv_starts);
        }
    }
    const int32_t *kv_starts = has_own_keys ? to->kv_starts : to->q_starts;
    for (int64_t i = 0; i < (packed ? p->sequences : p->batch); i++) {
        const int64_t keys = packed ? kv_starts[i + 1] - kv_starts[i] : p->kv_seq;
        to->q_used[i] = draw_part(random, packed ? to->q_starts[i + 1] - to->q_starts[i] : p->seq);
        to->kv_used[i] = draw_part(random, keys);
        to->kv_pad[i] = draw_part(random, keys) / 2;
    }
    if (kinds & 1) {
        place_lengths(random, p, WEFT_KV_USED, &p->lengths.kv_used, &to->all.kv_used, to->kv_used);
    }
    if (kinds & 2) {
        place_lengths(random, p, WEFT_Q_USED, &p->lengths.q_used, &to->all.q_used, to->q_used);
    }
    if (kinds & 4) {
        place_lengths(random, p, WEFT_KV_PAD, &p->lengths.kv_pad, &to->all.kv_pad, to->kv_pad);
    }
}

/* A block mask, and a tree mask, in the problem or left to the data. */
static inline void draw_blocks(uint64_t *random, weft_attention *p, int64_t side, drawn_lengths *to) {
    const weft_pairs none = {0, 0, 0, 0, 0};
    draw_blocks_in(random, p, side, &to->room);
    to->pairs = p->pairs;
    if (!random_between(random, 0, 1)) {
        p->pairs = none;
        p->extras |= WEFT_BLOCKS;
    }
}

static inline void draw_tree(uint64_t *random, weft_attention *p, drawn_lengths *to) {
    draw_tree_in(random, p, &to->room);
    to->pairs.tree = p->pairs.tree;
    if (!random_between(random, 0, 1)) {
        p->pairs.tree = 0;
        p->extras |= WEFT_TREE;
    }
}

static inline int64_t floor_divide(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Whether a query of a sequence of so many sees a key of so many, both counted from the first that counts. */
static inline int band_shows(const weft_attention *p, int64_t queries, int64_t keys, int64_t query, int64_t key) {
    const int has_offset = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW;
    const int64_t own = query + (has_offset ? p->offset : keys - queries);
    if (key < p->prefix) {
        return 1;
    }
    if (p->chunk > 0 && floor_divide(own, p->chunk) != key / p->chunk) {
        return 0;
    }
    switch (p->mask) {
    case WEFT_MASK_CAUSAL:
    case WEFT_MASK_CAUSAL_BOTTOM_RIGHT:
        return key <= own;
    case WEFT_MASK_WINDOW:
    case WEFT_MASK_WINDOW_BOTTOM_RIGHT:
        return (p->left < 0 || own - key <= p->left) && (p->right < 0 || key - own <= p->right);
    case WEFT_MASK_NONE:
        break;
    }
    return 1;
}

/* Whether a query of a batch sees a key, on the problem as the caller wrote it and with these lengths. */
static inline int batch_shows(const weft_attention *p, const weft_lengths *l, int64_t batch, int64_t query, int64_t key) {
    int64_t n = batch, queries = p->seq, keys = p->kv_seq;
    if (l->q_starts) {
        const int32_t *kv_starts = l->kv_starts ? l->kv_starts : l->q_starts;
        for (n = 0; n < p->sequences && !(query >= l->q_starts[n] && query < l->q_starts[n + 1]); n++) {
        }
        if (n == p->sequences) {
            return 0;
        }
        query -= l->q_starts[n];
        key -= kv_starts[n];
        queries = l->q_starts[n + 1] - l->q_starts[n];
        keys = kv_starts[n + 1] - kv_starts[n];
    }
    const int64_t pad = l->kv_pad ? l->kv_pad[n] : 0;
    queries = l->q_used ? l->q_used[n] : queries;
    keys = l->kv_used ? l->kv_used[n] : keys;
    return query < queries && key >= pad && key < keys && band_shows(p, queries, keys - pad, query, key - pad);
}

/* Whether the block mask and the tree mask leave a pair that the band shows, on the problem as the caller wrote it. */
static inline int pairs_show(const weft_attention *p, const weft_pairs *pairs, const weft_lengths *l, int64_t batch,
                             int64_t head, int64_t query, int64_t key) {
    int64_t n = batch, first_query = 0, queries = p->seq, end = p->kv_seq;
    if (pairs->block_starts) {
        const int64_t list = batch * p->block_batch_stride + head * p->block_head_stride + query / p->block_rows;
        int32_t i = pairs->block_starts[list];
        while (i < pairs->block_starts[list + 1] && pairs->block_list[i] != key / p->block_columns) {
            i++;
        }
        if (i == pairs->block_starts[list + 1]) {
            return 0;
        }
        const int64_t line = pairs->block_bits_at[i] * p->block_rows + query % p->block_rows;
        const int64_t bit = line * p->block_columns + key % p->block_columns;
        if (pairs->block_bits_at[i] >= 0 && !(pairs->block_bits[bit / 32] >> bit % 32 & 1)) {
            return 0;
        }
    }
    if (!pairs->tree) {
        return 1;
    }
    if (l->q_starts) {
        const int32_t *kv_starts = l->kv_starts ? l->kv_starts : l->q_starts;
        for (n = 0; !(query >= l->q_starts[n] && query < l->q_starts[n + 1]); n++) {
        }
        first_query = l->q_starts[n];
        queries = l->q_starts[n + 1] - first_query;
        end = kv_starts[n + 1];
        end = l->kv_used ? kv_starts[n] + l->kv_used[n] : end;
    } else {
        end = l->kv_used ? l->kv_used[n] : end;
    }
    queries = l->q_used ? l->q_used[n] : queries;
    const int64_t tree_key = key - (end - queries);
    return tree_key < 0 || (tree_key < 64 && (pairs->tree[batch * p->seq + query] >> tree_key & 1));
}

/* The same without lengths. */
static inline int mask_shows(const weft_attention *p, int64_t query, int64_t key) {
    return band_shows(p, p->seq, p->kv_seq, query, key);
}

#endif
