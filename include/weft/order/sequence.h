/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Sequences and bands: where the queries and keys of a sequence lie, and which keys each of its queries sees.
 *
 * What a query sees is one run of keys, and both ends of it move on or stay from query to query. So it is for causal masks,
 * windows, chunks and prefixes, for sequences of any length and for a packed batch as a whole; two queries, the first and
 * the last of a tile, then say which steps the tile visits. Masks that are not so are tables of slices: see weft_reach.
 */
#ifndef WEFT_ORDER_SEQUENCE_H
#define WEFT_ORDER_SEQUENCE_H

#include "slice.h"

/** Rows, columns, queries or keys: begin .. end - 1. */
typedef struct weft_rows {
    int64_t begin, end;
} weft_rows;

/** Lengths of sequences, in the memory of whoever reads them; null: not given. What they say is held to the tensors' sizes
 * by whoever reads it, so that no length, however wrong, leads outside of a tensor. */
typedef struct weft_lengths {
    const int32_t *q_starts; /**< packed: (sequences + 1) first queries, ascending; what lies behind the last is no query */
    const int32_t *kv_starts; /**< packed: the same of keys; null: as q_starts */
    const int32_t *q_used;    /**< queries of each sequence that count, from its first on; the others see nothing */
    const int32_t *kv_used;   /**< keys of each sequence that count, from its first on, padding included */
    const int32_t *kv_pad;    /**< keys at the beginning of each sequence that do not count */
} weft_lengths;

/** The sequences of an attention: one for each batch, or `count` in one packed batch. */
typedef struct weft_sequences {
    weft_lengths lengths;
    int64_t count;
    int64_t queries, keys; /**< rows of the tensors of a batch */
    int32_t packed;        /**< 1: lengths has q_starts, or will have them before anything is computed */
    int64_t keys_each; /**< packed, keys in pages: columns from sequence to sequence, and `keys` are a sequence's; else 0 */
    int64_t append;    /**< keys that a run appends to those of each sequence before any is seen; packed: to all */
    const int32_t *new_starts; /**< packed: (count + 1) first ones among those; null: as q_starts */
} weft_sequences;

/** Where a sequence lies in the tensors of its batch. */
typedef struct weft_sequence {
    weft_rows rows;    /**< of Q and O */
    int64_t used_end;  /**< rows from here to rows.end see nothing */
    weft_rows columns; /**< keys that count */
} weft_sequence;

/** What queries see. Query i of a sequence stands at position i + offset among its keys, or, with from_end, so that the
 * last one stands at the last key. */
typedef struct weft_band {
    int64_t left, right; /**< keys before and behind the query's position that it sees; WEFT_BAND_OPEN: all */
    int64_t offset;      /**< without from_end */
    int64_t chunk;       /**< above 0: only those keys whose position / chunk is the query's */
    int64_t prefix;      /**< and also the first so many keys; then `left` is open and `chunk` 0 */
    int32_t from_end;
} weft_band;

/** One sequence of some rows and columns, all of which count. */
WEFT_INLINE weft_sequence weft_sequence_whole(int64_t rows, int64_t columns) {
    weft_sequence s;
    s.rows.begin = s.columns.begin = 0;
    s.rows.end = s.used_end = rows;
    s.columns.end = columns;
    return s;
}

/** A number held between two others, the first of which is not the larger one. */
WEFT_INLINE int64_t weft_between(int64_t number, int64_t least, int64_t most) {
    return weft_larger(weft_smaller(number, most), least);
}

/** Whether sequences differ or share a batch: otherwise all are weft_sequence_whole(). */
WEFT_INLINE int weft_sequences_vary(const weft_sequences *all) {
    const weft_lengths *l = &all->lengths;
    return l->q_starts || l->q_used || l->kv_used || l->kv_pad;
}

/** How many keys a run appends to a sequence. They are its last ones. */
WEFT_INLINE int64_t weft_sequence_new(const weft_sequences *all, int64_t number) {
    const int32_t *starts = all->new_starts ? all->new_starts : all->lengths.q_starts;
    return all->append > 0 && starts ? weft_between((int64_t)starts[number + 1] - starts[number], 0, all->append)
                                     : all->append;
}

/** The first column of a sequence, padding included. */
WEFT_INLINE int64_t weft_sequence_origin(const weft_sequences *all, int64_t number) {
    const weft_lengths *l = &all->lengths;
    const int32_t *starts = l->kv_starts ? l->kv_starts : l->q_starts;
    return all->keys_each > 0 ? number * all->keys_each : starts ? weft_between(starts[number], 0, all->keys) : 0;
}

