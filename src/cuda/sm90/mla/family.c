/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the kernel for multi-head latent attention: what it takes, its launches, and their parameters. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "cuda/decode/fill.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/mla/params.h"
#include "problem/problem.h"

static const weft_mla_variant variants[] = {
#define WEFT_MLA(...) WEFT_MLA_VARIANT(__VA_ARGS__),
#include "cuda/sm90/mla/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_mla_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

enum {
    KNOWN = WEFT_HAS_WINDOW | WEFT_HAS_CHUNK | WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_OTHER_DIM |
            WEFT_HAS_LARGE_DIM | WEFT_HAS_PAGES | WEFT_HAS_QV
};

/* The pages of K and V, or batches where there are none: how many, and of how many keys. */
static int64_t pages_of(const weft_attention *p) {
    return p->cache.page > 0 ? p->cache.pages : p->batch;
}

static int64_t keys_of(const weft_attention *p) {
    return p->cache.page > 0 ? p->cache.page : p->kv_seq;
}

/* Rows of a copy: the largest power of two that divides pages, up to a block. */
static int64_t copy_rows(const weft_attention *p) {
    int64_t rows = WEFT_MLA_KEYS;
    while (p->cache.page % rows != 0) {
        rows /= 2;
    }
    return rows;
}

static const weft_mla_variant *find(const weft_attention *p) {
    for (size_t i = 0; i < VARIANTS; i++) {
        if (variants[i].dtype == p->dtype) {
            return &variants[i];
        }
    }
    return NULL;
}

static int64_t sequences_of(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

/* Tiles of all sequences, at most: of a packed batch each may end with one that is not full. */
static int64_t count_tiles(const weft_attention *p) {
    const int64_t each = (weft_decode_rows(p) + WEFT_MLA_ROWS - 1) / WEFT_MLA_ROWS,
                  rows = p->seq * (p->heads / p->kv_heads);
    const int64_t full = p->batch * (rows / WEFT_MLA_ROWS);
    return p->kv_heads * weft_smaller(sequences_of(p) * each, full + sequences_of(p));
}

/* Runs of a sequence, and of all of them, at most. */
static int64_t most_runs(const weft_attention *p) {
    return weft_run_most_alone((p->kv_seq + WEFT_LEAF - 1) / WEFT_LEAF);
}

static int64_t count_places(const weft_attention *p) {
    return count_tiles(p) * most_runs(p);
}

/* Sums of a run's rows, their largest scores and sums of weights; and of how many runs the workspace would be too large. */
enum { PLACE_BYTES = WEFT_MLA_ROWS * (WEFT_MLA_DEPTH_V + 2) * 4, MOST_PLACES = (INT64_C(16) << 30) / PLACE_BYTES };

static weft_status check_strides(const weft_attention *p, weft_message *why) {
    weft_status status;
    if ((status = weft_tensor_check_strides("q", &p->q_strides, p->batch, p->seq, p->heads, why)) ||
        (status = weft_tensor_check_strides("qv", &p->qv_strides, p->batch, p->seq, p->heads, why)) ||
        (status = weft_tensor_check_strides("k", &p->k_strides, pages_of(p), keys_of(p), p->kv_heads, why)) ||
        (status = weft_tensor_check_strides("v", &p->v_strides, pages_of(p), keys_of(p), p->kv_heads, why))) {
        return status;
    }
    return weft_tensor_check_strides("o", &p->o_strides, p->batch, p->seq, p->heads, why);
}

static weft_status check_schedule(const weft_schedule *s, const weft_cuda_knobs *knobs, weft_message *why) {
    if ((s->tile_m != 0 && s->tile_m != WEFT_MLA_ROWS) || (s->tile_n != 0 && s->tile_n != WEFT_LEAF)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has tiles of %dx%d, not %" PRId64 "x%" PRId64, WEFT_MLA_ROWS, WEFT_LEAF,
                         s->tile_m, s->tile_n);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1 || s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if (s->dispatch != WEFT_DISPATCH_CHOOSE && s->dispatch != WEFT_DISPATCH_STATIC) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its workers take runs of keys one after the other: static dispatch only");
    }
    if (s->sweep != WEFT_SWEEP_CHOOSE && s->sweep != WEFT_SWEEP_FORWARD) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has forward sweeps only");
    }
    return weft_cuda_knobs_refuse(knobs, why);
}

