/* SPDX-License-Identifier: Apache-2.0 */
/* What some rows of a sequence see of others, once rows are cut: rectangles with a mask of their own. */
#include <stdlib.h>

#include "base/status.h"
#include "dist/kinds.h"
#include "problem/problem.h"

static int64_t divide_down(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

static int64_t divide_up(int64_t a, int64_t b) {
    return -divide_down(-a, b);
}

/* Pairs of n rows and m columns with column - row <= high. */
static double pairs_below(int64_t n, int64_t m, int64_t high) {
    const int64_t first = weft_between(-high, 0, n), full = weft_between(m - 1 - high, first, n);
    const double rising = (double)(full - first) * ((double)(high + 1) + 0.5 * (double)(first + full - 1));
    return rising + (double)(n - full) * (double)m;
}

/* The rows and columns, strided alike, of one sequence of a chunk of queries and one of keys. Their numbers count from the
 * chunks' first. */
typedef struct rectangle {
    weft_range rows, columns;
    int64_t low, high; /* of column - row, from the rectangle's first on; WEFT_BAND_OPEN: no edge */
    int64_t position;  /* of the first row among the columns, in columns */
} rectangle;

/* Rows from the first to the last that sees a column, and columns that some row sees. Returns 0 when there is none. */
static int trim(rectangle *r) {
    const int64_t n = r->rows.end - r->rows.begin, m = r->columns.end - r->columns.begin;
    if (n <= 0 || m <= 0 || r->low > r->high) {
        return 0;
    }
    const int64_t row = weft_larger(0, -r->high), row_end = weft_smaller(n, m - r->low);
    if (row >= row_end) {
        return 0;
    }
    const int64_t column = weft_larger(0, row + r->low), column_end = weft_smaller(m, row_end + r->high);
    if (column >= column_end) {
        return 0;
    }
    r->rows = (weft_range){r->rows.begin + row, r->rows.begin + row_end};
    r->columns = (weft_range){r->columns.begin + column, r->columns.begin + column_end};
    r->low += row - column;
    r->high += row - column;
    r->position += row - column;
    return 1;
}

/* The mask of a rectangle: edges that hide nothing are left out. Where positions count beside the mask, as for slopes, a
 * window says them even if it hides nothing. */
static weft_dist_slice mask_of(const rectangle *r, int by_position) {
    const int64_t n = r->rows.end - r->rows.begin, m = r->columns.end - r->columns.begin;
    const int has_low = r->low > -(n - 1), has_high = r->high < m - 1;
    weft_dist_slice s = {.queries = r->rows, .keys = r->columns, .left = -1, .right = -1};
    s.pairs = pairs_below(n, m, has_high ? r->high : m) - (has_low ? pairs_below(n, m, r->low - 1) : 0);
    if (by_position) {
        s.mask = WEFT_MASK_WINDOW;
        s.offset = r->position;
        s.left = has_low ? r->position - r->low : -1;
        s.right = has_high ? r->high - r->position : -1;
        return s;
    }
    s.mask = !has_low && !has_high ? WEFT_MASK_NONE : !has_low ? WEFT_MASK_CAUSAL : WEFT_MASK_WINDOW;
    s.offset = has_high ? r->high : has_low ? r->low : 0;
    s.left = has_low ? s.offset - r->low : -1;
    s.right = has_low && has_high ? 0 : -1;
    return s;
}

weft_status weft_dist_slices_add(weft_dist_slices *slices, weft_dist_slice slice, weft_message *message) {
    if (slices->count == slices->room) {
        const size_t room = slices->room ? 2 * slices->room : 8;
        weft_dist_slice *list = realloc(slices->list, room * sizeof *list);
        if (!list) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for the slices of a rank");
        }
        slices->list = list;
        slices->room = room;
    }
    slices->list[slices->count++] = slice;
    return WEFT_OK;
}

void weft_dist_slices_free(weft_dist_slices *slices) {
    free(slices->list);
    *slices = (weft_dist_slices){0};
}

static int64_t length(weft_range range) {
    return range.end - range.begin;
}