/** The columns that a run writes a sequence's new keys to: as many as there is room for. */
WEFT_INLINE weft_rows weft_sequence_added(const weft_sequences *all, int64_t number) {
    const weft_lengths *l = &all->lengths;
    const int32_t *starts = all->keys_each > 0 ? 0 : l->kv_starts ? l->kv_starts : l->q_starts;
    const int64_t begin = weft_sequence_origin(all, number);
    const int64_t room = starts ? weft_between(starts[number + 1], begin, all->keys) - begin : all->keys;
    const int64_t before = l->kv_used ? weft_between(l->kv_used[number], 0, room) : weft_larger(room - all->append, 0);
    weft_rows added;
    added.begin = begin + before;
    added.end = added.begin + weft_smaller(weft_sequence_new(all, number), room - before);
    return added;
}

/** The sequence of a number from 0 to all->count - 1. */
WEFT_INLINE weft_sequence weft_sequence_at(const weft_sequences *all, int64_t number) {
    const weft_lengths *l = &all->lengths;
    weft_sequence s = weft_sequence_whole(all->queries, all->keys);
    if (l->q_starts) {
        const int32_t *kv_starts = l->kv_starts ? l->kv_starts : l->q_starts;
        s.rows.begin = weft_between(l->q_starts[number], 0, all->queries);
        s.rows.end = s.used_end = weft_between(l->q_starts[number + 1], s.rows.begin, all->queries);
        if (all->keys_each > 0) {
            s.columns.begin = number * all->keys_each;
            s.columns.end = s.columns.begin + all->keys;
        } else {
            s.columns.begin = weft_between(kv_starts[number], 0, all->keys);
            s.columns.end = weft_between(kv_starts[number + 1], s.columns.begin, all->keys);
        }
    }
    if (l->q_used) {
        s.used_end = s.rows.begin + weft_between(l->q_used[number], 0, s.rows.end - s.rows.begin);
    }
    if (l->kv_used) {
        const int64_t room = s.columns.end - s.columns.begin;
        s.columns.end = s.columns.begin + weft_between(l->kv_used[number], 0, room);
        s.columns.end += weft_smaller(weft_sequence_new(all, number), s.columns.begin + room - s.columns.end);
    }
    if (l->kv_pad) {
        s.columns.begin += weft_between(l->kv_pad[number], 0, s.columns.end - s.columns.begin);
    }
    return s;
}

/** The largest number from 0 to count - 1 whose place is at most `at`, or 0: where place(n) = starts[n] / divisor + n with
 * `each` 1, and starts[n] with a null divisor and `each` 0. */
WEFT_INLINE int64_t weft_sequence_search(const int32_t *starts, int64_t count, int64_t at, const weft_divisor *by,
                                         int64_t each) {
    int64_t low = 0, high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2, start = weft_larger(starts[middle], 0);
        if ((by ? weft_divide(start, by) : start) + each * middle <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/** The sequence of a packed batch that has a row; of those that are empty, none. */
WEFT_INLINE int64_t weft_sequence_of_row(const weft_sequences *all, int64_t row) {
    return weft_sequence_search(all->lengths.q_starts, all->count, row, 0, 0);
}

/** The same, from a sequence on that begins at or before the row and is likely to be near. */
WEFT_INLINE int64_t weft_sequence_from(const weft_sequences *all, int64_t number, int64_t row) {
    const int32_t *starts = all->lengths.q_starts;
    for (int looks = 0; number + 1 < all->count && starts[number + 1] <= row; looks++) {
        if (looks == 8) {
            return weft_sequence_of_row(all, row);
        }
        number++;
    }
    return number;
}

/** The position among its keys of the sequence's row `row`, which counts from the tensor's first row. */
WEFT_INLINE int64_t weft_band_position(const weft_band *band, const weft_sequence *s, int64_t row) {
    const int64_t keys = s->columns.end - s->columns.begin, queries = s->used_end - s->rows.begin;
    return row - s->rows.begin + (band->from_end ? keys - queries : band->offset);
}

/** The columns that a row of a sequence sees; none is an empty run. Rows and columns count from the tensors' first. Both
 * ends grow from row to row. */
WEFT_INLINE weft_rows weft_band_seen(const weft_band *band, const weft_sequence *s, int64_t row) {
    const int64_t keys = s->columns.end - s->columns.begin, at = weft_band_position(band, s, row);
    weft_rows seen;
    if (row >= s->used_end) {
        seen.begin = seen.end = s->columns.end;
        return seen;
    }
    int64_t begin = at - band->left, end = at + band->right + 1;
    if (band->chunk > 0) {
        /* Before key 0 there is none of its chunk. Lengths and offsets are of 31 bits, so that positions have 32. */
        const int64_t first = at < 0 ? -band->chunk : at - (int64_t)((uint32_t)at % (uint32_t)band->chunk);
        begin = weft_larger(begin, first);
        end = weft_smaller(end, first + band->chunk);
    }
    end = weft_larger(end, band->prefix);
    seen.end = s->columns.begin + weft_between(end, 0, keys);
    seen.begin = s->columns.begin + weft_between(begin, 0, seen.end - s->columns.begin);
    return seen;
}

#endif
