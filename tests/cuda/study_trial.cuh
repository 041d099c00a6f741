/* A random attention with its tensors on both sides, what is right, and how far from it is allowed. */
#ifndef WEFT_TESTS_CUDA_STUDY_TRIAL_CUH
#define WEFT_TESTS_CUDA_STUDY_TRIAL_CUH

#include <math.h>
#include <string.h>

#include "../random.h"
#include "study_launch.cuh"

extern "C" {
#include "../plans.h"
#include "problem/problem.h"
#include "ref/ref.h"
}

/* A problem with its tensors on both sides, and what is right. */
typedef struct trial {
    weft_attention p;
    weft_attention_extents size;
    weft_attention_data host, device; /* host.o and host.lse: what came back */
    double *exact, *lse;              /* (batch, heads, seq, head_dim), (batch, heads, seq) */
    char *owned;                      /* per element of O, whether a row holds it */
    double bound;                     /* on the largest error */
} trial;

static double random_normal(uint64_t *state) {
    const double u = 1 - weft_random_real(state), angle = 6.283185307179586 * weft_random_real(state);
    return sqrt(-2 * log(u)) * cos(angle);
}

/* Strides in either layout with gaps, all multiples of 8 elements. */
static weft_strides random_strides(uint64_t *state, int64_t seq, int64_t heads, int64_t head_dim) {
    const int64_t gap[3] = {8 * random_between(state, 0, 2), 8 * random_between(state, 0, 2),
                            8 * random_between(state, 0, 2)};
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

/* Gaps between rows are NaN, so that whoever reads them shows. */
static void *random_tensor(uint64_t *state, const weft_attention *p, const weft_strides *s, int64_t seq, int64_t heads,
                           size_t count, void **device) {
    void *data = malloc(count * 2);
    memset(data, 0xff, count * 2);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < seq; i++) {
            for (int64_t h = 0; h < heads; h++) {
                for (size_t d = 0; d < (size_t)p->head_dim; d++) {
                    weft_ref_store(p->dtype, data, weft_row_index(s, b, i, h) + d, random_normal(state));
                }
            }
        }
    }
    CHECK(cudaMalloc(device, count * 2));
    CHECK(cudaMemcpy(*device, data, count * 2, cudaMemcpyHostToDevice));
    return data;
}

static void trial_solve(trial *t) {
    const weft_attention *p = &t->p;
    const int64_t rows = p->batch * p->heads * p->seq;
    double *weights = (double *)malloc((size_t)p->kv_seq * sizeof *weights), naive[256], error = 0, largest = 0;
    float *plain = (float *)malloc((size_t)p->kv_seq * sizeof *plain);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        double *exact = t->exact + i * p->head_dim;
        t->lse[i] = weft_ref_attention_row(p, &t->host, batch, head, row, weights, exact).lse;
        weft_ref_attention_row_naive(p, &t->host, batch, head, row, plain, naive);
        for (int64_t d = 0; d < p->head_dim; d++) {
            error = fmax(error, fabs(naive[d] - exact[d]));
            largest = fmax(largest, fabs(exact[d]));
        }
        memset(t->owned + weft_row_index(&p->o_strides, batch, row, head), 1, (size_t)p->head_dim);
    }
    free(weights);
    free(plain);
    /* Twice a plain kernel's error, and a rounding of the largest value where that happens to be exact. */
    t->bound = fmax(2 * error, largest * (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8));
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
    p.q_strides = random_strides(state, p.seq, p.heads, head_dim);
    p.k_strides = random_strides(state, p.kv_seq, p.kv_heads, head_dim);
    p.v_strides = random_strides(state, p.kv_seq, p.kv_heads, head_dim);
    p.o_strides = random_strides(state, p.seq, p.heads, head_dim);
    trial t;
    weft_message message;
    if (resolve_attention(&t.p, &p, &message) != WEFT_OK) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    t.size = attention_sizes(&p);
    t.host.q = random_tensor(state, &p, &p.q_strides, p.seq, p.heads, t.size.q, (void **)&t.device.q);
    t.host.k = random_tensor(state, &p, &p.k_strides, p.kv_seq, p.kv_heads, t.size.k, (void **)&t.device.k);
    t.host.v = random_tensor(state, &p, &p.v_strides, p.kv_seq, p.kv_heads, t.size.v, (void **)&t.device.v);
    t.host.o = malloc(t.size.o * 2);
    t.host.lse = (float *)malloc(t.size.lse * sizeof(float));
    CHECK(cudaMalloc(&t.device.o, t.size.o * 2));
    CHECK(cudaMalloc(&t.device.lse, t.size.lse * sizeof(float)));
    t.exact = (double *)malloc(t.size.lse * (size_t)head_dim * sizeof(double));
    t.lse = (double *)malloc(t.size.lse * sizeof(double));
    t.owned = (char *)calloc(t.size.o, 1);
    trial_solve(&t);
    return t;
}

static void trial_free(trial *t) {
    CHECK(cudaFree((void *)t->device.q));
    CHECK(cudaFree((void *)t->device.k));
    CHECK(cudaFree((void *)t->device.v));
    CHECK(cudaFree(t->device.o));
    CHECK(cudaFree(t->device.lse));
    free((void *)t->host.q);
    free((void *)t->host.k);
    free((void *)t->host.v);
    free(t->host.o);
    free(t->host.lse);
    free(t->exact);
    free(t->lse);
    free(t->owned);
}

/* What is wrong with the output, or null. *error: the largest distance from the exact result. */
static const char *trial_compare(const trial *t, int with_lse, double *error) {
    const weft_attention *p = &t->p;
    const uint16_t *o = (const uint16_t *)t->host.o;
    *error = 0;
    for (size_t i = 0; i < t->size.o; i++) {
        if (!t->owned[i] && o[i] != 0xffff) {
            return "wrote between the rows of O";
        }
    }
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        const size_t at = weft_row_index(&p->o_strides, batch, row, head);
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double got = weft_ref_load(p->dtype, t->host.o, at + (size_t)d), want = t->exact[i * p->head_dim + d];
            if (!isfinite(got)) {
                return "O is not finite";
            }
            if (t->lse[i] == -INFINITY && got != 0) {
                return "a row without a key is not zero";
            }
            *error = fmax(*error, fabs(got - want));
        }
        if (with_lse && t->lse[i] == -INFINITY
                ? t->host.lse[i] != -INFINITY
                : with_lse && !(fabs(t->host.lse[i] - t->lse[i]) <= 1e-5 * fmax(1, fabs(t->lse[i])))) {
            return "LSE is wrong";
        }
    }
    return *error <= t->bound ? NULL : "the error is beyond its bound";
}

#endif
