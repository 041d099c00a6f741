/* SPDX-License-Identifier: Apache-2.0 */
/* Results held to the reference, a function for each operation. */
#include <weft/check.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "bench/bench.h"
#include "bench/bench_forward.h"
#include "bench/sample.h"
#include "cpu/thread/team.h"
#include "problem/attention.h"
#include "problem/combine.h"
#include "problem/grouped_gemm.h"
#include "problem/problem.h"
#include "ref/cache.h"
#include "ref/ref.h"

/* What was found so far. */
typedef struct findings {
    double max_error, bound;
    double largest;       /* of the exact results */
    double tensors[3][2]; /* gradients in samples: of dQ, dK and dV the largest error and the largest element */
    int64_t checked;
    int wrong; /* an element that should be finite is not, or an LSE is off */
} findings;

static void compare(findings *f, double exact, double naive, double result) {
    f->wrong |= isfinite(exact) && !isfinite(result);
    f->max_error = fmax(f->max_error, fabs(result - exact));
    f->bound = fmax(f->bound, 2 * fabs(naive - exact));
    f->largest = fmax(f->largest, fabs(exact));
}

/* Adds what a thread has found to what all have. */
static void add_up(findings *all, const findings *mine) {
    all->max_error = fmax(all->max_error, mine->max_error);
    all->bound = fmax(all->bound, mine->bound);
    all->largest = fmax(all->largest, mine->largest);
    for (int i = 0; i < 6; i++) {
        all->tensors[i / 2][i % 2] = fmax(all->tensors[i / 2][i % 2], mine->tensors[i / 2][i % 2]);
    }
    all->checked += mine->checked;
    all->wrong |= mine->wrong;
}

/* In fp32 the sums have no more digits than the result: two units of its last place. */
double weft_bench_rounding(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-22 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
}

/* Rounding the exact result once cannot be avoided, so it is always allowed. */
static void allow_rounding(findings *f, weft_dtype dtype) {
    f->bound = fmax(f->bound, weft_bench_rounding(dtype) * f->largest);
}

/* So is what a plain sum in fp32 usually errs by: each term rounds a partial sum, up or down. The plain kernel that a small
 * problem is held to may have been luckier than that. */
static void allow_sum(findings *f, weft_dtype dtype, int64_t terms) {
    allow_rounding(f, dtype);
    f->bound = fmax(f->bound, 0x1p-24 * sqrt((double)terms) * f->largest);
}

/* Items that are checked over threads. */
typedef struct checking {
    const weft_problem *problem;
    const weft_data *data, *before;
    const weft_check_options *options;
    weft_sample sample;
    int64_t total;        /* rows or elements, as findings count them */
    pthread_mutex_t lock; /* of what follows: the sum of what threads found */
    findings found;
    int no_memory;
    const char *refused; /* what there is no reference to hold to; null: nothing */
} checking;

/* Checks a sample of `items` that take `cost` operations each, in all threads. */
static void check_items(checking *all, void (*job)(void *context, int64_t thread, int64_t threads), int64_t items,
                        double cost) {
    all->sample = weft_sample_begin(all->options, items, cost);
    weft_cpu_team(0, job, all);
}

static void put(checking *all, const findings *mine, int no_memory) {
    pthread_mutex_lock(&all->lock);
    add_up(&all->found, mine);
    all->no_memory |= no_memory;
    pthread_mutex_unlock(&all->lock);
}

/* ---- attention: rows of O, and their LSE ---- */

/* `weights` and `plain` are room for kv_seq numbers each. */
static void check_row(const weft_attention *p, const weft_attention_data *data, int64_t number, double *weights,
                      float *plain, findings *f) {
    const int64_t rows = weft_attention_rows(p); /* others are nobody's, and nobody writes them */
    const int64_t row = number % rows, head = number / rows % p->heads, batch = number / rows / p->heads;
    double exact[WEFT_MAX_HEAD_DIM], naive[WEFT_MAX_HEAD_DIM];
    const double lse = weft_ref_attention_row(p, data, batch, head, row, weights, exact).lse;
    weft_ref_attention_row_naive(p, data, batch, head, row, plain, naive);
    if (data->lse) {
        const double got = (double)data->lse[(batch * p->heads + head) * p->seq + row];
        f->wrong |= !(lse == -INFINITY ? got == lse : fabs(got - lse) <= 1e-4 * fmax(1.0, fabs(lse)));
    }
    const size_t at = weft_row_index(&p->o_strides, batch, row, head);
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        compare(f, exact[d], naive[d], weft_ref_load(weft_attention_out_dtype(p), data->o, at + (size_t)d));
    }
    f->checked++;
}

