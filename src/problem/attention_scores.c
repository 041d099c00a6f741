/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the scores of an attention before they are weights: cap, slopes, bias, dropout. */
#include <inttypes.h>
#include <math.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/tensor.h"

/* Elements from the bias's first to its last, or 0: more than can be addressed. */
static int64_t bias_extent(const weft_attention *p) {
    const weft_tensor_axis axes[] = {{p->batch, p->bias_strides.batch},
                                     {p->heads, p->bias_strides.head},
                                     {p->seq, p->bias_strides.seq},
                                     {p->kv_seq, p->bias_key_stride}};
    return weft_extent(axes, 4, 1);
}

static weft_status resolve_bias(weft_attention *p, weft_message *message) {
    weft_strides *s = &p->bias_strides;
    if (p->bias_type < WEFT_BIAS_DTYPE || p->bias_type > WEFT_BIAS_BOOL) {
        return weft_fail(message, WEFT_INVALID, "bias_type %d is not a weft_bias_type", (int)p->bias_type);
    }
    if (s->batch < 0 || s->seq < 0 || s->head < 0 || p->bias_key_stride < 0) {
        return weft_fail(message, WEFT_INVALID, "bias_strides are negative");
    }
    if (s->batch == 0 && s->seq == 0 && s->head == 0 && p->bias_key_stride == 0) {
        p->bias_key_stride = 1;
        s->seq = p->kv_seq;
        s->head = p->seq * p->kv_seq; /* below 2^62 */
        if (!weft_multiply(s->head, p->heads, &s->batch)) {
            s->batch = INT64_MAX;
        }
    }
    weft_lower_stride(&s->batch, p->batch);
    weft_lower_stride(&s->head, p->heads);
    weft_lower_stride(&s->seq, p->seq);
    weft_lower_stride(&p->bias_key_stride, p->kv_seq);
    return bias_extent(p) ? WEFT_OK : weft_fail(message, WEFT_INVALID, "bias spans more than 2^59 elements");
}

weft_status weft_attention_resolve_scores(weft_attention *p, weft_message *message) {
    if (!(p->softcap >= 0) || !isfinite(p->softcap)) {
        return weft_fail(message, WEFT_INVALID, "softcap %g is not at least 0", p->softcap);
    }
    weft_status status = p->softcap > 0 ? weft_check_factor("softcap", p->softcap, message) : WEFT_OK;
    status = status || p->softcap == 0 ? status : weft_check_factor("scale / softcap", p->scale / p->softcap, message);
    if (status) {
        return status;
    }
    if (!(p->dropout >= 0 && p->dropout < 1)) {
        return weft_fail(message, WEFT_INVALID, "dropout %g is not at least 0 and below 1", p->dropout);
    }
    if (p->alibi_stride < 0 || p->alibi_stride > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "alibi_stride %" PRId64 " is not between 0 and %" PRId64, p->alibi_stride,
                         (int64_t)WEFT_MAX_DIMENSION);
    }
    if ((p->extras & WEFT_BIAS) && p->sequences > 0) {
        return weft_fail(message, WEFT_INVALID, "a packed batch takes no bias");
    }
    return p->extras & WEFT_BIAS ? resolve_bias(p, message) : WEFT_OK;
}

weft_dtype weft_attention_bias_dtype(const weft_attention *p) {
    return p->bias_type == WEFT_BIAS_BOOL ? WEFT_BOOL : p->bias_type == WEFT_BIAS_FP32 ? WEFT_FP32 : p->dtype;
}

size_t weft_attention_bias_extent(const weft_attention *p) {
    return (size_t)bias_extent(p);
}

int32_t weft_attention_asks(const weft_attention *p) {
    const weft_band band = weft_attention_band(p);
    const int64_t d = p->head_dim, dv = p->head_dim_v;
    const int lengths = p->sequences > 0 || (p->extras & (WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD)) || p->lengths.q_used ||
                        p->lengths.kv_used || p->lengths.kv_pad;
    return (band.left < WEFT_BAND_OPEN ? WEFT_HAS_WINDOW : 0) | (p->chunk > 0 ? WEFT_HAS_CHUNK : 0) |
           (p->prefix > 0 ? WEFT_HAS_PREFIX : 0) | (lengths ? WEFT_HAS_LENGTHS : 0) |
           (p->softcap > 0 ? WEFT_HAS_SOFTCAP : 0) | (p->extras & WEFT_SINKS ? WEFT_HAS_SINKS : 0) |
           (p->extras & WEFT_ALIBI ? WEFT_HAS_ALIBI : 0) | (p->extras & WEFT_BIAS ? WEFT_HAS_BIAS : 0) |
           (p->dropout > 0 ? WEFT_HAS_DROPOUT : 0) | (p->extras & WEFT_MAX ? WEFT_HAS_MAX : 0) |
           (d % 8 || dv % 8 ? WEFT_HAS_ODD_DIM : 0) | (d > 256 || dv > 256 ? WEFT_HAS_LARGE_DIM : 0) |
           (d != dv ? WEFT_HAS_OTHER_DIM : 0) | (p->block_rows > 0 ? WEFT_HAS_BLOCKS : 0) |
           (p->pairs.tree || (p->extras & WEFT_TREE) ? WEFT_HAS_TREE : 0) | (p->cache.page > 0 ? WEFT_HAS_PAGES : 0) |
           (p->cache.append > 0 ? WEFT_HAS_APPEND : 0) | (p->cache.rotary_dim > 0 ? WEFT_HAS_ROTARY : 0) |
           (p->extras & WEFT_QV ? WEFT_HAS_QV : 0) | (p->o_dtype ? WEFT_HAS_FP32_OUT : 0);
}

const char *weft_attention_lacks(const weft_attention *p, int32_t known) {
    static const char *const names[] = {"windows",
                                        "chunks",
                                        "prefixes",
                                        "lengths that vary",
                                        "softcap",
                                        "sinks",
                                        "alibi",
                                        "bias",
                                        "dropout",
                                        "max",
                                        "head dims that are no multiple of 8",
                                        "head dims above 256",
                                        "V of another head dim than K",
                                        "block masks",
                                        "tree masks",
                                        "keys in pages",
                                        "appended keys",
                                        "rotated queries and keys",
                                        "queries for the values (qv)",
                                        "results in fp32"};
    const int32_t lacks = weft_attention_asks(p) & ~known;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (lacks >> i & 1) {
            return names[i];
        }
    }
    return NULL;
}
