/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a plain kernel would do it: fp32 sums, and everything that would be stored is rounded to its dtype. */
#include "ref/cache.h"
#include "ref/ref.h"
#include "ref/scores.h"

#include <math.h>

static float load(const weft_attention *p, const void *data, size_t index) {
    return (float)weft_ref_load(p->dtype, data, index); /* exact: every dtype fits a float */
}

/* weights: (kv_seq) the scaled scores of one query for the keys that it sees. Returns the largest. */
static float naive_scores(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                          int64_t row, weft_rows keys, float *weights) {
    const weft_ref_keys all = weft_ref_keys_of(p, data, batch, weft_attention_sequence_of(p, batch, row));
    weft_ref_room q_room, room;
    const weft_ref_vector q = weft_ref_query(&all, head, row, &q_room);
    const weft_ref_vector none = {NULL, 0}, qv = p->extras & WEFT_QV ? weft_ref_qv(&all, head, row) : none;
    const weft_blocks blocks = weft_attention_blocks(p);
    float max = -INFINITY;
    for (int64_t key = keys.begin; key < keys.end; key++) {
        weights[key - all.first] = -INFINITY;
        if (!weft_attention_shows(p, &blocks, batch, head, row, key)) {
            continue;
        }
        const weft_ref_vector k = weft_ref_key(&all, weft_ref_kv_head(p, head), key, &room);
        float sum = 0;
        for (size_t d = 0; d < (size_t)p->head_dim; d++) {
            sum += load(p, q.data, q.at + d) * load(p, k.data, k.at + d);
        }
        const weft_ref_vector v = weft_ref_value(&all, weft_ref_kv_head(p, head), key, &room); /* k's room is free again */
        for (size_t d = 0; d < (size_t)p->head_dim_v && qv.data; d++) {
            sum += load(p, qv.data, qv.at + d) * load(p, v.data, v.at + d);
        }
        const float score = (float)weft_ref_cap(p, (float)p->scale * sum) +
                            (float)weft_ref_bias(p, data->alibi, data->bias, batch, head, row, key);
        weights[key - all.first] = score;
        max = score > max ? score : max;
    }
    return max;
}

void weft_ref_attention_row_naive(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                                  int64_t row, float *weights, double *out) {
    const weft_ref_keys all = weft_ref_keys_of(p, data, batch, weft_attention_sequence_of(p, batch, row));
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const float sink = p->extras & WEFT_SINKS ? data->sinks[head] : -INFINITY;
    const float max = fmaxf(naive_scores(p, data, batch, head, row, keys, weights), sink);
    const float shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    float sum = expf(sink - shift);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        weights[key - all.first] = expf(weights[key - all.first] - shift);
        sum += weights[key - all.first];
    }
    for (int64_t key = keys.begin; key < keys.end && sum != 0; key++) {
        const double kept = weft_ref_kept(p, data->dropout_seed, batch * p->heads + head, row, key);
        weights[key - all.first] = (float)weft_ref_round(p->dtype, weights[key - all.first] / sum * (float)kept);
    }
    float total[WEFT_MAX_HEAD_DIM] = {0};
    for (int64_t key = keys.begin; key < keys.end && sum != 0; key++) {
        weft_ref_room room;
        const float weight = weights[key - all.first];
        const weft_ref_vector v = weft_ref_value(&all, weft_ref_kv_head(p, head), key, &room);
        for (int64_t d = 0; d < p->head_dim_v && weight != 0; d++) {
            total[d] += weight * load(p, v.data, v.at + (size_t)d);
        }
    }
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        out[d] = weft_ref_round(weft_attention_out_dtype(p), total[d]);
    }
}
