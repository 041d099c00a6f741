/* SPDX-License-Identifier: Apache-2.0 */
/* What a backward pass begins and ends with: packing the queries, the gradient of the output, keys and values, and the two
 * numbers that each query needs; storing the gradients of the queries and the sinks. */
#include "cpu/attention/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/attention/kv.h"
#include "cpu/kernel/convert.h"
#include "cpu/memory.h"
#include "cpu/thread/walk.h"
#include "problem/problem.h"

enum { BLOCK = WEFT_CPU_BACKWARD_BLOCK };

static void pack_queries(weft_cpu_gradients *w, weft_cpu_packed_queries *to, const void *data, const weft_strides *strides,
                         const weft_cpu_queries *q, size_t item) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t rows = q->rows.end - q->rows.begin;
    const size_t index = weft_row_index(strides, q->batch, q->rows.begin, q->head);
    char *right = to->right + item * to->right_block, *left = to->left + item * to->left_block;
    memset(right, 0, to->right_block); /* queries past the last are 0 */
    memset(left, 0, to->left_block);
    for (int64_t i = 0; i < rows; i += kernel->b.lines) {
        const weft_cpu_source source = {w->p->dtype,  data, index + (size_t)(i * strides->seq),
                                        strides->seq, 1,    weft_cpu_min(kernel->b.lines, rows - i),
                                        to->dim};
        kernel->pack_b(&source, right + (size_t)(i / kernel->b.lines) * to->right_panel);
    }
    for (int64_t d = 0; d < to->dim && rows > 0; d += kernel->a.lines) {
        const weft_cpu_source source = {
            w->p->dtype, data, index + (size_t)d, 1, strides->seq, weft_cpu_min(kernel->a.lines, to->dim - d), rows};
        kernel->pack_a(&source, left + (size_t)(d / kernel->a.lines) * to->left_panel);
    }
    if (weft_cpu_has_nonfinite(kernel, right, to->right_block)) {
        __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
    }
}

/* Gradient times output, and the logarithm of the sum in base 2. Infinity makes every weight 0: for queries that see no
 * key, and for those past the last. A sink's weight is a query's as any key's is, with a value of 0. */
static void measure_queries(weft_cpu_gradients *w, const float *lse, const void *o, const weft_strides *o_strides,
                            const weft_cpu_queries *q, size_t item) {
    const weft_attention *p = w->p;
    float out[WEFT_MAX_HEAD_DIM], grad[WEFT_MAX_HEAD_DIM];
    double sink = 0;
    for (int64_t i = 0; i < BLOCK; i++) {
        const int64_t row = q->rows.begin + i;
        double dot = 0, log2_sum = INFINITY;
        if (row < q->rows.end) {
            weft_cpu_load(weft_attention_out_dtype(p), o, weft_row_index(o_strides, q->batch, row, q->head), p->head_dim_v,
                          out);
            weft_cpu_load(p->dtype, w->data->grad_o, weft_row_index(&p->o_strides, q->batch, row, q->head), p->head_dim_v,
                          grad);
            for (int64_t d = 0; d < p->head_dim_v; d++) {
                dot += (double)out[d] * (double)grad[d];
            }
            const double natural = (double)lse[(q->batch * p->heads + q->head) * p->seq + row];
            if (w->sinks && natural != -INFINITY) {
                sink -= exp((double)w->data->sinks[q->head] - natural) * dot;
            }
            log2_sum = natural == -INFINITY ? INFINITY : natural * 1.44269504088896340736;
            if (!isfinite(dot) || isnan(natural)) {
                __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
            }
        }
        w->delta[item * BLOCK + (size_t)i] = (float)dot;
        w->lse2[item * BLOCK + (size_t)i] = (float)log2_sum;
    }
    if (w->sinks) {
        w->sinks[item] = sink;
    }
}

typedef struct preparation {
    weft_cpu_gradients *w;
    const void *o;
    weft_strides o_strides;
    const float *lse;
} preparation;

static void prepare_block(void *context, void *scratch, int64_t item) {
    preparation *prepare = context;
    weft_cpu_gradients *w = prepare->w;
    const int64_t block = item % w->blocks, head = item / w->blocks % w->p->heads, batch = item / w->blocks / w->p->heads;
    const weft_cpu_queries q = weft_cpu_gradients_queries(w, batch, head, block);
    (void)scratch;
    pack_queries(w, &w->q, w->data->q, &w->p->q_strides, &q, (size_t)item);
    pack_queries(w, &w->g, w->data->grad_o, &w->p->o_strides, &q, (size_t)item);
    measure_queries(w, prepare->lse, prepare->o, &prepare->o_strides, &q, (size_t)item);
}

