/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward as an operation: dQ, dK and dV. A tile is a block of keys of one kv head, for which it holds dK and
 * dV; its steps are blocks of queries, which it takes from every query head of the group. A schedule's split cuts them into
 * parts, one for each CTA of a cluster, and dK and dV are sums over the parts. First it cuts the group, as far as both have
 * a common divisor: such a part is as if it were a group. What is left of it cuts the blocks of queries of each head. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/sectors.h"

/* Blocks of queries and keys that divide the rows and columns of every kernel. */
enum { BLOCK = 96 };

static void init(weft_problem *problem) {
    weft_attention_init(problem);
    problem->attention.operation = WEFT_ATTENTION_BACKWARD;
}

static weft_status complete(weft_problem *problem, weft_message *message) {
    const weft_status status = weft_attention_complete(problem, message);
    const char *lacks = status ? NULL : weft_attention_lacks(&problem->attention, ~(WEFT_HAS_CACHE | WEFT_HAS_QV));
    return lacks ? weft_fail(message, WEFT_UNSUPPORTED, "attention backward does not take %s", lacks) : status;
}

/* Five products instead of two. */
static double flops(const weft_problem *problem) {
    return 2.5 * weft_attention_forward_flops(problem);
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_attention *p = &problem->attention;
    const weft_attention_extents n = weft_attention_sizes(p);
    const weft_dtype out = weft_attention_out_dtype(p);
    const weft_buffer all[] = {
        WEFT_BUFFER_OF(weft_attention_gradients, q, p->dtype, n.q, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, k, p->dtype, n.k, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, v, p->dtype, n.v, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_o, p->dtype, n.o, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_q, out, n.q, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_k, out, n.k, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_v, out, n.v, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, o, out, n.o, 16, 1, 1),
        WEFT_BUFFER_OF(weft_attention_gradients, lse, WEFT_FP32, n.lse, sizeof(float), 1, 1),
    };
    const weft_buffer sinks =
        WEFT_BUFFER_OF(weft_attention_gradients, grad_sinks, WEFT_FP32, (size_t)p->heads, sizeof(float), 2, 2);
    const weft_buffer bias = WEFT_BUFFER_OF(weft_attention_gradients, grad_bias, WEFT_FP32, weft_attention_all_scores(p),
                                            sizeof(float), 2, WEFT_BUFFER_ON_REQUEST);
    size_t count = sizeof all / sizeof *all;
    memcpy(list, all, sizeof all);
    if (p->extras & WEFT_SINKS) {
        list[count++] = sinks;
    }
    if (p->extras & WEFT_BIAS) {
        list[count++] = bias;
    }
    return count + weft_attention_gradient_inputs(p, list + count);
}

/* Tiles are long and short where the mask is causal, and pairs of them are of one sequence. */
static const char *refused_sweep(const weft_problem *problem, int32_t sweep) {
    const weft_attention *p = &problem->attention;
    const int causal = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    return weft_sweep_folds(sweep) && (!causal || p->sequences > 0) ? "a causal mask and no packed batch" : NULL;
}

static size_t sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_attention *p = &t->problem->attention;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "seq", p->seq, BLOCK, 0};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "kv_seq", p->kv_seq, BLOCK, 0};
    return 2;
}

int64_t weft_attention_head_parts(const weft_attention *p, int64_t split) {
    int64_t divisor = p->heads / p->kv_heads;
    for (int64_t rest = weft_larger(split, 1); rest > 0;) {
        const int64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return divisor;
}

/* Parts of all groups of a batch, whose heads are lines of blocks of queries; and parts of each line. */
static int64_t lines_of(const weft_tiling *t) {
    const weft_attention *p = &t->problem->attention;
    return p->kv_heads * weft_attention_head_parts(p, t->schedule->split);
}

static int64_t line_parts_of(const weft_tiling *t) {
    return weft_larger(t->schedule->split, 1) / weft_attention_head_parts(&t->problem->attention, t->schedule->split);
}

static void lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const weft_slice slice = weft_attention_slice(p); /* of queries x keys; here keys are the rows */
    *reach = weft_reach_make(p->kv_seq, p->seq, s->tile_n, s->tile_m, weft_slice_transpose(&slice));
    if (weft_attention_has_band(p)) {
        weft_reach_set_band(reach, weft_attention_band(p), weft_attention_sequences(p), 1);
        reach->blocks = weft_attention_blocks(p); /* lists are of queries: tiles of keys visit what the band shows */
    }
    weft_reach_set_parts(reach, line_parts_of(t));
    *tiles = (weft_grid){p->batch, lines_of(t) * reach->parts, weft_reach_tiles(reach)};
}

