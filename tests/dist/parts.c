/* SPDX-License-Identifier: Apache-2.0 */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"
#include "parts.h"
#include "ref/ref.h"

void draw_whole(uint64_t *random, whole *w, int64_t most_rows, int64_t least_ranks, int64_t most_ranks) {
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP32, WEFT_BF16, WEFT_FP16};
    draw_shared_among(random, &w->s, most_rows, least_ranks, most_ranks);
    weft_attention *p = &w->s.p;
    p->dtype = dtypes[random_between(random, 0, 3)];
    p->softcap = random_between(random, 0, 3) ? 0 : (double)random_between(random, 2, 40) / 4;
    p->extras |= random_between(random, 0, 2) ? 0 : WEFT_SINKS;
    if (w->s.ranks.cut != WEFT_CUT_STRIPED && random_between(random, 0, 2) == 0) {
        p->extras |= WEFT_ALIBI;
        p->alibi_stride = random_between(random, 0, 1) * p->heads;
    }
    if (p->operation == WEFT_ATTENTION && p->sequences == 0 && w->s.ranks.head_ranks < 2 &&
        w->s.ranks.exchange != WEFT_EXCHANGE_HEADS && random_between(random, 0, 2) == 0) {
        p->extras |= WEFT_BIAS;
    }
}

void suit_gpu(whole *w, uint64_t *random) {
    weft_attention *p = &w->s.p;
    p->dtype = random_between(random, 0, 1) ? WEFT_BF16 : WEFT_FP16;
    if (p->operation == WEFT_ATTENTION_BACKWARD) {
        p->head_dim_v = 0;
    }
}

static int64_t rows_of_batch(const whole *w, int i) {
    return w->t[i].rows * w->t[i].heads * w->t[i].dim;
}

static void fill(const whole *w, uint64_t *random, int i) {
    for (int64_t n = 0; n < w->s.p.batch * rows_of_batch(w, i); n++) {
        weft_ref_store(w->s.p.dtype, w->t[i].all, (size_t)n, (double)random_between(random, -2000, 2000) / 1000);
    }
}

void make_whole(whole *w, uint64_t *random) {
    const weft_attention *p = &w->s.p;
    const int64_t dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const tensor q = {WEFT_QUERY_ROWS, p->seq, p->heads, p->head_dim, NULL},
                 o = {WEFT_QUERY_ROWS, p->seq, p->heads, dim_v, NULL};
    const tensor k = {WEFT_KEY_ROWS, p->kv_seq, p->kv_heads, p->head_dim, NULL},
                 v = {WEFT_KEY_ROWS, p->kv_seq, p->kv_heads, dim_v, NULL};
    const tensor all[TENSORS] = {q, k, v, o, o, q, k, v};
    w->element = weft_dtype_bytes(p->dtype);
    for (int i = 0; i < TENSORS; i++) {
        w->t[i] = all[i];
        const size_t bytes = (size_t)(p->batch * rows_of_batch(w, i)) * w->element;
        w->t[i].all = malloc(bytes);
        assert_non_null(w->t[i].all);
        memset(w->t[i].all, 0xff, bytes);
        if (i < O || i == GRAD_O) {
            fill(w, random, i);
        }
    }
    w->lse = malloc((size_t)(p->batch * p->heads * p->seq) * sizeof(float));
    assert_non_null(w->lse);
    for (int i = 0; i < 8; i++) {
        w->sinks[i] = (float)random_between(random, -3000, 3000) / 1000;
    }
    for (int i = 0; i < 64; i++) {
        w->alibi[i] = (float)random_between(random, 0, 100) / 400;
    }
    w->bias = NULL;
    if (p->extras & WEFT_BIAS) {
        const int64_t count = p->batch * p->heads * p->seq * p->kv_seq;
        w->bias = malloc((size_t)count * w->element);
        assert_non_null(w->bias);
        for (int64_t n = 0; n < count; n++) {
            weft_ref_store(p->dtype, w->bias, (size_t)n, (double)random_between(random, -1000, 1000) / 1000);
        }
    }
}

void free_whole(whole *w) {
    for (int i = 0; i < TENSORS; i++) {
        free(w->t[i].all);
    }
    free(w->lse);
    free(w->bias);
}

/* ---- a rank ---- */