static int alloc_queries(const weft_cpu_gradients *w, weft_cpu_packed_queries *q, int64_t dim, size_t items) {
    const weft_cpu_kernel *kernel = w->kernel;
    q->dim = dim;
    q->dims = weft_cpu_pad(dim, kernel->a.lines);
    q->depth = weft_cpu_pad(dim, kernel->depth);
    q->right_panel = weft_cpu_panel_bytes(kernel, kernel->b, q->dim);
    q->left_panel = weft_cpu_panel_bytes(kernel, kernel->a, BLOCK);
    q->right_block = q->right_panel * (size_t)(BLOCK / kernel->b.lines);
    q->left_block = q->left_panel * (size_t)(q->dims / kernel->a.lines);
    q->right = weft_cpu_alloc(items * q->right_block);
    q->left = weft_cpu_alloc(items * q->left_block);
    return q->right && q->left;
}

/* The forward pass, for callers who did not keep its results. Its rows are contiguous, even where the caller's are not. */
static weft_status run_forward(const weft_cpu_gradients *w, void **o, weft_strides *strides, float **lse,
                               weft_message *message) {
    weft_attention p = *w->p;
    p.extras &= WEFT_SINKS | WEFT_ALIBI | WEFT_BIAS; /* the problem has all lengths and pairs */
    *strides = p.o_strides = (weft_strides){p.seq * p.heads * p.head_dim_v, p.heads * p.head_dim_v, p.head_dim_v};
    const weft_attention_extents sizes = weft_attention_sizes(&p);
    *o = weft_cpu_alloc(sizes.o * weft_dtype_bytes(weft_attention_out_dtype(&p)));
    *lse = weft_cpu_alloc(sizes.lse * sizeof **lse);
    if (!*o || !*lse) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the output of the forward pass");
    }
    weft_attention_data forward = WEFT_ATTENTION_DATA_INIT;
    forward.q = w->data->q;
    forward.k = w->data->k;
    forward.v = w->data->v;
    forward.o = *o;
    forward.lse = *lse;
    forward.sinks = w->data->sinks;
    forward.alibi = w->data->alibi;
    forward.bias = w->data->bias;
    forward.dropout_seed = w->data->dropout_seed;
    p.operation = WEFT_ATTENTION;
    return weft_attention_forward(&p, &forward, message);
}

/* Tiles of the longest sequence's keys, whether or not they count. */
static int64_t most_tiles(const weft_cpu_gradients *w) {
    const int32_t *starts = weft_reach_starts(&w->walk->reach);
    int64_t most = starts ? 0 : w->p->kv_seq;
    for (int64_t i = 0; starts && i < w->p->sequences; i++) {
        most = weft_larger(most, starts[i + 1] - starts[i]);
    }
    return weft_ceil_divide(most, w->tile_n);
}

weft_status weft_cpu_gradients_prepare(weft_cpu_gradients *w, weft_message *message) {
    const weft_attention *p = w->p;
    w->scores = weft_cpu_scores_of(p, w->kernel, p->scale, w->data->alibi, w->data->bias, w->data->dropout_seed);
    w->cuts = weft_reach_make(p->seq, p->kv_seq, BLOCK, BLOCK, weft_slice_full(p->seq, p->kv_seq));
    weft_reach_set_band(&w->cuts, w->scores.band, w->scores.sequences, 0);
    w->blocks = weft_reach_tiles(&w->cuts);
    w->tiles = most_tiles(w);
    const double items = (double)p->batch * (double)p->heads * (double)w->blocks;
    const size_t count = items * BLOCK * WEFT_MAX_HEAD_DIM < 0x1p56 ? (size_t)(p->batch * p->heads * w->blocks) : 0;
    const int has_sinks = (p->extras & WEFT_SINKS) && w->data->grad_sinks;
    w->query_items = count;
    w->lse2 = count ? weft_cpu_alloc(count * BLOCK * sizeof(float)) : NULL;
    w->delta = count ? weft_cpu_alloc(count * BLOCK * sizeof(float)) : NULL;
    w->sinks = count && has_sinks ? weft_cpu_alloc(count * sizeof *w->sinks) : NULL;
    if (!w->lse2 || !w->delta || (has_sinks && !w->sinks) || !alloc_queries(w, &w->q, p->head_dim, count) ||
        !alloc_queries(w, &w->g, p->head_dim_v, count)) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory to pack queries and gradients");
    }
    void *o = NULL;
    float *lse = NULL;
    const int given = w->data->o && w->data->lse;
    weft_strides strides = p->o_strides;
    weft_status status = given ? WEFT_OK : run_forward(w, &o, &strides, &lse, message);
    if (status == WEFT_OK) {
        preparation prepare = {w, given ? w->data->o : o, strides, given ? w->data->lse : lse};
        status = weft_cpu_each((int64_t)count, w->kernel, 0, prepare_block, &prepare, message);
    }
    weft_cpu_free(o);
    weft_cpu_free(lse);
    return status;
}

