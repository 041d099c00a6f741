/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of Q, K and V as an attention sees them: in pages, appended, rotated. A row is where its elements are, in the
 * problem's dtype. */
#ifndef WEFT_REF_CACHE_H
#define WEFT_REF_CACHE_H

#include "problem/problem.h"
#include "ref/ref.h"

typedef struct weft_ref_vector {
    const void *data;
    size_t at;
} weft_ref_vector;

/* Room for a row that is nowhere as it is seen. */
typedef struct weft_ref_room {
    double bytes[WEFT_MAX_HEAD_DIM];
} weft_ref_room;

/* The keys of one sequence. */
typedef struct weft_ref_keys {
    const weft_attention *p;
    const weft_attention_data *data;
    weft_sequences all;
    int64_t batch, number;
    weft_pages pages;
    weft_new_keys added;
    int64_t first; /* its first column, where keys lie in pages and queries are packed; else 0 */
} weft_ref_keys;
weft_ref_keys weft_ref_keys_of(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t number);

/* A column's row of K and of V, one that is appended as it will be; and a row of Q. */
weft_ref_vector weft_ref_key(const weft_ref_keys *keys, int64_t kv_head, int64_t column, weft_ref_room *room);
weft_ref_vector weft_ref_value(const weft_ref_keys *keys, int64_t kv_head, int64_t column, weft_ref_room *room);
weft_ref_vector weft_ref_query(const weft_ref_keys *keys, int64_t head, int64_t row, weft_ref_room *room);

/* A row of the queries for the values; and the products of a query, whose row of Q is `q`, with a key: q k, and with them
 * qv v. */
weft_ref_vector weft_ref_qv(const weft_ref_keys *keys, int64_t head, int64_t row);
double weft_ref_product(const weft_ref_keys *keys, int64_t head, int64_t row, weft_ref_vector q, int64_t column);

/* Writes the new keys and values of all sequences to the cache. */
void weft_ref_append(const weft_attention *p, const weft_attention_data *data);

#endif
