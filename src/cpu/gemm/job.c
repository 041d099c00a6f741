/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of a GEMM: panels packed, a tile cut in panels, a thread's memory. */
#include "cpu/gemm/job.h"

#include "cpu/memory.h"

/* Packs panels first .. end - 1 of a slice. When lines are contiguous, all panels are packed together, a few rows at a
 * time, so that memory is read along its rows. */
void weft_cpu_gemm_pack(const weft_cpu_gemm_job *g, const weft_cpu_gemm_operand *o, int64_t slice, int64_t first,
                        int64_t end, char *to) {
    const int64_t tile_k = g->plan->schedule.tile_k, lines = o->layout.lines,
                  length = weft_cpu_min(tile_k, o->source.k - slice * tile_k);
    enum { ROWS = 32 }; /* every kernel's depth divides it */
    const int64_t run = o->source.k_stride == 1 || end - first == 1 ? length : ROWS;
    for (int64_t k = 0; k < length; k += run) {
        for (int64_t panel = first; panel < end; panel++) {
            weft_cpu_source source = o->source;
            source.index +=
                (size_t)(weft_cpu_gemm_line(o, panel) * source.line_stride + (slice * tile_k + k) * source.k_stride);
            source.lines = weft_cpu_min(lines, weft_cpu_gemm_lines_left(o, panel));
            source.k = weft_cpu_min(run, length - k);
            o->pack(&source,
                    to + (size_t)(panel - first) * o->panel + (size_t)(k * lines) * weft_dtype_bytes(g->kernel->dtype));
        }
    }
}

int weft_cpu_gemm_cut_tile(const weft_cpu_gemm_job *g, const weft_visit *visit, weft_cpu_gemm_cut *c) {
    const weft_schedule *s = &g->plan->schedule;
    const int64_t rows = g->a.layout.lines, cols = g->b.layout.lines;
    c->row = weft_ceil_divide(visit->tile.m * s->tile_m, rows);
    c->col = weft_ceil_divide(visit->tile.n * s->tile_n, cols);
    c->row_end = weft_cpu_min(weft_ceil_divide((visit->tile.m + 1) * s->tile_m, rows), g->a.panels);
    c->col_end = weft_cpu_min(weft_ceil_divide((visit->tile.n + 1) * s->tile_n, cols), g->b.panels);
    if (g->b.gate) { /* whole pairs of panels, of which the last tile takes the rest */
        const int is_last = (visit->tile.n + 1) * s->tile_n >= 2 * g->b.gate;
        c->col = 2 * weft_ceil_divide(visit->tile.n * s->tile_n, 2 * cols);
        c->col_end = is_last ? g->b.panels : 2 * weft_ceil_divide((visit->tile.n + 1) * s->tile_n, 2 * cols);
    }
    return c->row < c->row_end && c->col < c->col_end;
}

weft_cpu_gemm_buffers weft_cpu_gemm_lay_out(const weft_cpu_gemm_job *g, char *scratch, size_t *size) {
    const weft_schedule *s = &g->plan->schedule;
    const size_t block = (size_t)(g->kernel->a.lines * g->kernel->b.lines);
    const size_t down = (size_t)weft_ceil_divide(s->tile_m, g->kernel->a.lines) + 1,
                 across = g->columns  ? 1
                          : g->b.gate ? 2 * (size_t)weft_ceil_divide(s->tile_n, 2 * g->kernel->b.lines) + 2
                                      : (size_t)weft_ceil_divide(s->tile_n, g->kernel->b.lines) + 1;
    const size_t rows = down * (size_t)g->kernel->a.lines, cols = across * (size_t)g->kernel->b.lines;
    const int is_fused = weft_gemm_is_fused(&g->plan->gemm);
    weft_cpu_gemm_buffers b;
    *size = 0;
    b.sums = weft_cpu_carve(scratch, size, down * across * block * sizeof(float));
    b.block = weft_cpu_carve(scratch, size, block * sizeof(float));
    b.line =
        weft_cpu_carve(scratch, size, (across * (size_t)g->kernel->b.lines + (size_t)g->kernel->a.lines) * sizeof(float));
    b.results = weft_cpu_carve(scratch, size, is_fused ? rows * cols * sizeof(float) : 0);
    b.vectors = weft_cpu_carve(scratch, size, is_fused ? (5 * cols + rows) * sizeof(float) : 0);
    b.a = weft_cpu_carve(scratch, size, g->a.packed ? 0 : g->columns ? g->a.panel : down * g->a.panel);
    b.b = weft_cpu_carve(scratch, size, g->b.packed ? 0 : across * g->b.panel);
    return b;
}
