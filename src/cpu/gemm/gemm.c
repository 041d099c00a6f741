/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM: operands packed slice of k by slice of k, then blocks over each tile. */
#include "cpu/gemm/gemm.h"

#include <stdlib.h>

#include "base/status.h"
#include "cpu/gemm/columns.h"
#include "cpu/gemm/cost.h"
#include "cpu/gemm/job.h"
#include "cpu/memory.h"
#include "cpu/tile.h"

/* The panels of a slice, packed now if they are not. */
static const char *panels_of(const weft_cpu_gemm_job *g, const weft_cpu_gemm_operand *o, int64_t slice, int64_t first,
                             int64_t end, char *scratch) {
    if (o->packed) {
        return o->packed + (size_t)(slice * o->panels + first) * o->panel;
    }
    weft_cpu_gemm_pack(g, o, slice, first, end, scratch);
    return scratch;
}

/* Packs a few panels of one slice for all threads. Items are A's, then B's. */
enum { TOGETHER = 4 };

static int64_t items_of(const weft_cpu_gemm_job *g, const weft_cpu_gemm_operand *o) {
    return (o->panels + TOGETHER - 1) / TOGETHER * g->slices;
}

static void pack_item(void *context, void *scratch, int64_t item) {
    const weft_cpu_gemm_job *g = context;
    const int64_t of_a = items_of(g, &g->a);
    const weft_cpu_gemm_operand *o = item < of_a ? &g->a : &g->b;
    const int64_t at = item < of_a ? item : item - of_a, slice = at % g->slices, first = at / g->slices * TOGETHER;
    (void)scratch;
    weft_cpu_gemm_pack(g, o, slice, first, weft_cpu_min(first + TOGETHER, o->panels),
                       o->packed + (size_t)(slice * o->panels + first) * o->panel);
}

/* Memory that will be read soon: rows of `bytes`, `step` apart. */
typedef struct ahead {
    const char *row;
    int64_t rows, bytes, step;
    int64_t done; /* bytes of the row */
} ahead;

/* Prefetches the next `lines` cache lines. */
static void prefetch_lines(ahead *f, int64_t lines) {
    enum { LINE = 64 };
    while (lines > 0 && f->rows > 0) {
        const int64_t left = (f->bytes - f->done + LINE - 1) / LINE, count = weft_cpu_min(lines, left);
        for (int64_t i = 0; i < count; i++) {
            __builtin_prefetch(f->row + f->done + i * LINE, 0, 2);
        }
        lines -= count;
        f->done += count * LINE;
        if (f->done >= f->bytes) {
            f->row += f->step;
            f->rows--;
            f->done = 0;
        }
    }
}

/* Where panels first .. end - 1 of a slice will be read from: packed or not. Nothing for 16-bit kernels: they read so fast
 * that prefetches would take their own requests' place. */
static ahead next_panels(const weft_cpu_gemm_job *g, const weft_cpu_gemm_operand *o, int64_t slice, int64_t first,
                         int64_t end) {
    const int64_t tile_k = g->plan->schedule.tile_k, lines = o->layout.lines,
                  element = (int64_t)weft_dtype_bytes(o->source.dtype);
    if (slice < 0 || g->kernel->dtype != WEFT_FP32 || (o->gate && !o->packed)) {
        return (ahead){NULL, 0, 0, 0, 0};
    }
    if (o->packed) {
        return (ahead){panels_of(g, o, slice, first, end, NULL), 1, (end - first) * (int64_t)o->panel, 0, 0};
    }
    const int64_t k = weft_cpu_min(tile_k, o->source.k - slice * tile_k),
                  count = weft_cpu_min(end * lines, o->source.lines) - first * lines;
    const char *from = (const char *)o->source.data +
                       (first * lines * o->source.line_stride + slice * tile_k * o->source.k_stride) * element;
    return o->source.k_stride == 1 ? (ahead){from, count, k * element, o->source.line_stride * element, 0}
                                   : (ahead){from, k, count * element, o->source.k_stride * element, 0};
}

/* Where the block of a panel's first rows can pack a panel of B, its row 0; null: it has to be packed before. */
static const char *packed_on_the_way(const weft_cpu_gemm_job *g, int64_t row, int64_t col, int64_t slice) {
    const weft_cpu_source *s = &g->b.source;
    if (g->b.packed || g->b.gate || !g->kernel->multiply_and_pack || s->line_stride != 1 || s->dtype != g->kernel->dtype ||
        s->lines - col * g->b.layout.lines < g->b.layout.lines ||
        g->a.source.lines - row * g->a.layout.lines < g->a.layout.lines) {
        return NULL;
    }
    return (const char *)s->data +
           (col * g->b.layout.lines + slice * g->plan->schedule.tile_k * s->k_stride) * (int64_t)weft_dtype_bytes(s->dtype);
}

