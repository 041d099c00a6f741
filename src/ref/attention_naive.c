/* Attention as a plain kernel would do it: fp32 sums, and everything that would be stored is rounded to the dtype. */
#include "ref/ref.h"
#include "ref/scores.h"

#include <math.h>

static float load(const weft_attention *p, const void *data, size_t index) {
    return (float)weft_ref_load(p->dtype, data, index); /* exact: every dtype fits a float */
}

/* weights: (kv_seq) the scaled scores of one query for the keys that it sees. Returns the largest. */
static float naive_scores(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                          int64_t row, weft_rows keys, float *weights) {
    const size_t q = weft_row_index(&p->q_strides, batch, row, head);
    const weft_blocks blocks = weft_attention_blocks(p);
    float max = -INFINITY;
    for (int64_t key = keys.begin; key < keys.end; key++) {
        weights[key] = -INFINITY;
        if (!weft_attention_shows(p, &blocks, batch, head, row, key)) {
            continue;
        }
        const size_t k = weft_row_index(&p->k_strides, batch, key, weft_ref_kv_head(p, head));
        float sum = 0;
        for (size_t d = 0; d < (size_t)p->head_dim; d++) {
            sum += load(p, data->q, q + d) * load(p, data->k, k + d);
        }
        weights[key] = (float)weft_ref_cap(p, (float)p->scale * sum) +
                       (float)weft_ref_bias(p, data->alibi, data->bias, batch, head, row, key);
        max = weights[key] > max ? weights[key] : max;
    }
    return max;
}

void weft_ref_attention_row_naive(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                                  int64_t row, float *weights, double *out) {
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const float sink = p->extras & WEFT_SINKS ? data->sinks[head] : -INFINITY;
    const float max = fmaxf(naive_scores(p, data, batch, head, row, keys, weights), sink);
    const float shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    float sum = expf(sink - shift);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        weights[key] = expf(weights[key] - shift);
        sum += weights[key];
    }
    for (int64_t key = keys.begin; key < keys.end && sum != 0; key++) {
        const double kept = weft_ref_kept(p, data->dropout_seed, batch * p->heads + head, row, key);
        weights[key] = (float)weft_ref_round(p->dtype, weights[key] / sum * (float)kept);
    }
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        float total = 0;
        for (int64_t key = keys.begin; key < keys.end && sum != 0; key++) {
            const size_t v = weft_row_index(&p->v_strides, batch, key, weft_ref_kv_head(p, head));
            total += weights[key] != 0 ? weights[key] * load(p, data->v, v + (size_t)d) : 0;
        }
        out[d] = weft_ref_round(p->dtype, total);
    }
}