static void check_rows(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    const weft_attention *p = &all->problem->attention;
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights);
    float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
    findings mine = {0};
    int64_t row;
    while (weights && plain && (row = weft_sample_take(&all->sample)) >= 0) {
        check_row(p, &all->data->attention, row, weights, plain, &mine);
    }
    put(all, &mine, !weights || !plain);
    free(weights);
    free(plain);
}

/* K or V as the caller's runs left it, against what it was and what is appended. */
static void check_cached(const weft_attention *p, const weft_strides *s, int64_t dims, const void *want, const void *got,
                         findings *f) {
    const int64_t batches = weft_attention_kv_batches(p, s).length, rows = weft_attention_kv_rows(p, s).length;
    for (int64_t i = 0; i < batches * rows * p->kv_heads; i++) {
        const int64_t head = i % p->kv_heads, row = i / p->kv_heads % rows, batch = i / p->kv_heads / rows;
        for (int64_t d = 0; d < dims; d++) {
            const size_t at = weft_row_index(s, batch, row, head) + (size_t)d;
            const double expected = weft_ref_load(p->dtype, want, at), found = weft_ref_load(p->dtype, got, at);
            const double most = weft_bench_rounding(p->dtype) * (fabs(expected) + 0x1p-4);
            f->wrong |= isnan(expected) ? !isnan(found) : !(expected == found || fabs(found - expected) <= most);
        }
    }
}

static void check_appended(checking *all) {
    const weft_attention *p = &all->problem->attention;
    const weft_attention_extents size = weft_attention_sizes(p);
    const size_t bytes = weft_dtype_bytes(p->dtype);
    weft_attention_data want = all->before->attention;
    void *k = malloc(size.k * bytes), *v = malloc(size.v * bytes);
    if (k && v) {
        want.k = memcpy(k, want.k, size.k * bytes);
        want.v = memcpy(v, want.v, size.v * bytes);
        weft_ref_append(p, &want);
        check_cached(p, &p->k_strides, p->head_dim, k, all->data->attention.k, &all->found);
        check_cached(p, &p->v_strides, p->head_dim_v, v, all->data->attention.v, &all->found);
    }
    all->no_memory |= !k || !v;
    free(k);
    free(v);
}

static void check_attention(checking *all) {
    const weft_attention *p = &all->problem->attention;
    all->total = p->batch * p->heads * weft_attention_rows(p);
    check_items(all, check_rows, all->total, 8.0 * (double)p->kv_seq * (double)p->head_dim);
    /* Weights err by what scores err by, which are sums, too, and some times larger than what comes out. */
    allow_sum(&all->found, weft_attention_out_dtype(p), 4 * (p->head_dim + p->kv_seq));
    if (p->cache.append > 0) {
        check_appended(all);
    }
}

/* ---- attention backward: dQ, dK and dV of a kv head and its query heads ---- */

/* The largest error of a gradient and its largest element. */
enum { WORST, LARGEST };

/* Errors are relative to a gradient's largest element, as its elements are sums of very different lengths. Gradients of one
 * problem are about as large as each other, but where terms cancel, as those of dQ and dK do where a query has one key:
 * then, to a quarter of the largest of all. */
static void relate_errors(findings *f, double tensors[][2], int count) {
    double all = 4e-3;
    for (int i = 0; i < count; i++) {
        all = fmax(all, tensors[i][LARGEST]);
    }
    for (int i = 0; i < count; i++) {
        f->max_error = fmax(f->max_error, tensors[i][WORST] / fmax(tensors[i][LARGEST], all / 4));
    }
}

