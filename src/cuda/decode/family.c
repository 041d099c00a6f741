/* The decode kernel's host side: which variant, its launches, and their parameters. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/decode/params.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

static const weft_decode_variant variants[] = {
#define WEFT_DECODE(...) WEFT_DECODE_VARIANT(__VA_ARGS__),
#include "cuda/decode/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_decode_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* The launches of a run. */
enum { MAIN = 0, MERGE = 1 };

/* Rows, queries times the heads that share keys, that this is made for, at most. */
enum { MOST_ROWS = 64 };

/* CTAs that share the keys of a tile in the Hopper kernel, at most. */
enum { WEFT_HOPPER_SPLIT = 8 };

enum {
    KNOWN = WEFT_HAS_WINDOW | WEFT_HAS_CHUNK | WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_ALIBI |
            WEFT_HAS_OTHER_DIM | WEFT_HAS_CACHE
};

static int64_t rows_of(const weft_attention *p) {
    return weft_attention_most_queries(p) * (p->heads / p->kv_heads);
}

static int64_t sequences_of(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

static int is_aligned(const weft_strides *s) {
    return (s->batch | s->seq | s->head) % 8 == 0;
}

/* The least variant that a problem fits into: in depth, then in rows. */
static const weft_decode_variant *find(const weft_attention *p, const weft_schedule *s, const weft_cuda_device *device) {
    const weft_decode_variant *best = NULL;
    const int64_t rows = rows_of(p), depth = weft_larger(p->head_dim, p->head_dim_v);
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_decode_variant *v = &variants[i];
        const int fits = v->dtype == p->dtype && depth <= v->depth && v->shared_bytes <= device->shared_bytes &&
                         (s->tile_m == 0 || s->tile_m == v->rows) && (s->tile_n == 0 || s->tile_n == WEFT_LEAF);
        const int less = best && (v->depth != best->depth ? v->depth < best->depth
                                  : best->rows < rows     ? v->rows > best->rows
                                                          : v->rows < best->rows && v->rows >= rows);
        best = fits && (!best || less) ? v : best;
    }
    return best;
}

/* Whether sequences differ in length. */
static int varies(const weft_attention *p) {
    return (weft_attention_asks(p) & WEFT_HAS_LENGTHS) != 0;
}

static weft_runs runs_of(const weft_plan *plan, const weft_decode_variant *v) {
    const weft_attention *p = &plan->attention;
    return (weft_runs){.sequences = weft_attention_sequences(p),
                       .band = weft_attention_band(p),
                       .tiles = p->kv_heads * ((rows_of(p) + v->rows - 1) / v->rows),
                       .by_workers = weft_divisor_make((uint64_t)weft_larger(plan->schedule.workers, 1))};
}

static int is_fresh(const weft_attention *p) {
    return p->cache.append > 0 || p->cache.rotary_dim > 0;
}

/* Whether some query sees every key that is appended: who reads a key also stores it. A packed batch may append to
 * sequences without queries. */
