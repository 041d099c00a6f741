/* Attention forward on the CPU: per tile an online softmax in base 2, fp32 inside. Memory is linear: a tile of scores a
 * thread. */
#include <math.h>

#include "cpu/cpu.h"
#include "plan/problem.h"

/* Buffers of one thread, one behind the other in its room. Columns are padded to whole vectors. */
typedef struct buffers {
    float *q;         /* (tile_m, head_dim) */
    float *k;         /* (head_dim, keys): the block of K, transposed */
    float *v;         /* (tile_n, dims) */
    float *scores;    /* (tile_m, keys) */
    float *out;       /* (tile_m, dims) */
    float *max, *sum; /* (tile_m) */
    float *row;       /* (head_dim) */
    int64_t *seen;    /* (tile_m) keys of the block that a query sees */
} buffers;

typedef struct attention {
    const weft_plan *plan;
    const weft_attention_data *data;
    const weft_cpu_kernels *kernels;
    int64_t keys, dims; /* tile_n and head_dim, padded */
    float factor;       /* scale times log2(e), made positive: a negative scale turns the queries around */
} attention;

static int64_t pad(int64_t n, int64_t width) {
    return (n + width - 1) / width * width;
}

static float *take(float *room, size_t *used, int64_t count) {
    float *here = room ? room + *used : NULL;
    *used += (size_t)pad(count, 16); /* every buffer begins on a cache line */
    return here;
}

/* Divides a thread's room; with none given, only counts what is needed. */
static buffers lay_out(const attention *a, float *room, size_t *size) {
    const int64_t tile_m = a->plan->schedule.tile_m, tile_n = a->plan->schedule.tile_n, dim = a->plan->attention.head_dim;
    buffers b;
    *size = 0;
    b.q = take(room, size, tile_m * dim);
    b.k = take(room, size, dim * a->keys);
    b.v = take(room, size, tile_n * a->dims);
    b.scores = take(room, size, tile_m * a->keys);
    b.out = take(room, size, tile_m * a->dims);
    b.max = take(room, size, tile_m);
    b.sum = take(room, size, tile_m);
    b.row = take(room, size, dim);
    b.seen = (int64_t *)(void *)take(room, size, 2 * tile_m);
    return b;
}

static void load_queries(const attention *a, const buffers *b, weft_tile tile, int64_t first, int64_t rows) {
    const weft_attention *p = &a->plan->attention;
    for (int64_t i = 0; i < rows; i++) {
        weft_cpu_load(p->dtype, a->data->q, weft_row_index(&p->q_strides, tile.batch, first + i, tile.head), p->head_dim,
                      b->q + i * p->head_dim);
        for (int64_t d = 0; p->scale < 0 && d < p->head_dim; d++) {
            b->q[i * p->head_dim + d] *= -1;
        }
        b->max[i] = -INFINITY;
        b->sum[i] = 0;
    }
    for (int64_t i = 0; i < rows * a->dims; i++) {
        b->out[i] = 0;
    }
}

/* K transposed, so that scores of neighbouring keys are neighbours in a vector; V as it is. */
static void pack_block(const attention *a, const buffers *b, weft_tile tile, int64_t begin, int64_t keys) {
    const weft_attention *p = &a->plan->attention;
    const int64_t kv_head = tile.head / (p->heads / p->kv_heads);
    for (int64_t j = 0; j < keys; j++) {
        weft_cpu_load(p->dtype, a->data->k, weft_row_index(&p->k_strides, tile.batch, begin + j, kv_head), p->head_dim,
                      b->row);
        for (int64_t d = 0; d < p->head_dim; d++) {
            b->k[d * a->keys + j] = b->row[d];
        }
        weft_cpu_load(p->dtype, a->data->v, weft_row_index(&p->v_strides, tile.batch, begin + j, kv_head), p->head_dim,
                      b->v + j * a->dims);
    }
}

/* Whether all values of the packed block are finite. */
static int is_finite(const attention *a, const buffers *b, int64_t keys) {
    float probe = 0;
    for (int64_t i = 0; i < keys * a->dims; i++) {
        probe += b->v[i] * 0.0f;
    }
    return probe == 0;
}

/* Adds weights times values. A masked key has weight 0, which takes it out of the sum unless its value is infinite or NaN:
 * then each row stops at the last key that it sees. */