/* Makes one slice of two that lie beside each other and see together what one mask says: neighbouring keys of the same
 * queries, of which the first are all seen, or queries behind others. Chunks of a rank lie so, one behind the other, and
 * each slice costs a launch and adding its results up. Returns whether it did. */
static int join(weft_dist_slice *a, const weft_dist_slice *b) {
    const int all = a->mask == WEFT_MASK_NONE && b->mask == WEFT_MASK_NONE;
    const int same_queries = a->queries.begin == b->queries.begin && a->queries.end == b->queries.end;
    const int same_keys = a->keys.begin == b->keys.begin && a->keys.end == b->keys.end;
    const int triangles = a->mask == WEFT_MASK_CAUSAL && b->mask == WEFT_MASK_CAUSAL;
    if (same_queries && a->keys.end == b->keys.begin && a->mask == WEFT_MASK_NONE &&
        (all || (b->mask == WEFT_MASK_CAUSAL && b->offset >= 0))) {
        a->offset = all ? 0 : b->offset + length(a->keys);
    } else if (a->queries.end != b->queries.begin) {
        return 0;
    } else if (!(all && same_keys) && /* or the staircase goes on, and what is above it in `a` is not in `b` */
               !(triangles && a->keys.begin == b->keys.begin && b->offset == a->offset + length(a->queries) &&
                 (same_keys || (a->keys.end < b->keys.end && length(a->queries) + a->offset <= length(a->keys))))) {
        return 0;
    }
    a->mask = b->mask;
    a->queries.end = b->queries.end;
    a->keys.end = b->keys.end;
    a->pairs += b->pairs;
    return 1;
}

static void join_last(weft_dist_slices *slices) {
    while (slices->count > 1 && slices->list[slices->count - 2].sequence == slices->list[slices->count - 1].sequence &&
           join(&slices->list[slices->count - 2], &slices->list[slices->count - 1])) {
        slices->count--;
    }
}

/* A chunk and the rows before it. */
typedef struct placed {
    weft_chunk chunk;
    int64_t before;
} placed;

typedef struct cutter {
    const weft_attention *p;
    weft_band band;
    int64_t sequence;
    weft_dist_slices *slices;
    weft_message *message;
} cutter;

static weft_status add_rectangle(const cutter *c, const placed *q, const placed *k, rectangle r) {
    if (!trim(&r)) {
        return WEFT_OK;
    }
    weft_dist_slice slice = mask_of(&r, (c->p->extras & WEFT_ALIBI) != 0);
    slice.queries = (weft_range){q->before + r.rows.begin, q->before + r.rows.end};
    slice.keys = (weft_range){k->before + r.columns.begin, k->before + r.columns.end};
    slice.sequence = c->sequence;
    const weft_status status = weft_dist_slices_add(c->slices, slice, c->message);
    if (!status && !(c->p->extras & (WEFT_ALIBI | WEFT_BIAS))) { /* which go by where a key is in the whole */
        join_last(c->slices);
    }
    return status;
}

/* Rows of a chunk that lie in begin .. end - 1. */
static weft_range within(const weft_chunk *chunk, int64_t begin, int64_t end) {
    const int64_t first = weft_between(divide_up(begin - chunk->begin, chunk->stride), 0, chunk->count);
    return (weft_range){first, weft_between(divide_up(end - chunk->begin, chunk->stride), first, chunk->count)};
}

