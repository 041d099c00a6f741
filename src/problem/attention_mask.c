/* SPDX-License-Identifier: Apache-2.0 */
/* What the queries of an attention see: masks, lengths of sequences, and how much that is. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"

enum { LENGTHS = WEFT_STARTS | WEFT_KV_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD };

/* ---- lengths ---- */

/* The arrays of lengths, by the bits of weft_attention_extras. */
typedef struct array {
    int32_t bit;
    const char *name;
    size_t offset; /* in weft_lengths */
    int has_end;   /* one entry more than there are sequences */
} array;
static const array arrays[] = {{WEFT_STARTS, "q_starts", offsetof(weft_lengths, q_starts), 1},
                               {WEFT_KV_STARTS, "kv_starts", offsetof(weft_lengths, kv_starts), 1},
                               {WEFT_Q_USED, "q_used", offsetof(weft_lengths, q_used), 0},
                               {WEFT_KV_USED, "kv_used", offsetof(weft_lengths, kv_used), 0},
                               {WEFT_KV_PAD, "kv_pad", offsetof(weft_lengths, kv_pad), 0}};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static const int32_t **array_of(weft_lengths *lengths, const array *a) {
    return (const int32_t **)(void *)((char *)lengths + a->offset);
}

static const int32_t *read_array(const weft_lengths *lengths, const array *a) {
    return *(const int32_t *const *)(const void *)((const char *)lengths + a->offset);
}

static int64_t sequence_count(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

static int varies(const weft_attention *p) {
    const weft_sequences all = weft_attention_sequences(p);
    return weft_sequences_vary(&all) || (p->extras & LENGTHS);
}

/* Starts ascend from 0 to at most `rows`. */
weft_status weft_attention_check_starts(const char *name, const int32_t *starts, int64_t count, int64_t rows,
                                        weft_message *message) {
    if (starts && starts[0] != 0) {
        return weft_fail(message, WEFT_INVALID, "%s begins with %d, not with 0", name, (int)starts[0]);
    }
    for (int64_t i = 0; starts && i < count; i++) {
        if (starts[i + 1] < starts[i] || starts[i + 1] > rows) {
            return weft_fail(message, WEFT_INVALID, "%s of sequence %" PRId64 ": %d to %d, of %" PRId64 " rows", name, i,
                             (int)starts[i], (int)starts[i + 1], rows);
        }
    }
    return WEFT_OK;
}

/* `of` numbers are between 0 and what their sequence holds. */
static weft_status check_counts(const char *name, const int32_t *counts, const int32_t *starts, int64_t count, int64_t rows,
                                weft_message *message) {
    for (int64_t i = 0; counts && i < count; i++) {
        const int64_t most = starts ? starts[i + 1] - starts[i] : rows;
        if (counts[i] < 0 || counts[i] > most) {
            return weft_fail(message, WEFT_INVALID,
                             "%s of sequence %" PRId64 " is %d, and the sequence has %" PRId64 " rows", name, i,
                             (int)counts[i], most);
        }
    }
    return WEFT_OK;
}

/* No sequence has more queries than the problem says. */
static weft_status check_most(const weft_attention *p, const int32_t *starts, weft_message *message) {
    for (int64_t i = 0; starts && p->q_most > 0 && i < p->sequences; i++) {
        if (starts[i + 1] - starts[i] > p->q_most) {
            return weft_fail(message, WEFT_INVALID, "q_starts of sequence %" PRId64 ": %d queries, and q_most is %" PRId64,
                             i, (int)(starts[i + 1] - starts[i]), p->q_most);
        }
    }
    return WEFT_OK;
}

static weft_status check_lengths(const weft_attention *p, const weft_lengths *l, weft_message *message) {
    const int64_t count = sequence_count(p);
    const int in_pages = p->cache.page > 0, apart = l->kv_starts || (p->extras & WEFT_KV_STARTS);
    const int32_t *kv_starts = apart || in_pages ? l->kv_starts : l->q_starts;
    weft_status status;
    if ((status = weft_attention_check_starts("q_starts", l->q_starts, count, p->seq, message)) ||
        (status = check_most(p, l->q_starts, message)) ||
        (status = weft_attention_check_starts("kv_starts", kv_starts, count, p->kv_seq, message)) ||
        (status = check_counts("q_used", l->q_used, l->q_starts, count, p->seq, message)) ||
        (status = check_counts("kv_used", l->kv_used, kv_starts, count, p->kv_seq, message)) ||
        (status = check_counts("kv_pad", l->kv_pad, kv_starts, count, p->kv_seq, message))) {
        return status;
    }
    return WEFT_OK;
}

weft_status weft_attention_resolve_lengths(weft_attention *p, weft_message *message) {
    const int32_t known = LENGTHS | WEFT_SINKS | WEFT_ALIBI | WEFT_BIAS | WEFT_MAX | WEFT_BLOCKS | WEFT_TREE | WEFT_QV;
    if (p->extras & ~known) {
        return weft_fail(message, WEFT_INVALID, "extras %d has bits that are no weft_attention_extras", (int)p->extras);
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        if (read_array(&p->lengths, &arrays[i]) && (p->extras & arrays[i].bit)) {
            return weft_fail(message, WEFT_INVALID, "%s is given, and extras says that the data has it", arrays[i].name);
        }
    }
    if (p->sequences < 0 || p->sequences > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "sequences %" PRId64 " is not between 0 and %" PRId64, p->sequences,
                         (int64_t)WEFT_MAX_DIMENSION);
    }
    const int has_starts = p->lengths.q_starts || (p->extras & WEFT_STARTS);
    if (has_starts != (p->sequences > 0)) {
        return weft_fail(message, WEFT_INVALID,
                         has_starts ? "q_starts is only for a packed batch: sequences is 0"
                                    : "a packed batch needs q_starts");
    }
    if (!has_starts && (p->lengths.kv_starts || (p->extras & WEFT_KV_STARTS))) {
        return weft_fail(message, WEFT_INVALID, "kv_starts needs q_starts");
    }
    if (p->sequences > 0 && p->batch != 1) {
        return weft_fail(message, WEFT_INVALID, "batch %" PRId64 " of a packed batch is not 1", p->batch);
    }
    if (p->q_most < 0 || (p->q_most > 0 && p->sequences == 0)) {
        return weft_fail(message, WEFT_INVALID, "q_most %" PRId64 " is not at least 0, and 0 but for a packed batch",
                         p->q_most);
    }
    return check_lengths(p, &p->lengths, message);
}

