/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when an attention kernel is launched: the same, in plain C, from the same parameters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/sm90/attention/params.h"
#include "fake_pages.h"
#include "fake_study.h"
#include "problem/problem.h"
#include "ref/ref.h"

/* The kernels take one full or causal slice. */
static void set_mask(weft_attention *problem, const weft_reach *reach) {
    const int causal = reach->slice.high < WEFT_BAND_OPEN;
    problem->mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    problem->offset = causal ? reach->slice.high : 0;
}

int fake_study_problem(const char *kernel, const weft_study_params *p, weft_attention *problem) {
    const char *operation = strncmp(kernel, "attention_backward_", 19) == 0 ? "attention_backward" : "attention";
    char dtype[8];
    int dim, tile_m, tile_n;
    if (sscanf(kernel + strlen(operation), "_%7[a-z0-9]_d%d_%dx%d_", dtype, &dim, &tile_m, &tile_n) != 4 ||
        p->walk.reach.tile_rows != tile_m || p->walk.reach.tile_columns != tile_n) {
        return 0;
    }
    const weft_attention none = WEFT_ATTENTION_INIT;
    *problem = none;
    problem->heads = p->heads;
    problem->kv_heads = p->heads / (int64_t)p->by_kv_group.value;
    problem->seq = p->seq;
    problem->kv_seq = p->kv_seq;
    problem->head_dim = problem->head_dim_v = dim;
    problem->dtype = (weft_dtype)weft_dtype_find(dtype);
    set_mask(problem, &p->walk.reach);
    problem->scale = (p->negative ? -1 : 1) * (double)p->scale_log2 / 1.44269504088896340736;
    problem->q_strides = p->q_strides;
    problem->k_strides = p->k_strides;
    problem->v_strides = p->v_strides;
    problem->o_strides = p->o_strides;
    return 1;
}

/* Whether a block mask, if there is one, lists a step for a tile of one of its blocks of queries. */
static int is_listed(const weft_attention *problem, const weft_walk *walk, weft_tile tile, int64_t row, int64_t step) {
    const weft_pairs *pairs = &problem->pairs;
    if (!pairs->block_starts) {
        return 1;
    }
    const int64_t list =
        tile.batch * problem->block_batch_stride + tile.head * problem->block_head_stride + row / problem->block_rows;
    for (int32_t i = pairs->block_starts[list]; i < pairs->block_starts[list + 1]; i++) {
        if (pairs->block_list[i] == step * walk->reach.tile_columns / problem->block_columns) {
            return 1;
        }
    }
    return 0;
}

/* The listed steps from the first that a row of the tile sees to the last. A tile of a packed batch may have no row. */
static int64_t steps_of(const weft_attention *problem, const weft_walk *walk, weft_tile tile, weft_rows rows) {
    const int64_t batch = tile.batch;
    int64_t first = weft_attention_columns(problem), end = 0;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        const weft_rows seen = weft_seen_keys(problem, batch, row);
        first = seen.begin < seen.end ? weft_smaller(first, seen.begin) : first;
        end = seen.begin < seen.end ? weft_larger(end, seen.end) : end;
    }
    int64_t steps = 0;
    for (int64_t step = first / walk->reach.tile_columns; step * walk->reach.tile_columns < end; step++) {
        steps += is_listed(problem, walk, tile, rows.begin, step);
    }
    return steps;
}

/* One worker after the other computes the tiles of its walk by the reference, each of `pack` heads. A tile has the steps
 * that its queries see, no more and no fewer. */
static int run_walk(unsigned workers, const weft_attention *problem, const weft_attention_data *data, const weft_walk *walk,
                    int pack, uint64_t *counter) {
    double *weights = malloc((size_t)problem->kv_seq * sizeof *weights), out[WEFT_MAX_HEAD_DIM];
    if (!weights) {
        return 1;
    }
    for (unsigned index = 0; index < workers; index++) {
        weft_worker worker = weft_worker_start(walk, index, counter);
        weft_visit visit;
        while (weft_worker_next(walk, &worker, &visit)) {
            const weft_rows rows = visit.cut.rows;
            const int64_t count = rows.end - rows.begin;
            if (count < 0 || (count == 0 && !problem->sequences) || count > walk->reach.tile_rows ||
                visit.steps != steps_of(problem, walk, visit.tile, rows)) {
                free(weights);
                return 1;
            }
            for (int64_t i = 0; i < count * pack; i++) {
                const int64_t row = rows.begin + i / pack, head = visit.tile.head * pack + i % pack;
                const weft_ref_row of = weft_ref_attention_row(problem, data, visit.tile.batch, head, row, weights, out);
                const size_t at = weft_row_index(&problem->o_strides, visit.tile.batch, row, head);
                const int64_t number = (visit.tile.batch * problem->heads + head) * problem->seq + row;
                for (int64_t d = 0; d < problem->head_dim_v; d++) {
                    /* As the kernel: a key on no page makes the row NaN, also where dropout leaves nothing of it. */
                    weft_ref_store(weft_attention_out_dtype(problem), data->o, at + (size_t)d,
                                   isnan(of.lse) ? NAN : out[d]);
                }
                if (data->lse) {
                    data->lse[number] = (float)of.lse;
                }
                if (data->max) {
                    data->max[number] = (float)of.max;
                }
            }
        }
    }
    free(weights);
    return 0;
}

