/* SPDX-License-Identifier: Apache-2.0 */
/* Block masks and tree masks of an attention: checked, taken from a run's data, kept. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/tensor.h"

/* The arrays, in the order of weft_pairs, by the bits of weft_attention_extras. */
typedef struct array {
    int32_t bit;
    const char *name;
    size_t offset, element; /* in weft_pairs; bytes */
} array;
static const array arrays[WEFT_PAIR_ARRAYS] = {
    {WEFT_BLOCKS, "block_starts", offsetof(weft_pairs, block_starts), sizeof(int32_t)},
    {WEFT_BLOCKS, "block_list", offsetof(weft_pairs, block_list), sizeof(int32_t)},
    {WEFT_BLOCKS, "block_bits_at", offsetof(weft_pairs, block_bits_at), sizeof(int32_t)},
    {WEFT_BLOCKS, "block_bits", offsetof(weft_pairs, block_bits), sizeof(uint32_t)},
    {WEFT_TREE, "tree", offsetof(weft_pairs, tree), sizeof(uint64_t)},
};

static const void *read_array(const weft_pairs *pairs, const array *a) {
    const void *at;
    memcpy(&at, (const char *)pairs + a->offset, sizeof at);
    return at;
}

static void set_array(weft_pairs *pairs, const array *a, const void *at) {
    memcpy((char *)pairs + a->offset, &at, sizeof at);
}

static int64_t list_count(const weft_attention *p) {
    return (p->batch - 1) * p->block_batch_stride + (p->heads - 1) * p->block_head_stride +
           weft_ceil_divide(p->seq, p->block_rows);
}

static int64_t bitmap_words(const weft_attention *p) {
    return p->block_rows * (p->block_columns / 32);
}

void weft_attention_pair_elements(const weft_attention *p, size_t elements[WEFT_PAIR_ARRAYS]) {
    const int blocks = p->block_rows > 0;
    elements[0] = blocks ? (size_t)list_count(p) + 1 : 0;
    elements[1] = elements[2] = (size_t)p->block_entries;
    elements[3] = blocks ? (size_t)(p->block_bitmaps * bitmap_words(p)) : 0;
    elements[4] = (size_t)(p->batch * p->seq);
}

/* ---- checks ---- */

static weft_status check_sizes(const weft_attention *p, weft_message *message) {
    int64_t lists, by_heads, most;
    if (p->block_rows < 16 || p->block_rows % 16 != 0 || p->block_rows > WEFT_MAX_DIMENSION || p->block_columns < 32 ||
        p->block_columns % 32 != 0 || p->block_columns > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID,
                         "block_rows %" PRId64 " is no multiple of 16, or block_columns %" PRId64 " none of 32",
                         p->block_rows, p->block_columns);
    }
    if (p->sequences > 0) {
        return weft_fail(message, WEFT_INVALID, "a packed batch takes no block mask");
    }
    if (p->block_batch_stride < 0 || p->block_head_stride < 0 ||
        !weft_multiply(p->batch - 1, p->block_batch_stride, &lists) ||
        !weft_multiply(p->heads - 1, p->block_head_stride, &by_heads) ||
        lists + by_heads > WEFT_MOST_ELEMENTS - WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID,
                         "block_batch_stride %" PRId64 " and block_head_stride %" PRId64 " are negative or too large",
                         p->block_batch_stride, p->block_head_stride);
    }
    if (!weft_multiply(list_count(p), weft_ceil_divide(p->kv_seq, p->block_columns), &most)) {
        most = WEFT_MAX_DIMENSION;
    }
    if (p->block_entries < 0 || p->block_entries > weft_smaller(most, WEFT_MAX_DIMENSION)) {
        return weft_fail(message, WEFT_INVALID, "block_entries %" PRId64 " is not between 0 and %" PRId64, p->block_entries,
                         weft_smaller(most, WEFT_MAX_DIMENSION));
    }
    if (p->block_bitmaps < 0 || p->block_bitmaps > WEFT_MAX_DIMENSION ||
        !weft_multiply(p->block_bitmaps, bitmap_words(p), &most) || most > WEFT_MOST_ELEMENTS) {
        return weft_fail(message, WEFT_INVALID, "block_bitmaps %" PRId64 " is negative or too large", p->block_bitmaps);
    }
    return WEFT_OK;
}