/* A tensor's rows of `dims` elements, the reference's and the caller's. */
static void check_gradient(weft_dtype dtype, const weft_strides *strides, int64_t rows, int64_t seq, int64_t heads,
                           int64_t dims, const void *exact, const void *result, double tensor[2], findings *f) {
    for (int64_t i = 0; i < rows * dims; i++) {
        const int64_t row = i / dims;
        const size_t at = weft_row_index(strides, row / heads / seq, row / heads % seq, row % heads) + (size_t)(i % dims);
        const double want = weft_ref_load(dtype, exact, at), got = weft_ref_load(dtype, result, at);
        f->wrong |= isfinite(want) && !isfinite(got);
        tensor[WORST] = fmax(tensor[WORST], fabs(got - want));
        tensor[LARGEST] = isfinite(want) ? fmax(tensor[LARGEST], fabs(want)) : tensor[LARGEST];
    }
    f->checked += rows;
}

static const void *moved(weft_dtype dtype, const void *from, int64_t elements) {
    return from ? (const char *)from + elements * (int64_t)weft_dtype_bytes(dtype) : NULL;
}

/* A part of the problem that stands alone: all of it, or a kv head of a batch. */
static int check_part(const weft_attention *p, const weft_attention_gradients *data, findings *f) {
    const weft_attention_extents size = weft_attention_sizes(p);
    const weft_dtype out = weft_attention_out_dtype(p);
    const size_t bytes = weft_dtype_bytes(out);
    const int64_t rows = weft_attention_rows(p), keys = weft_attention_keys(p), heads = p->heads, kv_heads = p->kv_heads;
    const weft_strides in_line = {0, 0, 1}; /* a row for each head */
    void *exact[4] = {calloc(size.q, bytes), calloc(size.k, bytes), calloc(size.v, bytes),
                      calloc((size_t)heads, sizeof(float))};
    weft_attention_gradients reference = *data;
    reference.grad_q = exact[0];
    reference.grad_k = exact[1];
    reference.grad_v = exact[2];
    reference.grad_sinks = exact[3];
    reference.grad_bias = NULL;
    const int fits =
        exact[0] && exact[1] && exact[2] && exact[3] && weft_ref_attention_backward(p, &reference, NULL) == WEFT_OK;
    double tensors[3][2] = {{0, 0}}, sinks[1][2] = {{0, 0}};
    if (fits) {
        check_gradient(out, &p->q_strides, p->batch * rows * heads, rows, heads, p->head_dim, exact[0], data->grad_q,
                       tensors[0], f);
        check_gradient(out, &p->k_strides, p->batch * keys * kv_heads, keys, kv_heads, p->head_dim, exact[1], data->grad_k,
                       tensors[1], f);
        check_gradient(out, &p->v_strides, p->batch * keys * kv_heads, keys, kv_heads, p->head_dim_v, exact[2],
                       data->grad_v, tensors[2], f);
        relate_errors(f, tensors, 3);
    }
    if (fits && data->grad_sinks) {
        check_gradient(WEFT_FP32, &in_line, heads, 1, heads, 1, exact[3], data->grad_sinks, sinks[0], f);
        relate_errors(f, sinks, 1);
    }
    for (int i = 0; i < 4; i++) {
        free(exact[i]);
    }
    return fits;
}

static void check_kv_head(const weft_attention *p, const weft_attention_gradients *d, int64_t number, findings *f,
                          int *no_memory) {
    const int64_t batch = number / p->kv_heads, kv = number % p->kv_heads, group = p->heads / p->kv_heads;
    const int64_t q = batch * p->q_strides.batch + kv * group * p->q_strides.head;
    const int64_t o = batch * p->o_strides.batch + kv * group * p->o_strides.head;
    const int64_t k = batch * p->k_strides.batch + kv * p->k_strides.head;
    const int64_t v = batch * p->v_strides.batch + kv * p->v_strides.head;
    const weft_dtype out = weft_attention_out_dtype(p);
    weft_attention one = *p;
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    one.batch = one.kv_heads = 1;
    one.heads = group;
    one.lengths.q_used = p->lengths.q_used ? p->lengths.q_used + batch : NULL;
    one.lengths.kv_used = p->lengths.kv_used ? p->lengths.kv_used + batch : NULL;
    one.lengths.kv_pad = p->lengths.kv_pad ? p->lengths.kv_pad + batch : NULL;
    data.alibi = d->alibi ? d->alibi + batch * p->alibi_stride + kv * group : NULL;
    data.bias =
        moved(weft_attention_bias_dtype(p), d->bias, batch * p->bias_strides.batch + kv * group * p->bias_strides.head);
    data.q = moved(p->dtype, d->q, q);
    data.k = moved(p->dtype, d->k, k);
    data.v = moved(p->dtype, d->v, v);
    data.grad_o = moved(p->dtype, d->grad_o, o);
    data.grad_q = (void *)(uintptr_t)moved(out, d->grad_q, q);
    data.grad_k = (void *)(uintptr_t)moved(out, d->grad_k, k);
    data.grad_v = (void *)(uintptr_t)moved(out, d->grad_v, v);
    *no_memory |= !check_part(&one, &data, f);
}

