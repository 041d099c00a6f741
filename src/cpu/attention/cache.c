/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/attention/cache.h"

#include <string.h>

#include "base/status.h"
#include "cpu/kernel/convert.h"
#include "cpu/memory.h"
#include "cpu/thread/team.h"
#include "problem/problem.h"

typedef struct job {
    const weft_attention *p;
    const weft_attention_data *data;
    weft_sequences all;
    weft_pages pages;
    char *q;                /* rotated */
    weft_strides q_strides; /* its own */
} job;

/* Rotates pairs of a row of floats by the angles of a position. */
static void rotate(const job *j, int64_t position, float *row) {
    const weft_kv_cache *c = &j->p->cache;
    const int64_t half = c->rotary_dim / 2;
    float cos[WEFT_MAX_HEAD_DIM / 2], sin[WEFT_MAX_HEAD_DIM / 2];
    weft_cpu_load(j->p->dtype, j->data->cache.cos, (size_t)(position * half), half, cos);
    weft_cpu_load(j->p->dtype, j->data->cache.sin, (size_t)(position * half), half, sin);
    for (int64_t i = 0; i < half; i++) {
        float *x = &row[c->rotary_interleaved ? 2 * i : i], *y = &row[c->rotary_interleaved ? 2 * i + 1 : i + half];
        const float turned = *x * cos[i] - *y * sin[i];
        *y = *x * sin[i] + *y * cos[i];
        *x = turned;
    }
}

/* Rows of the same head dim, rotated where `position` is at least 0. */
static void copy_row(const job *j, const void *from, size_t from_at, int64_t count, int64_t position, void *to,
                     size_t to_at) {
    const size_t bytes = weft_dtype_bytes(j->p->dtype);
    if (position < 0) {
        memcpy((char *)to + to_at * bytes, (const char *)from + from_at * bytes, (size_t)count * bytes);
        return;
    }
    float row[WEFT_MAX_HEAD_DIM];
    weft_cpu_load(j->p->dtype, from, from_at, count, row);
    rotate(j, position, row);
    weft_cpu_store(j->p->dtype, to, to_at, count, row);
}

/* A new key of all kv heads: number `item` of all that there may be. */
static void append_key(void *context, int64_t item) {
    const job *j = context;
    const weft_attention *p = j->p;
    const int32_t *starts = j->all.new_starts ? j->all.new_starts : j->all.lengths.q_starts;
    const int64_t number =
        p->sequences > 0 ? weft_sequence_search(starts, j->all.count, item, NULL, 0) : item / p->cache.append;
    const weft_new_keys added = weft_attention_new_keys(p, &j->all, number);
    const int64_t i = p->sequences > 0 ? item - added.first : item % p->cache.append;
    if (i >= added.count) {
        return;
    }
    const weft_page_row at = weft_page_of(&j->pages, added.batch, added.column + i);
    const int64_t position =
        p->cache.rotary_dim > 0 ? weft_attention_position(p, &j->all, j->data->cache.positions, number, i) : -1;
    for (int64_t head = 0; head < p->kv_heads; head++) {
        copy_row(j, j->data->cache.k_new, weft_row_index(&p->cache.k_new_strides, added.batch, added.first + i, head),
                 p->head_dim, position, (void *)j->data->k, weft_row_index(&p->k_strides, at.page, at.row, head));
        copy_row(j, j->data->cache.v_new, weft_row_index(&p->cache.v_new_strides, added.batch, added.first + i, head),
                 p->head_dim_v, -1, (void *)j->data->v, weft_row_index(&p->v_strides, at.page, at.row, head));
    }
}

/* A query of all heads. */
static void rotate_query(void *context, int64_t item) {
    const job *j = context;
    const weft_attention *p = j->p;
    const int64_t batch = item / p->seq, row = item % p->seq;
    if (row >= weft_attention_rows(p)) {
        return;
    }
    const int64_t number = weft_attention_sequence_of(p, batch, row);
    const int64_t position = weft_attention_query_position(p, &j->all, j->data->cache.positions, number, row);
    for (int64_t head = 0; head < p->heads; head++) {
        copy_row(j, j->data->q, weft_row_index(&p->q_strides, batch, row, head), p->head_dim, position, j->q,
                 weft_row_index(&j->q_strides, batch, row, head));
    }
}

weft_status weft_cpu_cache_begin(weft_attention *p, weft_attention_data *data, void **memory, weft_message *message) {
    job j = {.p = p, .data = data, .all = weft_attention_sequences(p), .pages = weft_attention_pages(p, data)};
    *memory = NULL;
    if (p->cache.rotary_dim > 0) {
        const double bytes =
            (double)p->batch * (double)p->seq * (double)p->heads * (double)p->head_dim * (double)weft_dtype_bytes(p->dtype);
        *memory = bytes < 0x1p60 ? weft_cpu_alloc((size_t)bytes) : NULL;
        if (!*memory) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for %.0f bytes of rotated queries", bytes);
        }
        j.q = *memory;
        j.q_strides = (weft_strides){p->seq * p->heads * p->head_dim, p->heads * p->head_dim, p->head_dim};
    }
    if (p->cache.append > 0) {
        weft_cpu_for(p->sequences > 0 ? p->cache.append : p->batch * p->cache.append, append_key, &j);
    }
    if (p->cache.rotary_dim > 0) {
        weft_cpu_for(p->batch * p->seq, rotate_query, &j);
        p->q_strides = j.q_strides;
        data->q = j.q;
    }
    return WEFT_OK;
}
