/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products over ranks: a rank's part of every matrix, and its runs. */
#include <stdlib.h>
#include <string.h>

#include "verbs/ranks_run.h"

/* A matrix of the whole product, packed, and the rows and columns of it that a rank has. */
typedef struct matrix {
    char *all;
    weft_major major;
    int64_t rows, columns; /* of the whole */
    weft_chunk row, column;
    size_t element;
    char *part; /* (batch), packed likewise */
} matrix;

enum { A, B, C, RESIDUAL, MATRICES };

typedef struct gemm_parts {
    matrix matrices[MATRICES];
    char *bias;
    float *column_scale;
} gemm_parts;

static const weft_gemm *product_of(const ranks_member *m) {
    return &m->w->q.problem.gemm;
}

static weft_chunk lines_of(const ranks_member *m, int32_t of) {
    weft_chunk chunk = {0, 0, 1};
    weft_dist_chunk(m->dist, m->rank, of, 0, &chunk);
    return chunk;
}

static void move(const ranks_member *m, const matrix *x, int put) {
    const int by_rows = x->major == WEFT_ROW_MAJOR;
    const weft_chunk outer = by_rows ? x->row : x->column, inner = by_rows ? x->column : x->row;
    const size_t length = (size_t)(by_rows ? x->columns : x->rows) * x->element, bytes = (size_t)inner.count * x->element;
    const size_t lines = (size_t)(by_rows ? x->rows : x->columns);
    for (int64_t n = 0; n < product_of(m)->batch * outer.count; n++) {
        const size_t batch = (size_t)(n / outer.count), line = (size_t)(outer.begin + n % outer.count);
        char *all = x->all + (batch * lines + line) * length + (size_t)inner.begin * x->element;
        char *part = x->part + (size_t)n * bytes;
        memcpy(put ? all : part, put ? part : all, bytes);
    }
}

/* Numbers of each column, of a rank's columns. */
static void *pick_columns(const ranks_member *m, const void *all, size_t element) {
    const weft_gemm *p = product_of(m);
    const weft_chunk mine = ((const gemm_parts *)m->parts)->matrices[C].column;
    const size_t bytes = (size_t)mine.count * element;
    char *part = malloc((size_t)p->batch * bytes + 1);
    for (size_t i = 0; part && all && i < (size_t)p->batch; i++) {
        memcpy(part + i * bytes, (const char *)all + (i * (size_t)p->n + (size_t)mine.begin) * element, bytes);
    }
    return part;
}

static weft_status take(ranks_member *m, const weft_dist_options *options) {
    const weft_gemm *p = product_of(m);
    const weft_gemm_data *data = m->w->data;
    gemm_parts *x = m->parts;
    const weft_chunk all_m = {0, p->m, 1}, all_n = {0, p->n, 1}, all_k = {0, p->k, 1};
    const weft_chunk own = lines_of(m, WEFT_OWN_LINES), rows = lines_of(m, WEFT_PART_ROWS);
    const int by_k = weft_dist_ranks(m->dist).cut == WEFT_CUT_K;
    const size_t element = weft_dtype_bytes(p->dtype), c_element = weft_dtype_bytes(p->c_dtype);
    (void)options;
    matrix *t = x->matrices;
    t[A] = (matrix){(char *)(uintptr_t)data->a, p->a_major,         p->m,    p->k,
                    by_k ? all_m : rows,        by_k ? own : all_k, element, NULL};
    t[B] =
        (matrix){(char *)(uintptr_t)data->b, p->b_major, p->k, p->n, by_k ? own : all_k, by_k ? all_n : own, element, NULL};
    t[C] = (matrix){data->c, p->c_major, p->m, p->n, by_k ? rows : all_m, by_k ? all_n : own, c_element, NULL};
    t[RESIDUAL] = t[C];
    t[RESIDUAL].all = (char *)(uintptr_t)data->residual;
    for (int i = 0; i < MATRICES; i++) {
        t[i].part = malloc((size_t)(p->batch * t[i].row.count * t[i].column.count) * t[i].element + 1);
        if (!t[i].part) {
            return WEFT_NO_MEMORY;
        }
        if (t[i].all && i != C) {
            move(m, &t[i], 0);
        }
    }
    x->bias = pick_columns(m, data->bias, weft_dtype_bytes(p->bias_dtype));
    x->column_scale = pick_columns(m, data->column_scale, sizeof(float));
    return x->bias && x->column_scale ? WEFT_OK : WEFT_NO_MEMORY;
}

/* With beta a run reads C, which the check needs as it was. */
static weft_status keep(ranks_whole *w) {
    const weft_gemm *p = &w->q.problem.gemm;
    const weft_gemm_data *data = w->data;
    const size_t bytes = (size_t)(p->batch * p->m * p->n) * weft_dtype_bytes(p->c_dtype);
    if (p->beta == 0) {
        return WEFT_OK;
    }
    weft_gemm_data *before = malloc(sizeof *before + bytes);
    if (!before) {
        return WEFT_NO_MEMORY;
    }
    *before = *data;
    before->c = before + 1;
    memcpy(before->c, data->c, bytes);
    w->before = before;
    return WEFT_OK;
}

/* With beta a run reads C, which an earlier run has written. */
static weft_status renew(ranks_member *m) {
    const gemm_parts *x = m->parts;
    if (product_of(m)->beta != 0) {
        move(m, &x->matrices[C], 0);
    }
    return WEFT_OK;
}

static weft_status run(ranks_member *m) {
    const gemm_parts *x = m->parts;
    const weft_gemm_data *all = m->w->data;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    data.a = x->matrices[A].part;
    data.b = x->matrices[B].part;
    data.c = x->matrices[C].part;
    data.residual = all->residual ? x->matrices[RESIDUAL].part : NULL;
    data.bias = all->bias ? x->bias : NULL;
    data.column_scale = all->column_scale ? x->column_scale : NULL;
    data.scale = all->scale;
    data.row_scale = all->row_scale;
    return weft_dist_run(m->dist, &data, NULL, &m->message);
}

static void put(const ranks_member *m) {
    const gemm_parts *x = m->parts;
    move(m, &x->matrices[C], 1);
}

static void release(ranks_member *m) {
    gemm_parts *x = m->parts;
    for (int i = 0; i < MATRICES; i++) {
        free(x->matrices[i].part);
    }
    free(x->bias);
    free(x->column_scale);
}

const ranks_kind ranks_of_gemm = {sizeof(gemm_parts), keep, take, renew, run, put, release};
