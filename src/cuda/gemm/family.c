/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM, from the host's side: which variant, and the parameters of a launch. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/gemm/epilogue.h"
#include "cuda/gemm/fill.h"
#include "cuda/gemm/launches.h"
#include "cuda/gemm/lines.h"
#include "cuda/gemm/operands.h"
#include "cuda/gemm/params.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

static const weft_portable_gemm_variant variants[] = {
#define WEFT_PORTABLE_GEMM(...) WEFT_PORTABLE_GEMM_VARIANT(__VA_ARGS__),
#include "cuda/gemm/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_portable_gemm_fused_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* Loading a row of A or a column of B for a tile costs as much as multiplying so many elements of the tile: an estimate, by
 * what an SM gets from its L2 (64 bytes a clock) beside its products (1024 a clock), a half of it hidden. */
enum { LINE_COST = 16 };

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_MAX_DIMENSION - 4096; /* a tile over the edge counts in 32 bits, too */
    if (p->m > most || p->n > most || p->k > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes dimensions up to %" PRId64, most);
    }
    weft_status status;
    if ((status = weft_gemm_check_parts(&plan->gemm, s->sweep, why)) || (status = weft_gemm_check_epilogue(p, why))) {
        return status;
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

/* A variant's tile in the schedule's terms. */
static int64_t tile_m_of(const weft_portable_gemm_variant *v, int swapped) {
    return swapped ? v->tile_n : v->tile_m;
}

static int64_t tile_n_of(const weft_portable_gemm_variant *v, int swapped) {
    return swapped ? v->tile_m : v->tile_n;
}

/* Whether a variant computes the problem, whatever its tile. */
static int takes(const weft_portable_gemm_variant *v, const weft_gemm *p, const weft_gemm_view *view,
                 const weft_cuda_device *device) {
    return v->dtype == weft_gemm_multiplied(p) && v->a_mn == view->a_mn && v->b_mn == view->b_mn &&
           v->any == !weft_gemm_lines_of(p, view).whole && v->fused == weft_gemm_is_fused(p) &&
           v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= (uint32_t)device->shared_bytes;
}

static int tile_fits(const weft_portable_gemm_variant *v, const weft_schedule *s, int swapped) {
    return (s->tile_m == 0 || s->tile_m == tile_m_of(v, swapped)) &&
           (s->tile_n == 0 || s->tile_n == tile_n_of(v, swapped)) && (s->tile_k == 0 || s->tile_k == v->step);
}

/* How long the SM with the most tiles takes, in no unit that matters. */
static double time_of(const weft_portable_gemm_variant *v, const weft_gemm *p, const weft_gemm_view *view,
                      const weft_cuda_device *device) {
    const double tiles =
        (double)p->batch * (double)weft_ceil_divide(view->m, v->tile_m) * (double)weft_ceil_divide(view->n, v->tile_n);
    const double tile = (double)v->tile_m * v->tile_n + (double)LINE_COST * (v->tile_m + v->tile_n);
    return ceil(tiles / (double)device->multiprocessors) * tile;
}

/* The variant to take, or null. */
static const weft_portable_gemm_variant *best_of(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    const weft_gemm_view view = weft_gemm_view_of(p);
    const weft_portable_gemm_variant *best = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_portable_gemm_variant *v = &variants[i];
        if (takes(v, p, &view, device) && tile_fits(v, &plan->schedule, view.swapped) &&
            (!best || time_of(v, p, &view, device) < time_of(best, p, &view, device))) {
            best = v;
        }
    }
    return best;
}

/* Why no variant has the schedule's tile. Says what there would be. */
static weft_status explain_tile(const weft_plan *plan, const weft_cuda_device *device, weft_message *why) {
    const weft_schedule *s = &plan->schedule;
    const weft_gemm p = weft_gemm_in_halves(&plan->gemm);
    const weft_gemm_view view = weft_gemm_view_of(&p);
    char tiles[120] = "";
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_portable_gemm_variant *v = &variants[i];
        if (takes(v, &p, &view, device)) {
            const size_t length = strlen(tiles);
            snprintf(tiles + length, sizeof tiles - length, " %" PRId64 "x%" PRId64 "x%d", tile_m_of(v, view.swapped),
                     tile_n_of(v, view.swapped), (int)v->step);
        }
    }
    return tiles[0] ? weft_fail(why, WEFT_UNSUPPORTED,
                                "it has no tiles of %" PRId64 "x%" PRId64 "x%" PRId64 "; for this product there are%s",
                                s->tile_m, s->tile_n, s->tile_k, tiles)
                    : weft_fail(why, WEFT_UNSUPPORTED, "its tiles need more shared memory than this GPU has");
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    (void)knobs; /* how many CTAs share an SM is not its own to say */
    const weft_status status = check(plan, why);
    if (status) {
        return status;
    }
    const weft_portable_gemm_variant *v = best_of(plan, device);
    if (!v) {
        return explain_tile(plan, device, why);
    }
    const int swapped = weft_gemm_view_of(&plan->gemm).swapped;
    *choice = (weft_cuda_choice){v->module,  v->symbol,       tile_m_of(v, swapped), tile_n_of(v, swapped),
                                 v->threads, v->shared_bytes, .overlaps = 0};
    return WEFT_OK;
}

