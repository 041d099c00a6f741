/* SPDX-License-Identifier: Apache-2.0 */
/* A random attention, plain or with any features, with its tensors on both sides, what is right, and how far from it is
 * allowed. */
#ifndef WEFT_TESTS_CUDA_STUDY_TRIAL_CUH
#define WEFT_TESTS_CUDA_STUDY_TRIAL_CUH

#include <math.h>
#include <string.h>

#include "../random.h"
#include "study_launch.cuh"

extern "C" {
#include "../features.h"
#include "../plans.h"
#include "problem/problem.h"
#include "ref/ref.h"
}

/* A problem with its tensors on both sides, and what is right. */
typedef struct trial {
    weft_attention p; /* resolved, with all its lengths */
    drawn_lengths *lengths;
    weft_attention_extents size;
    weft_attention_data host, device; /* host.o, host.lse and host.max: what came back */
    double *exact, *lse, *max;        /* (batch, heads, seq, head_dim_v), (batch, heads, seq) */
    char *owned;                      /* per element of O, whether a row holds it */
    double bound;                     /* on the largest error */
} trial;

/* Of an element of O. */
static size_t out_bytes(const weft_attention *p) {
    return weft_dtype_bytes(weft_attention_out_dtype(p));
}

static double random_normal(uint64_t *state) {
    const double u = 1 - weft_random_real(state), angle = 6.283185307179586 * weft_random_real(state);
    return sqrt(-2 * log(u)) * cos(angle);
}

/* Strides in either layout with gaps, all multiples of `unit` elements where the head dim is one. */
static weft_strides random_strides(uint64_t *state, int64_t seq, int64_t heads, int64_t head_dim, int64_t unit) {
    const int64_t gap[3] = {unit * random_between(state, 0, 2), unit * random_between(state, 0, 2),
                            unit * random_between(state, 0, 2)};
    weft_strides s;
    if (random_between(state, 0, 1)) {
        s.head = head_dim + gap[0];
        s.seq = heads * s.head + gap[1];
        s.batch = seq * s.seq + gap[2];
    } else {
        s.seq = head_dim + gap[0];
        s.head = seq * s.seq + gap[1];
        s.batch = heads * s.head + gap[2];
    }
    return s;
}

static void *on_device(const void *host, size_t bytes) {
    void *device;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    return device;
}

/* Whether a row of a tensor, a query or a key, counts in any sequence of its batch. */
static int row_counts(const weft_attention *p, int64_t batch, int64_t row, int is_query) {
    const weft_sequences all = weft_attention_sequences(p);
    for (int64_t i = p->sequences ? 0 : batch; i < (p->sequences ? all.count : batch + 1); i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        const int64_t begin = is_query ? s.rows.begin : s.columns.begin, end = is_query ? s.used_end : s.columns.end;
        if (row >= begin && row < end) {
            return 1;
        }
    }
    return 0;
}

/* Gaps between rows are NaN, and rows that do not count, so that whoever reads them shows. */
static void *random_tensor(uint64_t *state, const weft_attention *p, char tensor, size_t count, const void **device) {
    const weft_strides *s = tensor == 'q' ? &p->q_strides : tensor == 'k' ? &p->k_strides : &p->v_strides;
    const int64_t seq = tensor == 'q' ? p->seq : p->kv_seq, heads = tensor == 'q' ? p->heads : p->kv_heads;
    const int64_t head_dim = tensor == 'v' ? p->head_dim_v : p->head_dim;
    void *data = malloc(count * 2);
    memset(data, 0xff, count * 2);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < seq; i++) {
            for (int64_t h = 0; h < heads && row_counts(p, b, i, tensor == 'q'); h++) {
                for (size_t d = 0; d < (size_t)head_dim; d++) {
                    weft_ref_store(p->dtype, data, weft_row_index(s, b, i, h) + d, random_normal(state));
                }
            }
        }
    }
    *device = on_device(data, count * 2);
    return data;
}

/* Sinks, slopes or a bias, where the problem has them. */
static const void *random_extra(uint64_t *state, weft_dtype dtype, size_t count, double factor, const void **device) {
    void *data = malloc(count * weft_dtype_bytes(dtype));
    for (size_t i = 0; i < count; i++) {
        if (dtype == WEFT_BOOL) {
            ((unsigned char *)data)[i] = (unsigned char)(random_between(state, 0, 3) ? random_between(state, 1, 255) : 0);
        } else {
            weft_ref_store(dtype, data, i, factor * random_normal(state));
        }
    }
    *device = on_device(data, count * weft_dtype_bytes(dtype));
    return data;
}

