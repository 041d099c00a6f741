/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward. K and V are packed once, for all queries and all heads that share them, or by each thread for the head
 * that it works on. Besides that, memory is a tile of queries and one panel of scores a thread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/attention/attention.h"
#include "cpu/attention/decode.h"
#include "cpu/attention/queries.h"
#include "cpu/attention/tile.h"
#include "cpu/tile.h"
#include "problem/problem.h"

static void store_rows(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, const weft_cpu_queries *q) {
    const weft_attention *p = a->p;
    const int64_t width = a->kernel->b.lines, dims = a->kv.dims, first = q->rows.begin;
    const weft_dtype out = weft_attention_out_dtype(p);
    const double sink =
        p->extras & WEFT_SINKS ? (double)a->data->sinks[q->head] * 1.44269504088896340736 : -INFINITY; /* to base 2 */
    for (int64_t i = 0; i < q->rows.end - first; i++) {
        if (i % width == 0) {
            a->kernel->rows->transpose(dims, width, b->out + i * dims, b->rows);
        }
        float *row = b->rows + i % width * dims;
        if (b->sum[i] == 0) { /* no key was seen */
            memset(row, 0, (size_t)dims * sizeof *row);
        }
        const weft_cpu_row_end end = weft_cpu_end_row(b->max[i], b->sum[i], sink);
        const size_t at = weft_row_index(&p->o_strides, q->batch, first + i, q->head) * weft_dtype_bytes(out);
        const int64_t line = (q->batch * p->heads + q->head) * p->seq + first + i;
        a->kernel->rows->store(out, p->head_dim_v, row, dims, 0, end.factor, (char *)a->data->o + at);
        if (a->data->lse) {
            a->data->lse[line] = end.lse;
        }
        if (p->extras & WEFT_MAX) {
            a->data->max[line] = b->max[i] * 0.69314718f;
        }
    }
}

/* Whether another thread has begun the tile; if not, the caller has now. */
static int is_begun(const weft_cpu_attention_job *a, weft_tile tile) {
    unsigned char *begun = a->begun ? &a->begun[(tile.batch * a->p->heads + tile.head) * a->walk->cols + tile.block] : NULL;
    return begun && (__atomic_load_n(begun, __ATOMIC_RELAXED) || /* looking is cheaper than taking */
                     __atomic_exchange_n(begun, 1, __ATOMIC_RELAXED));
}

static void attention_tile(void *context, void *scratch, const weft_visit *visit) {
    const weft_cpu_attention_job *a = context;
    const int64_t kv_head = visit->tile.head / (a->p->heads / a->p->kv_heads);
    const weft_reach *reach = &a->walk->reach;
    const int cut = weft_reach_starts(reach) != NULL; /* otherwise the visit's rows are those of a cluster */
    const weft_rows rows = cut ? visit->cut.rows : weft_reach_rows(reach, visit->tile.block, 1);
    if (rows.begin >= rows.end || is_begun(a, visit->tile)) {
        return;
    }
    const int64_t number = cut ? visit->cut.sequence : visit->tile.batch;
    const weft_cpu_queries q = weft_cpu_queries_of(&a->scores, visit->tile.batch, visit->tile.head, rows, number);
    size_t unused;
    const size_t held = a->held ? weft_cpu_kv_held_bytes(&a->kv) : 0;
    const weft_cpu_query_tile b = weft_cpu_queries_lay_out(a, (char *)scratch + held, &unused);
    const weft_cpu_kv kv = a->held ? weft_cpu_kv_hold(a->held, visit->tile.batch, kv_head, scratch) : a->kv;
    weft_cpu_queries_load(a, &b, &q);
    for (int64_t i = 0, index = visit->first; i < visit->steps; i++, index += visit->direction) {
        const int64_t step = weft_visit_step(reach, visit, index);
        const int64_t begin = step * a->kv.tile_n, keys = weft_cpu_min(reach->columns - begin, a->kv.tile_n);
        const weft_cpu_kv_block block = a->held ? weft_cpu_kv_at(&kv, 0, 0, step)
                                                : weft_cpu_kv_at(&kv, kv.lines ? number : visit->tile.batch, kv_head, step);
        weft_cpu_queries_visit(a, &b, &q, &block, begin, keys, step >= visit->full_begin && step < visit->full_end,
                               weft_visit_bits(reach, visit, index));
    }
    store_rows(a, &b, &q);
}

/* Whether each thread packs for itself: it works on one head and finds what it packed in its own cache. LEAST: queries of a
 * worker; with fewer, packing takes too long. MOST: bytes of a head, about an L2. */
static int holds_heads(const weft_cpu_attention_job *a, const weft_plan *plan) {
    enum { LEAST = 128, MOST = 5 << 19 };
    const double queries = (double)a->p->batch * (double)a->p->heads * (double)a->p->seq / (double)plan->walk.workers;
    return a->p->cache.page == 0 && weft_cpu_shares_by_head(plan) && queries >= LEAST &&
           (double)a->kv.blocks * (double)(a->kv.k_block + a->kv.v_block + 1) <= MOST;
}

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    weft_status status = weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    const weft_attention *p = &plan->attention;
    if (weft_cpu_decodes(plan)) {
        return weft_cpu_attention_decode(plan, data, message);
    }
    weft_cpu_attention_job a;
    weft_cpu_attention_job_init(&a, p, data, plan->schedule.tile_m, plan->schedule.tile_n);
    a.walk = &plan->walk;
    weft_cpu_kv_packing packing = {&a.kv, a.kernel, p, data->k, data->v};
    weft_cpu_visitor visitor = {.kernel = a.kernel,
                                .visit = attention_tile,
                                .context = &a,
                                .progress = plan->progress,
                                .progress_user = plan->progress_user};
    weft_cpu_queries_lay_out(&a, NULL, &visitor.scratch);
    if (p->cache.page > 0) {
        status = weft_cpu_kv_find_lines(&a.kv, p, message);
    }
    if (status) {
        weft_cpu_kv_free(&a.kv);
        return status;
    }
    if (holds_heads(&a, plan)) {
        a.held = &packing;
        visitor.scratch += weft_cpu_kv_held_bytes(&a.kv);
    } else if ((status = weft_cpu_kv_alloc(&a.kv, p, message)) == WEFT_OK) {
        visitor.before = weft_cpu_kv_stage(&packing);
    }
    if (status == WEFT_OK && plan->walk.dispatch == WEFT_DISPATCH_STATIC) { /* work stealing */
        visitor.steals = 1;
        a.begun = calloc((size_t)(p->batch * p->heads * a.walk->cols), 1);
        status = a.begun ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory to share out tiles");
    }
    if (status == WEFT_OK) {
        status = weft_cpu_walk(&plan->walk, &visitor, message);
    }
    free(a.begun);
    weft_cpu_kv_free(&a.kv);
    return status;
}
