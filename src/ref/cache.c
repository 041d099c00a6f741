/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/cache.h"

#include "ref/dot.h"

#include <math.h>

weft_ref_keys weft_ref_keys_of(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t number) {
    weft_ref_keys keys = {.p = p,
                          .data = data,
                          .all = weft_attention_sequences(p),
                          .batch = batch,
                          .number = number,
                          .pages = weft_attention_pages(p, data)};
    keys.added = weft_attention_new_keys(p, &keys.all, number);
    keys.first = number * keys.all.keys_each;
    return keys;
}

/* Rotates the pairs of a row's first elements by the angles of a position. */
static weft_ref_vector rotate(const weft_ref_keys *keys, weft_ref_vector row, int64_t position, weft_ref_room *room) {
    const weft_attention *p = keys->p;
    const int64_t half = p->cache.rotary_dim / 2;
    const weft_ref_vector turned = {room, 0};
    for (int64_t d = 2 * half; d < p->head_dim; d++) {
        weft_ref_store(p->dtype, room, (size_t)d, weft_ref_load(p->dtype, row.data, row.at + (size_t)d));
    }
    for (int64_t i = 0; i < half; i++) {
        const size_t angle = (size_t)(position * half + i);
        const size_t one = (size_t)(p->cache.rotary_interleaved ? 2 * i : i);
        const size_t other = (size_t)(p->cache.rotary_interleaved ? 2 * i + 1 : i + half);
        const double c = weft_ref_load(p->dtype, keys->data->cache.cos, angle);
        const double s = weft_ref_load(p->dtype, keys->data->cache.sin, angle);
        const double x = weft_ref_load(p->dtype, row.data, row.at + one);
        const double y = weft_ref_load(p->dtype, row.data, row.at + other);
        weft_ref_store(p->dtype, room, one, x * c - y * s);
        weft_ref_store(p->dtype, room, other, x * s + y * c);
    }
    return turned;
}

/* A row of the cache. What lies on no page is NaN. */
static weft_ref_vector stored(const weft_ref_keys *keys, const void *data, const weft_strides *s, int64_t kv_head,
                              int64_t column, weft_ref_room *room) {
    const weft_page_row at = weft_page_of(&keys->pages, keys->batch, column);
    if (at.page < 0) {
        const weft_ref_vector none = {room, 0};
        for (size_t d = 0; d < WEFT_MAX_HEAD_DIM; d++) {
            weft_ref_store(keys->p->dtype, room, d, NAN);
        }
        return none;
    }
    return (weft_ref_vector){data, weft_row_index(s, at.page, at.row, kv_head)};
}

weft_ref_vector weft_ref_key(const weft_ref_keys *keys, int64_t kv_head, int64_t column, weft_ref_room *room) {
    const weft_attention *p = keys->p;
    const weft_new_keys *added = &keys->added;
    const int64_t i = column - added->column;
    if (i < 0 || i >= added->count) {
        return stored(keys, keys->data->k, &p->k_strides, kv_head, column, room);
    }
    const weft_ref_vector row = {keys->data->cache.k_new,
                                 weft_row_index(&p->cache.k_new_strides, added->batch, added->first + i, kv_head)};
    const int32_t *positions = keys->data->cache.positions;
    return p->cache.rotary_dim == 0
               ? row
               : rotate(keys, row, weft_attention_position(p, &keys->all, positions, keys->number, i), room);
}

weft_ref_vector weft_ref_value(const weft_ref_keys *keys, int64_t kv_head, int64_t column, weft_ref_room *room) {
    const weft_attention *p = keys->p;
    const weft_new_keys *added = &keys->added;
    const int64_t i = column - added->column;
    if (i < 0 || i >= added->count) {
        return stored(keys, keys->data->v, &p->v_strides, kv_head, column, room);
    }
    return (weft_ref_vector){keys->data->cache.v_new,
                             weft_row_index(&p->cache.v_new_strides, added->batch, added->first + i, kv_head)};
}

weft_ref_vector weft_ref_query(const weft_ref_keys *keys, int64_t head, int64_t row, weft_ref_room *room) {
    const weft_attention *p = keys->p;
    const weft_ref_vector q = {keys->data->q, weft_row_index(&p->q_strides, keys->batch, row, head)};
    const int32_t *positions = keys->data->cache.positions;
    return p->cache.rotary_dim == 0
               ? q
               : rotate(keys, q, weft_attention_query_position(p, &keys->all, positions, keys->number, row), room);
}

weft_ref_vector weft_ref_qv(const weft_ref_keys *keys, int64_t head, int64_t row) {
    return (weft_ref_vector){keys->data->qv, weft_row_index(&keys->p->qv_strides, keys->batch, row, head)};
}

double weft_ref_product(const weft_ref_keys *keys, int64_t head, int64_t row, weft_ref_vector q, int64_t column) {
    const weft_attention *p = keys->p;
    weft_ref_room room;
    const weft_ref_vector k = weft_ref_key(keys, weft_ref_kv_head(p, head), column, &room);
    const double of_k = weft_ref_dot(p->dtype, q.data, q.at, k.data, k.at, p->head_dim);
    if (!(p->extras & WEFT_QV)) {
        return of_k;
    }
    const weft_ref_vector qv = weft_ref_qv(keys, head, row);
    const weft_ref_vector v = weft_ref_value(keys, weft_ref_kv_head(p, head), column, &room);
    return of_k + weft_ref_dot(p->dtype, qv.data, qv.at, v.data, v.at, p->head_dim_v);
}

static void copy(const weft_attention *p, weft_ref_vector from, int64_t count, weft_ref_vector to) {
    for (size_t d = 0; d < (size_t)count; d++) {
        weft_ref_store(p->dtype, (void *)to.data, to.at + d, weft_ref_load(p->dtype, from.data, from.at + d));
    }
}

void weft_ref_append(const weft_attention *p, const weft_attention_data *data) {
    const int64_t sequences = weft_attention_sequences(p).count;
    weft_ref_room room, none;
    for (int64_t i = 0; i < sequences * p->kv_heads && p->cache.append > 0; i++) {
        const int64_t number = i / p->kv_heads, kv_head = i % p->kv_heads;
        const weft_ref_keys keys = weft_ref_keys_of(p, data, p->sequences > 0 ? 0 : number, number);
        for (int64_t column = keys.added.column; column < keys.added.column + keys.added.count; column++) {
            copy(p, weft_ref_key(&keys, kv_head, column, &room), p->head_dim,
                 stored(&keys, data->k, &p->k_strides, kv_head, column, &none));
            copy(p, weft_ref_value(&keys, kv_head, column, &room), p->head_dim_v,
                 stored(&keys, data->v, &p->v_strides, kv_head, column, &none));
        }
    }
}
