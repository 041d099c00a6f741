/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's host side: which variant, its launches, and their parameters. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/decode/fill.h"
#include "cuda/driver/tensor_map.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

static const weft_decode_variant variants[] = {
#define WEFT_DECODE(...) WEFT_DECODE_VARIANT(__VA_ARGS__),
#include "cuda/decode/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_decode_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* Rows, queries times the heads that share keys, that this is made for, at most. */
enum { MOST_ROWS = 64 };

/* CTAs that share the keys of a tile in the Hopper kernel, at most. */
enum { WEFT_HOPPER_SPLIT = 8 };

enum {
    KNOWN = WEFT_HAS_WINDOW | WEFT_HAS_CHUNK | WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_ALIBI |
            WEFT_HAS_OTHER_DIM | WEFT_HAS_CACHE
};

static int64_t sequences_of(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

static int is_aligned(const weft_strides *s) {
    return (s->batch | s->seq | s->head) % 8 == 0;
}

/* The least variant that a problem fits into: in depth, then in rows; of those alike, the first that the GPU has shared
 * memory for. */
static const weft_decode_variant *find(const weft_attention *p, const weft_schedule *s, const weft_cuda_device *device) {
    const weft_decode_variant *best = NULL;
    const int64_t rows = weft_decode_rows(p), depth = weft_larger(p->head_dim, p->head_dim_v);
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_decode_variant *v = &variants[i];
        const int fits = v->dtype == p->dtype && depth <= v->depth &&
                         v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= device->shared_bytes &&
                         (s->tile_m == 0 || s->tile_m == v->rows) && (s->tile_n == 0 || s->tile_n == WEFT_LEAF);
        const int less = best && (v->depth != best->depth ? v->depth < best->depth
                                  : best->rows < rows     ? v->rows > best->rows
                                                          : v->rows < best->rows && v->rows >= rows);
        best = fits && (!best || less) ? v : best;
    }
    return best;
}

static int is_fresh(const weft_attention *p) {
    return p->cache.append > 0 || p->cache.rotary_dim > 0;
}

/* Whether the last query sees the last key, of whatever lengths sequences have. */
static int ends_with_last_key(const weft_attention *p) {
    return weft_attention_band(p).from_end || (!weft_decode_varies(p) && weft_seen_keys(p, 0, p->seq - 1).end == p->kv_seq);
}

static weft_status check(const weft_attention *p, const weft_schedule *s, const weft_cuda_knobs *knobs, weft_message *why) {
    const char *lacks = weft_attention_lacks(p, KNOWN);
    int64_t leaves;
    if (p->dtype != WEFT_FP16 && p->dtype != WEFT_BF16) {
        return weft_fail(why, WEFT_UNSUPPORTED, "dtype %s is not fp16 or bf16", weft_dtype_name(p->dtype));
    }
    if (lacks || knobs->precise) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks ? lacks : "precise math");
    }
    if (weft_attention_most_queries(p) == 0) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has packed batches only with q_most");
    }
    /* The keys of a sequence that runs read are those that queries see, new ones, and all between: nothing, if the last
     * query sees the last key. */
    if (p->cache.append > 0 && !ends_with_last_key(p)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it appends keys only under masks that end with the last key");
    }
    if (weft_decode_rows(p) > MOST_ROWS) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it is for few queries: %" PRId64 " of each of %" PRId64 " heads that share keys are more than %d",
                         weft_attention_most_queries(p), p->heads / p->kv_heads, MOST_ROWS);
    }
    if (!weft_multiply(sequences_of(p) * p->kv_heads, p->kv_seq + WEFT_LEAF, &leaves) || leaves / 2 > INT32_MAX) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has not so many keys");
    }
    if (!is_aligned(&p->q_strides) || !is_aligned(&p->k_strides) || !is_aligned(&p->v_strides) ||
        !is_aligned(&p->o_strides) || !is_aligned(&p->cache.k_new_strides) || !is_aligned(&p->cache.v_new_strides)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no strides that are not multiples of 8");
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
    return WEFT_OK;
}

