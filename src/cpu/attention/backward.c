/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward. With S the scores, P the weights, g the gradient of the output and delta = g . o of each query:
 *   P = 2^(factor S - lse2)    dP = g V^T    dS = P (dP - delta)    dV = P^T g    dQ = scale dS K    dK = scale dS^T Q
 * With dropout, P in dV and dP are multiplied by what is kept; a cap multiplies dS by its slope. All of it transposed, as
 * forward: panels of keys x queries. A tile is a stretch of a kv head's keys, all of one sequence. One thread works on it
 * and alone adds to the gradients of its keys. Each stretch of a sequence's keys has its own sums of dQ; they are added up
 * at the end in the order of the keys. So the result depends neither on the number of threads nor on the order of the
 * tiles. */
#include <string.h>

#include "base/status.h"
#include "cpu/attention/attention.h"
#include "cpu/attention/gradients.h"
#include "cpu/attention/kv.h"
#include "cpu/kernel/convert.h"
#include "cpu/memory.h"
#include "cpu/thread/walk.h"
#include "problem/problem.h"
#include "ref/ref.h"

enum { BLOCK = WEFT_CPU_BACKWARD_BLOCK };

/* Memory of one thread: a block of keys against a block of queries. */
typedef struct buffers {
    char *k, *v;            /* keys as rows, k over dims */
    char *k_dims;           /* dims as rows, k over keys */
    float *scores, *grads;  /* (BLOCK, width): one panel */
    float *kept, *bends;    /* (BLOCK, width): what dropout and the cap multiply by; empty without */
    char *narrow;           /* grads as an operand */
    char *weights, *slopes; /* P and dS as right operands: keys as columns, k over queries */
    float *grad_k, *grad_v; /* (dims, BLOCK) in blocks: rows of blocks, in each its columns of blocks */
    weft_cpu_seen seen;     /* (width) */
    float *row;             /* (dims of K or V) */
} buffers;

static buffers lay_out(const weft_cpu_gradients *w, char *scratch, size_t *size) {
    const weft_cpu_kernel *kernel = w->kernel;
    const size_t width = (size_t)kernel->b.lines, panels = (size_t)(BLOCK / kernel->a.lines);
    const size_t across = weft_cpu_panel_bytes(kernel, kernel->b, BLOCK) * (size_t)(BLOCK / kernel->b.lines);
    buffers b;
    *size = 0;
    b.k = weft_cpu_carve(scratch, size, weft_cpu_panel_bytes(kernel, kernel->a, w->q.dim) * panels);
    b.v = weft_cpu_carve(scratch, size, weft_cpu_panel_bytes(kernel, kernel->a, w->g.dim) * panels);
    b.k_dims = weft_cpu_carve(scratch, size,
                              weft_cpu_panel_bytes(kernel, kernel->a, BLOCK) * (size_t)(w->q.dims / kernel->a.lines));
    b.scores = weft_cpu_carve(scratch, size, BLOCK * width * sizeof(float));
    b.grads = weft_cpu_carve(scratch, size, BLOCK * width * sizeof(float));
    b.kept = weft_cpu_carve(scratch, size, w->scores.drops ? BLOCK * width * sizeof(float) : 0);
    b.bends = weft_cpu_carve(scratch, size, w->p->softcap > 0 ? BLOCK * width * sizeof(float) : 0);
    b.narrow = weft_cpu_carve(scratch, size, weft_cpu_panel_bytes(kernel, kernel->b, BLOCK));
    b.weights = weft_cpu_carve(scratch, size, across);
    b.slopes = weft_cpu_carve(scratch, size, across);
    b.grad_k = weft_cpu_carve(scratch, size, (size_t)(w->q.dims * BLOCK) * sizeof(float));
    b.grad_v = weft_cpu_carve(scratch, size, (size_t)(w->g.dims * BLOCK) * sizeof(float));
    b.seen.begin = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.seen.end = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.row = weft_cpu_carve(scratch, size, WEFT_MAX_HEAD_DIM * sizeof(float));
    return b;
}

