/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions on a real GPU against the reference: what the tests that need one share. */
#ifndef WEFT_TESTS_CUDA_ATTENTION_TRIAL_H
#define WEFT_TESTS_CUDA_ATTENTION_TRIAL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../pairs.h"
#include "../plans.h"
#include "../random.h"
#include "cuda/driver/module.h"
#include "cuda/plan/backend.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "ref/ref.h"
#include "ref/scores.h"
#include "trial_checks.h"

enum { WIDEST = 2048 }; /* keys, at most */

/* An attention with its tensors here and on the GPU. */
typedef struct problem {
    weft_attention p;     /* resolved, with its lengths here */
    weft_attention asked; /* as a plan is asked for: its lengths may come with the data, on the GPU */
    weft_attention_extents size;
    weft_attention_data host, device;
    void *bias, *bias_there; /* the memory that the bias is in */
} problem;

static void *make(weft_dtype dtype, size_t count, uint64_t *random) {
    void *data = malloc(count * weft_dtype_bytes(dtype));
    DEMAND(!data);
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(dtype, data, i, random ? 4 * ((double)(random_bits(random) >> 11) * 0x1p-53 - 0.5) : NAN);
    }
    return data;
}

static void *there(const void *from, size_t bytes) {
    uint64_t to = 0;
    DEMAND(driver->memory_new(&to, bytes));
    DEMAND(driver->copy_in(to, from, bytes));
    return (void *)(uintptr_t)to;
}

enum { MOST_SEQUENCES = 8 };

/* Lengths of a batch, or of a packed one, drawn at random; some sequences are empty. */
typedef struct lengths {
    int32_t q_starts[MOST_SEQUENCES + 1], kv_starts[MOST_SEQUENCES + 1];
    int32_t q_used[MOST_SEQUENCES], kv_used[MOST_SEQUENCES], kv_pad[MOST_SEQUENCES];
    drawn_pairs pairs;
} lengths;

static inline void draw_starts(uint64_t *random, int32_t *starts, int64_t count, int64_t rows) {
    const int64_t end = random_between(random, 0, 2) ? rows : random_between(random, 0, rows);
    starts[0] = 0;
    for (int64_t i = 1; i <= count; i++) {
        const int64_t mean = end / count, empty = random_between(random, 0, 5) == 0;
        const int64_t next = starts[i - 1] + (empty ? 0 : random_between(random, 0, 2 * mean));
        starts[i] = (int32_t)(next < end ? next : end);
    }
    starts[count] = (int32_t)end;
}

static inline void draw_lengths(uint64_t *random, weft_attention *p, lengths *room) {
    if (random_between(random, 0, 2) && !(p->extras & WEFT_BIAS)) { /* packed */
        p->seq *= p->batch;
        p->kv_seq *= p->batch;
        p->batch = 1;
        p->sequences = random_between(random, 1, MOST_SEQUENCES);
        const int alike = random_between(random, 0, 1) != 0;
        p->kv_seq = alike ? p->seq : p->kv_seq;
        draw_starts(random, room->q_starts, p->sequences, p->seq);
        draw_starts(random, room->kv_starts, p->sequences, p->kv_seq);
        p->lengths.q_starts = room->q_starts;
        p->lengths.kv_starts = alike ? NULL : room->kv_starts;
    }
    const int64_t count = p->sequences > 0 ? p->sequences : p->batch, which = random_between(random, 0, 7);
    const int32_t *kv_starts = p->lengths.kv_starts ? p->lengths.kv_starts : p->lengths.q_starts;
    for (int64_t i = 0; i < count; i++) {
        const int64_t queries = p->sequences > 0 ? room->q_starts[i + 1] - room->q_starts[i] : p->seq;
        const int64_t keys = p->sequences > 0 ? kv_starts[i + 1] - kv_starts[i] : p->kv_seq;
        room->q_used[i] = (int32_t)random_between(random, 0, queries);
        room->kv_used[i] = (int32_t)random_between(random, 0, keys);
        room->kv_pad[i] = (int32_t)random_between(random, 0, keys / 2);
    }
    p->lengths.q_used = which & 1 ? room->q_used : NULL;
    p->lengths.kv_used = which & 2 || p->sequences == 0 ? room->kv_used : NULL;
    p->lengths.kv_pad = which & 4 ? room->kv_pad : NULL;
}