/* A wave of w workers reads g columns of tiles and w / g rows: least where both are as long. */
static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *s) {
    const weft_portable_gemm_variant *v = best_of(plan, device); /* as choose() found */
    const weft_cuda_plan *c = plan->placed;
    const int64_t workers = s->workers ? s->workers : (int64_t)device->multiprocessors * c->main->ctas;
    s->tile_k = v->step;
    s->order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_SERPENTINE : s->order;
    if (s->group == 0 && (s->order == WEFT_ORDER_GROUP || s->order == WEFT_ORDER_SERPENTINE)) {
        const double across = (double)(s->axis == WEFT_AXIS_M ? choice->tile_m : choice->tile_n);
        const double along = (double)(s->axis == WEFT_AXIS_M ? choice->tile_n : choice->tile_m);
        s->group = (int64_t)fmax(1, round(sqrt((double)workers * along / across)));
    }
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    (void)knobs;
    const weft_gemm p = weft_gemm_in_halves(&plan->gemm);
    const weft_gemm_view view = weft_gemm_view_of(&p);
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS && count < capacity; i++) {
        const weft_portable_gemm_variant *v = &variants[i];
        if (takes(v, &p, &view, device) && tile_fits(v, &plan->schedule, view.swapped)) {
            list[count] = plan->schedule;
            list[count].tile_m = tile_m_of(v, view.swapped);
            list[count++].tile_n = tile_n_of(v, view.swapped);
        }
    }
    return count;
}

void weft_portable_gemm_fill(const weft_gemm *p, const weft_gemm_data *data, const weft_walk *walk,
                             const weft_counters *counters, weft_portable_gemm_params *to) {
    const weft_gemm_view view = weft_gemm_view_of(p);
    const weft_gemm_lines lines = weft_gemm_lines_of(p, &view);
    memset(to, 0, sizeof *to);
    to->a = view.swapped ? data->b : data->a;
    to->b = view.swapped ? data->a : data->b;
    to->c = data->c;
    to->lda = lines.lda;
    to->ldb = lines.ldb;
    to->ldc = p->ldc;
    to->a_stride = view.a_stride;
    to->b_stride = view.b_stride;
    to->c_stride = p->c_stride;
    to->m = (int32_t)view.m;
    to->n = (int32_t)(p->gated ? weft_gemm_columns(p) : view.n);
    to->k = (int32_t)p->k;
    to->alpha = (float)p->alpha;
    to->beta = (float)p->beta;
    to->c_dtype = (int32_t)p->c_dtype;
    to->swapped = view.swapped;
    to->a_unit = lines.a_unit;
    to->b_unit = lines.b_unit;
    to->c_wide = lines.c_wide;
    to->counter = walk->dispatch == WEFT_DISPATCH_DYNAMIC ? counters->own : NULL;
    to->walk = *walk;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)message;
    const weft_gemm *p = &((const weft_cuda_plan *)plan->placed)->computed.gemm;
    weft_portable_gemm_fused_params *fused = parameters;
    if (weft_gemm_fill_beside(plan, pass, buffers, parameters)) {
        return WEFT_OK;
    }
    const weft_gemm_data own = weft_gemm_data_in_halves(&plan->gemm, buffers), *data = &own;
    memset(fused, 0, sizeof *fused);
    weft_portable_gemm_fill(p, data, walk, counters, &fused->product);
    if (weft_gemm_is_fused(p)) {
        fused->epilogue = weft_gemm_epilogue_of(p, data);
        fused->residual = p->extras & WEFT_GEMM_RESIDUAL ? data->residual : NULL;
        fused->ld_residual = p->ld_residual;
        fused->residual_stride = p->residual_stride;
    }
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_portable_gemm = {
    .name = "portable_gemm",
    .parameter_bytes = sizeof(weft_portable_gemm_fused_params),
    .choose = choose,
    .complete = complete,
    .computes = weft_gemm_computes,
    .passes = weft_gemm_passes,
    .workspace = weft_gemm_workspace,
    .fill = fill,
    .candidates = candidates,
};