/* Whether the problem is better off here than with the families behind. What they lack (caches; keys of a sequence that
 * several CTAs share, but for plain tensors on Hopper) decides, and else what was measured: docs/lab/decode.md. */
static int suits(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_attention *p = &plan->attention;
    const int64_t rows = weft_decode_rows(p), tiles = sequences_of(p) * p->kv_heads, sms = device->multiprocessors;
    const int is_named = plan->device.kernel && strncmp(plan->device.kernel, "decode", 6) == 0;
    if (is_named || (weft_attention_asks(p) & WEFT_HAS_CACHE)) {
        return 1;
    }
    if (p->sequences > 0) { /* keys are packed as queries are: a sequence with few of these has few of those */
        return 0;
    }
    if (device->capability != 90 || weft_decode_varies(p)) {
        return rows <= 16 || 2 * tiles < sms;
    }
    return p->kv_seq >= (tiles > 8 ? 4096 : 1024) && (rows <= 16 || (rows <= 32 && WEFT_HOPPER_SPLIT * tiles < sms));
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_status status = check(p, &plan->schedule, knobs, why);
    const weft_decode_variant *v = status ? NULL : find(p, &plan->schedule, device);
    if (status) {
        return status;
    }
    if (v && !suits(plan, device)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it is for few queries over many keys");
    }
    if (!v) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it has no tiles of %" PRId64 "x%" PRId64 " for head_dim %" PRId64 " and this GPU's shared memory",
                         plan->schedule.tile_m, plan->schedule.tile_n, weft_larger(p->head_dim, p->head_dim_v));
    }
    *choice = (weft_cuda_choice){v->module,
                                 is_fresh(p)             ? v->append
                                 : weft_decode_varies(p) ? v->main
                                                         : v->alike,
                                 v->rows,
                                 WEFT_LEAF,
                                 32 * WEFT_DECODE_WARPS,
                                 (uint32_t)v->shared_bytes,
                                 .overlaps = device->capability >= 90,
                                 .ctas = v->ctas};
    return WEFT_OK;
}

static const weft_decode_variant *variant_of(const weft_cuda_choice *choice) {
    size_t i = 0;
    while (strcmp(variants[i].main, choice->kernel) != 0 && strcmp(variants[i].alike, choice->kernel) != 0 &&
           strcmp(variants[i].append, choice->kernel) != 0) {
        i++;
    }
    return &variants[i];
}

/* A sequence of one leaf is one run. Runs of sequences of unlike lengths can be prepared. */
static int passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_decode_variant *v = variant_of(choice);
    const weft_runs runs = weft_decode_runs(plan, v->rows);
    const int merges = plan->attention.kv_seq > WEFT_LEAF, prepares = merges && weft_decode_varies(&plan->attention);
    int count = 0;
    *main = count;
    list[count++] = *choice;
    if (prepares && !is_fresh(&plan->attention)) {
        list[0].when = WEFT_CUDA_UNPREPARED;
        list[count] = *choice;
        list[count].kernel = v->listed;
        list[count].as_main = 1;
        list[count++].when = WEFT_CUDA_PREPARED;
    }
    if (merges) {
        list[count++] = (weft_cuda_choice){.image = v->module,
                                           .kernel = v->merge,
                                           .threads = 32 * WEFT_DECODE_MERGE_WARPS,
                                           .overlaps = choice->overlaps,
                                           .grid = runs.sequences.count * runs.tiles * v->rows /
                                                   weft_decode_merged_rows(&plan->attention, &runs, v->rows)};
    }
    if (prepares) {
        list[count++] = (weft_cuda_choice){.image = "decode_deal",
                                           .kernel = "decode_deal_runs",
                                           .threads = 32 * WEFT_DECODE_DEAL_WARPS,
                                           .grid = 1,
                                           .when = WEFT_CUDA_PREPARES};
    }
    return count;
}