static void add_values(const attention *a, const buffers *b, int64_t rows, int64_t keys, const int64_t *seen) {
    if (!seen || is_finite(a, b, keys)) {
        a->kernels->multiply(rows, a->dims, keys, b->scores, a->keys, b->v, a->dims, b->out, a->dims, 1);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        a->kernels->multiply(1, a->dims, seen[row], b->scores + row * a->keys, a->keys, b->v, a->dims,
                             b->out + row * a->dims, a->dims, 1);
    }
}

/* Turns a row of scores into weights, `visible` of `keys` of them seen, and scales what the row has so far. */
static void soften_row(const attention *a, const buffers *b, int64_t row, int64_t visible, int64_t cols) {
    float *scores = b->scores + row * a->keys;
    for (int64_t j = visible; j < cols; j++) {
        scores[j] = -INFINITY;
    }
    const float block_max = a->kernels->largest(scores, cols);
    const float block_top = block_max * a->factor;
    const float max = block_top > b->max[row] ? block_top : b->max[row];
    const float shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    const float sum = a->kernels->exponentials(scores, cols, a->factor, shift);
    if (max > b->max[row] && b->max[row] != -INFINITY) {
        const float factor = exp2f(b->max[row] - max);
        b->sum[row] *= factor;
        a->kernels->scale(b->out + row * a->dims, a->dims, factor);
    }
    b->sum[row] += sum;
    b->max[row] = max;
}

static void store_rows(const attention *a, const buffers *b, weft_tile tile, int64_t first, int64_t rows) {
    const weft_attention *p = &a->plan->attention;
    for (int64_t i = 0; i < rows; i++) {
        float *out = b->out + i * a->dims;
        const float factor = b->sum[i] == 0 ? 0 : 1.0f / b->sum[i];
        for (int64_t d = 0; d < p->head_dim; d++) {
            out[d] = b->sum[i] == 0 ? 0 : out[d] * factor;
        }
        weft_cpu_store(p->dtype, a->data->o, weft_row_index(&p->o_strides, tile.batch, first + i, tile.head), p->head_dim,
                       out);
        if (a->data->lse) {
            const double lse =
                b->sum[i] == 0 ? -INFINITY : ((double)b->max[i] + log2((double)b->sum[i])) * 0.69314718055994530942;
            a->data->lse[(tile.batch * p->heads + tile.head) * p->seq + first + i] = (float)lse;
        }
    }
}

static void attention_tile(void *context, float *room, const weft_visit *visit) {
    const attention *a = context;
    const weft_attention *p = &a->plan->attention;
    const int64_t tile_m = a->plan->schedule.tile_m, tile_n = a->plan->schedule.tile_n;
    size_t unused;
    const buffers b = lay_out(a, room, &unused);
    const int64_t first = visit->tile.block * tile_m;
    const int64_t rows = p->seq - first < tile_m ? p->seq - first : tile_m;
    load_queries(a, &b, visit->tile, first, rows);
    for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
        const int64_t begin = step * tile_n, left = p->kv_seq - begin, keys = left < tile_n ? left : tile_n;
        const int64_t cols = pad(keys, a->kernels->width);
        pack_block(a, &b, visit->tile, begin, keys);
        a->kernels->multiply(rows, cols, p->head_dim, b.q, p->head_dim, b.k, a->keys, b.scores, a->keys, 0);
        const int masked = step >= visit->unmasked;
        for (int64_t row = 0; row < rows; row++) {
            const int64_t seen = masked ? weft_visible_keys(p, first + row) - begin : keys;
            b.seen[row] = seen < 0 ? 0 : seen < keys ? seen : keys;
            soften_row(a, &b, row, b.seen[row], cols);
        }
        add_values(a, &b, rows, keys, masked ? b.seen : NULL);
    }
    store_rows(a, &b, visit->tile, first, rows);
}

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    const weft_status status = weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    attention a = {plan, data, weft_cpu_choose(), 0, 0, 0};
    a.keys = pad(plan->schedule.tile_n, a.kernels->width);
    a.dims = pad(plan->attention.head_dim, a.kernels->width);
    a.factor = (float)(fabs(plan->attention.scale) * 1.44269504088896340736);
    size_t room;
    lay_out(&a, NULL, &room);
    return weft_cpu_threads(plan, room, attention_tile, &a, message);
}