void fake_study_general(const weft_study_params *p, weft_attention *problem, weft_attention_data *data) {
    const weft_study_general *g = &p->general;
    const weft_reach *reach = &p->walk.reach;
    const weft_band *band = &reach->band;
    const double log2e = 1.44269504088896340736;
    problem->batch = reach->sequences.packed ? 1 : reach->sequences.count;
    problem->sequences = reach->sequences.packed ? reach->sequences.count : 0;
    problem->lengths = reach->sequences.lengths;
    problem->pairs = reach->blocks.pairs;
    problem->block_rows = reach->blocks.rows;
    problem->block_columns = reach->blocks.columns;
    problem->block_batch_stride = reach->blocks.batch_stride;
    problem->block_head_stride = reach->blocks.head_stride;
    problem->block_entries = reach->blocks.entries;
    problem->block_bitmaps = reach->blocks.bitmaps;
    problem->mask = band->from_end ? WEFT_MASK_WINDOW_BOTTOM_RIGHT : WEFT_MASK_WINDOW;
    problem->offset = band->offset;
    problem->left = band->left < WEFT_BAND_OPEN ? band->left : -1;
    problem->right = band->right < WEFT_BAND_OPEN ? band->right : -1;
    problem->chunk = band->chunk;
    problem->prefix = band->prefix;
    problem->head_dim = g->head_dim;
    problem->head_dim_v = g->head_dim_v;
    problem->o_dtype = g->out_bytes == 4 ? 1 + WEFT_FP32 : 0;
    problem->softcap = (double)g->cap / log2e;
    problem->scale = g->cap != 0 ? (double)g->scale * problem->softcap / 2 : (double)g->scale / log2e;
    problem->dropout = (double)g->dropout_limit * 0x1p-32;
    problem->extras = (g->sinks ? WEFT_SINKS : 0) | (g->alibi ? WEFT_ALIBI : 0) | (g->bias ? WEFT_BIAS : 0);
    problem->alibi_stride = g->alibi_stride;
    problem->bias_type = g->bias_type;
    problem->bias_strides = g->bias_strides;
    problem->bias_key_stride = g->bias_key_stride;
    problem->cache.page = g->pages.page;
    problem->cache.pages = g->pages.pages;
    problem->cache.table_stride = g->pages.stride;
    data->cache.table = g->pages.table;
    data->sinks = g->sinks;
    data->alibi = g->alibi;
    data->bias = g->bias;
    data->max = g->max;
    data->dropout_seed = g->dropout_seed;
}

/* Keys that were appended are there by now: they are used like the others. */
static int32_t *all_used(const weft_sequences *all) {
    int32_t *used = malloc((size_t)all->count * sizeof *used);
    weft_sequences unpadded = *all;
    unpadded.lengths.kv_pad = NULL;
    for (int64_t i = 0; used && i < all->count; i++) {
        const weft_rows columns = weft_sequence_at(&unpadded, i).columns;
        used[i] = (int32_t)(columns.end - columns.begin);
    }
    return used;
}

static int run_study(const char *kernel, unsigned grid, const weft_study_params *p) {
    weft_attention problem;
    weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                .operation = WEFT_ATTENTION,
                                .q = p->q,
                                .k = p->k,
                                .v = p->v,
                                .o = p->o,
                                .lse = p->lse};
    weft_walk walk = p->walk;
    int32_t *used = NULL;
    fake_begin(p->counter);
    if (!fake_study_problem(kernel, p, &problem)) {
        return 1;
    }
    if (strstr(kernel, "__study_general")) {
        const weft_study_general *g = &p->general;
        const int has_room = g->head_dim <= problem.head_dim && g->head_dim_v <= problem.head_dim;
        fake_study_general(p, &problem, &data);
        fake_tell(&g->pages, &walk.reach.sequences, &walk.reach.band);
        walk.reach.kind = WEFT_REACH_BLOCKS;
        if (!has_room || (g->max && g->lag != 0)) {
            return 1;
        }
        if (problem.lengths.kv_used && walk.reach.sequences.append > 0) {
            problem.lengths.kv_used = used = all_used(&walk.reach.sequences);
        }
    } else if (p->walk.reach.kind != WEFT_REACH_PREFIX) {
        return 1;
    }
    const int failed = run_walk(grid, &problem, &data, &walk, 1, p->counter);
    free(used);
    return failed;
}