/* A mask other than full and causal, lengths, or both. */
static inline void draw_band(uint64_t *random, weft_attention *p, lengths *room) {
    const int64_t kind = random_between(random, 0, 5);
    p->offset = 0;
    p->mask = kind == 0   ? (random_between(random, 0, 1) ? WEFT_MASK_WINDOW : WEFT_MASK_WINDOW_BOTTOM_RIGHT)
              : kind == 1 ? (weft_mask)random_between(random, 0, 4)
                          : (weft_mask)random_between(random, 0, 2);
    if (p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        p->left = random_between(random, -1, 300);
        p->right = random_between(random, -1, 200);
    }
    p->chunk = kind == 1 ? random_between(random, 1, 300) : 0;
    if (kind == 2) {
        p->mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
        p->prefix = random_between(random, 1, 300);
    }
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        p->offset = random_between(random, -100, 200);
    }
    if (kind >= 3 || random_between(random, 0, 2) == 0) {
        draw_lengths(random, p, room);
    }
}

/* Block masks and tree masks that are to come with the data. */
static inline void place_pairs(problem *x) {
    const weft_pairs *from = &x->p.pairs;
    weft_pairs *asked = &x->asked.pairs, *to = &x->device.pairs;
    size_t elements[WEFT_PAIR_ARRAYS];
    weft_attention_pair_elements(&x->p, elements);
    if (from->block_starts) {
        to->block_starts = there(from->block_starts, elements[0] * sizeof *from->block_starts);
        to->block_list = there(from->block_list, (elements[1] + 1) * sizeof *from->block_list);
        to->block_bits_at = there(from->block_bits_at, (elements[2] + 1) * sizeof *from->block_bits_at);
        to->block_bits = there(from->block_bits, (elements[3] + 1) * sizeof *from->block_bits);
        asked->block_starts = asked->block_list = asked->block_bits_at = NULL;
        asked->block_bits = NULL;
        x->asked.extras |= WEFT_BLOCKS;
    }
    if (from->tree) {
        to->tree = there(from->tree, elements[4] * sizeof *from->tree);
        asked->tree = NULL;
        x->asked.extras |= WEFT_TREE;
    }
}

/* A bias of any type, rows aligned to 16 bytes, some axes of which are shared. */
static inline void draw_bias(uint64_t *random, weft_attention *p) {
    p->extras |= WEFT_BIAS;
    p->bias_type = (int32_t)random_between(random, WEFT_BIAS_DTYPE, WEFT_BIAS_BOOL);
    const int64_t unit = 16 / (int64_t)weft_dtype_bytes(weft_attention_bias_dtype(p)),
                  shared = random_between(random, 0, 15);
    const int64_t row = ((p->kv_seq + unit - 1) / unit + random_between(random, 0, 2)) * unit;
    p->bias_key_stride = 1;
    p->bias_strides = (weft_strides){.batch = shared & 1 ? 0 : row * p->seq * p->heads,
                                     .head = shared & 2 ? 0 : row * p->seq,
                                     .seq = shared >= 12 ? 0 : row};
}

/* What a bias may be made of: ordinary numbers, hidden keys, the lowest numbers that hide nothing, numbers that rise from
 * key to key, and padding on the left. */
static inline double bias_at(uint64_t *random, int kind, double lowest, int64_t key, int64_t keys) {
    const double any = 4 * ((double)(random_bits(random) >> 11) * 0x1p-53 - 0.5);
    switch (kind) {
    case 1:
        return random_between(random, 0, 3) ? any : -INFINITY;
    case 2:
        return random_between(random, 0, 3) ? any : lowest;
    case 3:
        return any + 0.5 * (double)key;
    case 4:
        return key < keys / 4 ? -INFINITY : key < keys / 3 ? lowest : any;
    default:
        return any;
    }
}

