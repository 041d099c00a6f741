/* Attention backward. With S the scores, P the weights, g the gradient of the output and delta = g . o of each query:
 *   P = 2^(factor S - lse2)    dP = g V^T    dS = P (dP - delta)    dV = P^T g    dQ = scale dS K    dK = scale dS^T Q
 * All of it transposed, as forward: panels of keys x queries. A tile is a stretch of a kv head's keys. One thread works on
 * it and alone adds to the gradients of its keys. Each stretch of keys has its own sums of dQ; they are added up at the end
 * in the order of the keys. So the result depends neither on the number of threads nor on the order of the tiles. */
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
    char *narrow;           /* grads as an operand */
    char *weights, *slopes; /* P and dS as right operands: keys as columns, k over queries */
    float *grad_k, *grad_v; /* (dims, BLOCK) in blocks: rows of blocks, in each its columns of blocks */
    weft_cpu_seen seen;     /* (width) */
    float *row;             /* (dims) */
} buffers;

static buffers lay_out(const weft_cpu_gradients *w, char *scratch, size_t *size) {
    const weft_cpu_kernel *kernel = w->kernel;
    const size_t width = (size_t)kernel->b.lines, dims = (size_t)w->dims;
    const size_t keys = weft_cpu_panel_bytes(kernel, kernel->a, w->p->head_dim) * (size_t)(BLOCK / kernel->a.lines);
    const size_t across = weft_cpu_panel_bytes(kernel, kernel->b, BLOCK) * (size_t)(BLOCK / kernel->b.lines);
    buffers b;
    *size = 0;
    b.k = weft_cpu_carve(scratch, size, keys);
    b.v = weft_cpu_carve(scratch, size, keys);
    b.k_dims =
        weft_cpu_carve(scratch, size, weft_cpu_panel_bytes(kernel, kernel->a, BLOCK) * (size_t)(w->dims / kernel->a.lines));
    b.scores = weft_cpu_carve(scratch, size, BLOCK * width * sizeof(float));
    b.grads = weft_cpu_carve(scratch, size, BLOCK * width * sizeof(float));
    b.narrow = weft_cpu_carve(scratch, size, weft_cpu_panel_bytes(kernel, kernel->b, BLOCK));
    b.weights = weft_cpu_carve(scratch, size, across);
    b.slopes = weft_cpu_carve(scratch, size, across);
    b.grad_k = weft_cpu_carve(scratch, size, dims * BLOCK * sizeof(float));
    b.grad_v = weft_cpu_carve(scratch, size, dims * BLOCK * sizeof(float));
    b.seen.begin = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.seen.end = weft_cpu_carve(scratch, size, width * sizeof(int32_t));
    b.row = weft_cpu_carve(scratch, size, dims * sizeof(float));
    return b;
}

/* Packs a block of keys and values; returns whether any is non-finite. */
static int pack_keys(const weft_cpu_gradients *w, const buffers *b, int64_t batch, int64_t kv_head, int64_t begin,
                     int64_t keys) {
    const weft_attention *p = w->p;
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines;
    const size_t panel = weft_cpu_panel_bytes(kernel, kernel->a, p->head_dim), all = panel * (size_t)(BLOCK / lines);
    const size_t k = weft_row_index(&p->k_strides, batch, begin, kv_head);
    const size_t v = weft_row_index(&p->v_strides, batch, begin, kv_head);
    memset(b->k, 0, all);
    memset(b->v, 0, all);
    for (int64_t key = 0; key < keys; key += lines) {
        weft_cpu_source source = {p->dtype,         w->data->k, k + (size_t)(key * p->k_strides.seq),
                                  p->k_strides.seq, 1,          weft_cpu_min(lines, keys - key),
                                  p->head_dim};
        kernel->pack_a(&source, b->k + (size_t)(key / lines) * panel);
        source.data = w->data->v;
        source.index = v + (size_t)(key * p->v_strides.seq);
        source.line_stride = p->v_strides.seq;
        kernel->pack_a(&source, b->v + (size_t)(key / lines) * panel);
    }
    const size_t down = weft_cpu_panel_bytes(kernel, kernel->a, BLOCK);
    memset(b->k_dims, 0, down * (size_t)(w->dims / lines));
    for (int64_t d = 0; d < p->head_dim; d += lines) {
        const weft_cpu_source source = {
            p->dtype, w->data->k, k + (size_t)d, 1, p->k_strides.seq, weft_cpu_min(lines, p->head_dim - d), keys};
        kernel->pack_a(&source, b->k_dims + (size_t)(d / lines) * down);
    }
    return weft_cpu_has_nonfinite(kernel, b->k, all) || weft_cpu_has_nonfinite(kernel, b->v, all);
}

