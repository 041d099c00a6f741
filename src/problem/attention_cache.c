/* SPDX-License-Identifier: Apache-2.0 */
/* K and V as a cache: its sizes checked and filled in, what a run brings for it, and where its keys lie. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/tensor.h"

static int64_t sequence_count(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

int64_t weft_attention_columns(const weft_attention *p) {
    const int64_t before = p->sequences > 0 && p->cache.page > 0 ? p->sequences - 1 : 0;
    return before * p->cache.table_stride * p->cache.page + p->kv_seq;
}

weft_tensor_axis weft_attention_kv_batches(const weft_attention *p, const weft_strides *s) {
    const weft_tensor_axis axis = {p->cache.page > 0 ? p->cache.pages : p->batch, s->batch};
    return axis;
}

weft_tensor_axis weft_attention_kv_rows(const weft_attention *p, const weft_strides *s) {
    const weft_tensor_axis axis = {p->cache.page > 0 ? p->cache.page : p->kv_seq, s->seq};
    return axis;
}

/* ---- checks ---- */

static weft_status resolve_pages(weft_attention *p, weft_message *message) {
    weft_kv_cache *c = &p->cache;
    int64_t entries, columns;
    if (c->page == 0) {
        return c->pages == 0 && c->table_stride == 0
                   ? WEFT_OK
                   : weft_fail(message, WEFT_INVALID,
                               "cache.pages %" PRId64 " and cache.table_stride %" PRId64 " are only for a cache with "
                               "cache.page above 0",
                               c->pages, c->table_stride);
    }
    if (c->page < 0 || c->page > p->kv_seq || p->kv_seq % c->page != 0) {
        return weft_fail(message, WEFT_INVALID, "kv_seq %" PRId64 " is no multiple of cache.page %" PRId64, p->kv_seq,
                         c->page);
    }
    c->table_stride = c->table_stride == 0 ? p->kv_seq / c->page : c->table_stride;
    if (c->table_stride < p->kv_seq / c->page || c->table_stride > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID,
                         "cache.table_stride %" PRId64 " is not between the %" PRId64 " pages of kv_seq and %" PRId64,
                         c->table_stride, p->kv_seq / c->page, (int64_t)WEFT_MAX_DIMENSION);
    }
    if (!weft_multiply(sequence_count(p), c->table_stride, &entries) || entries > WEFT_MOST_ELEMENTS) {
        return weft_fail(message, WEFT_INVALID, "cache.table of %" PRId64 " sequences is too large", sequence_count(p));
    }
    if (p->sequences > 0 && (!weft_multiply(entries, c->page, &columns) || columns > WEFT_MAX_DIMENSION)) {
        return weft_fail(message, WEFT_INVALID,
                         "a packed batch of %" PRId64 " sequences with lists of %" PRId64 " pages of %" PRId64
                         " keys has more than %" PRId64,
                         p->sequences, c->table_stride, c->page, (int64_t)WEFT_MAX_DIMENSION);
    }
    c->pages = c->pages == 0 ? weft_smaller(entries, WEFT_MAX_DIMENSION) : c->pages;
    if (c->pages < 1 || c->pages > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "cache.pages %" PRId64 " is not between 1 and %" PRId64, c->pages,
                         (int64_t)WEFT_MAX_DIMENSION);
    }
    return p->lengths.kv_starts || (p->extras & WEFT_KV_STARTS)
               ? weft_fail(message, WEFT_INVALID, "keys in pages are not packed: they take kv_used, and no kv_starts")
               : WEFT_OK;
}

static weft_status check_new_starts(const weft_attention *p, weft_message *message) {
    const int32_t *own = p->cache.new_starts, *starts = own ? own : p->lengths.q_starts;
    if (!starts || p->cache.append == 0) {
        return WEFT_OK;
    }
    return weft_attention_check_starts(own ? "cache.new_starts" : "q_starts, which are those of the new keys, too,", starts,
                                       p->sequences, p->cache.append, message);
}