/* Which of the keys each query of a panel sees; returns whether any sees one. */
static int find_seen(const weft_cpu_gradients *w, const weft_cpu_seen *to, const weft_cpu_place *at) {
    const weft_cpu_queries *q = at->queries;
    int any = 0;
    for (int64_t j = 0; j < w->kernel->b.lines; j++) {
        const weft_rows none = {0, 0};
        const weft_rows seen =
            at->row + j < q->rows.end ? weft_band_seen(&w->scores.band, &q->sequence, at->row + j) : none;
        const weft_rows here = weft_cpu_seen_of_block(seen, at->key, at->keys);
        to->begin[j] = (int32_t)here.begin;
        to->end[j] = (int32_t)here.end;
        any |= here.begin < here.end;
    }
    return any;
}

/* dS of a panel, before a cap's slope, to the gradient of the bias. */
static void store_bias(const weft_cpu_gradients *w, const buffers *b, const weft_cpu_place *at) {
    const weft_cpu_queries *q = at->queries;
    const int64_t width = w->kernel->b.lines;
    for (int64_t j = 0; j < width && at->row + j < q->rows.end; j++) {
        float *to = w->grad_bias + weft_attention_score_at(w->p, q->batch, q->head, at->row + j, at->key);
        for (int64_t key = 0; key < at->keys; key++) {
            to[key] = b->grads[key * width + j];
        }
    }
}

/* S to P, and dP to dS, of a panel. */
static void differentiate(const weft_cpu_gradients *w, const buffers *b, const weft_cpu_place *at, size_t first) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t padded = weft_cpu_pad(at->keys, kernel->a.lines), floats = padded * kernel->b.lines;
    float *bends = w->p->softcap > 0 ? b->bends : NULL;
    if (w->scores.changes) {
        weft_cpu_scores_change(&w->scores, at, b->scores, bends);
    }
    if (at->masked) {
        weft_cpu_scores_hide(&w->scores, at, b->scores);
    }
    if (w->scores.drops) {
        weft_cpu_scores_keep(&w->scores, at, b->kept);
        weft_cpu_multiply_floats(floats, b->grads, b->kept);
    }
    kernel->panel->differentiate(padded, b->scores, b->grads, w->scores.factor, &b->seen, w->lse2 + first,
                                 w->delta + first);
    if (w->scores.drops) {
        weft_cpu_multiply_floats(floats, b->scores, b->kept);
    }
    if (w->grad_bias) {
        store_bias(w, b, at);
    }
    if (bends) {
        weft_cpu_multiply_floats(floats, b->grads, bends);
    }
}

/* P and dS of one panel of queries, as right operands at the panel's place; and its dQ. */
static void visit_panel(const weft_cpu_gradients *w, const buffers *b, size_t item, int64_t panel, const weft_cpu_place *at,
                        float *sums) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines, keys = at->keys, padded = weft_cpu_pad(keys, lines);
    const size_t k_panel = weft_cpu_panel_bytes(kernel, kernel->a, w->q.dim),
                 v_panel = weft_cpu_panel_bytes(kernel, kernel->a, w->g.dim), element = weft_dtype_bytes(kernel->dtype);
    const char *q = w->q.right + item * w->q.right_block + (size_t)panel * w->q.right_panel;
    const char *g = w->g.right + item * w->g.right_block + (size_t)panel * w->g.right_panel;
    for (int64_t key = 0; key < keys; key += lines) {
        kernel->multiply(w->q.depth, b->k + (size_t)(key / lines) * k_panel, q, b->scores + key * width, 0);
        kernel->multiply(w->g.depth, b->v + (size_t)(key / lines) * v_panel, g, b->grads + key * width, 0);
    }
    differentiate(w, b, at, item * BLOCK + (size_t)(panel * width));
    const size_t across = weft_cpu_panel_bytes(kernel, kernel->b, BLOCK),
                 offset = (size_t)(panel * width * width) * element;
    for (int64_t key = 0; key < keys; key += width) {
        weft_cpu_source source = {WEFT_FP32, b->scores, (size_t)(key * width), width, 1, weft_cpu_min(width, padded - key),
                                  width};
        kernel->pack_b(&source, b->weights + (size_t)(key / width) * across + offset);
        source.data = b->grads;
        kernel->pack_b(&source, b->slopes + (size_t)(key / width) * across + offset);
    }
    const void *slopes = b->grads;
    if (kernel->narrow) {
        kernel->narrow(weft_cpu_pad(keys, kernel->depth), b->grads, b->narrow);
        slopes = b->narrow;
    }
    const size_t down = weft_cpu_panel_bytes(kernel, kernel->a, BLOCK);
    for (int64_t d = 0; d < w->q.dims; d += lines) {
        kernel->multiply(weft_cpu_pad(keys, kernel->depth), b->k_dims + (size_t)(d / lines) * down, slopes,
                         sums + (panel * w->q.dims + d) * width, 1);
    }
}