static int64_t lines_of(const ahead *f) {
    return f->rows * ((f->bytes + 63) / 64);
}

/* The job of one product of a walk over several. */
static weft_cpu_gemm_job job_of(const weft_cpu_gemm_job *all, int64_t product, weft_gemm_data *data) {
    weft_cpu_gemm_job one = *all;
    *data = weft_gemm_product(&all->plan->gemm, all->data, product);
    one.a.source.data = data->a;
    one.b.source.data = data->b;
    one.data = data;
    return one;
}

/* A's panels of a tile in a slice. Where A stays in place only two are packed: the first, for B to be packed on the way,
 * and the last, if rows are missing. */
static const char *rows_of(const weft_cpu_gemm_job *g, const weft_cpu_gemm_cut *t, int in_place, int64_t slice,
                           char *scratch) {
    const int64_t last = t->row_end - 1;
    if (!in_place) {
        return panels_of(g, &g->a, slice, t->row, t->row_end, scratch);
    }
    weft_cpu_gemm_pack(g, &g->a, slice, t->row, t->row + 1, scratch);
    if (last > t->row && weft_cpu_gemm_lines_left(&g->a, last) < g->a.layout.lines) {
        weft_cpu_gemm_pack(g, &g->a, slice, last, last + 1, scratch + (size_t)(last - t->row) * g->a.panel);
    }
    return scratch;
}

/* A column of blocks in a slice: `a` are the tile's panels, `b` is the panel of B, to be packed from `unpacked` if that is
 * not null. */
static void multiply_column(const weft_cpu_gemm_job *g, const weft_cpu_gemm_cut *t, int in_place, int64_t slice,
                            int64_t col, const char *a, const char *unpacked, const char *b, ahead *next,
                            const int64_t *lines, float *c, int add) {
    const int64_t tile_k = g->plan->schedule.tile_k, columns = weft_cpu_gemm_lines_left(&g->b, col),
                  element = (int64_t)weft_dtype_bytes(g->kernel->dtype);
    const int64_t k = weft_cpu_pad(weft_cpu_min(tile_k, g->a.source.k - slice * tile_k), g->kernel->depth);
    for (int64_t row = t->row; row < t->row_end; row++, c += g->a.layout.lines * g->b.layout.lines) {
        const int64_t rows = weft_cpu_gemm_lines_left(&g->a, row);
        prefetch_lines(&next[0], lines[0]);
        prefetch_lines(&next[1], lines[1]);
        if (unpacked && row == t->row) {
            g->kernel->multiply_and_pack(k, a, unpacked, g->b.source.k_stride * element, (char *)b, c, add);
        } else if (in_place && rows >= g->a.layout.lines) {
            weft_cpu_gemm_multiply_unpacked(g, row, col, slice, b, c, add, NULL);
        } else {
            weft_cpu_multiply(g->kernel, rows, columns, k, a + (size_t)(row - t->row) * g->a.panel, b, c, add);
        }
    }
}

void weft_cpu_gemm_tile(const weft_cpu_gemm_job *g, void *scratch, const weft_visit *visit) {
    weft_cpu_gemm_cut t;
    if (!weft_cpu_gemm_cut_tile(g, visit, &t)) {
        return;
    }
    const int in_place = !g->a.packed && weft_cpu_leaves_a_in_place(g->kernel, &g->plan->gemm, t.col_end - t.col);
    const int64_t down = t.row_end - t.row, blocks = down * (t.col_end - t.col);
    size_t unused;
    const weft_cpu_gemm_buffers w = weft_cpu_gemm_lay_out(g, scratch, &unused);
    for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
        const char *a = rows_of(g, &t, in_place, step, w.a);
        const int64_t later = i + 1 < visit->steps ? step + visit->direction : -1;
        /* B panel by panel, each prefetching the one beside it; or all of them together. */
        const int one_by_one = packed_on_the_way(g, t.row, t.col, step) != NULL;
        const char *b = one_by_one ? w.b : panels_of(g, &g->b, step, t.col, t.col_end, w.b);
        ahead next[] = {next_panels(g, &g->a, later, t.row, t.row_end),
                        next_panels(g, &g->b, one_by_one ? -1 : later, t.col, t.col_end)};
        const int64_t lines[] = {weft_ceil_divide(lines_of(&next[0]), blocks),
                                 weft_ceil_divide(lines_of(&next[1]), blocks)};
        float *c = w.sums;
        for (int64_t col = t.col; col < t.col_end; col++, c += down * g->a.layout.lines * g->b.layout.lines) {
            const char *unpacked = packed_on_the_way(g, t.row, col, step);
            if (one_by_one && !unpacked) {
                weft_cpu_gemm_pack(g, &g->b, step, col, col + 1, w.b);
            }
            multiply_column(g, &t, in_place, step, col, a, unpacked,
                            one_by_one ? w.b : b + (size_t)(col - t.col) * g->b.panel, next, lines, c, i > 0);
        }
    }
    weft_cpu_gemm_store(g, visit, &t, &w);
}