/* The strides of k_new and v_new, and whether K and V can be written. */
static weft_status resolve_new(const weft_attention *p, weft_strides *s, const weft_strides *of_cache, char tensor,
                               int64_t row, weft_message *message) {
    char name[8] = "k_new";
    name[0] = tensor;
    const weft_status status =
        weft_resolve_strides(s, name, p->layout, p->batch, p->cache.append, p->kv_heads, row, message);
    if (status) {
        return status;
    }
    weft_tensor_axis axes[] = {
        weft_attention_kv_batches(p, of_cache), weft_attention_kv_rows(p, of_cache), {p->kv_heads, of_cache->head}};
    return weft_overlaps_itself(axes, 3, row)
               ? weft_fail(message, WEFT_INVALID,
                           "%c_strides make rows of %c overlap, and keys are appended: batch %" PRId64 ", seq %" PRId64
                           ", head %" PRId64,
                           tensor, tensor, of_cache->batch, of_cache->seq, of_cache->head)
               : WEFT_OK;
}

static weft_status resolve_append(weft_attention *p, weft_message *message) {
    weft_kv_cache *c = &p->cache;
    const int has_used = p->lengths.kv_used || (p->extras & WEFT_KV_USED);
    const int64_t most = p->sequences > 0 ? WEFT_MAX_DIMENSION : p->kv_seq;
    if (p->sequences > 0 && (c->page > 0 || c->append > 0) && !has_used) {
        return weft_fail(message, WEFT_INVALID, "a cache with a packed batch needs kv_used");
    }
    if (c->append < 0 || c->append > most) {
        return weft_fail(message, WEFT_INVALID, "cache.append %" PRId64 " is not between 0 and %" PRId64, c->append, most);
    }
    if (c->new_starts && (c->append == 0 || p->sequences == 0)) {
        return weft_fail(message, WEFT_INVALID, "cache.new_starts is only for keys appended to a packed batch");
    }
    return c->new_starts ? check_new_starts(p, message) : WEFT_OK; /* the data may have others than q_starts */
}

static weft_status resolve_rotary(weft_attention *p, weft_message *message) {
    weft_kv_cache *c = &p->cache;
    if (c->rotary_dim == 0) {
        c->rotary_rows = 0;
        c->rotary_interleaved = 0;
        return WEFT_OK;
    }
    if (c->rotary_dim < 0 || c->rotary_dim > p->head_dim || c->rotary_dim % 2 != 0) {
        return weft_fail(message, WEFT_INVALID,
                         "cache.rotary_dim %" PRId64 " is not even and between 0 and head_dim %" PRId64, c->rotary_dim,
                         p->head_dim);
    }
    if (c->rotary_rows < 1 || c->rotary_rows > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "cache.rotary_rows %" PRId64 " is not between 1 and %" PRId64,
                         c->rotary_rows, (int64_t)WEFT_MAX_DIMENSION);
    }
    return c->rotary_interleaved == 0 || c->rotary_interleaved == 1
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "cache.rotary_interleaved %d is not 0 or 1", (int)c->rotary_interleaved);
}

weft_status weft_attention_resolve_cache(weft_attention *p, weft_message *message) {
    weft_kv_cache *c = &p->cache;
    weft_status status;
    if (c->dtype != 0 && c->dtype != 1 + (int32_t)p->dtype) {
        return weft_fail(message, WEFT_INVALID, "cache.dtype %d is not 0 or, for the problem's dtype, %d", (int)c->dtype,
                         1 + (int)p->dtype);
    }
    if ((status = resolve_pages(p, message)) || (status = resolve_append(p, message)) ||
        (status = resolve_rotary(p, message))) {
        return status;
    }
    return WEFT_OK;
}

weft_status weft_attention_resolve_new_keys(weft_attention *p, weft_message *message) {
    weft_kv_cache *c = &p->cache;
    if (c->append == 0) {
        const weft_strides none = {0, 0, 0};
        c->k_new_strides = c->v_new_strides = none;
        return WEFT_OK;
    }
    const weft_status status = resolve_new(p, &c->k_new_strides, &p->k_strides, 'k', p->head_dim, message);
    return status ? status : resolve_new(p, &c->v_new_strides, &p->v_strides, 'v', p->head_dim_v, message);
}

/* ---- buffers ---- */

/* Inputs that may be null each by itself; numbers as in weft_buffer.optional. */
enum { NEW_STARTS = WEFT_BUFFER_ON_REQUEST + 1, POSITIONS };

