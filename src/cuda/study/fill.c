#include "cuda/study/fill.h"

#include <math.h>
#include <string.h>

#include "problem/dropout.h"
#include "problem/problem.h"

static const double log2e = 1.4426950408889634;

int32_t weft_study_unit(const void *data, const weft_strides *s) {
    const uint64_t at = (uint64_t)(uintptr_t)data | (uint64_t)(2 * (s->batch | s->seq | s->head));
    return at % 16 == 0 ? 16 : at % 4 == 0 ? 4 : 2;
}

/* Finite in fp32, so that a score of 0 stays 0. */
static float limited(double number) {
    return (float)fmax(fmin(number, 1e30), -1e30);
}

static void fill_bias(weft_study_general *to, const weft_attention *p, const void *bias) {
    const weft_strides *s = &p->bias_strides;
    const uint64_t bytes = p->bias_type == WEFT_BIAS_BOOL ? 1 : p->bias_type == WEFT_BIAS_FP32 ? 4 : 2;
    to->bias = bias;
    to->bias_strides = *s;
    to->bias_key_stride = p->bias_key_stride;
    to->bias_type = p->bias_type;
    to->bias_pairs =
        p->bias_key_stride == 1 && (s->batch | s->seq | s->head) % 2 == 0 && (uint64_t)(uintptr_t)bias % (2 * bytes) == 0;
}

static void fill_general(weft_study_general *to, const weft_attention *p, const weft_attention_data *data) {
    to->head_dim = (int32_t)p->head_dim;
    to->head_dim_v = (int32_t)p->head_dim_v;
    to->q_unit = weft_study_unit(data->q, &p->q_strides);
    to->k_unit = weft_study_unit(data->k, &p->k_strides);
    to->v_unit = weft_study_unit(data->v, &p->v_strides);
    to->o_unit = weft_study_unit(data->o, &p->o_strides);
    to->scale = limited(p->softcap > 0 ? 2 * p->scale / p->softcap : p->scale * log2e);
    to->cap = limited(p->softcap * log2e);
    to->kept = (float)(1 / (1 - p->dropout));
    to->dropout_limit = weft_dropout_limit(p->dropout);
    to->dropout_seed = data->dropout_seed;
    to->sinks = p->extras & WEFT_SINKS ? data->sinks : NULL;
    to->alibi = p->extras & WEFT_ALIBI ? data->alibi : NULL;
    to->alibi_stride = p->alibi_stride;
    to->max = p->extras & WEFT_MAX ? data->max : NULL;
    to->lag = to->max ? 0 : 8;
    if (p->extras & WEFT_BIAS) {
        fill_bias(to, p, data->bias);
    }
}

void weft_study_fill(weft_study_params *to, const weft_attention *p, const weft_attention_data *data,
                     const weft_walk *walk) {
    memset(to, 0, sizeof *to);
    to->q = data->q;
    to->k = data->k;
    to->v = data->v;
    to->o = data->o;
    to->lse = data->lse;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    to->o_strides = p->o_strides;
    to->heads = p->heads;
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->by_kv_group = weft_divisor_make((uint64_t)(p->heads / p->kv_heads));
    weft_study_set_scale(to, p->scale);
    to->walk = *walk;
    if (!weft_reach_has_band(&walk->reach)) { /* general variants go by the band of every mask, plain ones by the slice */
        to->walk.reach.band = weft_attention_band(p);
        to->walk.reach.sequences = weft_attention_sequences(p);
    }
    fill_general(&to->general, p, data);
}