static weft_status check(const weft_plan *plan, const weft_cuda_knobs *knobs, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const char *lacks = weft_attention_lacks(p, KNOWN);
    const weft_cuda_driver *driver;
    weft_status status;
    if (!(p->extras & WEFT_QV)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it needs qv");
    }
    if (p->dtype != WEFT_FP16 && p->dtype != WEFT_BF16) {
        return weft_fail(why, WEFT_UNSUPPORTED, "dtype %s is not fp16 or bf16", weft_dtype_name(p->dtype));
    }
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    if (p->head_dim > WEFT_MLA_DEPTH_K || p->head_dim_v > WEFT_MLA_DEPTH_V) {
        return weft_fail(why, WEFT_UNSUPPORTED, "head dims of %" PRId64 " and, for V, %" PRId64 " are more than %d and %d",
                         p->head_dim, p->head_dim_v, WEFT_MLA_DEPTH_K, WEFT_MLA_DEPTH_V);
    }
    if (p->kv_seq > INT32_MAX - WEFT_LEAF) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has not so many keys");
    }
    int64_t places;
    if (!weft_multiply(count_tiles(p), most_runs(p), &places) || places > MOST_PLACES) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it is for few queries: their workspace would be of more than 16 GB");
    }
    if ((status = check_strides(p, why)) || (status = check_schedule(&plan->schedule, knobs, why)) || plan->on_paper ||
        (status = weft_cuda_driver_get(&driver, why))) {
        return status;
    }
    return driver->tensor_map ? WEFT_OK : weft_fail(why, WEFT_UNSUPPORTED, "the CUDA driver has no tensor maps");
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_status status = check(plan, knobs, why);
    const weft_mla_variant *v = status ? NULL : find(&plan->attention);
    if (status) {
        return status;
    }
    if (!v || device->shared_bytes < WEFT_MLA_SHARED_BYTES) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no kernel of this dtype for this GPU's shared memory");
    }
    *choice = (weft_cuda_choice){v->module,     v->main,  WEFT_MLA_ROWS, WEFT_LEAF, WEFT_MLA_THREADS, WEFT_MLA_SHARED_BYTES,
                                 .overlaps = 1, .ctas = 1};
    return WEFT_OK;
}

/* Eights of rows of a tile that there can be. */
static int64_t merged_rows(const weft_attention *p) {
    return (weft_smaller(weft_decode_rows(p), WEFT_MLA_ROWS) + WEFT_MLA_MERGED - 1) / WEFT_MLA_MERGED;
}

/* A sequence of one leaf is one run. */
static int passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_attention *p = &plan->attention;
    const int64_t tiles = sequences_of(p) * weft_decode_runs(plan, WEFT_MLA_ROWS).tiles;
    *main = 0;
    list[0] = *choice;
    list[1] = (weft_cuda_choice){.image = choice->image,
                                 .kernel = find(p)->merge,
                                 .threads = 32 * WEFT_DECODE_MERGE_WARPS,
                                 .overlaps = 1,
                                 .grid = tiles * merged_rows(p) * (WEFT_MLA_DEPTH_V / (32 * WEFT_DECODE_MERGE_WARPS))};
    return p->kv_seq > WEFT_LEAF ? 2 : 1;
}

static int64_t heads_in_tile(const weft_plan *plan, const weft_cuda_device *device) {
    (void)device;
    return weft_decode_heads_in_tile(&plan->attention, WEFT_MLA_ROWS);
}

static size_t workspace(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    return c->pass_count > 1 ? (size_t)count_places(p) * PLACE_BYTES + (size_t)sequences_of(p) * sizeof(weft_decode_dealt)
                             : 0;
}