/* One list: ascending blocks of keys that there are, whose bits are there. */
static weft_status check_list(const weft_attention *p, const weft_pairs *pairs, int64_t list, weft_message *message) {
    const int64_t begin = pairs->block_starts[list], end = pairs->block_starts[list + 1];
    const int64_t blocks = weft_ceil_divide(p->kv_seq, p->block_columns);
    if (begin < 0 || begin > end || end > p->block_entries) {
        return weft_fail(message, WEFT_INVALID,
                         "block_starts of list %" PRId64 ": %" PRId64 " to %" PRId64 ", of %" PRId64 " entries", list,
                         begin, end, p->block_entries);
    }
    for (int64_t i = begin, least = 0; i < end; i++) {
        const int32_t block = pairs->block_list[i], bits_at = pairs->block_bits_at[i];
        if (block < least || block >= blocks) {
            return weft_fail(message, WEFT_INVALID,
                             "block_list of list %" PRId64 " has %d where %" PRId64 " to %" PRId64 " would be", list,
                             (int)block, least, blocks - 1);
        }
        if (bits_at >= p->block_bitmaps) {
            return weft_fail(message, WEFT_INVALID,
                             "block_bits_at of list %" PRId64 " has %d, and there are %" PRId64 " bitmaps", list,
                             (int)bits_at, p->block_bitmaps);
        }
        least = (int64_t)block + 1;
    }
    return WEFT_OK;
}

/* The queries of a sequence have a bit each. */
static weft_status check_tree(const weft_attention *p, weft_message *message) {
    const int32_t *starts = p->lengths.q_starts;
    int64_t most = p->sequences > 0 ? 0 : p->seq;
    for (int64_t i = 0; i < p->sequences && starts; i++) {
        most = weft_larger(most, starts[i + 1] - starts[i]);
    }
    return most <= 64
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "a tree mask is for at most 64 queries, and there are %" PRId64, most);
}

static weft_status check_pairs(const weft_attention *p, const weft_pairs *pairs, weft_message *message) {
    weft_status status = pairs->tree || (p->extras & WEFT_TREE) ? check_tree(p, message) : WEFT_OK;
    for (int64_t i = 0; pairs->block_starts && i < list_count(p) && status == WEFT_OK; i++) {
        status = check_list(p, pairs, i, message);
    }
    return status;
}

weft_status weft_attention_resolve_pairs(weft_attention *p, weft_message *message) {
    const int given = p->pairs.block_starts != NULL;
    const int any = p->block_rows || p->block_columns || p->block_batch_stride || p->block_head_stride ||
                    p->block_entries || p->block_bitmaps;
    for (size_t i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        if (read_array(&p->pairs, &arrays[i]) && (p->extras & arrays[i].bit)) {
            return weft_fail(message, WEFT_INVALID, "%s is given, and extras says that the data has it", arrays[i].name);
        }
    }
    if (!given && !(p->extras & WEFT_BLOCKS)) {
        if (any || p->pairs.block_list || p->pairs.block_bits_at || p->pairs.block_bits) {
            return weft_fail(message, WEFT_INVALID, "a block mask needs block_starts");
        }
        return check_pairs(p, &p->pairs, message);
    }
    const weft_status status = check_sizes(p, message);
    if (status) {
        return status;
    }
    if (given && ((p->block_entries > 0 && (!p->pairs.block_list || !p->pairs.block_bits_at)) ||
                  (p->block_bitmaps > 0 && !p->pairs.block_bits))) {
        return weft_fail(message, WEFT_INVALID, "block_list, block_bits_at or block_bits is null");
    }
    return check_pairs(p, &p->pairs, message);
}

/* ---- where they are ---- */

weft_pairs weft_attention_join_pairs(const weft_attention *p, weft_pairs known, const weft_pairs *data) {
    for (size_t i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        if (p->extras & arrays[i].bit) {
            set_array(&known, &arrays[i], read_array(data, &arrays[i]));
        }
    }
    return known;
}

weft_status weft_attention_take_pairs(const weft_attention *p, const weft_pairs *data, weft_pairs *pairs,
                                      weft_message *message) {
    *pairs = weft_attention_join_pairs(p, p->pairs, data);
    return check_pairs(p, pairs, message);
}

static size_t kept_bytes(const weft_attention *p, size_t i) {
    size_t elements[WEFT_PAIR_ARRAYS];
    weft_attention_pair_elements(p, elements);
    return read_array(&p->pairs, &arrays[i]) ? (elements[i] * arrays[i].element + 7) / 8 * 8 : 0;
}

size_t weft_attention_kept_bytes(const weft_problem *problem) {
    const weft_attention *p = &problem->attention;
    size_t bytes = weft_attention_length_bytes(p);
    for (size_t i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        bytes += kept_bytes(p, i);
    }
    return bytes;
}