int64_t weft_attention_most_queries(const weft_attention *p) {
    const int32_t *starts = p->lengths.q_starts;
    int64_t most = 1;
    for (int64_t i = 0; starts && i < p->sequences; i++) {
        most = weft_larger(most, starts[i + 1] - starts[i]);
    }
    return p->sequences == 0 ? p->seq : starts ? most : weft_smaller(p->q_most, p->seq);
}

weft_lengths weft_attention_join_lengths(const weft_attention *p, weft_lengths known, const weft_lengths *data) {
    for (size_t i = 0; i < ARRAYS; i++) {
        if (p->extras & arrays[i].bit) {
            *array_of(&known, &arrays[i]) = read_array(data, &arrays[i]);
        }
    }
    return known;
}

weft_status weft_attention_take_lengths(const weft_attention *p, const weft_lengths *data, weft_lengths *lengths,
                                        weft_message *message) {
    *lengths = weft_attention_join_lengths(p, p->lengths, data);
    return check_lengths(p, lengths, message);
}

size_t weft_attention_length_bytes(const weft_attention *p) {
    const weft_sequences all = weft_attention_sequences(p);
    const int any = weft_sequences_vary(&all) || all.lengths.kv_starts || all.new_starts; /* q_starts may be the data's */
    return any ? ((ARRAYS + 1) * ((size_t)all.count + 1) + 1) / 2 * sizeof(uint64_t) : 0;
}

void weft_attention_keep_lengths(weft_attention *p, void *memory) {
    const size_t each = (size_t)sequence_count(p) + 1;
    int32_t *copy = memory;
    for (size_t i = 0; i < ARRAYS; i++) {
        const int32_t **at = array_of(&p->lengths, &arrays[i]);
        if (*at) {
            *at = memcpy(copy + i * each, *at, (each - (arrays[i].has_end ? 0 : 1)) * sizeof *copy);
        }
    }
    if (p->cache.new_starts) {
        p->cache.new_starts = memcpy(copy + ARRAYS * each, p->cache.new_starts, each * sizeof *copy);
    }
}

static const int32_t *move_array(const int32_t *at, const void *from, uintptr_t to) {
    return at ? (const int32_t *)(to + ((uintptr_t)at - (uintptr_t)from)) : NULL;
}

weft_sequences weft_sequences_move(weft_sequences all, const void *from, uintptr_t to) {
    for (size_t i = 0; i < ARRAYS; i++) {
        const int32_t **at = array_of(&all.lengths, &arrays[i]);
        *at = move_array(*at, from, to);
    }
    all.new_starts = move_array(all.new_starts, from, to);
    return all;
}