/* Copies a tensor's rows to or from a rank's, which are (batch, rows, heads, dim) or (batch, heads, rows, dim). */
static void move(const part *m, int i, int put) {
    const tensor *t = &m->w->t[i];
    const weft_dist *dist = m->dist[0];
    const size_t row = (size_t)t->dim * m->w->element, rows = (size_t)weft_dist_rows(dist, m->rank, t->of);
    for (int64_t n = 0; n < m->w->s.p.batch * t->heads; n++) {
        const size_t batch = (size_t)(n / t->heads), head = (size_t)(n % t->heads), heads = (size_t)t->heads;
        char *all = t->all + (batch * (size_t)t->rows * heads + head) * row;
        char *part = m->t[i] + (m->bhsd ? (batch * heads + head) * rows : batch * rows * heads + head) * row;
        const size_t pitch = heads * row, part_pitch = m->bhsd ? row : pitch;
        if (put) {
            weft_dist_put(dist, m->rank, t->of, all, pitch, part, part_pitch, row);
        } else {
            weft_dist_pick(dist, m->rank, t->of, all, pitch, part, part_pitch, row);
        }
    }
}

static void move_lse(const part *m, float *all, int put) {
    const weft_attention *p = &m->w->s.p;
    const size_t rows = (size_t)weft_dist_rows(m->dist[0], m->rank, WEFT_QUERY_ROWS);
    for (int64_t n = 0; n < p->batch * p->heads; n++) {
        float *line = all + n * p->seq, *part = m->lse + (size_t)n * rows;
        if (put) {
            weft_dist_put(m->dist[0], m->rank, 0, line, sizeof(float), part, sizeof(float), sizeof(float));
        } else {
            weft_dist_pick(m->dist[0], m->rank, 0, line, sizeof(float), part, sizeof(float), sizeof(float));
        }
    }
}

part part_of(const whole *w, int32_t rank, int bhsd, int keeps) {
    const weft_dist_traffic none = WEFT_DIST_TRAFFIC_INIT;
    return (part){.w = w, .rank = rank, .bhsd = bhsd, .keeps = keeps, .expected = {none, none}, .counted = {none, none}};
}

size_t part_bytes(const part *m, int32_t rank, int i) {
    const tensor *t = &m->w->t[i];
    const int64_t rows = weft_dist_rows(m->dist[0], rank, t->of);
    return (size_t)(m->w->s.p.batch * rows * t->heads * t->dim) * m->w->element;
}

