#include "sim/sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/problem.h"
#include "plan/status.h"

enum { MAX_PIECES = INT32_MAX / 2 }; /* a piece may be two halves, each with its number */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Sectors under `rows` rows of `row_bytes`, rows apart by `pitch` bytes: whole rows end to end share sectors at their
 * seams. */
static int64_t sectors_of(int64_t rows, int64_t row_bytes, int64_t pitch, int64_t sector) {
    return pitch == row_bytes ? weft_ceil_divide(rows * row_bytes, sector) : rows * weft_ceil_divide(row_bytes, sector);
}

/* The next visit of a worker, whatever the dispatch. */
static int next_visit(weft_sim_walk *w, int64_t worker, int64_t domain, weft_visit *visit) {
    const weft_walk *walk = &w->plan->walk;
    if (walk->dispatch != WEFT_DISPATCH_GRID) {
        const weft_deal deal = {0, w->by_side ? (int32_t)(worker % 2) : -1, walk->reach.is_prefix};
        return weft_worker_next_dealt(walk, &w->workers[worker], deal, visit);
    }
    for (;;) {
        if (w->visits[worker] < walk->visits && w->positions[worker] >= 0) {
            const int64_t position = w->positions[worker];
            const int32_t which = w->visits[worker]++;
            if (weft_walk_visit(walk, position, weft_divide(position, &walk->by_workers), which, visit)) {
                return 1;
            }
            continue;
        }
        int64_t *next = &w->next_of_domain[domain];
        const int64_t position = w->plan->machine.handout == WEFT_HANDOUT_ROUND_ROBIN ? *next : (int64_t)w->counter++;
        *next += w->lanes;
        if (position >= walk->order.count) {
            return 0;
        }
        w->positions[worker] = position;
        w->visits[worker] = 0;
    }
}

static void fill_visit(weft_sim_job *job, const weft_plan *plan, const weft_visit *visit, int64_t last_step) {
    const weft_walk *walk = &plan->walk;
    const int64_t rows = walk->order.grid.rows * walk->cluster_rows;
    job->position = visit->position;
    job->tile = (visit->tile.batch * rows + visit->tile.row) * walk->cols + visit->tile.col;
    job->first = visit->first;
    job->steps = visit->steps;
    job->last_step = last_step;
    job->direction = visit->direction;
}

/* How many the machine's rates are divided by: its workers, or the schedule's where several share one of them. */
static double sharers(const weft_plan *plan) {
    return (double)(plan->schedule.workers > plan->machine.workers ? plan->schedule.workers : plan->machine.workers);
}

/* Sets how long a step takes: `compute` seconds, or as long as its pieces need at the worker's share of the L2's bandwidth.
 *
 * What makes steps vary is waiting in the L2's queues. A cluster asks for `apart` / asked times less than its CTAs would
 * apart, and goes at the mean of CTAs that each wait for pieces of their own. */
static void set_times(weft_sim_job *job, const weft_plan *plan, double compute, double apart) {
    const weft_machine *m = &plan->machine;
    const double ctas = (double)(plan->schedule.cluster_m * plan->schedule.cluster_n);
    double asked = 0;
    for (int i = 0; i < job->streams; i++) {
        asked += job->stream[i].weight;
    }
    job->step_seconds = fmax(compute, asked * (double)m->l2_sector * sharers(plan) / ctas / m->l2_bandwidth);
    job->spread = asked / apart / sqrt(ctas);
    const double load = asked * (double)m->l2_sector * sharers(plan) / ctas / m->l2_bandwidth / job->step_seconds;
    job->jitter = m->drift_load * load * load * load * load * job->spread;
}

/* Attention: K and V of a block are always asked for together, so they are one piece; Q is the lead, O is written. A
 * cluster of query blocks asks for K and V once. */
