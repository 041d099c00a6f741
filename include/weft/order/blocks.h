/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Block masks and tree masks: pairs of query and key that see each other, where a band does not say it all.
 *
 * A block mask lists, for each block of queries, the blocks of keys that some of its queries see. A listed block is full,
 * or it has a bit for each of its pairs. What a list does not name is never loaded; a full block is never masked. A tree
 * mask has bits for the last keys of a sequence alone. Both hide pairs of what the band shows, and neither shows more.
 */
#ifndef WEFT_ORDER_BLOCKS_H
#define WEFT_ORDER_BLOCKS_H

#include "sequence.h"

/** The arrays of both masks, in the memory of whoever reads them; null: not given. What they say is clamped by whoever
 * reads it, so that nothing, however wrong, leads outside of a tensor or of these arrays. */
typedef struct weft_pairs {
    const int32_t *block_starts;  /**< (lists + 1): where each list begins, and behind the last where it ends; ascending */
    const int32_t *block_list;    /**< (block_entries): of each list the numbers of its blocks of keys, ascending */
    const int32_t *block_bits_at; /**< (block_entries): which of the block_bits a block has; below 0: it is full */
    const uint32_t *block_bits;   /**< (block_bitmaps, block_rows, block_columns / 32): the lowest bit is the first key's */
    const uint64_t *tree;         /**< (batch, seq): bit j of a query says whether it sees tree key j. The tree keys are the
                                       last keys of the query's sequence, as many as it has queries, at most 64 */
} weft_pairs;

/** The block mask of a reach: its arrays and their sizes. */
typedef struct weft_blocks {
    weft_pairs pairs;                  /**< block_starts null: there is no block mask, or it is not known yet */
    int64_t rows, columns;             /**< queries and keys of a block; columns is a multiple of 32 */
    int64_t batch_stride, head_stride; /**< lists from one batch's, or head's, first to the next one's; 0: shared */
    int64_t entries, bitmaps;          /**< of block_list, and of block_bits */
    int64_t last;                      /**< the number of the last block of keys */
    weft_divisor by_rows, by_steps;    /**< block.rows; steps of a block */
} weft_blocks;

/** Words of 32 bits from that of a query's keys key .. key + 31 on, `key` being a multiple of 32, to the end of the block:
 * a bit is 1 where the query sees a key if its band shows it. Null: it sees all. `row` counts from the tensor's first row,
 * `bits_at` is that of the keys' block. */
WEFT_INLINE const uint32_t *weft_blocks_words(const weft_blocks *blocks, int32_t bits_at, int64_t row, int64_t key) {
    if (bits_at < 0 || blocks->bitmaps == 0) {
        return 0;
    }
    const int64_t bitmap = weft_smaller(bits_at, blocks->bitmaps - 1);
    const int64_t line = row - weft_divide(row, &blocks->by_rows) * blocks->rows;
    const int64_t word = (int64_t)((uint32_t)key % (uint32_t)blocks->columns / 32);
    return blocks->pairs.block_bits + (bitmap * blocks->rows + line) * (blocks->columns / 32) + word;
}

/** The first of those words. */
WEFT_INLINE uint32_t weft_blocks_word(const weft_blocks *blocks, int32_t bits_at, int64_t row, int64_t key) {
    const uint32_t *words = weft_blocks_words(blocks, bits_at, row, key);
    return words ? *words : 0xffffffffu;
}

/** The first tree key of a sequence, as a column of the tensor; may be before the sequence's first. */
WEFT_INLINE int64_t weft_tree_begin(const weft_sequence *s) {
    return s->columns.end - weft_smaller(s->used_end - s->rows.begin, 64);
}

/** weft_blocks_word() for a tree mask: `tree` has the bits of the query, `begin` is weft_tree_begin(). */
WEFT_INLINE uint32_t weft_tree_word(uint64_t tree, int64_t begin, int64_t key) {
    const int64_t after = key - begin;
    if (after >= 0) {
        return after < 64 ? (uint32_t)(tree >> after) : 0;
    }
    return after <= -32 ? 0xffffffffu : (uint32_t)(tree << -after) | ((1u << -after) - 1);
}

/** Both masks together. `batch_row` is batch * seq + row. */
WEFT_INLINE uint32_t weft_pairs_word(const weft_blocks *blocks, const weft_sequence *s, int32_t bits_at, int64_t batch_row,
                                     int64_t row, int64_t key) {
    const uint32_t word = weft_blocks_word(blocks, bits_at, row, key);
    const uint64_t *tree = blocks->pairs.tree;
    return tree ? word & weft_tree_word(tree[batch_row], weft_tree_begin(s), key) : word;
}