/* The bias, which begins some elements into its memory. Some rows are all hidden, or all as low as can be. */
static inline void place_bias(problem *x, uint64_t *random) {
    const weft_attention *p = &x->p;
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    const size_t bytes = weft_dtype_bytes(dtype), before = (size_t)random_between(random, 0, 3) * 16 / bytes;
    const size_t count = before + weft_attention_bias_extent(p);
    const double lowest = dtype == WEFT_FP16 ? -65504 : dtype == WEFT_BF16 ? -0x1.fep127 : -0x1.fffffep127;
    const int kind = (int)random_between(random, 0, 4);
    char *data = malloc(count * bytes);
    DEMAND(!data);
    memset(data, 0xff, count * bytes); /* between rows nobody looks */
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        const int64_t which = random_between(random, 0, 15);
        for (int64_t key = 0; key < p->kv_seq; key++) {
            const size_t at = before + weft_row_index(&p->bias_strides, batch, row, head) + (size_t)key;
            const double value = which == 0   ? -INFINITY
                                 : which == 1 ? lowest
                                              : bias_at(random, kind, lowest, key, p->kv_seq);
            if (dtype == WEFT_BOOL) {
                data[at] = (char)(value > -INFINITY ? random_between(random, 1, 255) : 0);
            } else {
                weft_ref_store(dtype, data, at, value);
            }
        }
    }
    x->bias = data;
    x->host.bias = data + before * bytes;
    x->bias_there = there(data, count * bytes);
    x->device.bias = (const char *)x->bias_there + before * bytes;
}

/* Arrays of the data that the problem asks for, and lengths that are to come with the data. */
static inline void place_extras(problem *x, int on_device, uint64_t *random) {
    weft_attention *p = &x->p;
    const int64_t count = p->sequences > 0 ? p->sequences : p->batch;
    x->asked = *p;
    if (p->extras & WEFT_SINKS) {
        x->host.sinks = make(WEFT_FP32, (size_t)p->heads, random);
        x->device.sinks = there(x->host.sinks, (size_t)p->heads * 4);
    }
    if (p->extras & WEFT_ALIBI) {
        const size_t n = (size_t)((count - 1) * p->alibi_stride + p->heads);
        x->host.alibi = make(WEFT_FP32, n, random);
        x->device.alibi = there(x->host.alibi, n * 4);
    }
    x->bias = x->bias_there = NULL;
    if (p->extras & WEFT_BIAS) {
        place_bias(x, random);
    }
    if (!on_device) {
        return;
    }
    place_pairs(x);
    const struct {
        const int32_t *from, **asked, **to;
        int32_t bit;
    } arrays[] = {{p->lengths.q_starts, &x->asked.lengths.q_starts, &x->device.lengths.q_starts, WEFT_STARTS},
                  {p->lengths.kv_starts, &x->asked.lengths.kv_starts, &x->device.lengths.kv_starts, WEFT_KV_STARTS},
                  {p->lengths.q_used, &x->asked.lengths.q_used, &x->device.lengths.q_used, WEFT_Q_USED},
                  {p->lengths.kv_used, &x->asked.lengths.kv_used, &x->device.lengths.kv_used, WEFT_KV_USED},
                  {p->lengths.kv_pad, &x->asked.lengths.kv_pad, &x->device.lengths.kv_pad, WEFT_KV_PAD}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (arrays[i].from) {
            *arrays[i].to = there(arrays[i].from, (size_t)(count + 1) * 4 - (i < 2 ? 0 : 4));
            *arrays[i].asked = NULL;
            x->asked.extras |= arrays[i].bit;
        }
    }
}

static problem problem_new(const weft_attention *p, uint64_t *random) {
    problem x;
    weft_message message = {""};
    if (resolve_attention(&x.p, p, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    x.size = attention_sizes(&x.p);
    const size_t bytes = weft_dtype_bytes(p->dtype);
    x.host = (weft_attention_data){.struct_size = sizeof(weft_attention_data),
                                   .operation = WEFT_ATTENTION,
                                   .q = make(p->dtype, x.size.q, random),
                                   .k = make(p->dtype, x.size.k, random),
                                   .v = make(p->dtype, x.size.v, random),
                                   .o = make(p->dtype, x.size.o, NULL),
                                   .lse = make(WEFT_FP32, x.size.lse, NULL)};
    x.device = (weft_attention_data){.struct_size = sizeof(weft_attention_data),
                                     .operation = WEFT_ATTENTION,
                                     .q = there(x.host.q, x.size.q * bytes),
                                     .k = there(x.host.k, x.size.k * bytes),
                                     .v = there(x.host.v, x.size.v * bytes),
                                     .o = there(x.host.o, x.size.o * bytes),
                                     .lse = there(x.host.lse, x.size.lse * sizeof(float))};
    place_extras(&x, random_between(random, 0, 1) != 0, random);
    return x;
}

static void poison(const problem *x) {
    const size_t bytes = x->size.o * weft_dtype_bytes(x->p.dtype);
    memset(x->host.o, 0xff, bytes);
    memset(x->host.lse, 0xff, x->size.lse * sizeof(float));
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.o, x->host.o, bytes));
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.lse, x->host.lse, x->size.lse * sizeof(float)));
}

