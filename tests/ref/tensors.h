/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the reference share: random and guarded buffers, tensors of an attention, distances. */
#ifndef WEFT_TESTS_REF_TENSORS_H
#define WEFT_TESTS_REF_TENSORS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "../plans.h"
#include "../random.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "ref/ref.h"

/* Evenly between -1 and 1. */
static inline double random_even(uint64_t *state) {
    return (double)(random_bits(state) >> 11) * 0x1p-52 - 1;
}

/* A buffer of NaNs (all bits set in every dtype) with a border of the same on both sides. */
enum { GUARD = 64, POISON = 0xff };

static inline void *guarded_new(size_t bytes) {
    char *base = malloc(bytes + 2 * GUARD);
    assert_non_null(base);
    memset(base, POISON, bytes + 2 * GUARD);
    return base + GUARD;
}

/* Fails when a byte that is not marked in `owned` (null: all are) or a border was written. */
static inline void guarded_check(const void *data, size_t bytes, const char *owned) {
    const unsigned char *at = (const unsigned char *)data - GUARD;
    for (size_t i = 0; i < bytes + 2 * GUARD; i++) {
        const int inside = i >= GUARD && i < GUARD + bytes;
        if (!inside || (owned && !owned[i - GUARD])) {
            assert_int_equal(at[i], POISON);
        }
    }
}

static inline void guarded_free(void *data) {
    free((char *)data - GUARD);
}

static inline void *random_buffer(uint64_t *state, weft_dtype dtype, size_t count) {
    void *data = guarded_new(count * weft_dtype_bytes(dtype));
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(dtype, data, i, random_even(state));
    }
    return data;
}

/* Strides of a (batch, seq, heads, head_dim) tensor in a layout, with `pad` elements left over after every row, line and
 * batch. */
static inline weft_strides padded_strides(weft_layout layout, int64_t seq, int64_t heads, int64_t head_dim, int64_t pad) {
    weft_strides s;
    if (layout == WEFT_BSHD) {
        s.head = head_dim + pad;
        s.seq = heads * s.head + pad;
        s.batch = seq * s.seq + pad;
    } else {
        s.seq = head_dim + pad;
        s.head = seq * s.seq + pad;
        s.batch = heads * s.head + pad;
    }
    return s;
}

static inline void pad_problem(weft_attention *p, int64_t pad) {
    const int64_t dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    p->q_strides = padded_strides(p->layout, p->seq, p->heads, p->head_dim, pad);
    p->k_strides = padded_strides(p->layout, p->kv_seq, p->kv_heads, p->head_dim, pad + 1);
    p->v_strides = padded_strides(p->layout, p->kv_seq, p->kv_heads, dim_v, pad + 2);
    p->o_strides = padded_strides(p->layout, p->seq, p->heads, dim_v, 2 * pad);
    p->qv_strides = padded_strides(p->layout, p->seq, p->heads, dim_v, 3 * pad);
}

/* Elements of a row of a tensor, whose strides are one of the problem's. */
static inline int64_t dims_of(const weft_attention *p, const weft_strides *s) {
    return s == &p->v_strides || s == &p->o_strides ? p->head_dim_v : p->head_dim;
}

/* Marks the bytes of the elements of a result that is laid out like such a tensor; the caller frees. */
static inline char *owned_bytes(const weft_attention *p, const weft_strides *s, int64_t seq, int64_t heads, size_t count) {
    const size_t bytes = weft_dtype_bytes(weft_attention_out_dtype(p));
    const int64_t dims = dims_of(p, s);
    char *owned = calloc(count, bytes);
    assert_non_null(owned);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < seq; i++) {
            for (int64_t h = 0; h < heads; h++) {
                const size_t row = (size_t)(b * s->batch + i * s->seq + h * s->head);
                memset(owned + row * bytes, 1, (size_t)dims * bytes);
            }
        }
    }
    return owned;
}

/* A resolved attention with random inputs and poisoned outputs. Lengths that its data is to bring are the test's. */
typedef struct tensors {
    weft_attention p;
    weft_attention_extents size;
    weft_attention_data data;
    void *q, *k, *v;
    void *sinks, *alibi, *bias, *qv; /* null: the problem has none */
} tensors;

/* What is added to scores, sometimes much; or bytes that hide one key of four. */
static inline void *random_bias(uint64_t *state, const weft_attention *p) {
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    const size_t count = weft_attention_bias_extent(p);
    if (dtype != WEFT_BOOL) {
        return random_buffer(state, dtype, count);
    }
    unsigned char *shown = guarded_new(count);
    for (size_t i = 0; i < count; i++) {
        shown[i] = (unsigned char)(random_between(state, 0, 3) ? random_between(state, 1, 255) : 0);
    }
    return shown;
}