/* Queries and keys of one sequence. `keys` are those of the chunk that count. */
static weft_status cut_sequence(const cutter *c, const weft_sequence *s, const placed *q, const placed *k,
                                weft_range keys) {
    const weft_band *band = &c->band;
    const int64_t stride = q->chunk.stride;
    rectangle all = {.rows = within(&q->chunk, s->rows.begin, s->used_end),
                     .columns = within(&k->chunk, s->columns.begin, s->columns.end)};
    all.columns.begin = weft_larger(all.columns.begin, keys.begin);
    all.columns.end = weft_smaller(all.columns.end, keys.end);
    if (all.rows.begin >= all.rows.end || all.columns.begin >= all.columns.end) {
        return WEFT_OK;
    }
    const int64_t first = q->chunk.begin + all.rows.begin * stride; /* the first query, and its position; the first key's */
    const int64_t at = weft_band_position(band, s, first);
    const int64_t key = k->chunk.begin + all.columns.begin * stride - s->columns.begin;
    all.low = band->left >= WEFT_BAND_OPEN ? -WEFT_BAND_OPEN : divide_up(at - band->left - key, stride);
    all.high = band->right >= WEFT_BAND_OPEN ? WEFT_BAND_OPEN : divide_down(at + band->right - key, stride);
    all.position = at - key;
    if (band->chunk > 0) { /* a rectangle for each chunk of positions; stride is 1 */
        const int64_t count = all.rows.end - all.rows.begin;
        weft_status status = WEFT_OK;
        for (int64_t i = weft_larger(0, -at); i < count && !status;) {
            const int64_t begin = (at + i) / band->chunk * band->chunk, end = weft_smaller(count, begin + band->chunk - at);
            rectangle r = all;
            r.rows = (weft_range){all.rows.begin + i, all.rows.begin + end};
            r.columns.begin = weft_larger(all.columns.begin, all.columns.begin + begin - key);
            r.columns.end = weft_smaller(all.columns.end, all.columns.begin + begin + band->chunk - key);
            const int64_t moved = i - (r.columns.begin - all.columns.begin);
            r.low = weft_larger(r.low + moved, -WEFT_BAND_OPEN);
            r.high = weft_smaller(r.high + moved, WEFT_BAND_OPEN);
            r.position += moved;
            status = add_rectangle(c, q, k, r);
            i = end;
        }
        return status;
    }
    const int64_t prefix = weft_between(divide_up(band->prefix - key, stride), 0, all.columns.end - all.columns.begin);
    rectangle before = all, behind = all; /* keys of the prefix, which all see, and the others */
    before.columns.end = behind.columns.begin = all.columns.begin + prefix;
    before.low = -WEFT_BAND_OPEN;
    before.high = WEFT_BAND_OPEN;
    behind.low = weft_larger(behind.low - prefix, -WEFT_BAND_OPEN);
    behind.high = behind.high >= WEFT_BAND_OPEN ? WEFT_BAND_OPEN : behind.high - prefix;
    behind.position -= prefix;
    const weft_status status = add_rectangle(c, q, k, before);
    return status ? status : add_rectangle(c, q, k, behind);
}

weft_status weft_dist_attention_slices(const weft_dist *dist, int64_t ring_rank, int64_t part, weft_range keys,
                                       weft_dist_slices *slices, weft_message *message) {
    const weft_attention *p = &dist->problem.attention;
    const weft_sequences all = weft_attention_sequences(p);
    cutter c = {p, weft_attention_band(p), 0, slices, message};
    const weft_dist_group q_group = weft_dist_group_of(dist, ring_rank, WEFT_QUERY_ROWS);
    const weft_dist_group k_group = weft_dist_group_of(dist, part, WEFT_KEY_ROWS);
    const int packed = p->sequences > 0;
    for (int64_t i = q_group.first; i < q_group.end; i++) {
        placed q;
        q.chunk = weft_dist_group_chunk(&q_group, i, &q.before);
        const int64_t last = q.chunk.begin + (q.chunk.count - 1) * q.chunk.stride;
        for (int64_t j = k_group.first; j < k_group.end; j++) {
            placed k;
            k.chunk = weft_dist_group_chunk(&k_group, j, &k.before);
            const weft_range of_chunk = {keys.begin - k.before, keys.end - k.before};
            for (int64_t n = packed ? weft_sequence_of_row(&all, q.chunk.begin) : 0; n < (packed ? all.count : 1); n++) {
                const weft_sequence s = weft_sequence_at(&all, n);
                if (s.rows.begin > last) {
                    break;
                }
                c.sequence = n;
                const weft_status status = cut_sequence(&c, &s, &q, &k, of_chunk);
                if (status) {
                    return status;
                }
            }
        }
    }
    return WEFT_OK;
}