static void fetch(const problem *x) {
    DEMAND(driver->context_synchronize());
    DEMAND(driver->copy_out(x->host.o, (uint64_t)(uintptr_t)x->device.o, x->size.o * weft_dtype_bytes(x->p.dtype)));
    DEMAND(driver->copy_out(x->host.lse, (uint64_t)(uintptr_t)x->device.lse, x->size.lse * sizeof(float)));
}

static void problem_free(problem *x) {
    const weft_lengths *l = &x->device.lengths;
    const weft_pairs *pairs = &x->device.pairs;
    const void *here[] = {x->host.q, x->host.k, x->host.v, x->host.o, x->host.lse, x->host.sinks, x->host.alibi, x->bias};
    const void *far[] = {x->device.q,       x->device.k,     x->device.v,         x->device.o,       x->device.lse,
                         x->device.sinks,   x->device.alibi, l->q_starts,         l->kv_starts,      l->q_used,
                         l->kv_used,        l->kv_pad,       pairs->block_starts, pairs->block_list, pairs->block_bits_at,
                         pairs->block_bits, pairs->tree,     x->bias_there};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        free((void *)(uintptr_t)here[i]);
    }
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        if (far[i]) {
            DEMAND(driver->memory_free((uint64_t)(uintptr_t)far[i]));
        }
    }
}

/* What a tensor core adds to `sum` for 16 products: all are cut off, toward zero, two bits below the last one of the
 * largest in fp32, and so is the new sum to fp32. (Measured: an H200 gives errors that are the same as by this in all
 * digits.) */
static float tensor_core_sum(float sum, const double products[16]) {
    int largest = -2000, exponent;
    double total = 0;
    for (int i = 0; i <= 16; i++) {
        const double term = i < 16 ? products[i] : (double)sum;
        frexp(term, &exponent);
        largest = term != 0 && exponent > largest ? exponent : largest;
    }
    for (int i = 0; i <= 16; i++) {
        total += ldexp(trunc(ldexp(i < 16 ? products[i] : (double)sum, 26 - largest)), largest - 26);
    }
    frexp(total, &exponent);
    return (float)ldexp(trunc(ldexp(total, 24 - exponent)), exponent - 24);
}

/* The error of a plain kernel whose scores come from tensor cores: exact, but for these sums, for scores in fp32, and for
 * weights and results in 16 bits. Scores of 1e4 have an error that no kernel on such a GPU can avoid, and a plain sum in
 * fp32 does not show. */