static void add_extras(uint64_t *state, trial *t) {
    const weft_attention *p = &t->p;
    const int64_t each = p->sequences ? p->sequences : p->batch;
    if (p->extras & WEFT_SINKS) {
        t->host.sinks = (const float *)random_extra(state, WEFT_FP32, (size_t)p->heads, 1, (const void **)&t->device.sinks);
    }
    if (p->extras & WEFT_ALIBI) {
        const size_t slopes = (size_t)((each - 1) * p->alibi_stride + p->heads);
        t->host.alibi = (const float *)random_extra(state, WEFT_FP32, slopes, 0.1, (const void **)&t->device.alibi);
    }
    if (p->extras & WEFT_BIAS) {
        t->host.bias = random_extra(state, weft_attention_bias_dtype(p), weft_attention_bias_extent(p), 1, &t->device.bias);
    }
    if (p->extras & WEFT_MAX) {
        t->host.max = (float *)malloc(t->size.lse * sizeof(float));
        CHECK(cudaMalloc(&t->device.max, t->size.lse * sizeof(float)));
    }
    t->host.dropout_seed = t->device.dropout_seed = random_bits(state);
    const int32_t *const from[] = {p->lengths.q_starts, p->lengths.kv_starts, p->lengths.q_used, p->lengths.kv_used,
                                   p->lengths.kv_pad};
    const int32_t **const to[] = {&t->device.lengths.q_starts, &t->device.lengths.kv_starts, &t->device.lengths.q_used,
                                  &t->device.lengths.kv_used, &t->device.lengths.kv_pad};
    for (int i = 0; i < 5; i++) {
        const size_t bytes = sizeof(int32_t) * (size_t)(each + (i < 2));
        *to[i] = from[i] ? (const int32_t *)on_device(from[i], bytes) : NULL;
    }
    size_t elements[WEFT_PAIR_ARRAYS];
    weft_attention_pair_elements(p, elements);
    const weft_pairs *pairs = &p->pairs;
    const void *const pair_from[] = {pairs->block_starts, pairs->block_list, pairs->block_bits_at, pairs->block_bits,
                                     pairs->tree};
    for (int i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        const size_t bytes = elements[i] * (i == 4 ? sizeof(uint64_t) : sizeof(uint32_t));
        const void *there = pair_from[i] && bytes > 0 ? on_device(pair_from[i], bytes) : NULL;
        memcpy((const void **)(void *)&t->device.pairs + i, &there, sizeof there);
    }
}

/* What a kernel may be wrong by that rounds every weight once, and then the result: the most of a row's elements. `weights`
 * are the row's, before dropout. */
static double rounding_of_row(const trial *t, int64_t batch, int64_t head, int64_t row, const double *weights,
                              const double *exact) {
    const weft_attention *p = &t->p;
    const weft_rows keys = weft_seen_keys(p, batch, row);
    const int64_t kv_head = head / (p->heads / p->kv_heads);
    double most = 0, sums[WEFT_MAX_HEAD_DIM] = {0};
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const double kept = weft_ref_kept(p, t->host.dropout_seed, batch * p->heads + head, row, key);
        const size_t v = weft_row_index(&p->v_strides, batch, key, kv_head);
        for (int64_t d = 0; d < p->head_dim_v && kept > 0; d++) {
            sums[d] += kept * weights[key] * fabs(weft_ref_load(p->dtype, t->host.v, v + (size_t)d));
        }
    }
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        most = fmax(most, sums[d] + fabs(exact[d]));
    }
    return most * (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8);
}

