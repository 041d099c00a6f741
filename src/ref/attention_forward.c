/* Attention, row by row: scores, softmax, weighted sum of V, all in fp64. */
#include "base/status.h"
#include "problem/problem.h"
#include "ref/dot.h"

#include <math.h>
#include <stdlib.h>

/* weights: (keys) scores in, exponentials out. Returns their sum and sets *shift to what was subtracted from the scores.
 * The sum is 0 only when there is no key or every score is -inf. */
static double exponentials(double *weights, int64_t keys, double *shift) {
    double max = -INFINITY;
    for (int64_t key = 0; key < keys; key++) {
        max = weights[key] > max ? weights[key] : max;
    }
    *shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    double sum = 0;
    for (int64_t key = 0; key < keys; key++) {
        weights[key] = exp(weights[key] - *shift);
        sum += weights[key];
    }
    return sum;
}

/* weights: on return, the probabilities of the keys that the query sees; the rest is not touched. */
void weft_ref_attention_row(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                            int64_t row, double *weights, double *out, double *lse) {
    const int64_t kv_head = weft_ref_kv_head(p, head);
    const weft_rows keys = weft_seen_keys(p, row);
    const size_t q = weft_row_index(&p->q_strides, batch, row, head);
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const size_t k = weft_row_index(&p->k_strides, batch, key, kv_head);
        weights[key] = p->scale * weft_ref_dot(p->dtype, data->q, q, data->k, k, p->head_dim);
    }
    double shift;
    const double sum = exponentials(weights + keys.begin, keys.end - keys.begin, &shift);
    *lse = sum == 0 ? -INFINITY : shift + log(sum);
    for (int64_t d = 0; d < p->head_dim; d++) {
        out[d] = 0;
    }
    if (sum == 0) {
        return; /* nothing to see; the weights are zeros already */
    }
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const size_t v = weft_row_index(&p->v_strides, batch, key, kv_head);
        weights[key] /= sum;
        for (int64_t d = 0; d < p->head_dim; d++) {
            out[d] += weights[key] * weft_ref_load(p->dtype, data->v, v + (size_t)d);
        }
    }
}

weft_status weft_ref_attention(const weft_attention *p, const weft_attention_data *data, weft_message *message) {
    double *weights = malloc((size_t)(p->kv_seq + p->head_dim) * sizeof *weights); /* (kv_seq), then out (head_dim) */
    if (!weights) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a row of %lld weights", (long long)p->kv_seq);
    }
    double *out = weights + p->kv_seq;
    for (int64_t batch = 0; batch < p->batch; batch++) {
        for (int64_t head = 0; head < p->heads; head++) {
            for (int64_t row = 0; row < p->seq; row++) {
                double lse;
                weft_ref_attention_row(p, data, batch, head, row, weights, out, &lse);
                const size_t o = weft_row_index(&p->o_strides, batch, row, head);
                for (int64_t d = 0; d < p->head_dim; d++) {
                    weft_ref_store(p->dtype, data->o, o + (size_t)d, out[d]);
                }
                if (data->lse) {
                    data->lse[(batch * p->heads + head) * p->seq + row] = (float)lse;
                }
            }
        }
    }
    free(weights);
    return WEFT_OK;
}