/* ---- masks ---- */

/* The offset of a bottom-right mask, or the check of the one given. */
static weft_status resolve_offset(weft_attention *p, weft_message *message) {
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        return p->offset >= -WEFT_MAX_DIMENSION && p->offset <= WEFT_MAX_DIMENSION
                   ? WEFT_OK
                   : weft_fail(message, WEFT_INVALID, "offset %" PRId64 " is not between -%" PRId64 " and %" PRId64,
                               p->offset, WEFT_MAX_DIMENSION, WEFT_MAX_DIMENSION);
    }
    if (p->offset != 0) {
        return weft_fail(message, WEFT_INVALID,
                         "offset %" PRId64 " is only for masks WEFT_MASK_CAUSAL and WEFT_MASK_WINDOW", p->offset);
    }
    if (p->mask != WEFT_MASK_NONE && !varies(p)) {
        p->mask = p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ? WEFT_MASK_CAUSAL : WEFT_MASK_WINDOW;
        p->offset = p->kv_seq - p->seq;
    }
    return WEFT_OK;
}

/* A window without a left edge is a causal mask; without edges it hides nothing. */
static void resolve_window(weft_attention *p) {
    const int64_t to_first = p->seq - 1 + p->offset, to_last = p->kv_seq - 1 - p->offset;
    const int hides_left = p->left >= 0 && p->left < to_first, hides_right = p->right >= 0 && p->right < to_last;
    if (hides_left) {
        p->right = hides_right ? p->right : weft_larger(to_last, 0);
        return;
    }
    p->mask = hides_right ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    p->offset = hides_right ? p->offset + p->right : 0;
}

static int is_window(const weft_attention *p) {
    return p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT;
}

static weft_status resolve_chunk_and_prefix(weft_attention *p, weft_message *message) {
    if (p->chunk < 0 || p->chunk > WEFT_MAX_DIMENSION || p->prefix < 0 || p->prefix > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "chunk %" PRId64 " or prefix %" PRId64 " is not between 0 and %" PRId64,
                         p->chunk, p->prefix, (int64_t)WEFT_MAX_DIMENSION);
    }
    if (p->prefix > 0 && (p->chunk > 0 || (is_window(p) && p->left >= 0))) {
        return weft_fail(message, WEFT_INVALID,
                         "prefix %" PRId64 " goes with no chunks, and with no window that has a left edge", p->prefix);
    }
    if (p->mask == WEFT_MASK_NONE) {
        p->prefix = 0;      /* everything is seen */
        if (p->chunk > 0) { /* positions matter, as a window has them */
            p->mask = WEFT_MASK_WINDOW_BOTTOM_RIGHT;
            p->left = p->right = -1;
        }
    }
    return WEFT_OK;
}

weft_status weft_attention_resolve_mask(weft_attention *p, weft_message *message) {
    weft_status status;
    if ((int)p->mask < WEFT_MASK_NONE || (int)p->mask > WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        return weft_fail(message, WEFT_INVALID, "mask %d is not a weft_mask", (int)p->mask);
    }
    if (!is_window(p) && (p->left > 0 || p->right > 0)) {
        return weft_fail(message, WEFT_INVALID, "left %" PRId64 " and right %" PRId64 " are only for mask WEFT_MASK_WINDOW",
                         p->left, p->right);
    }
    if ((status = resolve_chunk_and_prefix(p, message)) || (status = resolve_offset(p, message))) {
        return status;
    }
    const int counts = (p->extras & WEFT_ALIBI) || p->cache.rotary_dim > 0; /* positions count beside what they hide */
    if (is_window(p) && p->chunk == 0 && p->prefix == 0 && !varies(p) && !counts) {
        resolve_window(p);
    }
    if (!is_window(p)) {
        p->left = p->right = -1;
    }
    return WEFT_OK;
}

int weft_attention_has_band(const weft_attention *p) {
    return weft_attention_has_pairs(p) || is_window(p) || p->chunk > 0 || p->prefix > 0 || varies(p);
}

weft_sequences weft_attention_sequences(const weft_attention *p) {
    return (weft_sequences){.lengths = p->lengths,
                            .count = sequence_count(p),
                            .queries = p->seq,
                            .keys = p->kv_seq,
                            .packed = p->sequences > 0,
                            .keys_each = p->sequences > 0 && p->cache.page > 0 ? p->cache.table_stride * p->cache.page : 0,
                            .append = p->cache.append,
                            .new_starts = p->cache.new_starts};
}