static size_t new_extent(const weft_attention *p, const weft_strides *s, int64_t row) {
    const weft_tensor_axis axes[] = {{p->batch, s->batch}, {p->cache.append, s->seq}, {p->kv_heads, s->head}};
    return (size_t)weft_extent(axes, 3, row);
}

size_t weft_attention_cache_inputs(const weft_attention *p, weft_buffer *list) {
    const weft_kv_cache *c = &p->cache;
    const size_t each = (size_t)sequence_count(p), element = weft_dtype_bytes(p->dtype), number = sizeof(int32_t);
    const size_t turns = (size_t)(c->rotary_rows * (c->rotary_dim / 2));
    const size_t entries = c->page > 0 ? (each - 1) * (size_t)c->table_stride + (size_t)(p->kv_seq / c->page) : 0;
    const weft_buffer table = WEFT_BUFFER_OF(weft_attention_data, cache.table, WEFT_INT32, entries, number, 1, 0);
    size_t n = 0;
    if (c->page > 0) {
        list[n++] = table;
    }
    if (c->append > 0) {
        const size_t k = new_extent(p, &c->k_new_strides, p->head_dim), v = new_extent(p, &c->v_new_strides, p->head_dim_v);
        const weft_buffer added[] = {WEFT_BUFFER_OF(weft_attention_data, cache.k_new, p->dtype, k, element, 1, 0),
                                     WEFT_BUFFER_OF(weft_attention_data, cache.v_new, p->dtype, v, element, 1, 0)};
        const weft_buffer starts =
            WEFT_BUFFER_OF(weft_attention_data, cache.new_starts, WEFT_INT32, each + 1, number, 1, NEW_STARTS);
        list[n++] = added[0];
        list[n++] = added[1];
        if (p->sequences > 0) {
            list[n++] = starts;
        }
    }
    if (c->rotary_dim > 0) {
        const weft_buffer rotation[] = {
            WEFT_BUFFER_OF(weft_attention_data, cache.cos, p->dtype, turns, element, 1, 0),
            WEFT_BUFFER_OF(weft_attention_data, cache.sin, p->dtype, turns, element, 1, 0),
            WEFT_BUFFER_OF(weft_attention_data, cache.positions, WEFT_INT32, each, number, 1, POSITIONS)};
        for (size_t i = 0; i < sizeof rotation / sizeof *rotation; i++) {
            list[n++] = rotation[i];
        }
    }
    return n;
}

/* Two tensors of equal strides, the second `apart` elements behind the first: from the smallest stride up, each axis steps
 * over what those below it reach, and so does the distance of the two. */
int weft_attention_kv_apart(const weft_problem *problem, const weft_data *data, size_t first, size_t second) {
    const weft_attention *p = &problem->attention;
    const size_t at_k = offsetof(weft_attention_data, k), at_v = offsetof(weft_attention_data, v);
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype);
    const uintptr_t k = (uintptr_t)data->attention.k, v = (uintptr_t)data->attention.v;
    const int64_t distance = k < v ? (int64_t)(v - k) : (int64_t)(k - v);
    const weft_strides *s = &p->k_strides, *t = &p->v_strides;
    if (!((first == at_k && second == at_v) || (first == at_v && second == at_k)) || distance % bytes != 0 ||
        s->batch != t->batch || s->seq != t->seq || s->head != t->head) {
        return 0;
    }
    weft_tensor_axis axes[] = {weft_attention_kv_batches(p, s), weft_attention_kv_rows(p, s), {p->kv_heads, s->head}};
    int64_t lower = k < v ? p->head_dim : p->head_dim_v, upper = k < v ? p->head_dim_v : p->head_dim;
    weft_overlaps_itself(axes, 3, 1); /* sorts them */
    int joined = 0;
    for (size_t i = 0; i <= 3; i++) {
        const int beyond = i == 3 || axes[i].stride > distance / bytes;
        if (!joined && beyond && (i == 3 || axes[i].length > 1)) {
            if (distance / bytes < lower) {
                return 0;
            }
            lower = upper += distance / bytes;
            joined = 1;
        }
        if (i < 3 && axes[i].length > 1) {
            if (axes[i].stride < weft_larger(lower, upper)) {
                return 0;
            }
            lower += (axes[i].length - 1) * axes[i].stride;
            upper += (axes[i].length - 1) * axes[i].stride;
        }
    }
    return 1;
}