/* Which of the keys from `begin` each query of a panel sees; returns whether any sees one. */
static int find_seen(const weft_cpu_gradients *w, const weft_cpu_seen *to, int64_t first, int64_t begin, int64_t keys) {
    int any = 0;
    for (int64_t j = 0; j < w->kernel->b.lines; j++) {
        const weft_rows none = {0, 0}, seen = first + j < w->p->seq ? weft_seen_keys(w->p, 0, first + j) : none;
        const weft_rows here = weft_cpu_seen_of_block(seen, begin, keys);
        to->begin[j] = (int32_t)here.begin;
        to->end[j] = (int32_t)here.end;
        any |= here.begin < here.end;
    }
    return any;
}

/* P and dS of one panel of queries, as right operands at the panel's place; and its dQ. */
static void visit_panel(const weft_cpu_gradients *w, const buffers *b, size_t item, int64_t panel, int64_t keys,
                        float *sums) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines, padded = weft_cpu_pad(keys, lines);
    const size_t rows = weft_cpu_panel_bytes(kernel, kernel->a, w->p->head_dim), element = weft_dtype_bytes(kernel->dtype);
    const char *q = w->q.right + item * w->q.right_block + (size_t)panel * w->q.right_panel;
    const char *g = w->g.right + item * w->g.right_block + (size_t)panel * w->g.right_panel;
    for (int64_t key = 0; key < keys; key += lines) {
        kernel->multiply(w->depth, b->k + (size_t)(key / lines) * rows, q, b->scores + key * width, 0);
        kernel->multiply(w->depth, b->v + (size_t)(key / lines) * rows, g, b->grads + key * width, 0);
    }
    const size_t at = item * BLOCK + (size_t)(panel * width);
    kernel->panel->differentiate(padded, b->scores, b->grads, (float)(w->p->scale * 1.44269504088896340736), &b->seen,
                                 w->lse2 + at, w->delta + at);
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
    for (int64_t d = 0; d < w->dims; d += lines) {
        kernel->multiply(weft_cpu_pad(keys, kernel->depth), b->k_dims + (size_t)(d / lines) * down, slopes,
                         sums + (panel * w->dims + d) * width, 1);
    }
}

/* One block of queries of one head against the block of keys: from the first panel that sees any. */
static void visit_queries(const weft_cpu_gradients *w, const buffers *b, size_t item, int64_t block, int64_t begin,
                          int64_t keys, float *sums) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines, width = kernel->b.lines;
    const int64_t panels = (weft_cpu_min(BLOCK, w->p->seq - block * BLOCK) + width - 1) / width;
    int64_t first = panels;
    for (int64_t panel = 0; panel < panels; panel++) {
        if (find_seen(w, &b->seen, block * BLOCK + panel * width, begin, keys) || first < panels) {
            first = weft_cpu_min(first, panel);
            visit_panel(w, b, item, panel, keys, sums);
        }
    }
    if (first == panels) {
        return;
    }
    const int64_t skipped = first * width, depth = panels * width - skipped;
    const size_t element = weft_dtype_bytes(kernel->dtype), across = weft_cpu_panel_bytes(kernel, kernel->b, BLOCK);
    const size_t left_at = (size_t)(skipped * lines) * element, right_at = (size_t)(skipped * width) * element;
    for (int64_t key = 0; key < keys; key += width) {
        const char *weights = b->weights + (size_t)(key / width) * across + right_at;
        const char *slopes = b->slopes + (size_t)(key / width) * across + right_at;
        for (int64_t d = 0; d < w->dims; d += lines) {
            const size_t panel = (size_t)(d / lines);
            const int64_t to = d * BLOCK + key * lines;
            kernel->multiply(depth, w->g.left + item * w->g.left_block + panel * w->g.left_panel + left_at, weights,
                             b->grad_v + to, 1);
            kernel->multiply(depth, w->q.left + item * w->q.left_block + panel * w->q.left_panel + left_at, slopes,
                             b->grad_k + to, 1);
        }
    }
}

static void store_keys(const weft_cpu_gradients *w, const buffers *b, const float *sums, double scale, void *to,
                       const weft_strides *strides, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys) {
    const int64_t lines = w->kernel->a.lines, width = w->kernel->b.lines;
    for (int64_t key = 0; key < keys; key++) {
        for (int64_t d = 0; d < w->p->head_dim; d++) {
            const int64_t at = d / lines * lines * BLOCK + key / width * width * lines + d % lines * width + key % width;
            b->row[d] = (float)scale * sums[at];
        }
        weft_cpu_store(w->p->dtype, to, weft_row_index(strides, batch, begin + key, kv_head), w->p->head_dim, b->row);
    }
}