static int next_attention(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    weft_sim_walk *w = context;
    const weft_plan *plan = w->plan;
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const weft_machine *m = &plan->machine;
    weft_visit visit;
    if (!next_visit(w, worker, domain, &visit)) {
        return 0;
    }
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), row = p->head_dim * bytes;
    const int64_t steps = weft_ceil_divide(p->kv_seq, s->tile_n), queries_each = s->tile_m / plan->pack;
    const int64_t blocks = weft_ceil_divide(p->seq, queries_each);
    const int64_t last_keys = p->kv_seq - (steps - 1) * s->tile_n;
    const int64_t group = p->heads / p->kv_heads / plan->pack;
    fill_visit(job, plan, &visit, steps - 1);
    job->streams = 0;
    for (int64_t i = 0; i < s->cluster_m; i++) {
        const int64_t kv_head = (visit.tile.head + i) / group;
        if (i > 0 && kv_head == (visit.tile.head + i - 1) / group) {
            continue; /* the same K and V as the head before */
        }
        weft_sim_stream *stream = &job->stream[job->streams++];
        stream->base = (uint32_t)((visit.tile.batch * p->kv_heads + kv_head) * steps);
        stream->weight = (uint32_t)(sectors_of(s->tile_n, row, p->k_strides.seq * bytes, m->l2_sector) +
                                    sectors_of(s->tile_n, row, p->v_strides.seq * bytes, m->l2_sector));
        stream->last_weight = (uint32_t)(sectors_of(last_keys, row, p->k_strides.seq * bytes, m->l2_sector) +
                                         sectors_of(last_keys, row, p->v_strides.seq * bytes, m->l2_sector));
    }
    const weft_rows rows = weft_reach_rows(&plan->walk.reach, visit.tile.block, s->cluster_n);
    const int64_t queries = rows.end - rows.begin;
    const int64_t heads = s->cluster_m * plan->pack;
    const int64_t tile = (visit.tile.batch * (p->heads / plan->pack) + visit.tile.head) * blocks + visit.tile.block;
    job->lead = w->first_lead + (uint32_t)tile;
    job->out = w->first_out + (uint32_t)tile;
    job->lead_weight = (uint32_t)(heads * sectors_of(queries, row, p->q_strides.seq * bytes, m->l2_sector));
    job->out_weight = (uint32_t)(heads * sectors_of(queries, row, p->o_strides.seq * bytes, m->l2_sector));

    /* A plain kernel does its products and its exponentials one after the other. */
    const double rate = p->dtype == WEFT_FP32 ? m->matrix_fp32 : p->dtype == WEFT_FP16 ? m->matrix_fp16 : m->matrix_bf16;
    const double scores = (double)s->tile_m * (double)s->tile_n;
    const double compute = sharers(plan) * (4.0 * scores * (double)p->head_dim / rate + scores / m->exp_rate);
    set_times(job, plan, compute, (double)(s->cluster_m * s->cluster_n) * job->stream[0].weight);
    return 1;
}

/* GEMM: a cluster asks once for each of its rows of A and columns of B (multicast). */
static int next_gemm(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    weft_sim_walk *w = context;
    const weft_plan *plan = w->plan;
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const weft_machine *m = &plan->machine;
    weft_visit visit;
    if (!next_visit(w, worker, domain, &visit)) {
        return 0;
    }
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const int64_t steps = weft_ceil_divide(p->k, s->tile_k), tiles_m = weft_ceil_divide(p->m, s->tile_m);
    const int64_t tiles_n = weft_ceil_divide(p->n, s->tile_n), last_k = p->k - (steps - 1) * s->tile_k;
    fill_visit(job, plan, &visit, steps - 1);
    job->streams = 0;
    double apart = 0; /* sectors that the cluster's CTAs would ask for, each for itself */
    for (int64_t i = 0; i < s->cluster_m + s->cluster_n; i++) {
        const int is_a = i < s->cluster_m;
        const int64_t line = is_a ? visit.tile.m + i : visit.tile.n + i - s->cluster_m;
        if (line >= (is_a ? tiles_m : tiles_n)) { /* the cluster reaches over the edge */
            continue;
        }
        const int64_t length =
            is_a ? smaller(s->tile_m, p->m - line * s->tile_m) : smaller(s->tile_n, p->n - line * s->tile_n);
        const int64_t ld = (is_a ? p->lda : p->ldb) * bytes;
        weft_sim_stream *stream = &job->stream[job->streams++];
        /* With k contiguous a piece is `length` rows of tile_k elements, otherwise tile_k rows of `length`. */
        const int k_inner = is_a ? p->a_major == WEFT_ROW_MAJOR : p->b_major == WEFT_COL_MAJOR;
        stream->base = (uint32_t)((is_a ? line : tiles_m + line) * steps);
        stream->weight = (uint32_t)(k_inner ? sectors_of(length, s->tile_k * bytes, ld, m->l2_sector)
                                            : sectors_of(s->tile_k, length * bytes, ld, m->l2_sector));
        stream->last_weight = (uint32_t)(k_inner ? sectors_of(length, last_k * bytes, ld, m->l2_sector)
                                                 : sectors_of(last_k, length * bytes, ld, m->l2_sector));
        apart += (double)stream->weight * (double)(is_a ? s->cluster_n : s->cluster_m);
    }
    const int64_t rows = smaller(p->m - visit.tile.m * s->tile_m, s->tile_m * s->cluster_m);
    const int64_t cols = smaller(p->n - visit.tile.n * s->tile_n, s->tile_n * s->cluster_n);
    job->lead = job->lead_weight = 0;
    job->out = w->first_out + (uint32_t)(visit.tile.m * tiles_n + visit.tile.n);
    job->out_weight =
        (uint32_t)(p->c_major == WEFT_ROW_MAJOR ? sectors_of(rows, cols * c_bytes, p->ldc * c_bytes, m->l2_sector)
                                                : sectors_of(cols, rows * c_bytes, p->ldc * c_bytes, m->l2_sector));
    if (p->beta != 0) {
        job->lead = job->out;
        job->lead_weight = job->out_weight;
    }
    const double rate = p->dtype == WEFT_FP32 ? m->matrix_fp32 : p->dtype == WEFT_FP16 ? m->matrix_fp16 : m->matrix_bf16;
    const double compute = sharers(plan) * 2.0 * (double)s->tile_m * (double)s->tile_n * (double)s->tile_k / rate;
    set_times(job, plan, compute, apart);
    return 1;
}

