/* SPDX-License-Identifier: Apache-2.0 */
/* The study kernel's host side: which variant, and its parameters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/study/fill.h"
#include "problem/problem.h"

static const weft_study_variant variants[] = {
#define WEFT_STUDY(...)         WEFT_STUDY_VARIANT(__VA_ARGS__),
#define WEFT_STUDY_GENERAL(...) WEFT_STUDY_GENERAL_VARIANT(__VA_ARGS__),
#include "cuda/study/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_study_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");
_Static_assert(sizeof(weft_study_append) <= sizeof(weft_study_params), "the parameters of all launches fit");

static const struct study_costs {
#define WEFT_COST(name, value, unit, source, meaning) double name;
#include "cuda/study/costs.def"
} cost = {
#define WEFT_COST(name, value, unit, source, meaning) value,
#include "cuda/study/costs.def"
};

static const int32_t preferred[][3] = {
#define WEFT_PREFERRED(head_dim, tile_m, tile_n) {head_dim, tile_m, tile_n},
#include "cuda/study/costs.def"
};
enum { PREFERRED = sizeof preferred / sizeof *preferred };

static int tile_fits(const weft_study_variant *v, const weft_schedule *s) {
    return (s->tile_m == 0 || s->tile_m == v->tile_m) && (s->tile_n == 0 || s->tile_n == v->tile_n);
}

/* How early a tile comes among the preferred ones: less is earlier. */
static size_t rank(const weft_study_variant *v) {
    size_t i = 0;
    while (i < PREFERRED && ((preferred[i][0] != 0 && preferred[i][0] != v->head_dim) || preferred[i][1] != v->tile_m ||
                             preferred[i][2] != v->tile_n)) {
        i++;
    }
    return i;
}

static int is_aligned(const weft_strides *s) {
    return (s->batch | s->seq | s->head) % 8 == 0;
}

static int is_general(const weft_study_variant *v) {
    return v->head_dim_v > 0;
}

/* What general variants have. */
enum { KNOWN = WEFT_HAS_UNCACHED | WEFT_HAS_CACHE | WEFT_HAS_FP32_OUT };

/* Whether a variant computes the problem. */
static int takes(const weft_study_variant *v, const weft_attention *p, const weft_cuda_knobs *knobs) {
    if (v->dtype != p->dtype || v->math != (weft_study_math)knobs->precise) {
        return 0;
    }
    if (is_general(v)) {
        return p->head_dim <= v->head_dim && p->head_dim_v <= v->head_dim_v && !weft_attention_lacks(p, KNOWN);
    }
    return p->head_dim == v->head_dim && !weft_attention_lacks(p, 0) && is_aligned(&p->q_strides) &&
           is_aligned(&p->k_strides) && is_aligned(&p->v_strides) && is_aligned(&p->o_strides);
}

/* A variant of the kind that is to take the problem, whatever its tile: a plain one, or else a general one with as few
 * zeros as possible. Null: none does. */
static const weft_study_variant *kind_for(const weft_attention *p, const weft_cuda_knobs *knobs) {
    const weft_study_variant *kind = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        const int less = kind && (is_general(v) != is_general(kind) ? is_general(kind) : v->head_dim < kind->head_dim);
        kind = takes(v, p, knobs) && (!kind || less) ? v : kind;
    }
    return kind;
}

static int is_of_kind(const weft_study_variant *v, const weft_study_variant *kind) {
    return v->dtype == kind->dtype && v->math == kind->math && v->head_dim == kind->head_dim &&
           v->head_dim_v == kind->head_dim_v;
}

/* Whether a variant of that kind has the tile that the schedule asks for, on this device. */
static int fits(const weft_study_variant *v, const weft_study_variant *kind, const weft_attention *p,
                const weft_schedule *s, const weft_cuda_device *device) {
    return is_of_kind(v, kind) && tile_fits(v, s) && weft_attention_fits_blocks(p, v->tile_m, v->tile_n) &&
           v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= (uint32_t)device->shared_bytes;
}

/* Why no kind of variant takes a problem. */
static weft_status explain_problem(const weft_attention *p, const weft_cuda_knobs *knobs, weft_message *why) {
    const char *lacks = weft_attention_lacks(p, KNOWN);
    const weft_study_variant *most = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        const int is_one = is_general(v) && v->dtype == p->dtype && v->math == (weft_study_math)knobs->precise;
        most = is_one && (!most || v->head_dim > most->head_dim) ? v : most;
    }
    if (!most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "dtype %s is not fp16 or bf16", weft_dtype_name(p->dtype));
    }
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    return weft_fail(why, WEFT_UNSUPPORTED,
                     "head_dim %" PRId64 " (V: %" PRId64 ") with %s math is not compiled; there is up to %d (V: %d)",
                     p->head_dim, p->head_dim_v, knobs->precise ? "precise" : "fast", (int)most->head_dim,
                     (int)most->head_dim_v);
}