static void check_kv_heads(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    findings mine = {0};
    int no_memory = 0;
    int64_t number;
    while (!no_memory && (number = weft_sample_take(&all->sample)) >= 0) {
        check_kv_head(&all->problem->attention, &all->data->gradients, number, &mine, &no_memory);
    }
    put(all, &mine, no_memory);
}

/* A row of the i-th gradient. */
static void sample(const weft_attention *p, int i, size_t at, int64_t dims, const double *exact, const void *result,
                   findings *f) {
    for (int64_t d = 0; d < dims; d++) {
        const double got = weft_ref_load(weft_attention_out_dtype(p), result, at + (size_t)d);
        f->wrong |= isfinite(exact[d]) && !isfinite(got);
        f->tensors[i][WORST] = fmax(f->tensors[i][WORST], fabs(got - exact[d]));
        f->tensors[i][LARGEST] = fmax(f->tensors[i][LARGEST], fabs(exact[d]));
    }
    f->checked++;
}

/* Queries of all heads, and then keys. */
static void sample_gradients(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    const weft_attention *p = &all->problem->attention;
    const weft_attention_gradients *data = &all->data->gradients;
    const int64_t rows = weft_attention_rows(p), keys = weft_attention_keys(p), queries = p->batch * p->heads * rows;
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), exact[2][WEFT_MAX_HEAD_DIM];
    findings mine = {0};
    int64_t i;
    while (weights && (i = weft_sample_take(&all->sample)) >= 0) {
        if (i < queries) {
            const int64_t row = i % rows, head = i / rows % p->heads, batch = i / rows / p->heads;
            weft_ref_attention_query_gradient(p, data, batch, head, row, weights, exact[0]);
            sample(p, 0, weft_row_index(&p->q_strides, batch, row, head), p->head_dim, exact[0], data->grad_q, &mine);
        } else {
            const int64_t n = i - queries, key = n % keys, head = n / keys % p->kv_heads, batch = n / keys / p->kv_heads;
            weft_ref_attention_key_gradients(p, data, batch, head, key, exact[0], exact[1]);
            sample(p, 1, weft_row_index(&p->k_strides, batch, key, head), p->head_dim, exact[0], data->grad_k, &mine);
            sample(p, 2, weft_row_index(&p->v_strides, batch, key, head), p->head_dim_v, exact[1], data->grad_v, &mine);
        }
    }
    put(all, &mine, !weights);
    free(weights);
}

/* The gradients of sinks, each a sum over all queries of a head; relative to the largest, as tensors are. */
static void check_sinks(const weft_attention *p, const weft_attention_gradients *data, findings *f) {
    double worst = 0, largest = 1e-3;
    for (int64_t head = 0; head < p->heads; head++) {
        const double exact = weft_ref_attention_sink_gradient(p, data, head), got = (double)data->grad_sinks[head];
        f->wrong |= isfinite(exact) && !isfinite(got);
        worst = fmax(worst, fabs(got - exact));
        largest = fmax(largest, fabs(exact));
    }
    f->max_error = fmax(f->max_error, worst / largest);
    f->checked += p->heads;
}

/* Progress of a piece of work of two parts: one half each. */
static void first_half(void *user, int64_t done, int64_t total) {
    const weft_check_options *o = user;
    o->progress(o->progress_user, done, 2 * total);
}

static void second_half(void *user, int64_t done, int64_t total) {
    const weft_check_options *o = user;
    o->progress(o->progress_user, total + done, 2 * total);
}

/* Rows of the gradients, where all of them would be too much. They need O and LSE: where the data has none, a forward pass
 * computes them; if that were wrong, the gradients would not agree. Returns 0 where it cannot. */
