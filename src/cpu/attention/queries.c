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
    a->factor = (float)(fabs(problem->scale) * 1.44269504088896340736);
    a->blocks = weft_ceil_divide(problem->seq, tile_m);
    a->q_panel = weft_cpu_panel_bytes(a->kernel, a->kernel->b, problem->head_dim);
    weft_cpu_kv_lay_out(&a->kv, a->kernel, problem, tile_n);
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
    return b;
}

void weft_cpu_queries_load(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, weft_tile tile, int64_t first,
                           int64_t rows) {
    const weft_attention *p = a->p;
    const int64_t width = a->kernel->b.lines;
    for (int64_t i = 0; i < rows; i += width) {
        const weft_cpu_source source = {
            p->dtype,         a->data->q, weft_row_index(&p->q_strides, tile.batch, first + i, tile.head),
            p->q_strides.seq, 1,          weft_cpu_min(width, rows - i),
            p->head_dim};
        char *panel = b->q + (size_t)(i / width) * a->q_panel;
        a->kernel->pack_b(&source, panel);
        if (p->scale < 0) {
            negate(a->kernel, panel, a->q_panel);
        }
    }
    for (int64_t i = 0; i < weft_cpu_pad(rows, width); i++) {
        b->max[i] = -INFINITY;
        b->sum[i] = 0;
    }
    memset(b->out, 0, (size_t)(weft_cpu_pad(rows, width) * a->kv.dims) * sizeof *b->out);
}

/* Adds weights times values when a hidden value is non-finite: a weight of 0 would not remove it, so each query takes
 * only the keys that it sees. */
static void add_seen_values(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, float *out, weft_tile tile,
                            int64_t begin) {
    const weft_attention *p = a->p;
    const int64_t width = a->kernel->b.lines;
    for (int64_t i = 0; i < width; i++) {
        for (int64_t key = b->seen.begin[i]; key < b->seen.end[i]; key++) {
            const int64_t kv_head = tile.head / (p->heads / p->kv_heads);
            weft_cpu_load(p->dtype, a->data->v, weft_row_index(&p->v_strides, tile.batch, begin + key, kv_head),
                          p->head_dim, b->rows);
            for (int64_t d = 0; d < p->head_dim; d++) {
                out[d * width + i] += b->scores[key * width + i] * b->rows[d];
            }
        }
    }
}

/* One panel of queries against one block of keys, of which the queries see at most the first `keys`; `hidden`: some see
 * fewer, as b->seen says. */
static void visit_panel(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, weft_tile tile, int64_t panel,
                        const weft_cpu_kv_block *block, int64_t begin, int64_t keys, int hidden) {
    const weft_cpu_kernel *kernel = a->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines, rows = weft_cpu_pad(keys, lines);
    float *out = b->out + panel * a->kv.dims * width;
    for (int64_t key = 0; key < rows; key += lines) {
        kernel->multiply(a->kv.depth, block->k + (size_t)(key / lines) * a->kv.k_panel, b->q + (size_t)panel * a->q_panel,
                         b->scores + key * width, 0);
    }
    if (kernel->panel->softmax(rows, b->scores, a->factor, hidden || rows > keys ? &b->seen : NULL, b->max + panel * width,
                               b->sum + panel * width, b->rescale)) {
        kernel->panel->scale(a->kv.dims, out, b->rescale);
    }
    const int64_t depth = weft_cpu_pad(keys, kernel->depth);
    if ((hidden || depth > keys) && block->has_nonfinite) {
        add_seen_values(a, b, out, tile, begin);
        return;
    }
    const void *weights = b->scores;
    if (kernel->narrow) {
        kernel->narrow(depth, b->scores, b->weights);
        weights = b->weights;
    }
    for (int64_t d = 0; d < a->kv.dims; d += lines) {
        weft_cpu_multiply(kernel, a->p->head_dim - d, depth, block->v + (size_t)(d / lines) * a->kv.v_panel, weights,
                          out + d * width, 1);
    }
}

void weft_cpu_queries_visit(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, weft_tile tile, int64_t first,
                            int64_t rows, const weft_cpu_kv_block *block, int64_t begin, int64_t keys) {
    const int64_t width = a->kernel->b.lines;
    for (int64_t panel = 0; panel * width < rows; panel++) {
        int64_t most = 0, least = keys, latest = 0, none = 1;
        for (int64_t j = 0; j < width; j++) {
            const int64_t row = first + weft_cpu_min(panel * width + j, rows - 1); /* lanes past the last repeat it */
            const weft_rows seen = weft_cpu_seen_of_block(weft_seen_keys(a->p, tile.batch, row), begin, keys);
            b->seen.begin[j] = (int32_t)seen.begin;
            b->seen.end[j] = (int32_t)seen.end;
            most = weft_larger(seen.end, most);
            least = weft_smaller(seen.end, least);
            latest = weft_larger(seen.begin, latest);
            none &= seen.begin >= seen.end;
        }
        if (!none) {
            visit_panel(a, b, tile, panel, block, begin, most, least < most || latest > 0);
        }
    }
}

float weft_cpu_lse(float max, float sum) {
    return sum == 0 ? -INFINITY : (float)(((double)max + log2((double)sum)) * 0.69314718055994530942);
}