/* Why no variant of a kind has the schedule's tile. Says what there would be. */
static weft_status explain_tile(const weft_study_variant *kind, const weft_attention *p, const weft_schedule *s,
                                const weft_cuda_device *device, weft_message *why) {
    const char *math = kind->math == WEFT_STUDY_PRECISE ? "precise" : "fast";
    char tiles[120] = "";
    int too_large = 0, compiled = 0, inside = 0; /* tiles that the schedule takes; those of them that cross no blocks */
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        if (is_of_kind(v, kind)) {
            const size_t length = strlen(tiles);
            snprintf(tiles + length, sizeof tiles - length, " %dx%d", (int)v->tile_m, (int)v->tile_n);
            compiled |= tile_fits(v, s);
            inside |= tile_fits(v, s) && weft_attention_fits_blocks(p, v->tile_m, v->tile_n);
            too_large |= tile_fits(v, s) && v->shared_bytes + WEFT_CUDA_STATIC_SHARED > (uint32_t)device->shared_bytes;
        }
    }
    if (compiled && !inside) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "no tile divides a mask's blocks of %" PRId64 " queries x %" PRId64
                         " keys; with %s math there are%s",
                         p->block_rows, p->block_columns, math, tiles);
    }
    return weft_fail(why, WEFT_UNSUPPORTED,
                     too_large ? "tile %" PRId64 "x%" PRId64 " needs more shared memory than this GPU has (%s math:%s)"
                               : "tile %" PRId64 "x%" PRId64 " is not compiled; with %s math there are%s",
                     s->tile_m, s->tile_n, math, tiles);
}

/* Whether a variant is to be taken before another of its kind. A tile of more queries than sequences have in the mean would
 * be mostly empty. */
static int is_better(const weft_study_variant *v, const weft_study_variant *other, const weft_attention *p) {
    const int64_t queries = p->sequences > 0 ? p->seq / p->sequences : p->seq;
    if (is_general(v) && v->tile_m != other->tile_m && queries < weft_larger(v->tile_m, other->tile_m)) {
        return v->tile_m < other->tile_m;
    }
    return rank(v) < rank(other);
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_schedule *s = &plan->schedule;
    const weft_study_variant *best = NULL, *kind = kind_for(&plan->attention, knobs);
    if (!kind) {
        return explain_problem(&plan->attention, knobs, why);
    }
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        if (fits(v, kind, &plan->attention, s, device) && (!best || is_better(v, best, &plan->attention))) {
            best = v;
        }
    }
    if (!best) {
        return explain_tile(kind, &plan->attention, s, device, why);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1 || s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    *choice = (weft_cuda_choice){best->module,  best->symbol,       best->tile_m, best->tile_n,
                                 best->threads, best->shared_bytes, .overlaps = 0};
    return WEFT_OK;
}

static size_t workspace(const weft_plan *plan) {
    return weft_study_rotated_bytes(&plan->attention);
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    (void)device;
    (void)choice;
    const weft_mask mask = plan->attention.mask;
    const int is_causal = mask == WEFT_MASK_CAUSAL || mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    if (!is_causal || schedule->order != WEFT_ORDER_CHOOSE) {
        return;
    }
    const int is_short = plan->attention.head_dim == 64 && (double)plan->attention.kv_seq < cost.short_keys;
    const int32_t dispatch = is_short ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_GRID;
    schedule->order = is_short ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_REVERSE;
    schedule->dispatch = schedule->dispatch == WEFT_DISPATCH_CHOOSE ? dispatch : schedule->dispatch;
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    const weft_study_variant *kind = kind_for(&plan->attention, knobs);
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS && count < capacity && kind; i++) {
        if (fits(&variants[i], kind, &plan->attention, &plan->schedule, device)) {
            list[count] = plan->schedule;
            list[count].tile_m = variants[i].tile_m;
            list[count++].tile_n = variants[i].tile_n;
        }
    }
    return count;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)message;
    const weft_cuda_plan *c = plan->placed;
    weft_study_params *to = parameters;
    if (pass != c->main) {
        weft_study_append_fill(parameters, plan, buffers, walk);
        return WEFT_OK;
    }
    weft_study_fill(to, &plan->attention, buffers, walk);
    to->general.pages = weft_cuda_pages(plan, buffers);
    to->mask_every_block = c->knobs.mask_every_block;
    to->no_prefetch = c->knobs.no_prefetch;
    to->counter = counters->own;
    to->worker_of_sm = (const uint32_t *)(uintptr_t)c->worker_of_sm;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_study = {
    .name = "study",
    .profile = "study",
    .parameter_bytes = sizeof(weft_study_params),
    .choose = choose,
    .passes = weft_study_passes,
    .complete = complete,
    .workspace = workspace,
    .fill = fill,
    .candidates = candidates,
};