/* to (dims, keys) += queries (dims as rows) times P or dS, from panel `first` of the queries on. */
static void add_to_keys(const weft_cpu_gradients *w, const weft_cpu_packed_queries *from, size_t item, const char *right,
                        int64_t first, int64_t panels, int64_t keys, float *to) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines;
    const size_t element = weft_dtype_bytes(kernel->dtype), across = weft_cpu_panel_bytes(kernel, kernel->b, BLOCK);
    const char *left = from->left + item * from->left_block + (size_t)(first * width * lines) * element;
    for (int64_t key = 0; key < keys; key += width) {
        const char *columns = right + (size_t)(key / width) * across + (size_t)(first * width * width) * element;
        for (int64_t d = 0; d < from->dims; d += lines) {
            kernel->multiply((panels - first) * width, left + (size_t)(d / lines) * from->left_panel, columns,
                             to + d * BLOCK + key * lines, 1);
        }
    }
}

/* One block of queries of one head against the block of keys: from the first panel that sees any. */
static void visit_queries(const weft_cpu_gradients *w, const buffers *b, size_t item, const weft_cpu_queries *q,
                          int64_t begin, int64_t keys, float *sums) {
    const int64_t width = w->kernel->b.lines, panels = weft_ceil_divide(q->rows.end - q->rows.begin, width);
    const weft_blocks *blocks = &w->scores.blocks;
    const int masked = blocks->pairs.block_starts || blocks->pairs.tree;
    int64_t first = panels;
    const weft_rows here = {begin, begin + keys};
    if (blocks->pairs.block_starts && !weft_blocks_name(blocks, q->batch, q->head, q->rows, here)) {
        return;
    }
    for (int64_t panel = 0; panel < panels; panel++) {
        const weft_cpu_place at = {q, q->rows.begin + panel * width, begin, keys, masked, -1, 1};
        if (find_seen(w, &b->seen, &at) || first < panels) {
            first = weft_cpu_min(first, panel);
            visit_panel(w, b, item, panel, &at, sums);
        }
    }
    if (first < panels) {
        add_to_keys(w, &w->g, item, b->weights, first, panels, keys, b->grad_v);
        add_to_keys(w, &w->q, item, b->slopes, first, panels, keys, b->grad_k);
    }
}

/* Sums of a block of keys to their rows; null: zeros. */
static void store_keys(const weft_cpu_gradients *w, const buffers *b, const float *sums, double scale, void *to,
                       const weft_strides *strides, int64_t dim, int64_t batch, int64_t kv_head, weft_rows rows) {
    const int64_t lines = w->kernel->a.lines, width = w->kernel->b.lines;
    for (int64_t key = 0; key < rows.end - rows.begin; key++) {
        for (int64_t d = 0; d < dim; d++) {
            const int64_t at = d / lines * lines * BLOCK + key / width * width * lines + d % lines * width + key % width;
            b->row[d] = sums ? (float)scale * sums[at] : 0;
        }
        weft_cpu_store(weft_attention_out_dtype(w->p), to, weft_row_index(strides, batch, rows.begin + key, kv_head), dim,
                       b->row);
    }
}

