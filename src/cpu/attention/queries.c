/* SPDX-License-Identifier: Apache-2.0 */
/* An online softmax in base 2 on panels of queries, against one block of packed keys after another. */
#include "cpu/attention/queries.h"

#include <math.h>
#include <string.h>

#include "cpu/kernel/convert.h"
#include "cpu/memory.h"
#include "problem/problem.h"

void weft_cpu_attention_job_init(weft_cpu_attention_job *a, const weft_attention *problem, const weft_attention_data *data,
                                 int64_t tile_m, int64_t tile_n) {
    *a = (weft_cpu_attention_job){
        .p = problem, .data = data, .kernel = weft_cpu_choose(WEFT_CPU_ATTENTION, problem->dtype), .tile_m = tile_m};
    a->scores = weft_cpu_scores_of(problem, a->kernel, fabs(problem->scale), data->alibi, data->bias, data->dropout_seed);
    weft_cpu_kv_lay_out(&a->kv, a->kernel, problem, tile_n);
    a->q_panel = weft_cpu_panel_bytes(a->kernel, a->kernel->b, a->kv.depth);
    a->kv.pages = weft_attention_pages(problem, data);
}

/* Flips the sign of every value in `bytes` of packed operand. */
static void negate(const weft_cpu_kernel *kernel, void *packed, size_t bytes) {
    uint32_t *words = packed;
    const uint32_t signs = kernel->dtype == WEFT_FP32 ? 0x80000000u : 0x80008000u;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        words[i] ^= signs;
    }
}

weft_cpu_query_tile weft_cpu_queries_lay_out(const weft_cpu_attention_job *a, void *scratch, size_t *size) {
    const size_t width = (size_t)a->kernel->b.lines, dims = (size_t)a->kv.dims, keys = (size_t)a->kv.keys;
    const size_t panels = (size_t)weft_cpu_pad(a->tile_m, a->kernel->b.lines) / width;
    weft_cpu_query_tile b;
    *size = 0;
    b.q = weft_cpu_carve(scratch, size, panels * a->q_panel);
    b.out = weft_cpu_carve(scratch, size, panels * dims * width * sizeof(float));
    b.max = weft_cpu_carve(scratch, size, panels * width * sizeof(float));
    b.sum = weft_cpu_carve(scratch, size, panels * width * sizeof(float));
    b.scores = weft_cpu_carve(scratch, size, keys * width * sizeof(float));
    b.weights =
        weft_cpu_carve(scratch, size, a->kernel->narrow ? weft_cpu_panel_bytes(a->kernel, a->kernel->b, a->kv.keys) : 0);
    b.rescale = weft_cpu_carve(scratch, size, width * sizeof(float));
    b.seen.begin = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.seen.end = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.rows = weft_cpu_carve(scratch, size, width * dims * sizeof(float));
    b.kept = weft_cpu_carve(scratch, size, a->scores.drops ? keys * width * sizeof(float) : 0);
    b.runs = weft_cpu_carve(scratch, size, panels * width * sizeof *b.runs);
    return b;
}

void weft_cpu_queries_load(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, const weft_cpu_queries *q) {
    const weft_attention *p = a->p;
    const int64_t width = a->kernel->b.lines, rows = q->rows.end - q->rows.begin;
    for (int64_t i = 0; i < rows; i += width) {
        const weft_cpu_source source = {
            p->dtype,         a->data->q, weft_row_index(&p->q_strides, q->batch, q->rows.begin + i, q->head),
            p->q_strides.seq, 1,          weft_cpu_min(width, rows - i),
            p->head_dim};
        char *panel = b->q + (size_t)(i / width) * a->q_panel;
        a->kernel->pack_b(&source, panel);
        if (p->extras & WEFT_QV) {
            const weft_cpu_source qv = {
                p->dtype,          a->data->qv, weft_row_index(&p->qv_strides, q->batch, q->rows.begin + i, q->head),
                p->qv_strides.seq, 1,           source.lines,
                p->head_dim_v};
            a->kernel->pack_b(&qv, panel + weft_cpu_panel_bytes(a->kernel, a->kernel->b, p->head_dim));
        }
        if (p->scale < 0) {
            negate(a->kernel, panel, a->q_panel);
        }
    }
    for (int64_t i = 0; i < weft_cpu_pad(rows, width); i++) {
        b->max[i] = -INFINITY;
        b->sum[i] = 0;
        b->runs[i] = i < rows ? weft_band_seen(&a->scores.band, &q->sequence, q->rows.begin + i) : b->runs[i - 1];
    }
    memset(b->out, 0, (size_t)(weft_cpu_pad(rows, width) * a->kv.dims) * sizeof *b->out);
}

/* Adds weights times values when a value is non-finite that a query does not see, or that is dropped: a weight of 0 would
 * not remove it, so each query takes only what it has. */
static void add_seen_values(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, float *out,
                            const weft_cpu_place *at) {
    const weft_attention *p = a->p;
    const weft_cpu_queries *q = at->queries;
    const int64_t width = a->kernel->b.lines, kv_head = q->head / (p->heads / p->kv_heads);
    for (int64_t i = 0; i < width; i++) {
        for (int64_t key = b->seen.begin[i]; key < b->seen.end[i]; key++) {
            if ((a->scores.drops && b->kept[key * width + i] == 0) || !weft_cpu_scores_show(&a->scores, at, i, key)) {
                continue;
            }
            const weft_page_row row = weft_page_of(&a->kv.pages, q->batch, at->key + key);
            weft_cpu_load(p->dtype, a->data->v, weft_row_index(&p->v_strides, row.page, row.row, kv_head), p->head_dim_v,
                          b->rows);
            for (int64_t d = 0; d < p->head_dim_v; d++) {
                out[d * width + i] += b->scores[key * width + i] * b->rows[d];
            }
        }
    }
}