weft_band weft_attention_band(const weft_attention *p) {
    const int64_t right = is_window(p) ? p->right : p->mask == WEFT_MASK_NONE ? -1 : 0;
    return (weft_band){.left = is_window(p) && p->left >= 0 ? p->left : WEFT_BAND_OPEN,
                       .right = right >= 0 ? right : WEFT_BAND_OPEN,
                       .offset = p->offset,
                       .chunk = p->chunk,
                       .prefix = p->prefix,
                       .from_end = p->mask != WEFT_MASK_CAUSAL && p->mask != WEFT_MASK_WINDOW};
}

int64_t weft_attention_sequence_of(const weft_attention *p, int64_t batch, int64_t row) {
    const weft_sequences all = weft_attention_sequences(p);
    return p->lengths.q_starts ? weft_sequence_of_row(&all, row) : batch;
}

weft_rows weft_seen_keys(const weft_attention *p, int64_t batch, int64_t row) {
    const weft_sequences all = weft_attention_sequences(p);
    const weft_band band = weft_attention_band(p);
    const weft_sequence sequence = weft_sequence_at(&all, weft_attention_sequence_of(p, batch, row));
    return weft_band_seen(&band, &sequence, row);
}

int64_t weft_attention_longest(const weft_attention *p) {
    const weft_sequences all = weft_attention_sequences(p);
    int64_t longest = 1;
    for (int64_t i = 0; weft_sequences_vary(&all) && i < all.count; i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        longest = weft_larger(longest, s.columns.end - s.columns.begin);
    }
    return weft_sequences_vary(&all) ? longest : p->kv_seq;
}

int64_t weft_most_seen(const weft_attention *p) {
    const weft_band band = weft_attention_band(p);
    int64_t most = p->kv_seq;
    most = p->chunk > 0 ? weft_smaller(most, p->chunk) : most;
    if (!varies(p) && p->prefix == 0) {
        most = weft_smaller(most, weft_seen_keys(p, 0, p->seq - 1).end);
    }
    return band.left < most && band.right < most ? weft_smaller(most, band.left + band.right + 1) : most;
}

/* ---- work ---- */

/* Keys before an edge that moves on by one with each query, held between two numbers of them: the sum over all queries. */
static double keys_before(int64_t queries, int64_t at, int64_t least, int64_t most) {
    const int64_t rises = weft_between(least - at, 0, queries), stays = weft_between(most - at, rises, queries);
    const double rising = (double)(stays - rises) * ((double)at + 0.5 * (double)(rises + stays - 1));
    return (double)rises * (double)least + rising + (double)(queries - stays) * (double)most;
}

/* Of a long sequence in chunks, as many rows are looked at as this. */
enum { SAMPLES = 1 << 14 };

static double pairs_of(const weft_band *band, const weft_sequence *s) {
    const int64_t queries = s->used_end - s->rows.begin, keys = s->columns.end - s->columns.begin;
    const int64_t first = queries > 0 ? weft_band_position(band, s, s->rows.begin) : 0;
    if (band->chunk == 0) {
        const int64_t prefix = weft_smaller(band->prefix, keys);
        return keys_before(queries, first + band->right + 1, prefix, keys) -
               keys_before(queries, first - band->left, 0, keys);
    }
    double seen = 0;
    const int64_t looks = weft_smaller(queries, SAMPLES);
    for (int64_t i = 0; i < looks; i++) {
        const weft_rows run =
            weft_band_seen(band, s, s->rows.begin + (int64_t)((double)queries * (double)i / (double)looks));
        seen += (double)(run.end - run.begin);
    }
    return looks > 0 ? seen * (double)queries / (double)looks : 0;
}

/* Without lengths that vary, a causal mask counts as one half of everything, as the field counts. Lengths that are not
 * known yet count as if a packed batch had sequences of one length, and others all that they can have. */
double weft_attention_pairs(const weft_attention *p) {
    const weft_band band = weft_attention_band(p);
    const weft_sequences all = weft_attention_sequences(p);
    if (!weft_attention_has_band(p)) {
        const double pairs = (double)p->batch * (double)p->seq * (double)p->kv_seq;
        return p->mask == WEFT_MASK_NONE ? pairs : pairs / 2;
    }
    if (!weft_sequences_vary(&all)) {
        const int64_t count = sequence_count(p), parts = p->sequences > 0 ? count : 1;
        const weft_sequence each = weft_sequence_whole(p->seq / parts, p->cache.page > 0 ? p->kv_seq : p->kv_seq / parts);
        return (double)count * pairs_of(&band, &each);
    }
    double pairs = 0;
    for (int64_t i = 0; i < all.count; i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        pairs += pairs_of(&band, &s);
    }
    return pairs;
}