static int64_t heads_in_tile(const weft_plan *plan, const weft_cuda_device *device) {
    return weft_decode_heads_in_tile(&plan->attention, find(&plan->attention, &plan->schedule, device)->rows);
}

static int64_t most_runs(const weft_plan *plan, const weft_decode_variant *v) {
    const weft_runs runs = weft_decode_runs(plan, v->rows);
    return weft_run_most(&runs);
}

static size_t workspace(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_decode_variant *v = variant_of(&c->main->choice);
    const size_t runs = (size_t)most_runs(plan, v), sums = runs * (size_t)(v->rows * (v->depth + 2)) * sizeof(float);
    const size_t dealt = (size_t)sequences_of(&plan->attention) * sizeof(weft_decode_dealt);
    const size_t list = sizeof(weft_decode_list_head) + dealt + runs * sizeof(weft_decode_listed);
    return c->pass_count > 1 ? sums + dealt + (weft_cuda_prepares(plan) ? list : 0) : 0;
}

/* Keys that one tile of rows reads are not read again before those of all other layers have been: the L2 gives them up
 * before anything else, unless it has room for all of this cache. */
static uint64_t keep(const weft_plan *plan, int64_t tiles) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention_extents all = weft_attention_sizes(&plan->attention);
    const size_t bytes = (all.k + all.v) * weft_dtype_bytes(plan->attention.dtype);
    const int fits = bytes <= (size_t)(plan->machine.l2_bytes * plan->machine.domains) / 2;
    return c->knobs.keep_keys || tiles > 1 || fits ? WEFT_KEEP_NORMAL : WEFT_KEEP_FIRST;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)counters;
    (void)message;
    const weft_cuda_plan *c = plan->placed;
    const weft_attention_data *data = buffers;
    const weft_decode_variant *v = variant_of(&c->main->choice);
    weft_decode_params *to = parameters;
    weft_decode_fill(to, plan, data, walk, v->rows, 0);
    to->keep = keep(plan, to->tiles);
    to->sums = data->workspace;
    const int64_t runs = most_runs(plan, v);
    to->stats = to->sums ? to->sums + runs * v->rows * v->depth : NULL;
    to->dealt =
        to->sums && weft_decode_varies(&plan->attention) ? (weft_decode_dealt *)(to->stats + 2 * runs * v->rows) : NULL;
    if (to->dealt && (data->prepared || pass->choice.when == WEFT_CUDA_PREPARES)) {
        to->list_head = (weft_decode_list_head *)(to->dealt + sequences_of(&plan->attention));
        to->dealt = (weft_decode_dealt *)(to->list_head + 1); /* which other runs leave as it is */
        to->list = (weft_decode_listed *)(to->dealt + sequences_of(&plan->attention));
    }
    return WEFT_OK;
}

/* Both launches before and behind the reads, and the share of a chip's bandwidth that these reach, on an H200:
 * docs/lab/decode.md. */
static const double fixed_seconds = 9e-6, bandwidth_share = 0.9;

static double cost(const weft_plan *plan, const weft_cuda_device *device) {
    (void)device;
    const weft_attention *p = &plan->attention;
    const double each =
        (double)p->batch * (double)p->seq / (double)sequences_of(p); /* queries of a sequence, in the mean */
    const double seen = weft_attention_pairs(p) / each;
    const double bytes =
        seen * (double)p->kv_heads * (double)(p->head_dim + p->head_dim_v) * (double)weft_dtype_bytes(p->dtype);
    return fixed_seconds + bytes / (bandwidth_share * plan->machine.dram_bandwidth);
}

const weft_cuda_family weft_cuda_decode = {
    .name = "decode",
    .profile = "decode",
    .parameter_bytes = sizeof(weft_decode_params),
    .spreads = 1,
    .choose = choose,
    .heads_in_tile = heads_in_tile,
    .passes = passes,
    .complete = weft_decode_complete,
    .workspace = workspace,
    .fill = fill,
    .cost = cost,
};