/** The entries of block_list that are the list of a query's block. */
WEFT_INLINE weft_rows weft_blocks_entries(const weft_blocks *blocks, int64_t batch, int64_t head, int64_t row) {
    const int32_t *at = blocks->pairs.block_starts + batch * blocks->batch_stride + head * blocks->head_stride +
                        weft_divide(row, &blocks->by_rows);
    weft_rows entries;
    entries.begin = weft_between(at[0], 0, blocks->entries);
    entries.end = weft_between(at[1], entries.begin, blocks->entries);
    return entries;
}

/** The number of an entry's block of keys. */
WEFT_INLINE int64_t weft_blocks_number(const weft_blocks *blocks, int64_t entry) {
    return weft_between(blocks->pairs.block_list[entry], 0, blocks->last);
}

/** The first of these entries whose block has number `least` or more; entries.end when there is none. */
WEFT_INLINE int64_t weft_blocks_search(const weft_blocks *blocks, weft_rows entries, int64_t least) {
    while (entries.begin < entries.end) {
        const int64_t middle = entries.begin + (entries.end - entries.begin) / 2;
        if (weft_blocks_number(blocks, middle) >= least) {
            entries.end = middle;
        } else {
            entries.begin = middle + 1;
        }
    }
    return entries.begin;
}

/** The entry of a key's block in the list of a query's; below 0: it is not listed. */
WEFT_INLINE int64_t weft_blocks_entry(const weft_blocks *blocks, int64_t batch, int64_t head, int64_t row, int64_t key) {
    const weft_rows entries = weft_blocks_entries(blocks, batch, head, row);
    const int64_t number = key / blocks->columns, entry = weft_blocks_search(blocks, entries, number);
    return entry < entries.end && weft_blocks_number(blocks, entry) == number ? entry : -1;
}

/** Whether the list of one of some queries names a block that has one of some keys. */
WEFT_INLINE int weft_blocks_name(const weft_blocks *blocks, int64_t batch, int64_t head, weft_rows rows, weft_rows keys) {
    const int64_t first = keys.begin / blocks->columns, last = (keys.end - 1) / blocks->columns;
    for (int64_t row = rows.begin; row < rows.end; row += blocks->rows - row % blocks->rows) {
        const weft_rows entries = weft_blocks_entries(blocks, batch, head, row);
        const int64_t entry = weft_blocks_search(blocks, entries, first);
        if (entry < entries.end && weft_blocks_number(blocks, entry) <= last) {
            return 1;
        }
    }
    return 0;
}

/** The steps of a list are numbered one behind the other: those of entry e from (e - entries.begin) times the steps of a
 * block on. This is the step of a number. */
WEFT_INLINE int64_t weft_blocks_step(const weft_blocks *blocks, int64_t first_entry, int64_t number) {
    const int64_t entry = weft_divide(number, &blocks->by_steps), steps = (int64_t)blocks->by_steps.value;
    return weft_blocks_number(blocks, first_entry + entry) * steps + number - entry * steps;
}

/** The bits_at of the block that such a step is in. */
WEFT_INLINE int32_t weft_blocks_bits(const weft_blocks *blocks, int64_t first_entry, int64_t number) {
    return blocks->pairs.block_bits_at[first_entry + weft_divide(number, &blocks->by_steps)];
}

/** The numbers of those steps of a list that are among some: begin .. end - 1. */
WEFT_INLINE weft_rows weft_blocks_steps(const weft_blocks *blocks, weft_rows entries, int64_t begin, int64_t end) {
    const int64_t steps = (int64_t)blocks->by_steps.value;
    const int64_t first = weft_blocks_search(blocks, entries, weft_divide(begin, &blocks->by_steps));
    const int64_t after = weft_blocks_search(blocks, entries, weft_divide(end + steps - 1, &blocks->by_steps));
    weft_rows numbers = {0, 0};
    if (begin < end && first < after) {
        const int64_t before = weft_larger(begin - weft_blocks_number(blocks, first) * steps, 0);
        const int64_t in_last = weft_smaller(end - weft_blocks_number(blocks, after - 1) * steps, steps);
        numbers.begin = (first - entries.begin) * steps + before;
        numbers.end = weft_larger((after - 1 - entries.begin) * steps + in_last, numbers.begin);
    }
    return numbers;
}

#endif
