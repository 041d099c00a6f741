/* SPDX-License-Identifier: Apache-2.0 */
/* Block masks and tree masks drawn at random. */
#ifndef TESTS_PAIRS_H
#define TESTS_PAIRS_H

#include <weft/weft.h>

#include "random.h"

/* Room for their arrays. */
typedef struct drawn_pairs {
    int32_t starts[8192], list[16384], bits_at[16384];
    uint32_t bits[1 << 15];
    uint64_t tree[512];
} drawn_pairs;

/* Random bits of which many or few are 1, at times all or none. */
static inline uint64_t draw_word(uint64_t *random) {
    const uint64_t a = random_bits(random), b = random_bits(random);
    const int64_t kind = random_between(random, 0, 9);
    return kind == 0 ? 0 : kind == 1 ? ~UINT64_C(0) : kind < 6 ? a | b : a & b;
}

/* Gives a problem a block mask of blocks of its block_rows and block_columns. Some lists are empty. */
static inline void draw_lists_in(uint64_t *random, weft_attention *p, drawn_pairs *room) {
    const int64_t rows = (p->seq + p->block_rows - 1) / p->block_rows;
    const int64_t columns = (p->kv_seq + p->block_columns - 1) / p->block_columns;
    const int64_t words = p->block_rows * p->block_columns / 32;
    const int by_head = (int)random_between(random, 0, 1), by_batch = (int)random_between(random, 0, 1);
    p->block_head_stride = by_head * (rows + random_between(random, 0, 1));
    p->block_batch_stride = by_batch * (by_head ? p->heads * p->block_head_stride : rows);
    p->block_bitmaps = random_between(random, 0, (1 << 15) / words);
    const int64_t lists = (p->batch - 1) * p->block_batch_stride + (p->heads - 1) * p->block_head_stride + rows;
    int32_t n = 0;
    for (int64_t i = 0; i < lists; i++) {
        const int64_t share = random_between(random, 0, 3);
        room->starts[i] = n;
        for (int64_t block = 0; block < columns; block++) {
            if (random_between(random, 0, 2) < share) {
                room->list[n] = (int32_t)block;
                room->bits_at[n++] =
                    (int32_t)(random_between(random, 0, 1) ? -1 : random_between(random, 0, p->block_bitmaps) - 1);
            }
        }
    }
    room->starts[lists] = n;
    for (int64_t i = 0; i < p->block_bitmaps * words; i++) {
        room->bits[i] = (uint32_t)draw_word(random);
    }
    p->block_entries = n;
    p->pairs.block_starts = room->starts;
    p->pairs.block_list = room->list;
    p->pairs.block_bits_at = room->bits_at;
    p->pairs.block_bits = room->bits;
}

/* The same of blocks whose sides are multiples of `side`. */
static inline void draw_blocks_in(uint64_t *random, weft_attention *p, int64_t side, drawn_pairs *room) {
    p->block_rows = side * random_between(random, 1, 3);
    p->block_columns = (side < 32 ? 32 : side) * (random_between(random, 0, 2) ? 1 : random_between(random, 2, 3));
    if (random_between(random, 0, 2)) { /* the band shows all, so that lists have gaps */
        p->mask = WEFT_MASK_NONE;
        p->offset = p->left = p->right = 0;
    }
    draw_lists_in(random, p, room);
}

/* A tree mask: any bits, not only those of trees. There are at most 64 queries by then. */
static inline void draw_tree_in(uint64_t *random, weft_attention *p, drawn_pairs *room) {
    for (int64_t i = 0; i < p->batch * p->seq; i++) {
        room->tree[i] = draw_word(random);
    }
    p->pairs.tree = room->tree;
}

#endif
