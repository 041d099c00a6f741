/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM with no more tiles than threads: work stealing inside tiles. A tile's columns of blocks are taken one by one, first
 * by its own worker, then by idle ones. A is read unpacked and each column packs its B, so columns are independent and
 * their sums do not depend on who computes them. */
#include "cpu/gemm/columns.h"

#include "cpu/gemm/cost.h"
#include "cpu/memory.h"
#include "cpu/thread/team.h"

void weft_cpu_gemm_multiply_unpacked(const weft_cpu_gemm_job *g, int64_t panel, int64_t col, int64_t slice, const char *b,
                                     float *c, int add, char *scratch) {
    const int64_t tile_k = g->plan->schedule.tile_k, lines = g->a.layout.lines, depth = g->kernel->depth;
    const int64_t k = weft_cpu_min(tile_k, g->a.source.k - slice * tile_k);
    const int64_t element = (int64_t)weft_dtype_bytes(g->kernel->dtype), columns = weft_cpu_gemm_lines_left(&g->b, col);
    weft_cpu_source s = g->a.source;
    s.lines = weft_cpu_min(lines, s.lines - panel * lines);
    const int64_t whole = s.lines == lines ? k / depth * depth : 0;
    s.index += (size_t)(panel * lines * s.line_stride + slice * tile_k);
    const char *from = (const char *)s.data + (int64_t)s.index * element;
    if (whole > 0 && weft_cpu_is_half(g->kernel, columns)) {
        g->kernel->multiply_half(whole, from, s.line_stride * element, element, b, c, add);
    } else if (whole > 0) {
        g->kernel->multiply_unpacked(whole, from, s.line_stride * element, b, c, add);
    }
    if (whole < k) {
        s.index += (size_t)whole;
        s.k = k - whole;
        g->a.pack(&s, scratch);
        weft_cpu_multiply(g->kernel, s.lines, columns, weft_cpu_pad(s.k, depth), scratch,
                          b + whole * g->b.layout.lines * element, c, add || whole > 0);
    }
}

/* A tile's columns of blocks, those that nobody else has taken. */
void weft_cpu_gemm_columns(void *context, void *scratch, const weft_visit *visit) {
    const weft_cpu_gemm_job *g = context;
    const weft_gemm *p = &g->plan->gemm;
    const int64_t rows = g->a.layout.lines, cols = g->b.layout.lines;
    weft_cpu_gemm_cut t;
    if (!weft_cpu_gemm_cut_tile(g, visit, &t)) {
        return;
    }
    weft_cpu_taken *taken = &g->columns[visit->tile.m * weft_ceil_divide(p->n, g->plan->schedule.tile_n) + visit->tile.n];
    size_t unused;
    const weft_cpu_gemm_buffers w = weft_cpu_gemm_lay_out(g, scratch, &unused);
    int64_t column;
    while ((column = weft_cpu_take_part(taken, t.col_end - t.col)) >= 0) {
        const int64_t col = t.col + column;
        for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
            weft_cpu_gemm_pack(g, &g->b, step, col, col + 1, w.b);
            for (int64_t row = t.row; row < t.row_end; row++) {
                weft_cpu_gemm_multiply_unpacked(g, row, col, step, w.b, w.sums + (row - t.row) * rows * cols, i > 0, w.a);
            }
        }
        const weft_cpu_gemm_cut one = {t.row, t.row_end, col, col + 1};
        weft_cpu_gemm_store(g, visit, &one, &w);
    }
}

/* Tiles of the grid. */
static int64_t tiles_of(const weft_cpu_gemm_job *g) {
    const weft_gemm *p = &g->plan->gemm;
    return weft_ceil_divide(p->m, g->plan->schedule.tile_m) * weft_ceil_divide(p->n, g->plan->schedule.tile_n);
}

int weft_cpu_gemm_by_columns(const weft_cpu_gemm_job *g) {
    const weft_walk *walk = &g->plan->walk;
    return g->plan->products == 1 && walk->dispatch != WEFT_DISPATCH_DYNAMIC && walk->order.count > 1 &&
           tiles_of(g) <= weft_cpu_threads() && weft_cpu_takes_unpacked(g->kernel, &g->plan->gemm);
}

int weft_cpu_gemm_alloc_columns(weft_cpu_gemm_job *g) {
    g->columns = weft_cpu_taken_new(tiles_of(g));
    return g->columns != NULL;
}
