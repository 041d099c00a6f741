/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile whose product has an epilogue: its results in fp32, row by row, then what is stored of them. */
#include <stdlib.h>

#include "cpu/gemm/job.h"
#include "cpu/kernel/convert.h"
#include "problem/epilogue.h"

/* Rows x columns of C, from (row, col) on, and B's columns that they are made of: (col) and, gated, (col + value). */
typedef struct part {
    int64_t row, rows, col, cols, value;
    const weft_cpu_gemm_buffers *w;
} part;

/* Factor and bias of `count` columns of B. */
static void load_vectors(const weft_cpu_gemm_job *g, int64_t col, int64_t count, float *factor, float *bias) {
    const weft_gemm *p = &g->plan->gemm;
    const float all = (float)p->alpha * (p->extras & WEFT_GEMM_SCALE ? g->data->scale[0] : 1);
    for (int64_t i = 0; i < count; i++) {
        factor[i] = all * (p->extras & WEFT_GEMM_COLUMN_SCALE ? g->data->column_scale[col + i] : 1);
        bias[i] = 0;
    }
    if (p->extras & WEFT_GEMM_BIAS) {
        weft_cpu_load(p->bias_dtype, g->data->bias, (size_t)col, count, bias);
    }
}

/* to = sums * factor + bias of one row; sums come in pieces of `width`, `pitch` apart. */
static void scale_row(int64_t count, const float *sums, int64_t width, int64_t pitch, float row_scale, const float *factor,
                      const float *bias, float *to) {
    for (int64_t first = 0; first < count; first += width, sums += pitch) {
        const int64_t some = weft_cpu_min(width, count - first);
        for (int64_t i = 0; i < some; i++) {
            to[first + i] = sums[i] * (row_scale * factor[first + i]) + bias[first + i];
        }
    }
}

/* Results of all rows, before anything is added to them. */
static void compute(const weft_cpu_gemm_job *g, const part *t, int64_t column) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t height = g->kernel->a.lines, width = g->kernel->b.lines, pitch = p->gated ? 2 * column : column;
    float *factor = t->w->vectors, *bias = factor + t->cols, *value_factor = bias + t->cols,
          *value_bias = value_factor + t->cols, *value = value_bias + t->cols;
    load_vectors(g, t->col, t->cols, factor, bias);
    if (p->gated) {
        load_vectors(g, t->col + t->value, t->cols, value_factor, value_bias);
    }
    for (int64_t i = 0; i < t->rows; i++) {
        const float *sums = t->w->sums + i / height * height * width + i % height * width;
        const float row_scale = p->extras & WEFT_GEMM_ROW_SCALE ? g->data->row_scale[t->row + i] : 1;
        float *to = t->w->results + i * t->cols;
        scale_row(t->cols, sums, width, pitch, row_scale, factor, bias, to);
        weft_epilogue_activate(p->activation, (int)t->cols, to);
        if (p->gated) {
            scale_row(t->cols, sums + column, width, pitch, row_scale, value_factor, value_bias, value);
            for (int64_t j = 0; j < t->cols; j++) {
                to[j] *= value[j];
            }
        }
    }
}

/* Adds `factor` times a matrix like C. */
static void add_matrix(const weft_gemm *p, const part *t, const void *data, int64_t ld, float factor) {
    const int by_rows = p->c_major == WEFT_ROW_MAJOR;
    const int64_t lines = by_rows ? t->rows : t->cols, count = by_rows ? t->cols : t->rows;
    for (int64_t line = 0; line < lines; line++) {
        const int64_t row = t->row + (by_rows ? line : 0), col = t->col + (by_rows ? 0 : line);
        float *to = t->w->results + (by_rows ? line * t->cols : line), *from = t->w->vectors;
        weft_cpu_load(p->c_dtype, data, weft_matrix_index(p->c_major, ld, row, col), count, from);
        for (int64_t i = 0; i < count; i++) {
            to[by_rows ? i : i * t->cols] += factor * from[i];
        }
    }
}