/* Two forms of the kernel. With adds, a tile reads blocks of Q and dO, with a log-sum-exp and a delta for each query, and
 * adds to dQ in fp32. With passes of its own for dQ, the tile adds nothing; afterwards it takes the block of queries of its
 * own number, for one head of the group after the other, and reads blocks of K and V, which are as long as those of
 * queries before. Products are computed again: seven in all, not five. */
static int64_t group_of(const weft_tiling *t) {
    return t->problem->attention.heads / lines_of(t);
}

/* Q and dO of some queries of one head, and two numbers of fp32 for each. */
static int64_t query_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), number = (int64_t)sizeof(float);
    return weft_sectors(queries, p->head_dim * bytes, p->q_strides.seq * bytes, sector) +
           weft_sectors(queries, p->head_dim_v * bytes, p->o_strides.seq * bytes, sector) +
           2 * weft_sectors(queries, number, number, sector);
}

/* dQ of some queries of one head: as fp32 sums, or as it is handed out. */
static int64_t sum_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t row = p->head_dim * (int64_t)sizeof(float);
    return weft_sectors(queries, row, row, sector);
}

static int64_t dq_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(weft_attention_out_dtype(p));
    return weft_sectors(queries, p->head_dim * bytes, p->q_strides.seq * bytes, sector);
}

/* K and V of some keys of one head, or their gradients, which are of the dtype of results. */
static int64_t key_sectors(const weft_attention *p, weft_dtype dtype, int64_t keys, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(dtype);
    return weft_sectors(keys, p->head_dim * bytes, p->k_strides.seq * bytes, sector) +
           weft_sectors(keys, p->head_dim_v * bytes, p->v_strides.seq * bytes, sector);
}

static const char *refused(const weft_tiling *t) {
    const weft_attention *p = &t->problem->attention;
    if (t->schedule->cluster_m * t->schedule->cluster_n > 1) {
        return "the simulator takes attention backward without clusters";
    }
    if (t->dq_pass && t->schedule->split > 1) {
        return "the simulator takes attention backward with passes for dQ without a split";
    }
    if (p->block_rows > 0) {
        return "the simulator takes attention backward without a block mask";
    }
    if (t->dq_pass && (p->mask != WEFT_MASK_NONE || weft_attention_has_band(p) || p->seq != p->kv_seq)) {
        return "the simulator takes attention backward with passes for dQ without a mask, for as many queries as keys";
    }
    return NULL;
}

static void pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *to) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const int64_t lines = p->batch * lines_of(t), group = group_of(t);
    *to = (weft_pieces){
        .refused = refused(t),
        .sections = 2,
        .section = {{"Q and dO", "kv head", lines}, {t->dq_pass ? "K and V" : "sums of dQ", "kv head", lines}},
        .steps = weft_ceil_divide(p->seq, s->tile_m),
        .step = t->dq_pass ? "block" : "query block",
        .read = t->dq_pass ? "blocks of Q and dO, or of K and V" : "blocks of Q, dO and dQ",
        .row = "head",
        .column = "key block",
        .per_piece = t->dq_pass ? 2 : 3,
        .passes = t->dq_pass ? 1 + group : 1};
    const double row = (double)weft_larger(p->head_dim, p->head_dim_v) * 4.0 / (double)sector + 1;
    to->largest = row * fmax(4.0 * (double)group * (double)s->tile_m, 4.0 * (double)s->tile_n);
    const int64_t keys = key_sectors(p, p->dtype, weft_attention_keys(p), sector);
    const int64_t gradients = key_sectors(p, weft_attention_out_dtype(p), weft_attention_keys(p), sector);
    const int vary = weft_sequences_vary(&reach->sequences); /* otherwise all batches are alike */
    int64_t queries = 0;                                     /* of one head of all batches */
    for (int64_t i = 0; i < (vary ? p->batch : 1); i++) {
        const int64_t seen = weft_attention_seen(reach, i);
        queries += query_sectors(p, seen, sector) + (t->dq_pass ? 0 : sum_sectors(p, seen, sector));
    }
    queries *= vary ? 1 : p->batch;
    to->distinct = (uint64_t)(p->heads * queries + p->batch * p->kv_heads * keys);
    to->written =
        (uint64_t)(p->batch * (p->kv_heads * gradients + (t->dq_pass ? p->heads * dq_sectors(p, p->seq, sector) : 0)));
}