weft_status weft_attention_keep(weft_problem *problem, void **memory, weft_message *message) {
    weft_attention *p = &problem->attention;
    const size_t bytes = weft_attention_kept_bytes(problem);
    size_t elements[WEFT_PAIR_ARRAYS];
    *memory = NULL;
    if (bytes == 0) {
        return WEFT_OK;
    }
    char *copy = *memory = calloc(1, bytes);
    if (!copy) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu bytes of lengths and masks", bytes);
    }
    const size_t lengths = weft_attention_length_bytes(p);
    weft_attention_keep_lengths(p, copy);
    copy += lengths;
    weft_attention_pair_elements(p, elements);
    for (size_t i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        const size_t own = kept_bytes(p, i);
        if (own > 0) {
            memcpy(copy, read_array(&p->pairs, &arrays[i]), elements[i] * arrays[i].element);
            set_array(&p->pairs, &arrays[i], copy);
        }
        copy += own;
    }
    return WEFT_OK;
}

weft_pairs weft_pairs_move(weft_pairs pairs, const void *from, uintptr_t to) {
    for (size_t i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        const void *at = read_array(&pairs, &arrays[i]);
        set_array(&pairs, &arrays[i], at ? (const void *)(to + ((uintptr_t)at - (uintptr_t)from)) : NULL);
    }
    return pairs;
}

/* ---- what they say ---- */

weft_blocks weft_attention_blocks(const weft_attention *p) {
    weft_blocks b = {.pairs = p->pairs,
                     .rows = p->block_rows,
                     .columns = p->block_columns,
                     .batch_stride = p->block_batch_stride,
                     .head_stride = p->block_head_stride,
                     .entries = p->block_entries,
                     .bitmaps = p->block_bitmaps};
    if (b.rows > 0) {
        b.by_rows = weft_divisor_make((uint64_t)b.rows);
        b.by_steps = weft_divisor_make(1);
        b.last = weft_ceil_divide(p->kv_seq, b.columns) - 1;
    }
    return b;
}

int weft_attention_shows(const weft_attention *p, const weft_blocks *b, int64_t batch, int64_t head, int64_t row,
                         int64_t key) {
    if (!b->pairs.block_starts && !b->pairs.tree) {
        return 1;
    }
    const weft_sequences all = weft_attention_sequences(p);
    const weft_sequence s = weft_sequence_at(&all, weft_attention_sequence_of(p, batch, row));
    int32_t bits_at = -1;
    if (b->pairs.block_starts) {
        const int64_t entry = weft_blocks_entry(b, batch, head, row, key);
        if (entry < 0) {
            return 0;
        }
        bits_at = b->pairs.block_bits_at[entry];
    }
    return (int)(weft_pairs_word(b, &s, bits_at, batch * p->seq + row, row, key / 32 * 32) >> key % 32 & 1);
}

/* Pairs of a block of bits, clipped to the tensors' rows and keys. */
static double count_bits(const weft_blocks *b, int32_t bits_at, weft_rows rows, weft_rows keys) {
    double pairs = 0;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        for (int64_t key = keys.begin; key < keys.end; key += 32) {
            const uint32_t word = weft_blocks_word(b, bits_at, row, key);
            const int64_t left = keys.end - key;
            pairs += __builtin_popcount(left < 32 ? word & ((1u << left) - 1) : word);
        }
    }
    return pairs;
}

double weft_attention_listed_share(const weft_attention *p) {
    const weft_blocks b = weft_attention_blocks(p);
    const int64_t batches = p->block_batch_stride > 0 ? p->batch : 1, heads = p->block_head_stride > 0 ? p->heads : 1;
    double pairs = 0;
    if (!b.pairs.block_starts) {
        return 1;
    }
    for (int64_t line = 0; line < batches * heads; line++) {
        for (int64_t row = 0; row < p->seq; row += b.rows) {
            const weft_rows entries = weft_blocks_entries(&b, line / heads, line % heads, row);
            const weft_rows rows = {row, weft_smaller(row + b.rows, p->seq)};
            for (int64_t i = entries.begin; i < entries.end; i++) {
                const int64_t key = weft_blocks_number(&b, i) * b.columns;
                const weft_rows keys = {key, weft_smaller(key + b.columns, p->kv_seq)};
                const int32_t bits_at = b.pairs.block_bits_at[i];
                pairs +=
                    bits_at < 0 ? (double)(rows.end - row) * (double)(keys.end - key) : count_bits(&b, bits_at, rows, keys);
            }
        }
    }
    return pairs / ((double)(batches * heads) * (double)p->seq * (double)p->kv_seq);
}