/* The sectors of a tile's largest piece, at most; in floating point, since nothing has bounded the tile yet. */
static double largest_piece(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const double sector = (double)plan->machine.l2_sector, ctas = (double)(s->cluster_m * s->cluster_n);
    if (plan->subject == WEFT_SUBJECT_ATTENTION) {
        const double row = (double)plan->attention.head_dim * (double)weft_dtype_bytes(plan->attention.dtype) / sector + 1;
        return row * fmax(2.0 * (double)s->tile_n, ctas * (double)s->tile_m);
    }
    const double bytes = 4.0, line = fmax((double)s->tile_m, (double)s->tile_n), step = (double)s->tile_k;
    const double operand = fmax(line * (step * bytes / sector + 1), step * (line * bytes / sector + 1));
    return fmax(operand, ctas * line * (line * bytes / sector + 1));
}

/* How many pieces the streams have, and how many tiles there are; 0 when there are too many to number. */
static int count_pieces(const weft_plan *plan, int64_t *streams, int64_t *tiles) {
    const weft_schedule *s = &plan->schedule;
    int64_t lines, steps;
    if (plan->subject == WEFT_SUBJECT_ATTENTION) {
        const weft_attention *p = &plan->attention;
        lines = p->batch * p->kv_heads;
        steps = weft_ceil_divide(p->kv_seq, s->tile_n);
        *tiles = p->batch * (p->heads / plan->pack) * weft_ceil_divide(p->seq, s->tile_m / plan->pack);
    } else {
        const weft_gemm *p = &plan->gemm;
        const int64_t tiles_m = weft_ceil_divide(p->m, s->tile_m), tiles_n = weft_ceil_divide(p->n, s->tile_n);
        lines = tiles_m + tiles_n;
        steps = weft_ceil_divide(p->k, s->tile_k);
        *tiles = tiles_m * tiles_n;
    }
    return weft_multiply(lines, steps, streams) && *streams <= MAX_PIECES && *tiles <= (MAX_PIECES - *streams) / 2;
}

/* Sectors of what is read and of what is written, each once. */
static void count_distinct(weft_sim_walk *w) {
    const weft_plan *plan = w->plan;
    const int64_t sector = plan->machine.l2_sector;
    if (plan->subject == WEFT_SUBJECT_ATTENTION) {
        const weft_attention *p = &plan->attention;
        const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), row = p->head_dim * bytes;
        /* Keys of the steps that some query sees. */
        const weft_reach *reach = &plan->walk.reach;
        const weft_steps all = weft_slice_steps(&reach->slice, 0, reach->rows, &reach->by_tile_columns);
        const int64_t seen = smaller(p->kv_seq, all.end * reach->tile_columns) - all.begin * reach->tile_columns;
        const int64_t k = sectors_of(seen, row, p->k_strides.seq * bytes, sector);
        const int64_t v = sectors_of(seen, row, p->v_strides.seq * bytes, sector);
        const int64_t q = sectors_of(p->seq, row, p->q_strides.seq * bytes, sector);
        const int64_t o = sectors_of(p->seq, row, p->o_strides.seq * bytes, sector);
        w->distinct = (uint64_t)(p->batch * (p->kv_heads * (k + v) + p->heads * q));
        w->written = (uint64_t)(p->batch * p->heads * o);
        w->tensors_per_piece = 2;
    } else {
        const weft_gemm *p = &plan->gemm;
        const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
        w->written = (uint64_t)weft_ceil_divide(p->m * p->n * c_bytes, sector);
        w->distinct =
            (uint64_t)(weft_ceil_divide(p->m * p->k * bytes, sector) + weft_ceil_divide(p->k * p->n * bytes, sector));
        w->distinct += p->beta != 0 ? w->written : 0;
        w->tensors_per_piece = 1;
    }
}