weft_status run_part(part *m, const weft_transport *transport) {
    const whole *w = m->w;
    weft_attention p = w->s.p;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_dist_run_options run = WEFT_DIST_RUN_INIT;
    weft_ranks ranks = w->s.ranks;
    weft_status status = WEFT_OK;
    schedule.workers = 1;
    ranks.ranks = 0; /* as many as there are */
    p.layout = m->bhsd ? WEFT_BHSD : WEFT_BSHD;
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    const weft_dist_options options = {sizeof options, &ranks, transport, m->gpu ? &gpu : NULL, m->gpu ? NULL : &schedule,
                                       m->seconds};
    for (int i = 0; i < 2 && !status; i++) {
        p.operation = i == 0 ? WEFT_ATTENTION : WEFT_ATTENTION_BACKWARD;
        if (i == 0 || w->s.p.operation == WEFT_ATTENTION_BACKWARD) {
            status = weft_dist_create(&m->dist[i], &p, &options, &m->message);
            status = status ? status : weft_dist_expect(m->dist[i], m->rank, m->keeps, &m->expected[i], &m->message);
        }
    }
    if (status) {
        return status;
    }
    for (int i = 0; i < TENSORS; i++) {
        const size_t bytes = part_bytes(m, m->rank, i);
        m->t[i] = malloc(bytes);
        assert_non_null(m->t[i]);
        memset(m->t[i], 0xff, bytes);
        if (i < O || i == GRAD_O) {
            move(m, i, 0);
        }
    }
    const size_t rows = (size_t)weft_dist_rows(m->dist[0], m->rank, 0);
    m->lse = malloc((size_t)(p.batch * p.heads) * rows * sizeof(float));
    const size_t kept_bytes = weft_dist_kept(m->dist[0]) + 1,
                 lse_bytes = (size_t)(p.batch * p.heads) * rows * sizeof(float);
    const size_t bias_bytes = (size_t)(p.batch * p.heads) * rows * (size_t)p.kv_seq * w->element;
    void *kept = m->keeps ? calloc(1, kept_bytes) : NULL;
    char *bias = w->bias ? malloc(bias_bytes) : NULL;
    for (int64_t n = 0; n < p.batch * p.heads && bias; n++) {
        const size_t line = (size_t)p.kv_seq * w->element;
        weft_dist_pick(m->dist[0], m->rank, 0, w->bias + (size_t)(n * p.seq) * line, line, bias + (size_t)n * rows * line,
                       line, line);
    }
    float sinks[8], alibi[64];
    memcpy(sinks, w->sinks, sizeof sinks);
    memcpy(alibi, w->alibi, sizeof alibi);
    memset(m->lse, 0xff, lse_bytes);
    char *t[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        t[i] = lend(m->gpu, m->t[i], part_bytes(m, m->rank, i));
    }
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    float *lse = lend(m->gpu, m->lse, lse_bytes), *lent_sinks = lend(m->gpu, sinks, sizeof sinks);
    float *lent_alibi = lend(m->gpu, alibi, sizeof alibi);
    float *grad_sinks = lend(m->gpu, m->grad_sinks, sizeof m->grad_sinks);
    char *lent_bias = lend(m->gpu, bias, bias_bytes);
    run.stream = m->stream;
    run.kept = lend(m->gpu, kept, kept_bytes);
    data.q = t[Q];
    data.k = t[K];
    data.v = t[V];
    data.o = t[O];
    data.lse = lse;
    data.sinks = p.extras & WEFT_SINKS ? lent_sinks : NULL;
    data.alibi = p.extras & WEFT_ALIBI ? lent_alibi : NULL;
    data.bias = lent_bias;
    status = weft_dist_run(m->dist[0], &data, &run, &m->message);
    if (!status && m->dist[1]) {
        weft_attention_gradients g = WEFT_ATTENTION_GRADIENTS_INIT;
        g.q = t[Q];
        g.k = t[K];
        g.v = t[V];
        g.o = t[O];
        g.lse = lse;
        g.grad_o = t[GRAD_O];
        g.grad_q = t[GRAD_Q];
        g.grad_k = t[GRAD_K];
        g.grad_v = t[GRAD_V];
        g.sinks = data.sinks;
        g.alibi = data.alibi;
        g.grad_sinks = data.sinks ? grad_sinks : NULL;
        status = weft_dist_run(m->dist[1], &g, &run, &m->message);
    }
    for (int i = 0; i < TENSORS; i++) {
        take_back(m->gpu, t[i], m->t[i], part_bytes(m, m->rank, i));
    }
    take_back(m->gpu, lse, m->lse, lse_bytes);
    take_back(m->gpu, lent_sinks, sinks, sizeof sinks);
    take_back(m->gpu, lent_alibi, alibi, sizeof alibi);
    take_back(m->gpu, grad_sinks, m->grad_sinks, sizeof m->grad_sinks);
    take_back(m->gpu, lent_bias, bias, bias_bytes);
    take_back(m->gpu, run.kept, kept, kept_bytes);
    for (int i = 0; i < 2; i++) {
        weft_dist_counted(m->dist[i], &m->counted[i]);
    }
    free(kept);
    free(bias);
    return status;
}

/* ---- what is right ---- */

static double rounding(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-21 : dtype == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
}

/* The largest distance of two tensors, over the larger of 1 and the largest element. */
static double distance(const whole *w, int i, const char *got, int64_t rows) {
    double far = 0, largest = 1;
    for (int64_t batch = 0; batch < w->s.p.batch; batch++) {
        for (int64_t n = 0; n < rows * w->t[i].heads * w->t[i].dim; n++) {
            const size_t at = (size_t)(batch * rows_of_batch(w, i) + n);
            const double want = weft_ref_load(w->s.p.dtype, w->t[i].all, at);
            const double off = fabs(want - weft_ref_load(w->s.p.dtype, got, at));
            far = isnan(off) ? INFINITY : fmax(far, off);
            largest = fmax(largest, fabs(want));
        }
    }
    return far / largest;
}

