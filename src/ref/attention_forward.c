/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, row by row: scores, softmax, weighted sum of V, all in fp64. */
#include "base/status.h"
#include "problem/dropout.h"
#include "ref/cache.h"
#include "ref/scores.h"

#include <math.h>
#include <stdlib.h>

/* weights: (keys) scores in, exponentials out. `sink` is one score more, or -inf. Returns their sum, the sink's included,
 * and sets *shift to what was subtracted from the scores. The sum is 0 only when every score is -inf, or there is none. */
static double exponentials(double *weights, int64_t keys, double sink, double *shift) {
    double max = sink;
    for (int64_t key = 0; key < keys; key++) {
        max = weights[key] > max ? weights[key] : max;
    }
    *shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    double sum = exp(sink - *shift);
    for (int64_t key = 0; key < keys; key++) {
        weights[key] = exp(weights[key] - *shift);
        sum += weights[key];
    }
    return sum;
}

weft_ref_row weft_ref_attention_row(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                                    int64_t row, double *weights, double *out) {
    const int64_t kv_head = weft_ref_kv_head(p, head), line = batch * p->heads + head;
    const weft_ref_keys all = weft_ref_keys_of(p, data, batch, weft_attention_sequence_of(p, batch, row));
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const int64_t first = all.first; /* the key of weights[0] */
    weft_ref_room q_room, room;
    const weft_ref_vector q = weft_ref_query(&all, head, row, &q_room);
    const weft_blocks blocks = weft_attention_blocks(p);
    weft_ref_row result = {-INFINITY, -INFINITY};
    for (int64_t key = keys.begin; key < keys.end; key++) {
        weights[key - first] = -INFINITY;
        if (!weft_attention_shows(p, &blocks, batch, head, row, key)) {
            continue;
        }
        const double scaled = p->scale * weft_ref_product(&all, head, row, q, key);
        const double score = weft_ref_cap(p, scaled) + weft_ref_bias(p, data->alibi, data->bias, batch, head, row, key);
        weights[key - first] = score;
        result.max = score > result.max ? score : result.max;
    }
    double shift;
    const double sink = p->extras & WEFT_SINKS ? (double)data->sinks[head] : -INFINITY;
    const double sum = exponentials(weights + (keys.begin - first), keys.end - keys.begin, sink, &shift);
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        out[d] = 0;
    }
    if (sum == 0) {
        return result; /* nothing to see; the weights are zeros already */
    }
    result.lse = shift + log(sum);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const weft_ref_vector v = weft_ref_value(&all, kv_head, key, &room);
        weights[key - first] /= sum;
        const double kept = weft_ref_kept(p, data->dropout_seed, line, row, key);
        const int counts = kept != 0 && weft_attention_shows(p, &blocks, batch, head, row, key);
        for (int64_t d = 0; d < p->head_dim_v && counts; d++) { /* what is dropped or hidden does not even give a NaN */
            out[d] += kept * weights[key - first] * weft_ref_load(p->dtype, v.data, v.at + (size_t)d);
        }
    }
    return result;
}

double weft_ref_kept(const weft_attention *p, uint64_t seed, int64_t line, int64_t row, int64_t key) {
    const int drops = p->dropout > 0 && weft_dropout_drops(seed, line, row, key, weft_dropout_limit(p->dropout));
    return drops ? 0 : 1 / (1 - p->dropout);
}

weft_status weft_ref_attention(const weft_attention *p, const weft_attention_data *data, weft_message *message) {
    double *weights = malloc((size_t)(p->kv_seq + p->head_dim_v) * sizeof *weights); /* (kv_seq), then out (head_dim_v) */
    if (!weights) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a row of %lld weights", (long long)p->kv_seq);
    }
    double *out = weights + p->kv_seq;
    weft_ref_append(p, data);
    for (int64_t line = 0; line < p->batch * p->heads; line++) {
        const int64_t batch = line / p->heads, head = line % p->heads, rows = weft_attention_rows(p);
        for (int64_t row = 0; row < rows; row++) {
            const weft_ref_row result = weft_ref_attention_row(p, data, batch, head, row, weights, out);
            const size_t o = weft_row_index(&p->o_strides, batch, row, head);
            for (int64_t d = 0; d < p->head_dim_v; d++) {
                weft_ref_store(weft_attention_out_dtype(p), data->o, o + (size_t)d, out[d]);
            }
            if (data->lse) {
                data->lse[line * p->seq + row] = (float)result.lse;
            }
            if (data->max) {
                data->max[line * p->seq + row] = (float)result.max;
            }
        }
    }
    free(weights);
    return WEFT_OK;
}