static int sees_new(const weft_attention *p) {
    const weft_band band = weft_attention_band(p);
    const int is_open = band.left == WEFT_BAND_OPEN && band.chunk == 0;
    const int has_others = p->extras & (WEFT_Q_USED | WEFT_KV_PAD) || p->lengths.q_used || p->lengths.kv_pad;
    return p->cache.append == 0 ||
           (p->sequences == 0 && band.from_end && (is_open || p->cache.append <= p->seq) && !has_others);
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
    if (!sees_new(p)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it appends no keys that no query may see");
    }
    if (rows_of(p) > MOST_ROWS) {
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
    const int64_t rows = rows_of(p), tiles = sequences_of(p) * p->kv_heads, sms = device->multiprocessors;
    const int is_named = plan->device.kernel && strncmp(plan->device.kernel, "decode", 6) == 0;
    if (is_named || (weft_attention_asks(p) & WEFT_HAS_CACHE)) {
        return 1;
    }
    if (p->sequences > 0) { /* keys are packed as queries are: a sequence with few of these has few of those */
        return 0;
    }
    if (device->capability != 90 || varies(p)) {
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
                                 is_fresh(p) ? v->append : v->main,
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
    while (strcmp(variants[i].main, choice->kernel) != 0 && strcmp(variants[i].append, choice->kernel) != 0) {
        i++;
    }
    return &variants[i];
}

/* Tiles from which on sequences that are all alike are few runs each: then a CTA merges eight rows side by side. */
enum { MANY_TILES = 32 };

static int32_t merged_rows(const weft_attention *p, const weft_runs *runs) {
    return !varies(p) && runs->sequences.count * runs->tiles >= MANY_TILES ? WEFT_DECODE_MERGE_WARPS : 1;
}

/* A sequence of one leaf is one run. */
static int passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_decode_variant *v = variant_of(choice);
    const weft_runs runs = runs_of(plan, v);
    list[MAIN] = *choice;
    list[MERGE] =
        (weft_cuda_choice){.image = v->module,
                           .kernel = v->merge,
                           .threads = 32 * WEFT_DECODE_MERGE_WARPS,
                           .overlaps = choice->overlaps,
                           .grid = runs.sequences.count * runs.tiles * v->rows / merged_rows(&plan->attention, &runs)};
    *main = MAIN;
    return plan->attention.kv_seq > WEFT_LEAF ? MERGE + 1 : MERGE;
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    (void)plan;
    (void)device;
    (void)choice;
    schedule->order = schedule->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_HEAD_FIRST : schedule->order;
    schedule->sweep = WEFT_SWEEP_FORWARD;
    schedule->dispatch = WEFT_DISPATCH_STATIC;
}

/* As many as divide a tile's rows; the simulator's tiles are those. */
static int64_t heads_in_tile(const weft_plan *plan, const weft_cuda_device *device) {
    const int64_t group = plan->attention.heads / plan->attention.kv_heads;
    int64_t rows = find(&plan->attention, &plan->schedule, device)->rows;
    while (group % rows != 0) {
        rows /= 2;
    }
    return rows;
}

static int64_t parts(const weft_plan *plan, const weft_decode_variant *v) {
    const weft_runs runs = runs_of(plan, v);
    return weft_run_most(&runs) * v->rows;
}

static size_t workspace(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_decode_variant *v = variant_of(&c->main->choice);
    return c->pass_count > MERGE ? (size_t)parts(plan, v) * (size_t)(v->depth + 2) * sizeof(float) : 0;
}

static void fill_cache(weft_decode_params *to, const weft_plan *plan, const weft_attention_data *data) {
    const weft_attention *p = &plan->attention;
    to->pages = weft_cuda_pages(plan, data);
    if (p->cache.append > 0) {
        to->k_new = data->cache.k_new;
        to->v_new = data->cache.v_new;
        to->k_new_strides = p->cache.k_new_strides;
        to->v_new_strides = p->cache.v_new_strides;
    }
    if (p->cache.rotary_dim > 0) {
        to->rotary_dim = (int32_t)p->cache.rotary_dim;
        to->rotary_rows = (int32_t)p->cache.rotary_rows;
        to->rotary_interleaved = p->cache.rotary_interleaved;
        to->rotary_moves = p->mask != WEFT_MASK_NONE;
        to->cos = data->cache.cos;
        to->sin = data->cache.sin;
        to->positions = data->cache.positions;
    }
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    (void)counters;
    (void)message;
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    const weft_attention_data *data = buffers;
    const weft_decode_variant *v = variant_of(&c->main->choice);
    const double log2_e = 1.4426950408889634;
    weft_decode_params *to = parameters;
    memset(to, 0, sizeof *to);
    to->q = data->q;
    to->k = (void *)(uintptr_t)data->k;
    to->v = (void *)(uintptr_t)data->v;
    to->o = data->o;
    to->lse = data->lse;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    to->o_strides = p->o_strides;
    to->seq = (int32_t)p->seq;
    to->most = (int32_t)weft_attention_most_queries(p);
    to->heads = (int32_t)p->heads;
    to->kv_heads = (int32_t)p->kv_heads;
    to->group = (int32_t)(p->heads / p->kv_heads);
    to->by_group = weft_divisor_make((uint64_t)to->group);
    to->head_dim = (int32_t)p->head_dim;
    to->head_dim_v = (int32_t)p->head_dim_v;
    /* tanh(x) is 1 - 2 / (2^(2 x log2 e) + 1) */
    to->scale = (float)(p->softcap > 0 ? 2 * p->scale / p->softcap * log2_e : p->scale * log2_e);
    to->cap = (float)(p->softcap * log2_e);
    to->sinks = p->extras & WEFT_SINKS ? data->sinks : NULL;
    to->alibi = p->extras & WEFT_ALIBI ? data->alibi : NULL;
    to->alibi_stride = p->alibi_stride;
    fill_cache(to, plan, data);
    to->runs = runs_of(plan, v);
    if (weft_reach_has_band(&walk->reach)) { /* with the lengths where the kernel reads them */
        to->runs.sequences = walk->reach.sequences;
        to->runs.band = walk->reach.band;
    }
    to->tiles = (int32_t)(to->runs.tiles / p->kv_heads);
    to->merged_rows = merged_rows(p, &to->runs);
    to->by_tiles = weft_divisor_make((uint64_t)to->runs.tiles);
    if (!varies(p)) {
        const weft_rows leaves = weft_run_leaves(&to->runs, 0);
        to->alike = 1;
        to->sequence = weft_sequence_at(&to->runs.sequences, 0);
        to->seen = weft_band_seen(&to->runs.band, &to->sequence, 0);
        to->first = (int32_t)leaves.begin;
        to->leaves = (int32_t)(leaves.end - leaves.begin);
        int32_t counts[WEFT_RUN_LEVELS];
        for (int32_t i = 0; i < WEFT_RUN_LEVELS; i++) {
            counts[i] = (int32_t)(p->batch * to->runs.tiles * weft_run_count(leaves, i));
        }
        to->level = weft_run_level(&to->runs, p->batch * to->leaves * to->runs.tiles, to->leaves, counts);
        to->by_runs = weft_divisor_make((uint64_t)(weft_run_count(leaves, to->level) * to->runs.tiles));
    }
    to->sums = data->workspace;
    to->stats = to->sums ? to->sums + parts(plan, v) * v->depth : NULL;
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
    .complete = complete,
    .workspace = workspace,
    .fill = fill,
    .cost = cost,
};