/* The tile's share of the sums of columns: each tile of a column has a place of its own for it. */
static void add_columns(const weft_cpu_gemm_job *g, const weft_visit *visit, const part *t) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t rows_of_tiles = weft_ceil_divide(p->m, g->plan->schedule.tile_m);
    double *to = g->column_shares + (visit->tile.batch * rows_of_tiles + visit->tile.m) * weft_gemm_columns(p) + t->col;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = 0; j < t->cols; j++) {
            to[j] += (double)t->w->results[i * t->cols + j];
        }
    }
}

static void store(const weft_cpu_gemm_job *g, const part *t) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    if (p->c_major == WEFT_ROW_MAJOR) {
        g->kernel->rows->store_rows(p->c_dtype, t->rows, t->cols, t->w->results, t->cols, 1,
                                    (char *)g->data->c + (t->row * p->ldc + t->col) * bytes, p->ldc * bytes);
        return;
    }
    for (int64_t j = 0; j < t->cols; j++) {
        float *line = t->w->vectors;
        for (int64_t i = 0; i < t->rows; i++) {
            line[i] = t->w->results[i * t->cols + j];
        }
        g->kernel->rows->store(p->c_dtype, t->rows, line, t->rows, 0, 1,
                               (char *)g->data->c + ((t->col + j) * p->ldc + t->row) * bytes);
    }
}

void weft_cpu_gemm_fuse(const weft_cpu_gemm_job *g, const weft_visit *visit, const weft_cpu_gemm_cut *cut,
                        const weft_cpu_gemm_buffers *w) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t height = g->kernel->a.lines, width = g->kernel->b.lines, together = p->gated ? 2 : 1;
    part t = {.row = cut->row * height, .col = cut->col / together * width, .w = w};
    t.rows = weft_cpu_min(cut->row_end * height, g->a.source.lines) - t.row;
    t.cols = weft_cpu_min(cut->col_end / together * width, weft_gemm_columns(p)) - t.col;
    t.value = p->n / 2;
    compute(g, &t, (cut->row_end - cut->row) * height * width);
    if (p->beta != 0) {
        add_matrix(p, &t, g->data->c, p->ldc, (float)p->beta);
    }
    if (p->extras & WEFT_GEMM_RESIDUAL) {
        add_matrix(p, &t, g->data->residual, p->ld_residual, 1);
    }
    if (p->extras & WEFT_GEMM_FUNCTION) {
        const weft_gemm_part told = {sizeof told, g->first + visit->tile.batch, t.row, t.col, t.rows, t.cols, t.cols,
                                     w->results};
        g->data->function(g->data->user, &told);
    }
    if (p->extras & WEFT_GEMM_COLUMN_SUMS) {
        add_columns(g, visit, &t);
    }
    store(g, &t);
}

int weft_cpu_gemm_alloc_shares(weft_cpu_gemm_job *g) {
    const weft_gemm *p = &g->plan->gemm;
    const double rows_of_tiles = (double)weft_ceil_divide(p->m, g->plan->schedule.tile_m);
    const double count = (double)g->plan->products * rows_of_tiles * (double)weft_gemm_columns(p);
    g->column_shares = count < 0x1p58 ? calloc((size_t)count, sizeof *g->column_shares) : NULL;
    return g->column_shares != NULL;
}

void weft_cpu_gemm_add_shares(const weft_cpu_gemm_job *g) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t rows_of_tiles = weft_ceil_divide(p->m, g->plan->schedule.tile_m), columns = weft_gemm_columns(p);
    for (int64_t i = 0; i < g->plan->products * columns; i++) {
        const double *share = g->column_shares + i / columns * rows_of_tiles * columns + i % columns;
        double sum = 0;
        for (int64_t row = 0; row < rows_of_tiles; row++) {
            sum += share[row * columns];
        }
        g->data->column_sums[i] = (float)sum;
    }
}
