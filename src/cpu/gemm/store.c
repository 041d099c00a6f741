/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the sums of a GEMM to C. */
#include "cpu/gemm/job.h"
#include "cpu/kernel/convert.h"

/* C = alpha sums + beta C, for `count` elements along C's lines, whose sums come in pieces of `width`, `pitch` apart; with
 * beta 0 the old C is not read. `line` holds them. */
static void store_line(const weft_cpu_gemm_job *g, int64_t row, int64_t col, int64_t count, const float *sums,
                       int64_t width, int64_t pitch, float *line) {
    const weft_gemm *p = &g->plan->gemm;
    const size_t at = weft_matrix_index(p->c_major, p->ldc, row, col);
    char *to = (char *)g->data->c + at * weft_dtype_bytes(p->c_dtype);
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    if (beta == 0) {
        g->kernel->rows->store(p->c_dtype, count, sums, width, pitch, alpha, to);
        return;
    }
    weft_cpu_load(p->c_dtype, g->data->c, at, count, line);
    for (int64_t i = 0; i < count; i++) {
        line[i] = alpha * sums[i / width * pitch + i % width] + beta * line[i];
    }
    g->kernel->rows->store(p->c_dtype, count, line, count, 0, 1, to);
}

/* Sums are blocks, column of blocks by column. Row-major C: a single column of blocks is stored at once, more of them row
 * by row. Column-major C: block by block, transposed. */
void weft_cpu_gemm_store(const weft_cpu_gemm_job *g, const weft_visit *visit, const weft_cpu_gemm_cut *cut,
                         const weft_cpu_gemm_buffers *w) {
    const weft_gemm *p = &g->plan->gemm;
    if (weft_gemm_is_fused(p)) {
        weft_cpu_gemm_fuse(g, visit, cut, w);
        return;
    }
    const int64_t height = g->kernel->a.lines, width = g->kernel->b.lines, block = height * width;
    const int64_t row = cut->row * height, row_end = weft_cpu_min(cut->row_end * height, g->a.source.lines);
    const int64_t col = cut->col * width, col_end = weft_cpu_min(cut->col_end * width, p->n);
    const int64_t column = weft_ceil_divide(row_end - row, height) * block; /* floats of a column of blocks */
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const float *sums = w->sums;
    if (p->c_major == WEFT_ROW_MAJOR && p->beta == 0 && col_end - col <= width) {
        g->kernel->rows->store_rows(p->c_dtype, row_end - row, col_end - col, sums, width, (float)p->alpha,
                                    (char *)g->data->c + (int64_t)weft_matrix_index(p->c_major, p->ldc, row, col) * bytes,
                                    p->ldc * bytes);
        return;
    }
    if (p->c_major == WEFT_ROW_MAJOR) {
        for (int64_t i = 0; i < row_end - row; i++) {
            store_line(g, row + i, col, col_end - col, sums + i / height * block + i % height * width, width, column,
                       w->line);
        }
        return;
    }
    for (int64_t j = col; j < col_end; j += width) {
        for (int64_t i = row; i < row_end; i += height, sums += block) {
            const int64_t rows = weft_cpu_min(height, row_end - i);
            g->kernel->rows->transpose(height, width, sums, w->block);
            for (int64_t x = 0; x < weft_cpu_min(width, col_end - j); x++) {
                store_line(g, i, j + x, rows, w->block + x * height, rows, 0, w->line);
            }
        }
    }
}
