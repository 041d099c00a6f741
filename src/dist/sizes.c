/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a rank's buffers, and of what ranks of a group send each other to exchange heads: known before any of it is
 * done. */
#include "dist/dist.h"
#include "problem/problem.h"

int64_t weft_dist_slots(const weft_dist *dist) {
    const int64_t few = dist->pieces > 1 ? 2 : weft_ring_lag(&dist->ring) + 1;
    return dist->ranks.exchange == WEFT_EXCHANGE_ALL_GATHER ? dist->steps : weft_smaller(few, dist->steps);
}

int64_t weft_dist_slot_rows(const weft_dist *dist) {
    int64_t rows = 0;
    for (int64_t i = 0; i < dist->rings; i++) {
        rows = weft_larger(rows, weft_dist_group_of(dist, i, WEFT_KEY_ROWS).rows);
    }
    return dist->pieces > 1 ? weft_smaller(rows, dist->ranks.most_keys) : rows;
}

size_t weft_dist_heads_share(const weft_dist *dist, int64_t rank) {
    const weft_attention *p = &dist->problem.attention;
    const int64_t members = dist->ranks.head_ranks, first = rank / members * members;
    int64_t most = 0;
    for (int64_t i = first; i < first + members; i++) {
        most = weft_larger(most,
                           weft_larger(weft_dist_rows(dist, i, WEFT_QUERY_ROWS), weft_dist_rows(dist, i, WEFT_KEY_ROWS)));
    }
    const int64_t elements = most * p->batch * weft_dist_heads_of(dist) * weft_larger(p->head_dim, p->head_dim_v);
    return ((size_t)elements * sizeof(float) + 63) / 64 * 64;
}

uint64_t weft_dist_buffers(const weft_dist *dist, int64_t rank, int64_t most_queries, int64_t most_keys) {
    const weft_attention *p = &dist->problem.attention;
    const int back = weft_dist_is_backward(dist);
    const int64_t group = rank / dist->ranks.head_ranks, keys = weft_dist_group_of(dist, group, WEFT_KEY_ROWS).rows;
    const int64_t element = (int64_t)weft_dtype_bytes(p->dtype), sum = sizeof(float);
    const int64_t slot_rows = weft_dist_slot_rows(dist), lines = p->batch * weft_dist_heads_of(dist);
    const int64_t queries = weft_dist_group_of(dist, group, WEFT_QUERY_ROWS).rows * lines;
    const int64_t dim = p->head_dim, dim_v = p->head_dim_v, out = back ? dim : dim_v;
    const int64_t key = (int64_t)weft_dist_key_bytes(dist), key_sums = (int64_t)weft_dist_add_bytes(dist);
    int64_t bytes = (weft_dist_slots(dist) * slot_rows + keys) * key;            /* parts, and own keys */
    bytes += queries * ((dim + weft_larger(dim, dim_v)) * element + sum);        /* Q, O and LSE */
    bytes += most_queries * lines * (out + 1) * sum + queries * (out + 1) * sum; /* results of a slice, and sums */
    if (back) {
        bytes += queries * dim_v * (element + sum) + most_keys * key_sums; /* dO, O in fp32, dK and dV of a slice */
        bytes += ((weft_ring_lag(&dist->ring) + 1) * slot_rows + 2 * keys) * key_sums; /* sums of dK and dV */
        bytes += p->extras & WEFT_SINKS ? dist->ranks.ranks * p->heads * sum + key_sums : 0;
    }
    const uint64_t members = (uint64_t)dist->ranks.head_ranks;
    return (uint64_t)bytes + (members > 1 ? 2 * members * weft_dist_heads_share(dist, rank) : 0);
}

weft_dist_heads_row weft_dist_heads_row_bytes(const weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    const int64_t members = dist->ranks.head_ranks;
    const uint64_t batch = (uint64_t)p->batch, element = weft_dtype_bytes(p->dtype);
    const uint64_t heads = (uint64_t)weft_dist_heads_of(dist), kv = (uint64_t)weft_dist_kv_heads_of(dist);
    const uint64_t dim = (uint64_t)p->head_dim, dim_v = (uint64_t)p->head_dim_v;
    const int back = weft_dist_is_backward(dist), repeats = members > p->kv_heads;
    const uint64_t sums = repeats ? sizeof(float) : element;
    return (weft_dist_heads_row){.query_in =
                                     batch * heads * (back ? (dim + 2 * dim_v) * element + sizeof(float) : dim * element),
                                 .query_out = batch * heads * (back ? dim * element : dim_v * element + sizeof(float)),
                                 .key_in = batch * kv * (dim + dim_v) * element,
                                 .key_out = back ? batch * kv * (dim + dim_v) * sums : 0,
                                 .tensors_in = back ? 6 : 3,
                                 .tensors_out = back ? 3 : 2};
}

uint64_t weft_dist_heads_bytes(const weft_dist *dist, int64_t rank, int sends) {
    const int64_t members = dist->ranks.head_ranks, first = rank / members * members;
    const weft_dist_heads_row row = weft_dist_heads_row_bytes(dist);
    uint64_t bytes = 0;
    for (int64_t other = first; other < first + members; other++) {
        const int64_t in = sends ? rank : other, out = sends ? other : rank;
        if (other != rank) {
            bytes += (uint64_t)weft_dist_rows(dist, in, WEFT_QUERY_ROWS) * row.query_in +
                     (uint64_t)weft_dist_rows(dist, out, WEFT_QUERY_ROWS) * row.query_out +
                     (uint64_t)weft_dist_rows(dist, in, WEFT_KEY_ROWS) * row.key_in +
                     (uint64_t)weft_dist_rows(dist, out, WEFT_KEY_ROWS) * row.key_out;
        }
    }
    return bytes;
}

int64_t weft_dist_heads_messages(const weft_dist *dist) {
    const weft_dist_heads_row row = weft_dist_heads_row_bytes(dist);
    return (dist->ranks.head_ranks - 1) * (row.tensors_in + row.tensors_out);
}
