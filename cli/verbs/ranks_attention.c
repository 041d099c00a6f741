/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks: a rank's rows of every tensor, and its runs. */
#include <stdlib.h>

#include "verbs/ranks_run.h"

/* A tensor of all rows, (batch, rows, heads, dim) or (batch, heads, rows, dim), and how a rank's part of it is one. */
typedef struct tensor {
    char *all;
    int64_t rows, heads, line; /* line: bytes of a row of a head */
    int32_t of;
} tensor;

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, TENSORS };

typedef struct attention_parts {
    tensor tensors[TENSORS];
    weft_dist *forward; /* of a backward run */
    char *part[TENSORS];
    const float *sinks, *alibi;
    float *grad_sinks;
} attention_parts;

static const weft_attention *attention_of(const ranks_member *m) {
    return &m->w->q.problem.attention;
}

static int is_backward(const ranks_member *m) {
    return operation_base(attention_of(m)->operation) != 0;
}

static tensor tensor_of(const ranks_member *m, const void *all, int32_t of, int64_t heads, int64_t dim) {
    const weft_attention *p = attention_of(m);
    return (tensor){(char *)(uintptr_t)all, of == WEFT_QUERY_ROWS ? p->seq : p->kv_seq, heads,
                    dim * (int64_t)weft_dtype_bytes(p->dtype), of};
}

/* The tensors of the whole problem. */
static void find_tensors(const ranks_member *m) {
    const weft_attention *p = attention_of(m);
    const int64_t dim_v = p->head_dim_v > 0 ? p->head_dim_v : p->head_dim;
    const weft_attention_gradients *g = m->w->data;
    const weft_attention_data *f = m->w->data;
    const int back = is_backward(m);
    attention_parts *x = m->parts;
    tensor *t = x->tensors;
    t[Q] = tensor_of(m, back ? g->q : f->q, WEFT_QUERY_ROWS, p->heads, p->head_dim);
    t[K] = tensor_of(m, back ? g->k : f->k, WEFT_KEY_ROWS, p->kv_heads, p->head_dim);
    t[V] = tensor_of(m, back ? g->v : f->v, WEFT_KEY_ROWS, p->kv_heads, dim_v);
    t[O] = tensor_of(m, back ? NULL : f->o, WEFT_QUERY_ROWS, p->heads, dim_v);
    t[LSE] = (tensor){back ? NULL : (char *)(void *)f->lse, p->seq, p->heads, sizeof(float), WEFT_QUERY_ROWS};
    x->sinks = back ? g->sinks : f->sinks;
    x->alibi = back ? g->alibi : f->alibi;
    if (back) {
        t[GRAD_O] = tensor_of(m, g->grad_o, WEFT_QUERY_ROWS, p->heads, dim_v);
        t[GRAD_Q] = tensor_of(m, g->grad_q, WEFT_QUERY_ROWS, p->heads, p->head_dim);
        t[GRAD_K] = tensor_of(m, g->grad_k, WEFT_KEY_ROWS, p->kv_heads, p->head_dim);
        t[GRAD_V] = tensor_of(m, g->grad_v, WEFT_KEY_ROWS, p->kv_heads, dim_v);
    }
}

/* Copies a rank's rows of a tensor, head by head. An LSE has heads apart, whatever the layout. */
static void move(const ranks_member *m, int number, int put) {
    const attention_parts *x = m->parts;
    const tensor *t = &x->tensors[number];
    const int apart = number == LSE || attention_of(m)->layout == WEFT_BHSD;
    const int64_t mine = weft_dist_rows(m->dist, m->rank, t->of);
    const int64_t row = apart ? t->line : t->heads * t->line;
    for (int64_t n = 0; n < attention_of(m)->batch * t->heads; n++) {
        const int64_t batch = n / t->heads, head = n % t->heads;
        char *all = t->all + (apart ? n * t->rows : batch * t->rows * t->heads + head) * t->line;
        char *part = x->part[number] + (apart ? n * mine : batch * mine * t->heads + head) * t->line;
        if (put) {
            weft_dist_put(m->dist, m->rank, t->of, all, (size_t)row, part, (size_t)row, (size_t)t->line);
        } else {
            weft_dist_pick(m->dist, m->rank, t->of, all, (size_t)row, part, (size_t)row, (size_t)t->line);
        }
    }
}

