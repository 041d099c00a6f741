/* Attention backward as an operation: dQ, dK and dV. A tile is a block of keys of one kv head, for which it holds dK and
 * dV; its steps are blocks of queries, which it takes from every query head of the group. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/sectors.h"

/* Blocks of queries and keys that divide the rows and columns of every kernel. */
enum { BLOCK = 96 };

static void init(weft_problem *problem) {
    weft_attention_init(problem);
    problem->attention.operation = WEFT_ATTENTION_BACKWARD;
}

/* Five products instead of two. */
static double flops(const weft_problem *problem) {
    return 2.5 * weft_attention_forward_flops(problem);
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_attention *p = &problem->attention;
    const weft_attention_extents n = weft_attention_sizes(p);
    const weft_buffer all[] = {
        WEFT_BUFFER_OF(weft_attention_gradients, q, p->dtype, n.q, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, k, p->dtype, n.k, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, v, p->dtype, n.v, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_o, p->dtype, n.o, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_q, p->dtype, n.q, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_k, p->dtype, n.k, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, grad_v, p->dtype, n.v, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_gradients, o, p->dtype, n.o, 16, 1, 1),
        WEFT_BUFFER_OF(weft_attention_gradients, lse, WEFT_FP32, n.lse, sizeof(float), 1, 1),
    };
    memcpy(list, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_attention *p = &t->problem->attention;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "seq", p->seq, BLOCK};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "kv_seq", p->kv_seq, BLOCK};
    return 2;
}

static void lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    *tiles = (weft_grid){p->batch, p->kv_heads, weft_ceil_divide(p->kv_seq, s->tile_n)};
    const weft_slice slice = weft_attention_slice(p); /* of queries x keys; here keys are the rows */
    *reach = weft_reach_make(p->kv_seq, p->seq, s->tile_n, s->tile_m, weft_slice_transpose(&slice));
}

/* Q, dO and the sums of dQ, which are fp32, of a block of queries, for all heads of a group. */
static int64_t query_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), row = p->head_dim * bytes;
    const int64_t sums = p->head_dim * (int64_t)sizeof(float);
    return p->heads / p->kv_heads *
           (weft_sectors(queries, row, p->q_strides.seq * bytes, sector) +
            weft_sectors(queries, row, p->o_strides.seq * bytes, sector) + weft_sectors(queries, sums, sums, sector));
}

static int64_t key_sectors(const weft_attention *p, int64_t keys, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), row = p->head_dim * bytes;
    return weft_sectors(keys, row, p->k_strides.seq * bytes, sector) +
           weft_sectors(keys, row, p->v_strides.seq * bytes, sector);
}

static void pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *to) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const char *const alone = "the simulator takes attention backward without clusters";
    *to = (weft_pieces){.refused = s->cluster_m * s->cluster_n > 1 ? alone : NULL,
                        .sections = 1,
                        .section = {{"Q, dO and dQ", "kv head", p->batch * p->kv_heads}},
                        .steps = weft_ceil_divide(p->seq, s->tile_m),
                        .step = "query block",
                        .read = "blocks of Q, dO and dQ",
                        .per_piece = 3};
    const double row = (double)p->head_dim * 4.0 / (double)sector + 1, group = (double)(p->heads / p->kv_heads);
    to->largest = row * fmax(3.0 * group * (double)s->tile_m, 2.0 * (double)s->tile_n);
    const int64_t lines = p->batch * p->kv_heads, keys = key_sectors(p, p->kv_seq, sector);
    const weft_steps all = weft_slice_steps(&reach->slice, 0, reach->rows, &reach->by_tile_columns);
    const int64_t seen = (all.end * s->tile_m < p->seq ? all.end * s->tile_m : p->seq) - all.begin * s->tile_m;
    to->distinct = (uint64_t)(lines * (query_sectors(p, seen, sector) + keys));
    to->written = (uint64_t)(lines * keys);
}

static void reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *to) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    (void)reach;
    const int64_t last = (p->seq - 1) % s->tile_m + 1, left = p->kv_seq - visit->tile.block * s->tile_n;
    to->streams = 1;
    to->stream[0].line = visit->tile.batch * p->kv_heads + visit->tile.head;
    to->stream[0].sectors = query_sectors(p, s->tile_m, sector);
    to->stream[0].at_end = query_sectors(p, last, sector);
    to->stream[0].shared = 1;
    to->first_sectors = to->out_sectors = key_sectors(p, left < s->tile_n ? left : s->tile_n, sector);
    to->reads_out = 0;
    to->dtype = p->dtype;
    to->exponentials = (double)(p->heads / p->kv_heads) * (double)s->tile_m * (double)s->tile_n;
    to->flops = 10.0 * to->exponentials * (double)p->head_dim;
}

/* K, V, dK and dV stay; Q and dO pass. */
static double step_bytes(const weft_tiling *t) {
    const weft_attention *p = &t->problem->attention;
    const double rows = 2.0 * (double)t->schedule->tile_m + 4.0 * (double)t->schedule->tile_n;
    return rows * (double)p->head_dim * (double)weft_dtype_bytes(p->dtype);
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
    .resolve = weft_attention_complete,
    .flops = flops,
    .buffers = buffers,
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
