/* SPDX-License-Identifier: Apache-2.0 */
/* The scores of an attention, before they are weights: one pair of query and key at a time, in fp64. */
#ifndef WEFT_REF_SCORES_H
#define WEFT_REF_SCORES_H

#include <math.h>

#include "problem/problem.h"
#include "ref/dot.h"

/* What is added to a capped score; -inf where a boolean bias hides the key. */
static inline double weft_ref_bias(const weft_attention *p, const float *alibi, const void *bias, int64_t batch,
                                   int64_t head, int64_t row, int64_t key) {
    double sum = 0;
    if (p->extras & WEFT_ALIBI) {
        const int64_t number = weft_attention_sequence_of(p, batch, row);
        const weft_sequences all = weft_attention_sequences(p);
        const weft_sequence s = weft_sequence_at(&all, number);
        const weft_band band = weft_attention_band(p);
        const double away = (double)(weft_band_position(&band, &s, row) - (key - s.columns.begin));
        sum -= (double)alibi[number * p->alibi_stride + head] * fabs(away);
    }
    if (p->extras & WEFT_BIAS) {
        const size_t at = weft_row_index(&p->bias_strides, batch, row, head) + (size_t)(key * p->bias_key_stride);
        if (p->bias_type == WEFT_BIAS_BOOL) {
            sum += ((const unsigned char *)bias)[at] ? 0 : -INFINITY;
        } else {
            sum += weft_ref_load(p->bias_type == WEFT_BIAS_FP32 ? WEFT_FP32 : p->dtype, bias, at);
        }
    }
    return sum;
}

/* A scaled score, capped; and the cap's slope there. */
static inline double weft_ref_cap(const weft_attention *p, double score) {
    return p->softcap > 0 ? p->softcap * tanh(score / p->softcap) : score;
}

static inline double weft_ref_cap_slope(const weft_attention *p, double score) {
    const double t = p->softcap > 0 ? tanh(score / p->softcap) : 0;
    return 1 - t * t;
}

#endif