static void store_key_gradients(const weft_cpu_gradients *w, const buffers *b, const float *grad_k, const float *grad_v,
                                int64_t batch, int64_t kv_head, weft_rows rows) {
    const weft_attention *p = w->p;
    store_keys(w, b, grad_k, p->scale, w->data->grad_k, &p->k_strides, p->head_dim, batch, kv_head, rows);
    store_keys(w, b, grad_v, 1, w->data->grad_v, &p->v_strides, p->head_dim_v, batch, kv_head, rows);
}

/* Blocks of queries that a tile's keys meet, counted from the first of their sequence. Steps of a packed batch are blocks
 * of all its rows, so there the band says it. */
static weft_rows blocks_of(const weft_cpu_gradients *w, const weft_visit *visit, const weft_sequence *s, weft_rows keys) {
    if (!weft_reach_starts(&w->walk->reach)) {
        const weft_rows steps = {weft_smaller(visit->wrap, visit->edge), weft_larger(visit->wrap, visit->edge) + 1};
        return visit->steps > 0 ? steps : (weft_rows){0, 0};
    }
    const int64_t first = weft_band_search(&w->scores.band, s, keys.begin, 0) - s->rows.begin;
    const int64_t last = weft_band_search(&w->scores.band, s, keys.end - 1, 1) - s->rows.begin;
    return (weft_rows){first / BLOCK, first < last ? (last - 1) / BLOCK + 1 : first / BLOCK};
}

/* The block that a visit begins with: as far from the first as its first step. */
static int64_t first_of(const weft_visit *visit, weft_rows blocks) {
    return visit->direction > 0 ? weft_smaller(blocks.begin + visit->first - visit->wrap, blocks.end - 1) : blocks.end - 1;
}

/* One stretch of a kv head's keys, block by block. Each block meets the visit's blocks of queries, head after head. */
static void visit_tile(void *context, void *scratch, const weft_visit *visit) {
    weft_cpu_gradients *w = context;
    const weft_attention *p = w->p;
    const weft_reach *reach = &w->walk->reach;
    const int64_t batch = visit->tile.batch, kv_head = visit->tile.head, group = p->heads / p->kv_heads;
    const int packed = weft_reach_starts(reach) != NULL; /* otherwise the visit's rows are those of a cluster */
    const weft_rows rows = packed ? visit->cut.rows : weft_reach_rows(reach, visit->tile.block, 1);
    if (kv_head >= p->kv_heads || rows.begin >= rows.end) { /* a cluster may reach beyond the grid */
        return;
    }
    size_t unused;
    const buffers b = lay_out(w, scratch, &unused);
    const int64_t number = packed ? visit->cut.sequence : batch;
    const weft_sequence s = weft_sequence_at(&w->scores.sequences, number);
    const weft_rows keys = {weft_between(rows.begin, s.columns.begin, s.columns.end),
                            weft_between(rows.end, s.columns.begin, s.columns.end)}; /* those that count */
    const weft_rows before = {rows.begin, weft_smaller(rows.end, keys.begin)},
                    after = {weft_larger(rows.begin, keys.end), rows.end};
    const weft_rows blocks = keys.begin < keys.end ? blocks_of(w, visit, &s, keys) : (weft_rows){0, 0};
    const int64_t tile = visit->tile.block - weft_cpu_gradients_first(reach, number);
    const int64_t first_block = weft_cpu_gradients_first(&w->cuts, number);
    const size_t size = (size_t)(w->q.dims * BLOCK);
    float *sums = w->sums + (size_t)tile * w->query_items * size;
    for (int64_t begin = keys.begin; begin < keys.end; begin += BLOCK) {
        const weft_rows here = {begin, weft_cpu_min(begin + BLOCK, keys.end)};
        if (weft_cpu_gradients_pack_keys(w, batch, kv_head, begin, here.end - begin, b.k, b.v, b.k_dims)) {
            __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
        }
        memset(b.grad_k, 0, size * sizeof(float));
        memset(b.grad_v, 0, (size_t)(w->g.dims * BLOCK) * sizeof(float));
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            for (int64_t i = 0, at = first_of(visit, blocks); i < blocks.end - blocks.begin; i++) {
                const int64_t block = first_block + at;
                at = visit->direction > 0 ? (at + 1 < blocks.end ? at + 1 : blocks.begin) : at - 1;
                const size_t item = weft_cpu_gradients_item(w, batch, head, block);
                const weft_cpu_queries q = weft_cpu_gradients_queries(w, batch, head, block);
                visit_queries(w, &b, item, &q, begin, here.end - begin, sums + item * size);
            }
        }
        store_key_gradients(w, &b, b.grad_k, b.grad_v, batch, kv_head, here);
    }
    store_key_gradients(w, &b, NULL, NULL, batch, kv_head, before);
    store_key_gradients(w, &b, NULL, NULL, batch, kv_head, after);
}