/* One panel of queries against keys of a block, those from `from` on, which is a multiple of the kernel's rows; `hidden`:
 * some queries do not see all of them, as b->seen says. */
static void visit_panel(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, int64_t panel,
                        const weft_cpu_kv_block *block, int64_t from, const weft_cpu_place *at, int hidden) {
    const weft_cpu_kernel *kernel = a->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines, keys = at->keys, rows = weft_cpu_pad(keys, lines);
    const size_t v_at = (size_t)(from * lines) * weft_dtype_bytes(kernel->dtype);
    float *out = b->out + panel * a->kv.dims * width;
    for (int64_t key = 0; key < rows; key += lines) {
        kernel->multiply(a->kv.depth, block->k + (size_t)((from + key) / lines) * a->kv.k_panel,
                         b->q + (size_t)panel * a->q_panel, b->scores + key * width, 0);
    }
    if (a->scores.changes) {
        weft_cpu_scores_change(&a->scores, at, b->scores, NULL);
    }
    if (at->masked) {
        weft_cpu_scores_hide(&a->scores, at, b->scores);
    }
    if (kernel->panel->softmax(rows, b->scores, a->scores.factor, hidden || rows > keys ? &b->seen : NULL,
                               b->max + panel * width, b->sum + panel * width, b->rescale)) {
        kernel->panel->scale(a->kv.dims, out, b->rescale);
    }
    if (a->scores.drops) {
        weft_cpu_scores_keep(&a->scores, at, b->kept);
        weft_cpu_multiply_floats(rows * width, b->scores, b->kept);
    }
    const int64_t depth = weft_cpu_pad(keys, kernel->depth);
    if ((hidden || depth > keys || a->scores.drops || at->masked) && block->has_nonfinite) {
        add_seen_values(a, b, out, at);
        return;
    }
    const void *weights = b->scores;
    if (kernel->narrow) {
        kernel->narrow(depth, b->scores, b->weights);
        weights = b->weights;
    }
    for (int64_t d = 0; d < a->kv.dims; d += lines) {
        weft_cpu_multiply(kernel, a->p->head_dim_v - d, width, depth, block->v + (size_t)(d / lines) * a->kv.v_panel + v_at,
                          weights, out + d * width, 1);
    }
}

/* Which of the block's keys a panel's queries see, in b->seen, counted from `from`: the first that any sees, rounded down
 * to whole panels of K. Returns the run of keys from there to the last that any sees; *hidden: some do not see all. */
static weft_rows find_seen(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, int64_t panel, int64_t begin,
                           int64_t keys, int *hidden) {
    const int64_t width = a->kernel->b.lines, lines = a->kernel->a.lines;
    const weft_rows *runs = b->runs + panel * width;
    int64_t first = keys, last = 0, latest = 0, least = keys;
    for (int64_t j = 0; j < width; j++) {
        const weft_rows seen = weft_cpu_seen_of_block(runs[j], begin, keys);
        const int none = seen.begin >= seen.end;
        first = none ? first : weft_smaller(seen.begin, first);
        last = none ? last : weft_larger(seen.end, last);
        latest = none ? keys : weft_larger(seen.begin, latest);
        least = none ? 0 : weft_smaller(seen.end, least);
    }
    first = first / lines * lines;
    for (int64_t j = 0; j < width; j++) {
        const weft_rows seen = weft_cpu_seen_of_block(runs[j], begin + first, keys - first);
        b->seen.begin[j] = (int32_t)seen.begin;
        b->seen.end[j] = (int32_t)seen.end;
    }
    *hidden = latest > first || least < last;
    return (weft_rows){first, last};
}

void weft_cpu_queries_visit(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, const weft_cpu_queries *q,
                            const weft_cpu_kv_block *block, int64_t begin, int64_t keys, int full, int32_t bits_at) {
    const int64_t width = a->kernel->b.lines, rows = q->rows.end - q->rows.begin;
    const int masked = bits_at >= 0 || (a->scores.blocks.pairs.tree && !full);
    const int one_by_one = (a->scores.drops || masked) && block->has_nonfinite; /* add_seen_values() */
    const int whole = full && !one_by_one && keys % a->kernel->a.lines == 0;    /* not even what pads the keys is hidden */
    for (int64_t panel = 0; panel * width < rows; panel++) {
        int hidden = 0;
        const weft_rows all = {0, keys}, seen = whole ? all : find_seen(a, b, panel, begin, keys, &hidden);
        if (seen.begin < seen.end) {
            const weft_cpu_place at = {
                q, q->rows.begin + panel * width, begin + seen.begin, seen.end - seen.begin, masked, bits_at, 0};
            visit_panel(a, b, panel, block, seen.begin, &at, hidden);
        }
    }
}

weft_cpu_row_end weft_cpu_end_row(float max, float sum, double sink) {
    const double ln_2 = 0.69314718055994530942;
    if (sink == -INFINITY) {
        const weft_cpu_row_end none = {0, -INFINITY};
        return sum == 0 ? none : (weft_cpu_row_end){1.0f / sum, (float)(((double)max + log2((double)sum)) * ln_2)};
    }
    const double shift = fmax((double)max, sink), scale = exp2((double)max - shift);
    const double total = (double)sum * scale + exp2(sink - shift);
    return (weft_cpu_row_end){sum == 0 ? 0 : (float)(scale / total), (float)((shift + log2(total)) * ln_2)};
}
