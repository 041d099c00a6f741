/* What the tests of the reference share: random and guarded buffers, tensors of an attention, distances. */
#ifndef WEFT_TESTS_REF_TENSORS_H
#define WEFT_TESTS_REF_TENSORS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "../plans.h"
#include "../random.h"
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
    p->q_strides = padded_strides(p->layout, p->seq, p->heads, p->head_dim, pad);
    p->k_strides = padded_strides(p->layout, p->kv_seq, p->kv_heads, p->head_dim, pad + 1);
    p->v_strides = padded_strides(p->layout, p->kv_seq, p->kv_heads, p->head_dim, pad + 2);
    p->o_strides = padded_strides(p->layout, p->seq, p->heads, p->head_dim, 2 * pad);
}

/* Marks the bytes of a tensor's own elements; the caller frees. */
static inline char *owned_bytes(const weft_attention *p, const weft_strides *s, int64_t seq, int64_t heads, size_t count) {
    const size_t bytes = weft_dtype_bytes(p->dtype);
    char *owned = calloc(count, bytes);
    assert_non_null(owned);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < seq; i++) {
            for (int64_t h = 0; h < heads; h++) {
                const size_t row = (size_t)(b * s->batch + i * s->seq + h * s->head);
                memset(owned + row * bytes, 1, (size_t)p->head_dim * bytes);
            }
        }
    }
    return owned;
}

/* A resolved attention with random inputs and poisoned outputs. */
typedef struct tensors {
    weft_attention p;
    weft_attention_extents size;
    weft_attention_data data;
    void *q, *k, *v;
} tensors;

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
    t.data.o = guarded_new(t.size.o * weft_dtype_bytes(t.p.dtype));
    t.data.lse = guarded_new(t.size.lse * sizeof(float));
    return t;
}

static inline void tensors_poison_outputs(const tensors *t) {
    memset(t->data.o, POISON, t->size.o * weft_dtype_bytes(t->p.dtype));
    memset(t->data.lse, POISON, t->size.lse * sizeof(float));
}

/* Fails when anything but the elements of O and LSE was written. */
static inline void tensors_check_borders(const tensors *t) {
    char *owned = owned_bytes(&t->p, &t->p.o_strides, t->p.seq, t->p.heads, t->size.o);
    guarded_check(t->data.o, t->size.o * weft_dtype_bytes(t->p.dtype), owned);
    guarded_check(t->data.lse, t->size.lse * sizeof(float), NULL);
    free(owned);
}

static inline void tensors_free(tensors *t) {
    guarded_free(t->q);
    guarded_free(t->k);
    guarded_free(t->v);
    guarded_free(t->data.o);
    guarded_free(t->data.lse);
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