/* Whether two positions of a tensor may share an element, so that their gradients add up. */
static int repeats(const weft_strides *s, int64_t batch, int64_t seq, int64_t heads) {
    return (s->batch == 0 && batch > 1) || (s->seq == 0 && seq > 1) || (s->head == 0 && heads > 1);
}

static weft_status run(weft_cpu_gradients *w, const weft_plan *plan, weft_message *message) {
    const double bytes = (double)w->tiles * (double)w->query_items * (double)(w->q.dims * BLOCK) * sizeof(float);
    w->sums = bytes < 0x1p62 ? weft_cpu_alloc((size_t)bytes) : NULL;
    if (!w->sums) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %.0f bytes of sums", bytes);
    }
    memset(w->sums, 0, (size_t)bytes);
    if (w->grad_bias) { /* blocks that no tile visits stay so */
        memset(w->grad_bias, 0, weft_attention_all_scores(w->p) * sizeof(float));
    }
    weft_cpu_visitor visitor = {.kernel = w->kernel,
                                .visit = visit_tile,
                                .context = w,
                                .progress = plan->progress,
                                .progress_user = plan->progress_user};
    lay_out(w, NULL, &visitor.scratch);
    const weft_status status = weft_cpu_walk(&plan->walk, &visitor, message);
    return status ? status : weft_cpu_gradients_store_queries(w, message);
}

weft_status weft_cpu_attention_backward(const weft_plan *plan, const weft_attention_gradients *data,
                                        weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    if (s->tile_m != weft_cpu_min(BLOCK, p->seq) || (s->tile_n % BLOCK != 0 && s->tile_n < p->kv_seq)) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "a tile of %lldx%lld is not %d queries and whole blocks of %d keys, as backward needs it here",
                         (long long)s->tile_m, (long long)s->tile_n, BLOCK, BLOCK);
    }
    if (repeats(&p->q_strides, p->batch, p->seq, p->heads) || repeats(&p->k_strides, p->batch, p->kv_seq, p->kv_heads) ||
        repeats(&p->v_strides, p->batch, p->kv_seq, p->kv_heads)) {
        return weft_ref_attention_backward(p, data, message);
    }
    /* The gradient of a score may overflow fp16 even when the results do not. */
    const weft_dtype working = p->dtype == WEFT_FP16 ? WEFT_FP32 : p->dtype;
    weft_cpu_gradients w = {.p = p,
                            .data = data,
                            .kernel = weft_cpu_choose(WEFT_CPU_ATTENTION, working),
                            .walk = &plan->walk,
                            .tile_n = s->tile_n,
                            .grad_bias = p->extras & WEFT_BIAS ? data->grad_bias : NULL};
    weft_status status = weft_cpu_gradients_prepare(&w, message);
    if (status == WEFT_OK && !w.has_nonfinite) {
        status = run(&w, plan, message);
    }
    const int has_nonfinite = w.has_nonfinite;
    weft_cpu_gradients_free(&w);
    /* A non-finite value must not reach queries that do not see it, nor vanish in a product with 0. */
    return status == WEFT_OK && has_nonfinite ? weft_ref_attention_backward(p, data, message) : status;
}
