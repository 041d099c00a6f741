/* Preparing a backward pass: packing the queries and the gradient of the output, and the two numbers that each query needs.
 */
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
                         int64_t batch, int64_t head, int64_t block) {
    const weft_cpu_kernel *kernel = w->kernel;
    const int64_t rows = weft_cpu_min(BLOCK, w->p->seq - block * BLOCK);
    const size_t item = weft_cpu_gradients_item(w, batch, head, block);
    const size_t index = weft_row_index(strides, batch, block * BLOCK, head);
    char *right = to->right + item * to->right_block, *left = to->left + item * to->left_block;
    memset(right, 0, to->right_block); /* queries past the last are 0 */
    memset(left, 0, to->left_block);
    for (int64_t i = 0; i < rows; i += kernel->b.lines) {
        const weft_cpu_source source = {w->p->dtype,   data, index + (size_t)(i * strides->seq),
                                        strides->seq,  1,    weft_cpu_min(kernel->b.lines, rows - i),
                                        w->p->head_dim};
        kernel->pack_b(&source, right + (size_t)(i / kernel->b.lines) * to->right_panel);
    }
    for (int64_t d = 0; d < w->p->head_dim; d += kernel->a.lines) {
        const weft_cpu_source source = {
            w->p->dtype, data, index + (size_t)d, 1, strides->seq, weft_cpu_min(kernel->a.lines, w->p->head_dim - d), rows};
        kernel->pack_a(&source, left + (size_t)(d / kernel->a.lines) * to->left_panel);
    }
    if (weft_cpu_has_nonfinite(kernel, right, to->right_block)) {
        __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
    }
}

/* Gradient times output, and the logarithm of the sum in base 2. Infinity makes every weight 0: for queries that see no
 * key, and for those past the last. */
static void measure_queries(weft_cpu_gradients *w, const float *lse, const void *o, const weft_strides *o_strides,
                            int64_t batch, int64_t head, int64_t block) {
    const weft_attention *p = w->p;
    const size_t item = weft_cpu_gradients_item(w, batch, head, block);
    float out[256], grad[256];
    for (int64_t i = 0; i < BLOCK; i++) {
        const int64_t row = block * BLOCK + i;
        double dot = 0, log2_sum = INFINITY;
        if (row < p->seq) {
            weft_cpu_load(p->dtype, o, weft_row_index(o_strides, batch, row, head), p->head_dim, out);
            weft_cpu_load(p->dtype, w->data->grad_o, weft_row_index(&p->o_strides, batch, row, head), p->head_dim, grad);
            for (int64_t d = 0; d < p->head_dim; d++) {
                dot += (double)out[d] * (double)grad[d];
            }
            const double natural = (double)lse[(batch * p->heads + head) * p->seq + row];
            log2_sum = natural == -INFINITY ? INFINITY : natural * 1.44269504088896340736;
            if (!isfinite(dot) || isnan(natural)) {
                __atomic_store_n(&w->has_nonfinite, 1, __ATOMIC_RELAXED);
            }
        }
        w->delta[item * BLOCK + (size_t)i] = (float)dot;
        w->lse2[item * BLOCK + (size_t)i] = (float)log2_sum;
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
    (void)scratch;
    pack_queries(w, &w->q, w->data->q, &w->p->q_strides, batch, head, block);
    pack_queries(w, &w->g, w->data->grad_o, &w->p->o_strides, batch, head, block);
    measure_queries(w, prepare->lse, prepare->o, &prepare->o_strides, batch, head, block);
}

static int alloc_queries(const weft_cpu_gradients *w, weft_cpu_packed_queries *q, size_t items) {
    const weft_cpu_kernel *kernel = w->kernel;
    q->right_panel = weft_cpu_panel_bytes(kernel, kernel->b, w->p->head_dim);
    q->left_panel = weft_cpu_panel_bytes(kernel, kernel->a, BLOCK);
    q->right_block = q->right_panel * (size_t)(BLOCK / kernel->b.lines);
    q->left_block = q->left_panel * (size_t)(w->dims / kernel->a.lines);
    q->right = weft_cpu_alloc(items * q->right_block);
    q->left = weft_cpu_alloc(items * q->left_block);
    return q->right && q->left;
}

/* The forward pass, for callers who did not keep its results. Its rows are contiguous, even where the caller's are not. */
static weft_status run_forward(const weft_cpu_gradients *w, void **o, weft_strides *strides, float **lse,
                               weft_message *message) {
    weft_attention p = *w->p;
    *strides = p.o_strides = (weft_strides){p.seq * p.heads * p.head_dim, p.heads * p.head_dim, p.head_dim};
    const weft_attention_extents sizes = weft_attention_sizes(&p);
    *o = weft_cpu_alloc(sizes.o * weft_dtype_bytes(w->p->dtype));
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
    p.operation = WEFT_ATTENTION;
    return weft_attention_forward(&p, &forward, message);
}

weft_status weft_cpu_gradients_prepare(weft_cpu_gradients *w, weft_message *message) {
    const weft_attention *p = w->p;
    w->dims = weft_cpu_pad(p->head_dim, w->kernel->a.lines);
    w->depth = weft_cpu_pad(p->head_dim, w->kernel->depth);
    w->blocks = (p->seq + BLOCK - 1) / BLOCK;
    const double items = (double)p->batch * (double)p->heads * (double)w->blocks;
    const size_t count = items * BLOCK * (double)w->dims < 0x1p56 ? (size_t)(p->batch * p->heads * w->blocks) : 0;
    w->query_items = count;
    w->lse2 = count ? weft_cpu_alloc(count * BLOCK * sizeof(float)) : NULL;
    w->delta = count ? weft_cpu_alloc(count * BLOCK * sizeof(float)) : NULL;
    if (!w->lse2 || !w->delta || !alloc_queries(w, &w->q, count) || !alloc_queries(w, &w->g, count)) {
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

void weft_cpu_gradients_free(weft_cpu_gradients *w) {
    weft_cpu_free(w->q.right);
    weft_cpu_free(w->q.left);
    weft_cpu_free(w->g.right);
    weft_cpu_free(w->g.left);
    weft_cpu_free(w->lse2);
    weft_cpu_free(w->delta);
    weft_cpu_free(w->sums);
}