static int check_gradient_rows(checking *all) {
    const weft_attention *p = &all->problem->attention;
    const weft_data *given = all->data;
    weft_data filled = *given;
    void *memory[2] = {NULL, NULL};
    const weft_check_options *options = all->options;
    weft_check_options whole = *options, rest = whole;
    if (!(filled.gradients.o && filled.gradients.lse)) {
        if (weft_bench_host_forward(p, &filled.gradients, memory, whole.progress ? first_half : NULL, &whole)) {
            return 0;
        }
        rest.progress = whole.progress ? second_half : NULL;
        rest.progress_user = &whole;
    }
    all->options = &rest;
    all->data = &filled;
    const double queries = (double)(p->heads / p->kv_heads) * (double)p->seq;
    const int64_t rows = p->batch * p->heads * weft_attention_rows(p),
                  keys = p->batch * p->kv_heads * weft_attention_keys(p);
    check_items(all, sample_gradients, rows + keys, 14.0 * fmax(queries, (double)p->kv_seq) * (double)p->head_dim);
    relate_errors(&all->found, all->found.tensors, 3);
    if (filled.gradients.grad_sinks) {
        check_sinks(p, &filled.gradients, &all->found);
    }
    all->data = given;
    all->options = options;
    free(memory[0]);
    free(memory[1]);
    return 1;
}

/* Whether heads or batches share elements, whose gradients then add up over all of them. */
static int shares_elements(const weft_attention *p, const weft_strides *s, int64_t heads) {
    return (p->batch > 1 && s->batch == 0) || (heads > 1 && s->head == 0);
}

static int is_shared(const weft_attention *p) {
    return shares_elements(p, &p->q_strides, p->heads) || shares_elements(p, &p->k_strides, p->kv_heads) ||
           shares_elements(p, &p->v_strides, p->kv_heads);
}

/* Whether a kv head does not stand alone. The gradient of a sink adds up over batches; dropout and masks of pairs know
 * heads by number. */
static int is_whole(const weft_attention *p) {
    return p->dropout > 0 || (p->extras & WEFT_SINKS) || p->pairs.block_starts || p->pairs.tree || is_shared(p);
}

/* All of it where that is affordable, each kv head by itself if it can be; else rows. */
static void check_gradients(checking *all) {
    const weft_attention *p = &all->problem->attention;
    const weft_attention_gradients *data = &all->data->gradients;
    const double queries = (double)(p->heads / p->kv_heads) * (double)p->seq;
    const double cost = 14.0 * queries * (double)p->kv_seq * (double)p->head_dim * (double)(p->batch * p->kv_heads);
    all->total = p->batch * (p->heads * weft_attention_rows(p) + 2 * p->kv_heads * weft_attention_keys(p)) +
                 (data->grad_sinks ? p->heads : 0);
    const int is_large = cost > weft_sample_whole(all->options) && !is_shared(p);
    if (!is_large || !check_gradient_rows(all)) {
        if (is_whole(p)) {
            all->no_memory = !check_part(p, data, &all->found);
        } else {
            check_items(all, check_kv_heads, p->batch * p->kv_heads, 0);
        }
    }
    all->found.bound = p->dtype == WEFT_FP32 ? 1e-5 : p->dtype == WEFT_FP16 ? 4e-3 : 3e-2;
}

/* ---- GEMM: elements of C ---- */

static void check_elements(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    const weft_gemm *p = &all->problem->gemm;
    const int64_t columns = weft_gemm_columns(p), elements = p->m * columns;
    weft_gemm_data old = all->data->gemm; /* the inputs, and C as it was */
    old.c = all->before->gemm.c;
    findings mine = {0};
    int64_t i;
    while ((i = weft_sample_take(&all->sample)) >= 0) {
        const int64_t batch = i / elements, row = i / columns % p->m, col = i % columns;
        const weft_gemm_data before = weft_gemm_product(p, &old, batch);
        const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
        compare(&mine, weft_ref_gemm_element(p, &before, row, col), weft_ref_gemm_element_naive(p, &before, row, col),
                weft_ref_load(p->c_dtype, all->data->gemm.c, at));
        mine.checked++;
    }
    put(all, &mine, 0);
}