/* One stretch of a kv head's keys, block by block. Each block meets the visit's blocks of queries, head after head. */
static void visit_tile(void *context, void *scratch, const weft_visit *visit) {
    weft_cpu_gradients *w = context;
    const weft_attention *p = w->p;
    const int64_t batch = visit->tile.batch, kv_head = visit->tile.head, group = p->heads / p->kv_heads;
    const int64_t first = visit->tile.block * w->tile_n;
    if (kv_head >= p->kv_heads || first >= p->kv_seq) { /* a cluster may reach beyond the grid */
        return;
    }
    size_t unused;
    const buffers b = lay_out(w, scratch, &unused);
    float *sums = w->sums + (size_t)visit->tile.block * w->query_items * (size_t)(w->dims * BLOCK);
    for (int64_t begin = first; begin < weft_cpu_min(first + w->tile_n, p->kv_seq); begin += BLOCK) {
        const int64_t keys = weft_cpu_min(BLOCK, p->kv_seq - begin);
        if (pack_keys(w, &b, batch, kv_head, begin, keys)) {
            __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
        }
        memset(b.grad_k, 0, (size_t)(w->dims * BLOCK) * sizeof(float));
        memset(b.grad_v, 0, (size_t)(w->dims * BLOCK) * sizeof(float));
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
                const size_t item = weft_cpu_gradients_item(w, batch, head, step);
                visit_queries(w, &b, item, step, begin, keys, sums + item * (size_t)(w->dims * BLOCK));
            }
        }
        store_keys(w, &b, b.grad_k, p->scale, w->data->grad_k, &p->k_strides, batch, kv_head, begin, keys);
        store_keys(w, &b, b.grad_v, 1, w->data->grad_v, &p->v_strides, batch, kv_head, begin, keys);
    }
}

/* Adds up the gradients of one block of queries, in the order of the keys. */
static void store_queries(void *context, void *scratch, int64_t item) {
    const weft_cpu_gradients *w = context;
    const weft_attention *p = w->p;
    const int64_t block = item % w->blocks, head = item / w->blocks % p->heads, batch = item / w->blocks / p->heads;
    const int64_t width = w->kernel->b.lines;
    const size_t size = (size_t)(w->dims * BLOCK), all = w->query_items * size;
    float *row = scratch;
    for (int64_t i = 0; i < weft_cpu_min(BLOCK, p->seq - block * BLOCK); i++) {
        for (int64_t d = 0; d < p->head_dim; d++) {
            const size_t at = (size_t)item * size + (size_t)((i / width * w->dims + d) * width + i % width);
            float sum = 0;
            for (int64_t tile = 0; tile < w->tiles; tile++) {
                sum += w->sums[(size_t)tile * all + at];
            }
            row[d] = (float)p->scale * sum;
        }
        weft_cpu_store(p->dtype, w->data->grad_q, weft_row_index(&p->q_strides, batch, block * BLOCK + i, head),
                       p->head_dim, row);
    }
}

/* Whether two positions of a tensor may share an element, so that their gradients add up. */
static int repeats(const weft_strides *s, int64_t batch, int64_t seq, int64_t heads) {
    return (s->batch == 0 && batch > 1) || (s->seq == 0 && seq > 1) || (s->head == 0 && heads > 1);
}

static weft_status run(weft_cpu_gradients *w, const weft_plan *plan, weft_message *message) {
    const double bytes = (double)w->tiles * (double)w->query_items * (double)(w->dims * BLOCK) * sizeof(float);
    w->sums = bytes < 0x1p62 ? weft_cpu_alloc((size_t)bytes) : NULL;
    if (!w->sums) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %.0f bytes of sums", bytes);
    }
    memset(w->sums, 0, (size_t)bytes);
    weft_cpu_visitor visitor = {.kernel = w->kernel,
                                .visit = visit_tile,
                                .context = w,
                                .progress = plan->progress,
                                .progress_user = plan->progress_user};
    lay_out(w, NULL, &visitor.scratch);
    const weft_status status = weft_cpu_walk(&plan->walk, &visitor, message);
    return status ? status
                  : weft_cpu_each((int64_t)w->query_items, w->kernel, (size_t)w->dims * sizeof(float), store_queries, w,
                                  message);
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
                            .tile_n = s->tile_n,
                            .tiles = weft_ceil_divide(p->kv_seq, s->tile_n)};
    weft_status status = weft_cpu_gradients_prepare(&w, message);
    if (status == WEFT_OK && !w.has_nonfinite) {
        status = run(&w, plan, message);
    }
    const int has_nonfinite = w.has_nonfinite;
    weft_cpu_gradients_free(&w);
    /* A non-finite value must not reach queries that do not see it, nor vanish in a product with 0. */
    return status == WEFT_OK && has_nonfinite ? weft_ref_attention_backward(p, data, message) : status;
}