static void trial_solve(trial *t) {
    const weft_attention *p = &t->p;
    const int64_t rows = p->batch * p->heads * p->seq;
    double *weights = (double *)malloc((size_t)p->kv_seq * sizeof *weights), naive[WEFT_MAX_HEAD_DIM], error = 0,
           largest = 0, rounding = 0;
    float *plain = (float *)malloc((size_t)p->kv_seq * sizeof *plain);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        double *exact = t->exact + i * p->head_dim_v;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        const weft_ref_row result = weft_ref_attention_row(p, &t->host, batch, head, row, weights, exact);
        t->lse[i] = result.lse;
        t->max[i] = result.max;
        if (t->lengths) { /* few rows, of few keys: a plain kernel's error may be small by chance */
            rounding = fmax(rounding, rounding_of_row(t, batch, head, row, weights, exact));
        }
        weft_ref_attention_row_naive(p, &t->host, batch, head, row, plain, naive);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            error = fmax(error, fabs(naive[d] - exact[d]));
            largest = fmax(largest, fabs(exact[d]));
        }
        memset(t->owned + weft_row_index(&p->o_strides, batch, row, head), 1, (size_t)p->head_dim_v);
    }
    free(weights);
    free(plain);
    /* Twice a plain kernel's error, and a rounding of the largest value where that happens to be exact. */
    t->bound = fmax(fmax(2 * error, largest * (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8)), rounding);
}

/* A trial of a problem whose strides are multiples of `unit` elements, as far as its head dims are. Takes the lengths. */
static trial trial_of(uint64_t *state, weft_attention p, int64_t unit, drawn_lengths *lengths) {
    const int64_t head_dim_v = p.head_dim_v ? p.head_dim_v : p.head_dim;
    const weft_attention_data none = WEFT_ATTENTION_DATA_INIT;
    p.q_strides = random_strides(state, p.seq, p.heads, p.head_dim, unit);
    p.k_strides = random_strides(state, p.kv_seq, p.kv_heads, p.head_dim, unit);
    p.v_strides = random_strides(state, p.kv_seq, p.kv_heads, head_dim_v, unit);
    p.o_strides = random_strides(state, p.seq, p.heads, head_dim_v, unit);
    trial t;
    weft_message message;
    if (resolve_attention(&t.p, &p, &message) != WEFT_OK) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    t.lengths = lengths;
    t.host = t.device = none;
    t.size = attention_sizes(&t.p);
    t.host.q = random_tensor(state, &t.p, 'q', t.size.q, &t.device.q);
    t.host.k = random_tensor(state, &t.p, 'k', t.size.k, &t.device.k);
    t.host.v = random_tensor(state, &t.p, 'v', t.size.v, &t.device.v);
    t.host.o = malloc(t.size.o * out_bytes(&t.p));
    t.host.lse = (float *)malloc(t.size.lse * sizeof(float));
    CHECK(cudaMalloc(&t.device.o, t.size.o * out_bytes(&t.p)));
    CHECK(cudaMalloc(&t.device.lse, t.size.lse * sizeof(float)));
    add_extras(state, &t);
    t.exact = (double *)malloc(t.size.lse * (size_t)t.p.head_dim_v * sizeof(double));
    t.lse = (double *)malloc(t.size.lse * sizeof(double));
    t.max = (double *)malloc(t.size.lse * sizeof(double));
    t.owned = (char *)calloc(t.size.o, 1);
    trial_solve(&t);
    return t;
}

/* kind 0 and 1: no mask; 2 and more: causal, among them offsets that leave rows without a key. */
static trial trial_new(uint64_t *state, weft_dtype dtype, int head_dim, int kind, int64_t most) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(state, 1, 2);
    p.kv_heads = random_between(state, 1, 2);
    p.heads = p.kv_heads * random_between(state, 1, 3);
    p.seq = kind == 1 ? 1 : random_between(state, 1, most);
    p.kv_seq = kind == 0 ? random_between(state, 1, 40) : random_between(state, 1, most);
    p.head_dim = head_dim;
    p.dtype = dtype;
    if (kind >= 2) {
        p.mask = kind == 2 ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_CAUSAL;
        p.offset = kind == 2 ? 0 : kind == 3 ? random_between(state, -p.seq - 3, -1) : random_between(state, 0, p.kv_seq);
    }
    p.scale = kind % 2 ? 0 : random_normal(state) * 0.3; /* 0: the default; others of either sign */
    return trial_of(state, p, 8, NULL);
}