/* ---- runs ---- */

weft_pages weft_attention_pages(const weft_attention *p, const weft_attention_data *data) {
    weft_pages pages = {0};
    if (p->cache.page > 0) {
        pages.table = data->cache.table;
        pages.page = p->cache.page;
        pages.pages = p->cache.pages;
        pages.stride = p->cache.table_stride;
        pages.by_page = weft_divisor_make((uint64_t)p->cache.page);
    }
    return pages;
}

weft_new_keys weft_attention_new_keys(const weft_attention *p, const weft_sequences *all, int64_t number) {
    const int32_t *starts = all->new_starts ? all->new_starts : all->lengths.q_starts;
    const weft_rows added = weft_sequence_added(all, number);
    return (weft_new_keys){.batch = p->sequences > 0 ? 0 : number,
                           .first = p->sequences > 0 && starts ? starts[number] : 0,
                           .column = added.begin,
                           .count = added.end - added.begin,
                           .used = added.begin - weft_sequence_origin(all, number)};
}

int64_t weft_attention_position(const weft_attention *p, const weft_sequences *all, const int32_t *positions,
                                int64_t number, int64_t i) {
    const int64_t used = all->lengths.kv_used ? all->lengths.kv_used[number] : p->kv_seq - p->cache.append;
    return weft_between((positions ? positions[number] : used) + i, 0, p->cache.rotary_rows - 1);
}

int64_t weft_attention_query_position(const weft_attention *p, const weft_sequences *all, const int32_t *positions,
                                      int64_t number, int64_t row) {
    const weft_sequence s = weft_sequence_at(all, number);
    return weft_attention_position(p, all, positions, number, p->mask == WEFT_MASK_NONE ? 0 : row - s.rows.begin);
}

/* The entries of a table for some columns of a sequence. */
static weft_status check_entries(const weft_attention *p, const int32_t *table, int64_t number, weft_rows columns,
                                 weft_message *message) {
    const int64_t from = p->sequences > 0 ? number * p->cache.table_stride : 0;
    const int64_t at = p->sequences > 0 ? 0 : number * p->cache.table_stride;
    for (int64_t i = columns.begin / p->cache.page; i * p->cache.page < columns.end; i++) {
        if (table[at + i] < 0 || table[at + i] >= p->cache.pages) {
            return weft_fail(message, WEFT_INVALID,
                             "cache.table of sequence %" PRId64 ", entry %" PRId64 " is %d, and there are %" PRId64
                             " pages",
                             number, i - from, (int)table[at + i], p->cache.pages);
        }
    }
    return WEFT_OK;
}

/* What its queries see is one run of keys, from what the first sees first to what the last sees last. */
weft_status weft_attention_check_table(const weft_attention *p, const int32_t *table, weft_message *message) {
    const weft_sequences all = weft_attention_sequences(p);
    const weft_band band = weft_attention_band(p);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < all.count && status == WEFT_OK; i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        const weft_new_keys added = weft_attention_new_keys(p, &all, i);
        if (s.rows.begin < s.used_end) {
            const weft_rows seen = {weft_band_seen(&band, &s, s.rows.begin).begin,
                                    weft_band_seen(&band, &s, s.used_end - 1).end};
            status = seen.begin < seen.end ? check_entries(p, table, i, seen, message) : WEFT_OK;
        }
        if (added.count > 0 && status == WEFT_OK) {
            const weft_rows written = {added.column, added.column + added.count};
            status = check_entries(p, table, i, written, message);
        }
    }
    return status;
}

weft_status weft_attention_take_cache(weft_attention *p, const weft_kv_cache_data *data, weft_message *message) {
    p->cache.new_starts = weft_attention_join_new_starts(p, p->cache.new_starts, data);
    const weft_status status = check_new_starts(p, message);
    return status || p->cache.page == 0 ? status : weft_attention_check_table(p, data->table, message);
}

const int32_t *weft_attention_join_new_starts(const weft_attention *p, const int32_t *known,
                                              const weft_kv_cache_data *data) {
    return p->sequences > 0 && p->cache.append > 0 && data->new_starts ? data->new_starts : known;
}