static void gemm_tile(void *context, void *scratch, const weft_visit *visit) {
    weft_gemm_data data;
    const weft_cpu_gemm_job job = job_of(context, visit->tile.batch, &data);
    weft_cpu_gemm_tile(&job, scratch, visit);
}

static void describe(const weft_cpu_gemm_job *g, weft_cpu_gemm_operand *o, const void *data, int64_t lines, int64_t ld,
                     int lines_apart) {
    const weft_gemm *p = &g->plan->gemm;
    const int64_t tile_k = g->plan->schedule.tile_k;
    o->source = (weft_cpu_source){p->dtype, data, 0, lines_apart ? ld : 1, lines_apart ? 1 : ld, lines, p->k};
    o->panels = o->gate ? 2 * weft_ceil_divide(o->gate, o->layout.lines) : weft_ceil_divide(lines, o->layout.lines);
    o->panel = weft_cpu_panel_bytes(g->kernel, o->layout, tile_k);
}

/* Memory for all slices of both operands. */
static int alloc_packed(weft_cpu_gemm_job *g) {
    const double a = (double)g->a.panel * (double)g->a.panels * (double)g->slices,
                 b = (double)g->b.panel * (double)g->b.panels * (double)g->slices;
    g->a.packed = a < 0x1p62 ? weft_cpu_alloc((size_t)a) : NULL;
    g->b.packed = b < 0x1p62 ? weft_cpu_alloc((size_t)b) : NULL;
    return g->a.packed && g->b.packed;
}

weft_cpu_gemm_job weft_cpu_gemm_job_of(const weft_plan *plan, const weft_gemm_data *data) {
    const weft_gemm *p = &plan->gemm;
    weft_cpu_gemm_job g = {.plan = plan, .data = data, .kernel = weft_cpu_choose(WEFT_CPU_PRODUCTS, p->dtype)};
    g.slices = weft_ceil_divide(p->k, plan->schedule.tile_k);
    g.a = (weft_cpu_gemm_operand){.layout = g.kernel->a, .pack = g.kernel->pack_a};
    g.b = (weft_cpu_gemm_operand){.layout = g.kernel->b, .pack = g.kernel->pack_b, .gate = p->gated ? p->n / 2 : 0};
    describe(&g, &g.a, data->a, p->m, p->lda, p->a_major == WEFT_ROW_MAJOR);
    describe(&g, &g.b, data->b, p->n, p->ldb, p->b_major == WEFT_COL_MAJOR);
    return g;
}

weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, int64_t first, weft_message *message) {
    weft_status status = weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    if ((plan->gemm.extras & WEFT_GEMM_FUNCTION) && !data->function) {
        return weft_fail(message, WEFT_INVALID, "function is null");
    }
    weft_cpu_gemm_job g = weft_cpu_gemm_job_of(plan, data);
    g.first = first;
    weft_cpu_visitor visitor = {.kernel = g.kernel,
                                .visit = gemm_tile,
                                .context = &g,
                                .before = {0, pack_item, &g},
                                .progress = plan->progress,
                                .progress_user = plan->progress_user};
    if (weft_cpu_gemm_by_columns(&g)) {
        status = weft_cpu_gemm_alloc_columns(&g) ? WEFT_OK
                                                 : weft_fail(message, WEFT_NO_MEMORY, "no memory to share out columns");
        visitor.visit = weft_cpu_gemm_columns;
        visitor.steals = 1;
    } else if (!weft_cpu_packs_alone(plan)) {
        visitor.before.count = items_of(&g, &g.a) + items_of(&g, &g.b);
        status = alloc_packed(&g) ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory to pack A and B");
    }
    if (status == WEFT_OK && (plan->gemm.extras & WEFT_GEMM_COLUMN_SUMS) && !weft_cpu_gemm_alloc_shares(&g)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the sums of columns");
    }
    if (status == WEFT_OK) {
        weft_cpu_gemm_lay_out(&g, NULL, &visitor.scratch);
        status = weft_cpu_walk(&plan->walk, &visitor, message);
    }
    if (status == WEFT_OK && g.column_shares) {
        weft_cpu_gemm_add_shares(&g);
    }
    free(g.column_shares);
    weft_cpu_free(g.columns);
    weft_cpu_free(g.a.packed);
    weft_cpu_free(g.b.packed);
    return status;
}