void check_parts(whole *w, const part *parts) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    const weft_attention *p = &w->s.p;
    weft_attention forward = *p;
    weft_problem problem;
    const weft_operation_row *row;
    forward.operation = WEFT_ATTENTION;
    assert_int_equal(weft_problem_resolve(&problem, &row, &forward, NULL), WEFT_OK);
    const weft_attention *resolved = &problem.attention;
    char *got[TENSORS] = {NULL};
    float *lse = malloc((size_t)(p->batch * p->heads * p->seq) * sizeof(float));
    const int back = p->operation == WEFT_ATTENTION_BACKWARD;
    for (int i = O; i < TENSORS; i++) {
        const size_t bytes = (size_t)(p->batch * rows_of_batch(w, i)) * w->element;
        char *all = w->t[i].all;
        got[i] = w->t[i].all = malloc(bytes);
        for (int32_t rank = 0; rank < w->s.ranks.ranks && i != GRAD_O; rank++) {
            move(&parts[rank], i, 1);
        }
        w->t[i].all = all;
    }
    for (int32_t rank = 0; rank < w->s.ranks.ranks; rank++) {
        move_lse(&parts[rank], lse, 1);
    }
    data.q = w->t[Q].all;
    data.k = w->t[K].all;
    data.v = w->t[V].all;
    data.o = w->t[O].all;
    data.lse = w->lse;
    data.sinks = p->extras & WEFT_SINKS ? w->sinks : NULL;
    data.alibi = p->extras & WEFT_ALIBI ? w->alibi : NULL;
    data.bias = w->bias;
    const int64_t q_rows = weft_attention_rows(resolved), k_rows = weft_attention_keys(resolved);
    assert_int_equal(weft_ref_attention(resolved, &data, NULL), WEFT_OK);
    const double unit = rounding(p->dtype);
    assert_true(distance(w, O, got[O], q_rows) <= (p->dtype == WEFT_FP32 ? 8 : 1) * unit);
    for (int64_t n = 0; n < p->batch * p->heads * p->seq; n++) {
        if (n % p->seq < q_rows) {
            const int none = w->lse[n] == -INFINITY;
            assert_true(none ? lse[n] == -INFINITY : fabsf(lse[n] - w->lse[n]) <= 1e-4f + 2 * (float)unit);
        }
    }
    if (back) {
        weft_attention_gradients g = WEFT_ATTENTION_GRADIENTS_INIT;
        g.q = data.q;
        g.k = data.k;
        g.v = data.v;
        g.o = data.o;
        g.lse = data.lse;
        g.grad_o = w->t[GRAD_O].all;
        g.grad_q = w->t[GRAD_Q].all;
        g.grad_k = w->t[GRAD_K].all;
        g.grad_v = w->t[GRAD_V].all;
        g.sinks = data.sinks;
        g.alibi = data.alibi;
        g.grad_sinks = data.sinks ? w->grad_sinks : NULL;
        weft_attention b = *resolved;
        b.operation = WEFT_ATTENTION_BACKWARD;
        assert_int_equal(weft_ref_attention_backward(&b, &g, NULL), WEFT_OK);
        assert_true(distance(w, GRAD_Q, got[GRAD_Q], q_rows) <= 20 * unit);
        assert_true(distance(w, GRAD_K, got[GRAD_K], k_rows) <= 20 * unit);
        assert_true(distance(w, GRAD_V, got[GRAD_V], k_rows) <= 20 * unit);
        for (int64_t h = 0; h < p->heads && data.sinks; h++) {
            for (int32_t rank = 0; rank < w->s.ranks.ranks; rank++) {
                const float off = fabsf(parts[rank].grad_sinks[h] - w->grad_sinks[h]);
                assert_true(off <= 60 * (float)unit * fmaxf(1, fabsf(w->grad_sinks[h])));
            }
        }
    }
    for (int i = O; i < TENSORS; i++) {
        free(got[i]);
    }
    free(lse);
}

void check_counts(const part *m) {
    for (int i = 0; i < 2 && m->dist[i]; i++) {
        assert_int_equal(m->counted[i].sent, m->expected[i].sent);
        assert_int_equal(m->counted[i].received, m->expected[i].received);
        assert_int_equal(m->counted[i].messages, m->expected[i].messages);
    }
}

void check_same(const part *a, const part *b) {
    for (int i = O; i < TENSORS; i++) {
        assert_memory_equal(a->t[i], b->t[i], part_bytes(a, a->rank, i));
    }
}

void free_part(part *m) {
    weft_dist_destroy(m->dist[0]);
    weft_dist_destroy(m->dist[1]);
    for (int i = 0; i < TENSORS; i++) {
        free(m->t[i]);
    }
    free(m->lse);
}
