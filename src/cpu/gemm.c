/* GEMM: both operands packed once, then blocks over each tile, slice of k by slice of k. */
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "plan/problem.h"
#include "plan/status.h"

/* A packed operand: slices of tile_k, in each slice panels of `lines` lines. */
typedef struct packed {
    weft_cpu_operand operand;
    int64_t lines, panels, group; /* lines in all; panels of a slice; lines of one packing item */
    size_t panel, slice;          /* bytes */
    char *data;
} packed;

typedef struct gemm {
    const weft_plan *plan;
    const weft_gemm_data *data;
    const weft_cpu_kernel *kernel;
    int64_t slices;
    packed a, b;
} gemm;

/* Packs one panel, all slices of it. Items are A's panels, then B's. */
static void pack_panel(void *context, void *room, int64_t item) {
    const gemm *g = context;
    const weft_gemm *p = &g->plan->gemm;
    const int of_b = item >= g->a.panels;
    const packed *to = of_b ? &g->b : &g->a;
    const int64_t panel = of_b ? item - g->a.panels : item, first = panel * to->operand.lines;
    const int64_t tile_k = g->plan->schedule.tile_k;
    /* A's lines are rows and B's are columns. */
    const int lines_apart = of_b ? p->b_major == WEFT_COL_MAJOR : p->a_major == WEFT_ROW_MAJOR;
    const int64_t ld = of_b ? p->ldb : p->lda;
    (void)room;
    weft_cpu_source source = {p->dtype,
                              of_b ? g->data->b : g->data->a,
                              0,
                              lines_apart ? ld : 1,
                              lines_apart ? 1 : ld,
                              weft_cpu_smaller(to->operand.lines, to->lines - first),
                              0};
    for (int64_t slice = 0; slice < g->slices; slice++) {
        const int64_t k = slice * tile_k;
        source.index = (size_t)(first * source.line_stride + k * source.k_stride);
        source.k = weft_cpu_smaller(tile_k, p->k - k);
        char *at = to->data + (size_t)slice * to->slice + (size_t)panel * to->panel;
        (of_b ? g->kernel->pack_b : g->kernel->pack_a)(&source, at);
    }
}

/* C = alpha sums + beta C, for rows and columns of a tile whose sums are blocks, column of blocks by column; with beta 0
 * the old C is not read. `line` has room for a line of the tile, twice. */
static void store_tile(const gemm *g, int64_t row, int64_t row_end, int64_t col, int64_t col_end, const float *sums,
                       float *line) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t height = g->kernel->a.lines, width = g->kernel->b.lines, block = height * width;
    const int64_t column = (row_end - row + height - 1) / height * block; /* floats of a column of blocks */
    const int by_row = p->c_major == WEFT_ROW_MAJOR;
    const int64_t lines = by_row ? row_end - row : col_end - col, count = by_row ? col_end - col : row_end - row;
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    for (int64_t i = 0; i < lines; i++) {
        const size_t at = by_row ? weft_matrix_index(p->c_major, p->ldc, row + i, col)
                                 : weft_matrix_index(p->c_major, p->ldc, row, col + i);
        if (by_row) {
            const float *from = sums + i / height * block + i % height * width;
            for (int64_t j = 0; j < count; j += width, from += column) {
                for (int64_t x = 0; x < width; x++) {
                    line[j + x] = alpha * from[x];
                }
            }
        } else {
            const float *from = sums + i / width * column + i % width;
            for (int64_t j = 0; j < count; j++) {
                line[j] = alpha * from[j * width];
            }
        }
        if (beta != 0) {
            float *old = line + count + width;
            weft_cpu_load(p->c_dtype, g->data->c, at, count, old);
            for (int64_t j = 0; j < count; j++) {
                line[j] += beta * old[j];
            }
        }
        weft_cpu_store(p->c_dtype, g->data->c, at, count, line);
    }
}

/* Tiles are cut in panels: a tile's edges fall where they fall, so that it takes the panels that begin inside it. */
static void gemm_tile(void *context, void *room, const weft_visit *visit) {
    const gemm *g = context;
    const weft_gemm *p = &g->plan->gemm;
    const weft_schedule *s = &g->plan->schedule;
    const int64_t rows = g->a.operand.lines, cols = g->b.operand.lines, block = rows * cols;
    const int64_t row = (visit->tile.m * s->tile_m + rows - 1) / rows, col = (visit->tile.n * s->tile_n + cols - 1) / cols;
    const int64_t row_end = weft_cpu_smaller(((visit->tile.m + 1) * s->tile_m + rows - 1) / rows, g->a.panels);
    const int64_t col_end = weft_cpu_smaller(((visit->tile.n + 1) * s->tile_n + cols - 1) / cols, g->b.panels);
    if (row >= row_end || col >= col_end) {
        return; /* no panel begins in this tile */
    }
    float *sums = room;
    for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
        const int64_t k = weft_cpu_pad(weft_cpu_smaller(s->tile_k, p->k - step * s->tile_k), g->kernel->depth);
        const char *a = g->a.data + (size_t)step * g->a.slice, *b = g->b.data + (size_t)step * g->b.slice;
        float *c = sums;
        for (int64_t n = col; n < col_end; n++) {
            for (int64_t m = row; m < row_end; m++, c += block) {
                g->kernel->multiply(k, a + (size_t)m * g->a.panel, b + (size_t)n * g->b.panel, c, i > 0);
            }
        }
    }
    store_tile(g, row * rows, weft_cpu_smaller(row_end * rows, p->m), col * cols, weft_cpu_smaller(col_end * cols, p->n),
               sums, sums + (row_end - row) * (col_end - col) * block);
}

static int lay_out(const gemm *g, packed *to, weft_cpu_operand operand, int64_t lines, int64_t tile_k) {
    to->operand = operand;
    to->lines = lines;
    to->panels = (lines + operand.lines - 1) / operand.lines;
    to->panel = weft_cpu_panel_bytes(g->kernel, operand, tile_k);
    to->slice = to->panel * (size_t)to->panels;
    to->data = (double)to->slice * (double)g->slices < 0x1p62 ? weft_cpu_alloc(to->slice * (size_t)g->slices) : NULL;
    return to->data != NULL;
}

weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    weft_status status = weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    gemm g = {.plan = plan, .data = data, .kernel = weft_cpu_choose(p->dtype)};
    g.slices = (p->k + s->tile_k - 1) / s->tile_k;
    const weft_cpu_operand a = g.kernel->a, b = g.kernel->b;
    if (!lay_out(&g, &g.a, a, p->m, s->tile_k) || !lay_out(&g, &g.b, b, p->n, s->tile_k)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory to pack A and B");
    } else if ((status = weft_cpu_each(g.a.panels + g.b.panels, g.kernel, 0, pack_panel, &g, message)) == WEFT_OK) {
        const int64_t blocks = ((s->tile_m + a.lines - 1) / a.lines + 1) * ((s->tile_n + b.lines - 1) / b.lines + 1);
        status =
            weft_cpu_walk(plan, g.kernel, (size_t)(blocks * a.lines * b.lines) * sizeof(float), gemm_tile, &g, message);
    }
    weft_cpu_free(g.a.data);
    weft_cpu_free(g.b.data);
    return status;
}