/* Packs `keys` rows of K or V as rows; returns whether any is non-finite. */
static int pack_rows(const weft_cpu_gradients *w, const void *data, const weft_strides *strides, size_t index, int64_t dim,
                     int64_t keys, char *to) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines;
    const size_t panel = weft_cpu_panel_bytes(kernel, kernel->a, dim), all = panel * (size_t)(BLOCK / lines);
    memset(to, 0, all);
    for (int64_t key = 0; key < keys; key += lines) {
        const weft_cpu_source source = {
            w->p->dtype, data, index + (size_t)(key * strides->seq), strides->seq, 1, weft_cpu_min(lines, keys - key), dim};
        kernel->pack_a(&source, to + (size_t)(key / lines) * panel);
    }
    return weft_cpu_has_nonfinite(kernel, to, all);
}

int weft_cpu_gradients_pack_keys(const weft_cpu_gradients *w, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys,
                                 char *k_rows, char *v_rows, char *k_dims) {
    const weft_attention *p = w->p;
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t lines = kernel->a.lines;
    const size_t k = weft_row_index(&p->k_strides, batch, begin, kv_head);
    const size_t v = weft_row_index(&p->v_strides, batch, begin, kv_head);
    const size_t down = weft_cpu_panel_bytes(kernel, kernel->a, BLOCK);
    memset(k_dims, 0, down * (size_t)(w->q.dims / lines));
    for (int64_t d = 0; d < p->head_dim; d += lines) {
        const weft_cpu_source source = {
            p->dtype, w->data->k, k + (size_t)d, 1, p->k_strides.seq, weft_cpu_min(lines, p->head_dim - d), keys};
        kernel->pack_a(&source, k_dims + (size_t)(d / lines) * down);
    }
    const int k_has = pack_rows(w, w->data->k, &p->k_strides, k, p->head_dim, keys, k_rows);
    return pack_rows(w, w->data->v, &p->v_strides, v, p->head_dim_v, keys, v_rows) || k_has;
}

/* Adds up the gradients of one block of queries, in the order of the keys. */
static void store_queries(void *context, void *scratch, int64_t item) {
    const weft_cpu_gradients *w = context;
    const weft_attention *p = w->p;
    const int64_t block = item % w->blocks, head = item / w->blocks % p->heads, batch = item / w->blocks / p->heads;
    const int64_t width = w->kernel->b.lines;
    const size_t size = (size_t)(w->q.dims * BLOCK), all = w->query_items * size;
    const weft_rows rows = weft_reach_cut(&w->cuts, batch, block, 1).rows;
    float *row = scratch;
    for (int64_t i = 0; i < rows.end - rows.begin; i++) {
        for (int64_t d = 0; d < p->head_dim; d++) {
            const size_t at = (size_t)item * size + (size_t)((i / width * w->q.dims + d) * width + i % width);
            float sum = 0;
            for (int64_t tile = 0; tile < w->tiles; tile++) {
                sum += w->sums[(size_t)tile * all + at];
            }
            row[d] = (float)p->scale * sum;
        }
        weft_cpu_store(weft_attention_out_dtype(p), w->data->grad_q,
                       weft_row_index(&p->q_strides, batch, rows.begin + i, head), p->head_dim, row);
    }
}

/* Adds up the gradients of the sinks, head by head in the order of the queries. */
static void store_sinks(const weft_cpu_gradients *w) {
    for (int64_t head = 0; head < w->p->heads; head++) {
        double sum = 0;
        for (int64_t i = 0; i < w->p->batch * w->blocks; i++) {
            sum += w->sinks[weft_cpu_gradients_item(w, i / w->blocks, head, i % w->blocks)];
        }
        w->data->grad_sinks[head] = (float)sum;
    }
}

weft_status weft_cpu_gradients_store_queries(weft_cpu_gradients *w, weft_message *message) {
    if (w->sinks) {
        store_sinks(w);
    }
    return weft_cpu_each((int64_t)w->query_items, w->kernel, (size_t)w->q.dims * sizeof(float), store_queries, w, message);
}

void weft_cpu_gradients_free(weft_cpu_gradients *w) {
    weft_cpu_free(w->q.right);
    weft_cpu_free(w->q.left);
    weft_cpu_free(w->g.right);
    weft_cpu_free(w->g.left);
    weft_cpu_free(w->lse2);
    weft_cpu_free(w->delta);
    weft_cpu_free(w->sums);
    weft_cpu_free(w->sinks);
}