/* Sums of columns, held to those of C as it was stored: each of its elements was rounded, and each sum. */
static void check_column_sums(const weft_gemm *p, const weft_gemm_data *data, findings *f) {
    for (int64_t i = 0; i < p->batch * weft_gemm_columns(p); i++) {
        const int64_t batch = i / weft_gemm_columns(p), col = i % weft_gemm_columns(p);
        double sum = 0, size = 0;
        for (int64_t row = 0; row < p->m; row++) {
            const double value = weft_ref_load(
                p->c_dtype, data->c, (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col));
            sum += value;
            size += fabs(value);
        }
        f->wrong |= !(fabs((double)data->column_sums[i] - sum) <= weft_bench_rounding(p->c_dtype) * size + 1e-6 * size);
    }
}

static void check_gemm(checking *all) {
    const weft_gemm *p = &all->problem->gemm;
    if (p->extras & WEFT_GEMM_FUNCTION) {
        all->refused = "a caller's function";
        return;
    }
    all->total = p->batch * p->m * weft_gemm_columns(p); /* at most 2^59: all of them are in memory */
    check_items(all, check_elements, all->total, 4.0 * (double)p->k);
    allow_sum(&all->found, p->c_dtype, p->k);
    if (p->extras & WEFT_GEMM_COLUMN_SUMS) {
        check_column_sums(p, &all->data->gemm, &all->found);
    }
}

/* ---- grouped GEMM: elements of C, and that rows of no group are as they were ---- */

static void check_grouped_row(const checking *all, int64_t row, findings *f) {
    const weft_grouped_gemm *p = &all->problem->grouped;
    const weft_grouped_gemm_data *data = &all->data->grouped, *before = &all->before->grouped;
    const int64_t c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const int64_t at =
        p->layout == WEFT_GROUPS_MASKED ? row / p->rows * p->c_stride + row % p->rows * p->ldc : row * p->ldc;
    const char *got = (const char *)data->c + at * c_bytes, *old = (const char *)before->c + at * c_bytes;
    weft_group_rows rows;
    weft_gemm_data matrices;
    if (!weft_ref_grouped_row(p, weft_grouped_gemm_bounds(p, data), row, &rows)) {
        f->wrong |= memcmp(got, old, (size_t)(p->n * c_bytes)) != 0;
        return;
    }
    const weft_gemm product = weft_ref_grouped_product(p, data, &rows, &matrices);
    for (int64_t col = 0; col < p->n; col++) {
        compare(f, weft_ref_gemm_element(&product, &matrices, 0, col),
                weft_ref_gemm_element_naive(&product, &matrices, 0, col), weft_ref_load(p->c_dtype, got, (size_t)col));
        f->checked++;
    }
}

static void check_grouped_rows(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    findings mine = {0};
    int64_t row;
    while ((row = weft_sample_take(&all->sample)) >= 0) {
        check_grouped_row(all, row, &mine);
    }
    put(all, &mine, 0);
}

static void check_grouped(checking *all) {
    const weft_grouped_gemm *p = &all->problem->grouped;
    const weft_grouped_gemm_data *data = &all->data->grouped;
    const int64_t rows = p->rows * (p->layout == WEFT_GROUPS_MASKED ? p->groups : 1);
    for (int64_t row = 0; row < rows; row++) {
        weft_group_rows unused;
        all->total += weft_ref_grouped_row(p, weft_grouped_gemm_bounds(p, data), row, &unused) ? p->n : 0;
    }
    check_items(all, check_grouped_rows, rows, 4.0 * (double)p->k * (double)p->n);
    allow_sum(&all->found, p->c_dtype, p->k);
}

/* ---- combine: rows of O, and their LSE ---- */

static void check_combined(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    const weft_combine *p = &all->problem->combine;
    const weft_combine_data *data = &all->data->combine;
    weft_combine_data old = *data; /* the inputs, and O and its LSE as they were */
    old.o = all->before->combine.o;
    old.lse = all->before->combine.lse;
    findings mine = {0};
    int64_t row;
    while ((row = weft_sample_take(&all->sample)) >= 0) {
        double exact[WEFT_MAX_HEAD_DIM];
        const double lse = weft_ref_combine_row(p, &old, row, exact);
        const size_t at = weft_combine_index(p, &p->o_strides, row);
        if (data->lse && !p->sum) {
            const double got = (double)data->lse[weft_combine_lse_index(p, row)];
            mine.wrong |= !(lse == -INFINITY ? got == lse : fabs(got - lse) <= 1e-5 * fmax(1.0, fabs(lse)));
        }
        for (int64_t d = 0; d < p->head_dim; d++) {
            compare(&mine, exact[d], exact[d], weft_ref_load(p->o_dtype, data->o, at + (size_t)d));
        }
        mine.checked++;
    }
    put(all, &mine, 0);
}

