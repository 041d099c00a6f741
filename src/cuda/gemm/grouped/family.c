/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM for groups, from the host's side: which variant, and the parameters of a launch. */
#include "cuda/gemm/grouped/params.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/gemm/fill.h"
#include "cuda/gemm/lines.h"
#include "cuda/plan/backend.h"
#include "problem/grouped_gemm.h"

static const weft_portable_gemm_variant variants[] = {
#define WEFT_PORTABLE_GROUPED(...) WEFT_PORTABLE_GROUPED_VARIANT(__VA_ARGS__),
#include "cuda/gemm/grouped/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_portable_grouped_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* As for one product: see cuda/gemm/family.c. */
enum { LINE_COST = 16 };

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_MAX_DIMENSION - 4096; /* a tile over the edge counts in 32 bits, too */
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if (p->n > most || p->k > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes dimensions up to %" PRId64, most);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if (s->sweep == WEFT_SWEEP_PAIR) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no pair sweep");
    }
    if (s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it does not share out the steps of a tile");
    }
    return WEFT_OK;
}

/* Whether a variant computes the problem, whatever its tile. */
static int takes(const weft_portable_gemm_variant *v, const weft_grouped_gemm *p, const weft_cuda_device *device) {
    const weft_gemm product = weft_grouped_gemm_product(p);
    const weft_gemm_view view = weft_gemm_view_of(&product);
    return v->dtype == p->dtype && v->b_mn == view.b_mn && v->any == !weft_gemm_lines_of(&product, &view).whole &&
           v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= (uint32_t)device->shared_bytes;
}

static int tile_fits(const weft_portable_gemm_variant *v, const weft_schedule *s) {
    return (s->tile_m == 0 || s->tile_m == v->tile_m) && (s->tile_n == 0 || s->tile_n == v->tile_n) &&
           (s->tile_k == 0 || s->tile_k == v->step);
}

/* How long the SM with the most tiles takes, in no unit that matters. */
static double time_of(const weft_portable_gemm_variant *v, const weft_grouped_gemm *p, const weft_cuda_device *device) {
    const double tiles = weft_grouped_gemm_strips(p, v->tile_m, 1) * (double)weft_ceil_divide(p->n, v->tile_n);
    const double tile = (double)v->tile_m * v->tile_n + (double)LINE_COST * (v->tile_m + v->tile_n);
    return ceil(tiles / (double)device->multiprocessors) * tile;
}

/* The variant to take, or null. */
static const weft_portable_gemm_variant *best_of(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_portable_gemm_variant *best = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_portable_gemm_variant *v = &variants[i];
        if (takes(v, p, device) && tile_fits(v, &plan->schedule) &&
            (!best || time_of(v, p, device) < time_of(best, p, device))) {
            best = v;
        }
    }
    return best;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    (void)knobs; /* how many CTAs share an SM is not its own to say */
    const weft_schedule *s = &plan->schedule;
    const weft_status status = check(plan, why);
    if (status) {
        return status;
    }
    const weft_portable_gemm_variant *v = best_of(plan, device);
    if (!v) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no tiles of %" PRId64 "x%" PRId64 "x%" PRId64 " for this product",
                         s->tile_m, s->tile_n, s->tile_k);
    }
    *choice = (weft_cuda_choice){v->module, v->symbol, v->tile_m, v->tile_n, v->threads, v->shared_bytes, .overlaps = 0};
    return WEFT_OK;
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *s) {
    (void)choice;
    s->tile_k = best_of(plan, device)->step; /* as choose() found */
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    (void)knobs;
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS && count < capacity; i++) {
        const weft_portable_gemm_variant *v = &variants[i];
        if (takes(v, &plan->problem.grouped, device) && tile_fits(v, &plan->schedule)) {
            list[count] = plan->schedule;
            list[count].tile_m = v->tile_m;
            list[count++].tile_n = v->tile_n;
        }
    }
    return count;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *data, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    (void)message;
    const weft_cuda_plan *c = plan->placed;
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_gemm product = weft_grouped_gemm_product(p);
    const weft_group_rows first = {0, 0, 0};
    const weft_gemm_data matrices = weft_grouped_gemm_at(p, data, &first);
    weft_portable_grouped_params *to = parameters;
    weft_portable_gemm_fill(&product, &matrices, walk, counters, &to->product);
    const int32_t *bounds = plan->kept ? (const int32_t *)(uintptr_t)c->lengths : weft_grouped_gemm_bounds(p, data);
    to->groups = weft_grouped_gemm_groups(p, bounds, plan->schedule.tile_m, plan->schedule.cluster_m);
    to->step = weft_groups_step(walk);
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_portable_grouped = {
    .name = "portable_grouped",
    .parameter_bytes = sizeof(weft_portable_grouped_params),
    .choose = choose,
    .complete = complete,
    .fill = fill,
    .candidates = candidates,
};