/* Any mask, and the features of these bits (WEFT_HAS_), for a general variant of the least head dim that has room. */
static trial trial_with(uint64_t *state, weft_dtype dtype, int32_t bits, int64_t most) {
    static const int64_t dims[] = {16, 40, 56, 64, 96, 128, 184, 248}, units[] = {1, 2, 8};
    weft_attention p = WEFT_ATTENTION_INIT;
    drawn_lengths *lengths = (drawn_lengths *)calloc(1, sizeof *lengths);
    p.batch = random_between(state, 1, 3);
    p.kv_heads = random_between(state, 1, 2);
    p.heads = p.kv_heads * random_between(state, 1, 2);
    p.head_dim = dims[random_between(state, 0, 7)];
    p.seq = random_between(state, 1, bits & WEFT_HAS_LARGE_DIM ? most / 2 : most);
    p.kv_seq = random_between(state, 1, bits & WEFT_HAS_LARGE_DIM ? most / 2 : most);
    p.kv_seq += bits & WEFT_HAS_BLOCKS ? 192 : 0; /* lists with gaps */
    p.dtype = dtype;
    p.scale = random_between(state, 0, 1) ? 0 : random_normal(state) * 0.2;
    draw_mask(state, &p);
    draw_features(state, &p, bits, 64, lengths);
    p.head_dim_v = p.head_dim_v > 512 || (p.head_dim_v == 0 && p.head_dim > 512) ? 512 : p.head_dim_v;
    p.lengths = lengths->all; /* where they come from does not matter to a kernel */
    p.pairs = lengths->pairs;
    p.extras &= ~(WEFT_STARTS | WEFT_KV_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD | WEFT_BLOCKS | WEFT_TREE);
    return trial_of(state, p, units[random_between(state, 0, 2)], lengths);
}

static void trial_free(trial *t) {
    const weft_lengths *l = &t->device.lengths;
    const weft_pairs *m = &t->device.pairs;
    const void *const there[] = {t->device.q,     t->device.k,      t->device.v,    t->device.o,   t->device.lse,
                                 t->device.sinks, t->device.alibi,  t->device.bias, t->device.max, l->q_starts,
                                 l->kv_starts,    l->q_used,        l->kv_used,     l->kv_pad,     m->block_starts,
                                 m->block_list,   m->block_bits_at, m->block_bits,  m->tree};
    const void *const here[] = {t->host.q,    t->host.k,   t->host.v, t->host.o, t->host.lse, t->host.sinks, t->host.alibi,
                                t->host.bias, t->host.max, t->exact,  t->lse,    t->max,      t->owned,      t->lengths};
    for (const void *memory : there) {
        CHECK(cudaFree((void *)memory));
    }
    for (const void *memory : here) {
        free((void *)memory);
    }
}

/* Whether a number that came back is right; those of rows that are no queries are as they were. */
static int number_is_right(float got, double want, int is_query) {
    if (!is_query) {
        return isnan(got);
    }
    return want == -INFINITY ? got == -INFINITY : fabs(got - want) <= 1e-5 * fmax(1, fabs(want));
}

/* What is wrong with the output, or null. *error: the largest distance from the exact result. */
static const char *trial_compare(const trial *t, int with_lse, double *error) {
    const weft_attention *p = &t->p;
    const size_t bytes = out_bytes(p);
    *error = 0;
    for (size_t i = 0; i < t->size.o; i++) {
        for (size_t k = 0; k < bytes && !t->owned[i]; k++) {
            if (((const unsigned char *)t->host.o)[i * bytes + k] != 0xff) {
                return "wrote between the rows of O";
            }
        }
    }
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        const size_t at = weft_row_index(&p->o_strides, batch, row, head);
        const int is_query = row < weft_attention_rows(p);
        for (int64_t d = 0; d < p->head_dim_v && is_query; d++) {
            const double got = weft_ref_load(weft_attention_out_dtype(p), t->host.o, at + (size_t)d);
            const double want = t->exact[i * p->head_dim_v + d];
            if (!isfinite(got)) {
                return "O is not finite";
            }
            if (t->max[i] == -INFINITY && got != 0) {
                return "a row without a key is not zero";
            }
            *error = fmax(*error, fabs(got - want));
        }
        if (with_lse && !number_is_right(t->host.lse[i], t->lse[i], is_query)) {
            return "LSE is wrong";
        }
        if (t->host.max && !number_is_right(t->host.max[i], t->max[i], is_query)) {
            return "the maximum is wrong";
        }
    }
    return *error <= t->bound ? NULL : "the error is beyond its bound";
}

#endif