/* A tensor of (head_dim, seq, heads, batch), in boxes of 64 x rows. */
static int tensor_of(const weft_tensor_map *map, weft_dtype dtype, int rows, fake_tensor *t, weft_strides *strides) {
    memcpy(t, map, sizeof *t);
    *strides = (weft_strides){t->stride[3] / 2, t->stride[1] / 2, t->stride[2] / 2};
    return t->rank == 4 && t->type == (dtype == WEFT_BF16 ? 9 : 6) && t->box[0] == 64 && t->box[1] == rows &&
           t->box[2] == 1 && t->box[3] == 1;
}

/* A tensor of (head_dim, pack, seq, heads / pack, batch), in boxes of 64 x pack x queries; strides as without packs. */
static int packed_tensor_of(const weft_tensor_map *map, weft_dtype dtype, int rows, int pack, fake_tensor *t,
                            weft_strides *strides) {
    memcpy(t, map, sizeof *t);
    *strides = (weft_strides){t->stride[4] / 2, t->stride[2] / 2, t->stride[pack > 1 ? 1 : 3] / 2};
    return t->rank == 5 && t->type == (dtype == WEFT_BF16 ? 9 : 6) && t->box[0] == 64 && t->box[1] == pack &&
           t->box[2] == rows / pack && t->box[3] == 1 && t->box[4] == 1 && t->length[1] == pack &&
           (pack == 1 || t->length[3] == 1 || t->stride[3] == pack * t->stride[1]);
}

static int run_hopper(const char *kernel, unsigned grid, const weft_hopper_attention_params *p) {
    char dtype[8];
    int depth, tile_m, tile_n;
    weft_attention problem = WEFT_ATTENTION_INIT;
    fake_tensor q, k, v;
    if (sscanf(kernel, "attention_%7[a-z0-9]_d%d_%dx%d_", dtype, &depth, &tile_m, &tile_n) != 4 ||
        p->walk.reach.tile_rows != tile_m >> p->pack_bits || p->walk.reach.tile_columns != tile_n || p->head_dim > depth) {
        return 1;
    }
    const int pack = 1 << p->pack_bits, group = pack * (int)p->by_kv_group.value;
    problem.dtype = (weft_dtype)weft_dtype_find(dtype);
    if (!packed_tensor_of(&p->q, problem.dtype, tile_m, pack, &q, &problem.q_strides) ||
        !tensor_of(&p->k, problem.dtype, tile_n, &k, &problem.k_strides) ||
        !tensor_of(&p->v, problem.dtype, tile_n, &v, &problem.v_strides) || q.length[0] != p->head_dim ||
        q.length[2] != p->seq || q.length[3] * pack != p->heads || memcmp(k.length, v.length, sizeof k.length) != 0 ||
        k.length[1] != p->kv_seq || k.length[2] * group != p->heads) {
        return 1;
    }
    problem.batch = q.length[4];
    problem.heads = p->heads;
    problem.kv_heads = k.length[2];
    problem.seq = p->seq;
    problem.kv_seq = p->kv_seq;
    problem.head_dim = problem.head_dim_v = p->head_dim;
    set_mask(&problem, &p->walk.reach);
    problem.scale = (double)p->scale_log2 / 1.44269504088896340736;
    problem.o_strides = p->o_strides;
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = (const void *)(uintptr_t)q.data,
                                      .k = (const void *)(uintptr_t)k.data,
                                      .v = (const void *)(uintptr_t)v.data,
                                      .o = p->o,
                                      .lse = p->lse};
    const int64_t lead = p->walk.reach.lead;
    if ((p->counter && p->counter[WEFT_HOPPER_TICKETS] != 0) || p->walk.reach.kind != WEFT_REACH_PREFIX || lead < 0 ||
        lead >= p->walk.reach.tile_rows || lead % (64 / pack) != 0) {
        return 1;
    }
    const int64_t split = p->walk.dispatch == WEFT_DISPATCH_GRID ? grid / p->walk.order.count : 1; /* CTAs of a cluster */
    if (split < 1 || split > (tile_m == 64 ? WEFT_HOPPER_MAX_SPLIT : 1) || grid % split != 0) {
        return 1;
    }
    uint64_t own[WEFT_POOL_COUNTERS] = {0}; /* of the pool */
    if (p->pool && (p->counter || p->pool->lock || p->pool->used)) {
        return 1;
    }
    fake_begin(p->counter);
    const int failed = run_walk(grid / (unsigned)split, &problem, &data, &p->walk, pack, p->pool ? own : p->counter);
    if (p->counter) { /* as the kernel leaves it */
        p->counter[WEFT_HOPPER_TICKETS] = 0;
    }
    return failed;
}

int fake_run_attention(const char *kernel, unsigned grid, void **parameters) {
    return strstr(kernel, "__hopper") ? run_hopper(kernel, grid, parameters[0]) : run_study(kernel, grid, parameters[0]);
}