static double tensor_core_error(const problem *x) {
    const weft_attention *p = &x->p;
    double error = 0;
#pragma omp parallel for reduction(max : error)
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        double weights[WIDEST], exact[256], plain[256] = {0}, sum = 0, most = -INFINITY;
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        const weft_rows seen = weft_seen_keys(p, batch, row);
        const int64_t kv_head = head / (p->heads / p->kv_heads);
        const size_t q = weft_row_index(&p->q_strides, batch, row, head);
        weft_ref_attention_row(p, &x->host, batch, head, row, weights, exact);
        for (int64_t key = seen.begin; key < seen.end; key++) {
            const size_t k = weft_row_index(&p->k_strides, batch, key, kv_head);
            float score = 0;
            for (int64_t from = 0; from < p->head_dim; from += 16) {
                double products[16] = {0};
                for (int64_t d = from; d < from + 16 && d < p->head_dim; d++) {
                    products[d - from] = weft_ref_load(p->dtype, x->host.q, q + (size_t)d) *
                                         weft_ref_load(p->dtype, x->host.k, k + (size_t)d);
                }
                score = tensor_core_sum(score, products);
            }
            weights[key] = (double)(float)(weft_ref_cap(p, p->scale * (double)score) +
                                           weft_ref_bias(p, x->host.alibi, x->host.bias, batch, head, row, key));
            most = fmax(most, weights[key]);
        }
        if (p->extras & WEFT_SINKS) {
            most = fmax(most, (double)x->host.sinks[head]);
            sum = exp((double)x->host.sinks[head] - most);
        }
        for (int64_t key = seen.begin; key < seen.end; key++) {
            const double weight = exp(weights[key] - most), rounded = weft_ref_round(p->dtype, weight);
            const size_t v = weft_row_index(&p->v_strides, batch, key, kv_head);
            sum += weight;
            for (int64_t d = 0; d < p->head_dim && rounded != 0; d++) {
                plain[d] += rounded * weft_ref_load(p->dtype, x->host.v, v + (size_t)d);
            }
        }
        for (int64_t d = 0; d < p->head_dim && sum != 0; d++) {
            error = fmax(error, fabs(weft_ref_round(p->dtype, plain[d] / sum) - exact[d]));
        }
    }
    return error;
}

/* No worse than twice a plain kernel in the same dtype. */
static void compare(const problem *x, const char *what) {
    const weft_attention *p = &x->p;
    const int64_t rows = p->batch * p->heads * p->seq;
    double error = 0, bound = 0, largest = 0;
    int wrong = 0;
#pragma omp parallel for reduction(max : error, bound, largest) reduction(+ : wrong)
    for (int64_t i = 0; i < rows; i++) {
        double weights[WIDEST], exact[256], naive[256], lse;
        float plain[WIDEST];
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        lse = weft_ref_attention_row(p, &x->host, batch, head, row, weights, exact).lse;
        weft_ref_attention_row_naive(p, &x->host, batch, head, row, plain, naive);
        const double got_lse = (double)x->host.lse[i];
        /* In base 2, where kernels sum, the lowest numbers are below what fp32 has. */
        wrong += !(lse == -INFINITY ? got_lse == lse
                   : lse < -2e38    ? isfinite(got_lse) && got_lse < -2e38
                                    : fabs(got_lse - lse) <= 1e-4 * fmax(1, fabs(lse)));
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double got =
                weft_ref_load(p->dtype, x->host.o, weft_row_index(&p->o_strides, batch, row, head) + (size_t)d);
            wrong += !isfinite(got);
            error = fmax(error, fabs(got - exact[d]));
            bound = fmax(bound, 2 * fabs(naive[d] - exact[d]));
            largest = fmax(largest, fabs(exact[d]));
        }
    }
    bound = fmax(bound, (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8) * largest);
    if (error > bound) { /* it takes long, and matters for large scores only */
        bound = fmax(bound, 2 * tensor_core_error(x));
    }
    CHECK(!wrong && error <= bound, "%s: %d wrong, error %g of %g", what, wrong, error, bound);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the host spends on a call of a family (null: the best), in microseconds, while the GPU is not waited for: the median
 * of some series, since other programs may have the core for a while. */
static inline double enqueue_cost(int32_t dispatch, const char *kernel) {
    enum { CALLS = 200, SERIES = 15 };
    uint64_t random = random_seed(73);
    const weft_attention p = attention(1, 1, 1, 64, 64, 64, WEFT_BF16, WEFT_MASK_NONE);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    struct timespec begin, end;
    double cost[SERIES];
    s.dispatch = dispatch;
    problem x = problem_new(&p, &random);
    weft_plan *plan = plan_new(&p, &s, kernel);
    DEMAND(weft_plan_run(plan, &x.device, NULL));
    for (int i = 0; i < SERIES; i++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int call = 0; call < CALLS; call++) {
            DEMAND(weft_plan_enqueue(plan, &x.device, NULL, NULL));
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        DEMAND(driver->context_synchronize());
        cost[i] = (1e6 * (double)(end.tv_sec - begin.tv_sec) + 1e-3 * (double)(end.tv_nsec - begin.tv_nsec)) / CALLS;
    }
    qsort(cost, SERIES, sizeof *cost, by_value);
    weft_plan_destroy(plan);
    problem_free(&x);
    return cost[SERIES / 2];
}

#endif