/* What `extras` names beside lengths. Slopes are such that far keys still count. */
static inline void tensors_add_extras(uint64_t *state, tensors *t) {
    const weft_attention *p = &t->p;
    const size_t slopes =
        (size_t)((p->sequences ? p->sequences : p->batch) - 1) * (size_t)p->alibi_stride + (size_t)p->heads;
    t->sinks = p->extras & WEFT_SINKS ? random_buffer(state, WEFT_FP32, (size_t)p->heads) : NULL;
    t->alibi = p->extras & WEFT_ALIBI ? random_buffer(state, WEFT_FP32, slopes) : NULL;
    for (size_t i = 0; t->alibi && i < slopes; i++) {
        ((float *)t->alibi)[i] = fabsf(((float *)t->alibi)[i]) * 0.1f;
    }
    t->bias = p->extras & WEFT_BIAS ? random_bias(state, p) : NULL;
    t->qv = p->extras & WEFT_QV ? random_buffer(state, p->dtype, t->size.qv) : NULL;
    t->data.qv = t->qv;
    t->data.sinks = t->sinks;
    t->data.alibi = t->alibi;
    t->data.bias = t->bias;
    t->data.max = p->extras & WEFT_MAX ? guarded_new(t->size.lse * sizeof(float)) : NULL;
    t->data.dropout_seed = random_bits(state);
}

static inline tensors tensors_new(uint64_t *state, const weft_attention *problem) {
    tensors t;
    weft_message message;
    if (resolve_attention(&t.p, problem, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    t.size = attention_sizes(&t.p);
    t.q = random_buffer(state, t.p.dtype, t.size.q);
    t.k = random_buffer(state, t.p.dtype, t.size.k);
    t.v = random_buffer(state, t.p.dtype, t.size.v);
    const weft_attention_data none = WEFT_ATTENTION_DATA_INIT;
    t.data = none;
    t.data.q = t.q;
    t.data.k = t.k;
    t.data.v = t.v;
    t.data.o = guarded_new(t.size.o * weft_dtype_bytes(weft_attention_out_dtype(&t.p)));
    t.data.lse = guarded_new(t.size.lse * sizeof(float));
    tensors_add_extras(state, &t);
    return t;
}

static inline void tensors_poison_outputs(const tensors *t) {
    memset(t->data.o, POISON, t->size.o * weft_dtype_bytes(weft_attention_out_dtype(&t->p)));
    memset(t->data.lse, POISON, t->size.lse * sizeof(float));
    if (t->data.max) {
        memset(t->data.max, POISON, t->size.lse * sizeof(float));
    }
}

/* Fails when numbers were written that belong to no query: those of rows behind the last sequence. */
static inline void tensors_check_numbers(const tensors *t, const float *numbers) {
    char *owned = calloc(t->size.lse, sizeof *numbers);
    assert_non_null(owned);
    for (size_t i = 0; i < t->size.lse; i++) {
        memset(owned + i * sizeof *numbers, (int64_t)i % t->p.seq < weft_attention_rows(&t->p), sizeof *numbers);
    }
    guarded_check(numbers, t->size.lse * sizeof *numbers, owned);
    free(owned);
}

/* Fails when anything but the elements of O, LSE and max was written. */
static inline void tensors_check_borders(const tensors *t) {
    char *owned = owned_bytes(&t->p, &t->p.o_strides, weft_attention_rows(&t->p), t->p.heads, t->size.o);
    guarded_check(t->data.o, t->size.o * weft_dtype_bytes(weft_attention_out_dtype(&t->p)), owned);
    tensors_check_numbers(t, t->data.lse);
    if (t->data.max) {
        tensors_check_numbers(t, t->data.max);
    }
    free(owned);
}

static inline void tensors_free(tensors *t) {
    guarded_free(t->q);
    guarded_free(t->k);
    guarded_free(t->v);
    guarded_free(t->data.o);
    guarded_free(t->data.lse);
    void *extras[] = {t->sinks, t->alibi, t->bias, t->qv, t->data.max};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        if (extras[i]) {
            guarded_free(extras[i]);
        }
    }
}

/* How many floats apart two floats are: 0 when equal or both NaN, 2^32 when only one is NaN. */
static inline int64_t ulps_apart(float a, float b) {
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b) ? 0 : INT64_C(1) << 32;
    }
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    const int64_t i = x < 0 ? -(int64_t)(x & INT32_MAX) : x, j = y < 0 ? -(int64_t)(y & INT32_MAX) : y;
    return i < j ? j - i : i - j;
}

static inline void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance)) {
        fail_msg("got %.17g, want %.17g within %g", got, want, tolerance);
    }
}

#endif