/* Numbers the pieces: those of the streams, then what is read once, then what is written. */
static weft_status number_pieces(weft_sim_source *source, weft_sim_walk *w, weft_message *message) {
    const weft_schedule *s = &w->plan->schedule;
    int64_t streams, tiles;
    if (largest_piece(w->plan) > INT32_MAX) {
        return weft_fail(message, WEFT_UNSUPPORTED, "tiles of %lldx%lld are larger than the simulator can count",
                         (long long)s->tile_m, (long long)s->tile_n);
    }
    if (!count_pieces(w->plan, &streams, &tiles)) {
        return weft_fail(message, WEFT_UNSUPPORTED, "more pieces than the simulator can number (%d): choose larger tiles",
                         MAX_PIECES);
    }
    count_distinct(w);
    w->first_lead = (uint32_t)streams;
    w->first_out = (uint32_t)(streams + tiles);
    source->pieces = (uint32_t)(streams + 2 * tiles);
    source->next = w->plan->subject == WEFT_SUBJECT_ATTENTION ? next_attention : next_gemm;
    return WEFT_OK;
}

weft_status weft_sim_source_make(weft_sim_source *source, weft_sim_walk *walk, const weft_plan *plan,
                                 weft_message *message) {
    memset(walk, 0, sizeof *walk);
    walk->plan = plan;
    source->observer = NULL;
    source->steps = 0;
    if (plan->schedule.split > 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the simulator takes no tiles whose steps are shared out");
    }
    if (plan->subject == WEFT_SUBJECT_GEMM && plan->gemm.batch > 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the simulator takes one product");
    }
    const weft_status status = number_pieces(source, walk, message);
    if (status) {
        return status;
    }
    const int64_t positions = plan->walk.order.count;
    source->workers = smaller(plan->walk.workers, positions);
    source->seats = plan->machine.workers;
    /* An order that places tiles by domain numbers its workers in turn over the domains; others take them as they come. */
    const int placed = weft_order_describe(plan->schedule.order)->parameter & WEFT_PARAMETER_DOMAINS;
    source->run = placed ? 1 : plan->machine.handout_run;
    /* Under grid dispatch the older CTA ends, and the other one is the older. */
    walk->lanes = smaller(plan->machine.domains, source->workers);
    source->context = walk;
    if (plan->walk.cluster_rows + plan->walk.cluster_cols > WEFT_SIM_STREAMS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the simulator takes clusters of at most %d rows and columns",
                         WEFT_SIM_STREAMS);
    }
    walk->workers = calloc((size_t)source->workers, sizeof *walk->workers);
    walk->visits = calloc((size_t)source->workers, sizeof *walk->visits);
    walk->positions = calloc((size_t)source->workers, sizeof *walk->positions);
    walk->next_of_domain = calloc((size_t)plan->machine.domains, sizeof *walk->next_of_domain);
    if (!walk->workers || !walk->visits || !walk->positions || !walk->next_of_domain) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers", (long long)source->workers);
    }
    /* As the kernel does: its workers draw the positions of their side. */
    walk->by_side = placed && plan->subject == WEFT_SUBJECT_GEMM && plan->walk.dispatch == WEFT_DISPATCH_DYNAMIC &&
                    plan->machine.domains == 2 && plan->schedule.domains == 2;
    for (int64_t i = 0; i < source->workers; i++) {
        walk->positions[i] = -1;
        if (plan->walk.dispatch != WEFT_DISPATCH_GRID) {
            walk->workers[i] = walk->by_side ? weft_worker_start_by_side(&plan->walk, (int32_t)(i % 2), &walk->counter)
                                             : weft_worker_start(&plan->walk, i, &walk->counter);
        }
    }
    for (int64_t d = 0; d < plan->machine.domains; d++) {
        walk->next_of_domain[d] = d;
    }
    return WEFT_OK;
}

uint64_t weft_sim_steps(const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    uint64_t steps = 0;
    for (int64_t col = 0; col < walk->cols; col += walk->cluster_cols) {
        weft_visit visit = {.tile = weft_tile_at(0, 0, col), .direction = 1};
        visit.ranges = weft_reach_ranges(&walk->reach, col);
        for (int32_t i = 0; i < visit.ranges; i++) {
            weft_visit_range(walk, &visit, i);
            steps += (uint64_t)visit.steps;
        }
    }
    return steps * (uint64_t)(walk->order.grid.batch * walk->order.grid.rows);
}

void weft_sim_walk_release(weft_sim_walk *walk) {
    free(walk->workers);
    free(walk->visits);
    free(walk->positions);
    free(walk->next_of_domain);
}