static void check_combine(checking *all) {
    const weft_combine *p = &all->problem->combine;
    const double terms = (double)(p->parts + p->into);
    all->total = weft_combine_rows(p);
    check_items(all, check_combined, all->total, 4.0 * terms * (double)p->head_dim);
    allow_rounding(&all->found, p->o_dtype);
    all->found.bound += terms * 0x1p-22 * all->found.largest; /* of weights and sums, in fp32 */
}

static const struct {
    void (*run)(checking *all);
    const char *unit;
    int relative;
} checks[] = {[WEFT_ATTENTION] = {check_attention, "rows", 0},
              [WEFT_ATTENTION_BACKWARD] = {check_gradients, "rows", 1},
              [WEFT_GEMM] = {check_gemm, "elements", 0},
              [WEFT_COMBINE] = {check_combine, "rows", 0},
              [WEFT_GROUPED_GEMM] = {check_grouped, "elements", 0}};
enum { CHECKS = sizeof checks / sizeof *checks };

weft_status weft_check_result(const void *problem, const void *data, const void *before, weft_check *check,
                              weft_message *message) {
    return weft_check_sample(problem, data, before, NULL, check, message);
}

weft_status weft_check_sample(const void *problem, const void *data, const void *before, const weft_check_options *given,
                              weft_check *check, weft_message *message) {
    const weft_check_options init = WEFT_CHECK_OPTIONS_INIT;
    weft_check_options options = init;
    const weft_operation_row *row;
    weft_problem resolved;
    weft_data after, old;
    weft_status status = weft_struct_take_options(&options, sizeof options, given, "WEFT_CHECK_OPTIONS_INIT", message);
    status = status ? status : weft_problem_resolve(&resolved, &row, problem, message);
    if (status || (status = weft_problem_check_dtypes(&resolved, row, "the reference", message)) ||
        (status = weft_data_check(&after, row, &resolved, data, message)) ||
        (status = weft_data_check(&old, row, &resolved, before ? before : data, message))) {
        return status;
    }
    if (resolved.operation >= CHECKS || !checks[resolved.operation].run) {
        return weft_fail(message, WEFT_UNSUPPORTED, "there is no reference to hold %s to", row->info.name);
    }
    if (row->lengths) { /* the reference knows those of the problem */
        const weft_lengths *given = (const weft_lengths *)(const void *)((const char *)&after + row->lengths);
        weft_lengths lengths;
        if ((status = weft_attention_take_lengths(&resolved.attention, given, &lengths, message))) {
            return status;
        }
        resolved.attention.lengths = lengths;
        const weft_pairs *more = (const weft_pairs *)(const void *)((const char *)&after + row->pairs);
        weft_pairs pairs;
        if ((status = weft_attention_take_pairs(&resolved.attention, more, &pairs, message))) {
            return status;
        }
        resolved.attention.pairs = pairs;
    }
    if (row->cache) {
        const weft_kv_cache_data *cache = (const weft_kv_cache_data *)(const void *)((const char *)&after + row->cache);
        if ((status = weft_attention_take_cache(&resolved.attention, cache, message))) {
            return status;
        }
    }
    checking all = {
        .problem = &resolved, .data = &after, .before = &old, .options = &options, .lock = PTHREAD_MUTEX_INITIALIZER};
    checks[resolved.operation].run(&all);
    if (all.refused) {
        return weft_fail(message, WEFT_UNSUPPORTED, "there is no reference to hold %s to", all.refused);
    }
    if (all.no_memory) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    const findings *f = &all.found;
    const weft_check found = {.struct_size = sizeof found,
                              .max_error = f->max_error,
                              .bound = f->bound,
                              .checked = f->checked,
                              .unit = checks[resolved.operation].unit,
                              .passed = f->max_error <= f->bound && !f->wrong,
                              .relative = checks[resolved.operation].relative,
                              .total = all.total};
    return weft_struct_give(check, &found, sizeof found, sizeof(size_t), "WEFT_CHECK_INIT", message);
}