/* A pass for dQ of one head: a block of queries, and all keys. */
static void dq_reads(const weft_tiling *t, const weft_visit *visit, int64_t sector, weft_visit_reads *to) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const int64_t left = p->seq - visit->tile.block * s->tile_n, queries = left < s->tile_n ? left : s->tile_n;
    to->stream[0].line += p->batch * lines_of(t);
    to->stream[0].sectors = key_sectors(p, p->dtype, s->tile_m, sector);
    to->stream[0].at_end = key_sectors(p, p->dtype, (p->kv_seq - 1) % s->tile_m + 1, sector);
    to->first_sectors = query_sectors(p, queries, sector);
    to->out_sectors = dq_sectors(p, queries, sector);
    to->exponentials = (double)s->tile_m * (double)s->tile_n;
    to->flops = 2.0 * to->exponentials * (double)(2 * p->head_dim + p->head_dim_v);
}

static void reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *to) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    to->streams = 1;
    to->stream[0].line = visit->tile.batch * lines_of(t) + visit->tile.head / line_parts_of(t);
    to->stream[0].shared = 1;
    to->reads_out = 0;
    to->dtype = p->dtype;
    if (to->pass > 0) {
        dq_reads(t, visit, sector, to);
        return;
    }
    const int64_t group = group_of(t), last = (p->seq - 1) % s->tile_m + 1;
    const int64_t left = weft_reach_has_band(reach) ? visit->cut.rows.end - visit->cut.rows.begin
                                                    : p->kv_seq - visit->tile.block * s->tile_n;
    to->stream[0].sectors = group * query_sectors(p, s->tile_m, sector);
    to->stream[0].at_end = group * query_sectors(p, last, sector);
    if (!t->dq_pass) {
        to->sums.line = to->stream[0].line + p->batch * lines_of(t);
        to->sums.sectors = group * sum_sectors(p, s->tile_m, sector);
        to->sums.at_end = group * sum_sectors(p, last, sector);
    }
    const int64_t keys = weft_smaller(left, s->tile_n);
    to->first_sectors = key_sectors(p, p->dtype, keys, sector);
    /* The CTAs of a tile share out what it stores. */
    const int64_t split = weft_larger(s->split, 1), rank = visit->tile.head % split;
    const int64_t gradients = key_sectors(p, weft_attention_out_dtype(p), keys, sector);
    to->out_sectors = gradients * (rank + 1) / split - gradients * rank / split;
    to->exponentials = (double)group * (double)s->tile_m * (double)s->tile_n;
    to->flops = 2.0 * to->exponentials * (double)((t->dq_pass ? 2 : 3) * p->head_dim + 2 * p->head_dim_v);
}

/* K, V, dK and dV stay; Q and dO pass. */
static double step_bytes(const weft_tiling *t) {
    const weft_attention *p = &t->problem->attention;
    const double rows = (double)t->schedule->tile_m + 2.0 * (double)t->schedule->tile_n;
    return rows * (double)(p->head_dim + p->head_dim_v) * (double)weft_dtype_bytes(p->dtype);
}

static int text(const weft_problem *problem, char *to, size_t size) {
    return weft_attention_line("attention backward", &problem->attention, to, size);
}

static int title(const weft_problem *problem, char *to, size_t size) {
    return weft_attention_caption(" backward", &problem->attention, to, size);
}

static size_t key(const weft_problem *problem, int64_t *numbers, char *to, size_t size) {
    return weft_attention_key("attention-backward", &problem->attention, numbers, to, size);
}

const weft_operation_row weft_operation_attention_backward = {
    .info = {.operation = WEFT_ATTENTION_BACKWARD,
             .name = "attention-backward",
             .text = "dQ, dK and dV of an attention from dO",
             .problem_size = sizeof(weft_attention),
             .data_size = sizeof(weft_attention_gradients),
             .grid = WEFT_GRID_HEADS,
             .fields = weft_attention_fields,
             .field_count = WEFT_ATTENTION_FIELDS},
    .profile = offsetof(weft_machine, backward_profile),
    .init = init,
    .resolve = complete,
    .keep = weft_attention_keep,
    .kept_bytes = weft_attention_kept_bytes,
    .lengths = offsetof(weft_attention_gradients, lengths),
    .pairs = offsetof(weft_attention_gradients, pairs),
    .seed = offsetof(weft_attention_gradients, dropout_seed),
    .workspace = offsetof(weft_attention_gradients, workspace),
    .after = WEFT_ATTENTION,
    .flops = flops,
    .buffers = buffers,
    .refused_sweep = refused_sweep,
    .splits_into_tiles = 1,
    .sides = sides,
    .choose = weft_attention_choose,
    .lay_out = lay_out,
    .pieces = pieces,
    .reads = reads,
    .step_bytes = step_bytes,
    .text = text,
    .title = title,
    .key = key,
};