/* K or V in boxes of so many rows. */
static weft_status make_map(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                            int64_t dim, int64_t rows, weft_tensor_map *map, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 4,
                                   .length = {dim, keys_of(p), p->kv_heads, pages_of(p)},
                                   .stride = {1, strides->seq, strides->head, strides->batch},
                                   .box = {64, (int32_t)rows, 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

static weft_status make_maps(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                             int64_t dim, weft_mla_maps *maps, weft_message *message) {
    const int64_t rows = copy_rows(&plan->attention);
    weft_status status;
    if ((status = make_map(plan, name, data, strides, dim, rows, &maps->many, message)) ||
        (status = make_map(plan, name, data, strides, dim, weft_smaller(rows, 8), &maps->eight, message))) {
        return status;
    }
    return make_map(plan, name, data, strides, dim, 1, &maps->one, message);
}

/* V, QV and Q in boxes side by side, as far as they can be: see weft_mla_wide. */
static weft_status make_wide(const weft_plan *plan, const weft_attention_data *data, weft_mla_wide *wide,
                             weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_cuda_driver *driver = ((const weft_cuda_plan *)plan->placed)->driver;
    const int64_t group = p->heads / p->kv_heads, heads = weft_smaller(group, WEFT_MLA_ROWS); /* of a box of Q */
    const weft_strides *v = &p->v_strides, *q = &p->q_strides, *qv = &p->qv_strides;
    const int64_t across = p->head_dim_v / 64;
    const int32_t queries = (int32_t)(WEFT_MLA_ROWS / heads);
    weft_status status;
    if (p->head_dim_v % 64 != 0) {
        return WEFT_OK;
    }
    wide->has_v = copy_rows(p) == WEFT_MLA_KEYS;
    wide->has_q = group % heads == 0 && WEFT_MLA_ROWS % heads == 0;
    const weft_tensor_view of_v = {.data = data->v,
                                   .dtype = p->dtype,
                                   .rank = 5,
                                   .length = {64, keys_of(p), across, p->kv_heads, pages_of(p)},
                                   .stride = {1, v->seq, 64, v->head, v->batch},
                                   .box = {64, WEFT_MLA_KEYS, WEFT_MLA_WIDE, 1, 1},
                                   .swizzle = 1};
    const weft_tensor_view of_qv = {.data = data->qv,
                                    .dtype = p->dtype,
                                    .rank = 5,
                                    .length = {64, p->heads, p->seq, across, p->batch},
                                    .stride = {1, qv->head, qv->seq, 64, qv->batch},
                                    .box = {64, (int32_t)heads, queries, WEFT_MLA_WIDE, 1},
                                    .swizzle = 1};
    const weft_tensor_view of_q = {.data = data->q,
                                   .dtype = p->dtype,
                                   .rank = 4,
                                   .length = {p->head_dim, p->heads, p->seq, p->batch},
                                   .stride = {1, q->head, q->seq, q->batch},
                                   .box = {64, (int32_t)heads, queries, 1},
                                   .swizzle = 1};
    if (wide->has_v && (status = weft_tensor_map_make(driver, "v", &of_v, &wide->v, message))) {
        return status;
    }
    if (wide->has_q && ((status = weft_tensor_map_make(driver, "qv", &of_qv, &wide->qv, message)) ||
                        (status = weft_tensor_map_make(driver, "q", &of_q, &wide->q, message)))) {
        return status;
    }
    return WEFT_OK;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    (void)counters;
    const weft_attention *p = &plan->attention;
    const weft_attention_data *data = buffers;
    weft_mla_params *to = parameters;
    weft_status status;
    memset(to, 0, sizeof *to);
    if ((status = make_maps(plan, "k", data->k, &p->k_strides, p->head_dim, &to->k, message)) ||
        (status = make_maps(plan, "v", data->v, &p->v_strides, p->head_dim_v, &to->v, message)) ||
        (status = make_wide(plan, data, &to->wide, message))) {
        return status;
    }
    weft_decode_fill(&to->all, plan, data, walk, WEFT_MLA_ROWS, 1);
    to->all.sums = data->workspace;
    to->places = (int32_t)count_places(p);
    to->merged = (int32_t)merged_rows(p);
    if (to->all.sums) {
        to->all.stats = to->all.sums + (int64_t)to->places * WEFT_MLA_ROWS * WEFT_MLA_DEPTH_V;
        to->all.dealt = (weft_decode_dealt *)(void *)(to->all.stats + (int64_t)to->places * WEFT_MLA_ROWS * 2);
    }
    to->qv = data->qv;
    to->qv_strides = p->qv_strides;
    to->keep =
        to->all.tiles > 1 ? WEFT_KEEP_NORMAL : WEFT_KEEP_FIRST; /* the next tile of rows reads them again, or nobody */
    to->rows = (int32_t)copy_rows(p);
    to->copies = WEFT_MLA_KEYS / to->rows;
    return WEFT_OK;
}

/* What a launch takes beside its keys, and the shares of a chip's bandwidth and of its products, within a fifth of what an
 * H200 took for 16 to 128 heads of 16 sequences and more: docs/lab/mla.md. */
static const double fixed_seconds = 20e-6, bandwidth_share = 0.8, products_share = 0.46;

static double matrix_rate(const weft_plan *plan) {
    return plan->attention.dtype == WEFT_BF16 ? plan->machine.matrix_bf16 : plan->machine.matrix_fp16;
}

static double cost(const weft_plan *plan, const weft_cuda_device *device) {
    (void)device;
    const weft_attention *p = &plan->attention;
    const double pairs = weft_attention_pairs(p), dims = (double)(p->head_dim + p->head_dim_v);
    const double bytes = pairs / (double)p->seq * (double)p->kv_heads * dims * (double)weft_dtype_bytes(p->dtype);
    const int64_t tiles = (weft_decode_rows(p) + WEFT_MLA_ROWS - 1) / WEFT_MLA_ROWS;
    const double rows = (double)(tiles * WEFT_MLA_ROWS) / (double)p->seq; /* that are multiplied, for each query */
    const double products = 2 * pairs * rows * (double)p->kv_heads * (WEFT_MLA_DEPTH_K + 2 * WEFT_MLA_DEPTH_V);
    return fixed_seconds +
           fmax(bytes / (bandwidth_share * plan->machine.dram_bandwidth), products / (products_share * matrix_rate(plan)));
}

const weft_cuda_family weft_cuda_mla = {
    .name = "mla",
    .profile = "decode",
    .parameter_bytes = sizeof(weft_mla_params),
    .spreads = 1,
    .choose = choose,
    .heads_in_tile = heads_in_tile,
    .passes = passes,
    .complete = weft_decode_complete,
    .workspace = workspace,
    .fill = fill,
    .cost = cost,
};