static weft_status run_forward(ranks_member *m, weft_dist *dist) {
    const attention_parts *x = m->parts;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = x->part[Q];
    data.k = x->part[K];
    data.v = x->part[V];
    data.o = x->part[O];
    data.lse = (float *)(void *)x->part[LSE];
    data.sinks = x->sinks;
    data.alibi = x->alibi;
    return weft_dist_run(dist, &data, NULL, &m->message);
}

static weft_status run_backward(ranks_member *m) {
    const attention_parts *x = m->parts;
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = x->part[Q];
    data.k = x->part[K];
    data.v = x->part[V];
    data.o = x->part[O];
    data.lse = (float *)(void *)x->part[LSE];
    data.grad_o = x->part[GRAD_O];
    data.grad_q = x->part[GRAD_Q];
    data.grad_k = x->part[GRAD_K];
    data.grad_v = x->part[GRAD_V];
    data.sinks = x->sinks;
    data.alibi = x->alibi;
    data.grad_sinks = data.sinks ? x->grad_sinks : NULL;
    return weft_dist_run(m->dist, &data, NULL, &m->message);
}

static weft_status take(ranks_member *m, const weft_dist_options *options) {
    const weft_attention *p = attention_of(m);
    attention_parts *x = m->parts;
    weft_attention forward = *p;
    weft_status status = WEFT_OK;
    find_tensors(m);
    x->grad_sinks = malloc((size_t)p->heads * sizeof(float));
    int enough = x->grad_sinks != NULL;
    for (int i = 0; i < TENSORS && enough; i++) {
        const tensor *t = &x->tensors[i];
        const int64_t lines = p->batch * t->heads * weft_dist_rows(m->dist, m->rank, t->of);
        x->part[i] = t->line > 0 ? malloc((size_t)(lines * t->line)) : NULL;
        enough = t->line == 0 || x->part[i];
        if (enough && t->all && (i < O || i == GRAD_O)) {
            move(m, i, 0);
        }
    }
    if (!enough || !is_backward(m)) {
        return enough ? WEFT_OK : WEFT_NO_MEMORY;
    }
    forward.operation = WEFT_ATTENTION;
    status = weft_dist_create(&x->forward, &forward, options, &m->message);
    return status ? status : run_forward(m, x->forward);
}

static weft_status keep(ranks_whole *w) {
    (void)w;
    return WEFT_OK;
}

static weft_status renew(ranks_member *m) {
    (void)m;
    return WEFT_OK;
}

static weft_status run(ranks_member *m) {
    return is_backward(m) ? run_backward(m) : run_forward(m, m->dist);
}

static void put(const ranks_member *m) {
    static const int forward[] = {O, LSE}, backward[] = {GRAD_Q, GRAD_K, GRAD_V};
    const attention_parts *x = m->parts;
    const weft_attention_gradients *g = m->w->data;
    const int back = is_backward(m);
    for (int i = 0; i < (back ? 3 : 2); i++) {
        const int number = back ? backward[i] : forward[i];
        if (x->tensors[number].all) {
            move(m, number, 1);
        }
    }
    for (int64_t h = 0; h < attention_of(m)->heads && back && x->sinks && g->grad_sinks; h++) {
        g->grad_sinks[h] = x->grad_sinks[h]; /* all ranks have the same */
    }
}

static void release(ranks_member *m) {
    attention_parts *x = m->parts;
    weft_dist_destroy(x->forward);
    for (int i = 0; i < TENSORS; i++) {
        free(x->part[i]);
    }
    free(x->grad_sinks);
}

const ranks_kind ranks_of_attention = {sizeof(attention_parts), keep, take, renew, run, put, release};
