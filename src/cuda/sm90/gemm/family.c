/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM, from the host's side: which variant, and the parameters of a launch. */
#include "cuda/sm90/gemm/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/gemm/epilogue.h"
#include "cuda/gemm/launches.h"
#include "cuda/gemm/operands.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/boxes.h"
#include "cuda/sm90/gemm/choose.h"
#include "cuda/sm90/gemm/l2.h"
#include "cuda/sm90/gemm/phases.h"
#include "problem/problem.h"

/* What a launch takes, whatever the variant's form. */
typedef union weft_gemm_any_params {
    weft_gemm_phase_params by_phase;
    weft_gemm_fused_params fused;
} weft_gemm_any_params;

static int64_t at_least_1(int64_t value) {
    return value > 1 ? value : 1;
}

/* What its variants with an epilogue do not have. */
static weft_status check_epilogue(const weft_gemm *p, weft_message *why) {
    const int vectors = (p->extras & (WEFT_GEMM_BIAS | WEFT_GEMM_COLUMN_SCALE)) != 0;
    weft_status status = weft_gemm_check_epilogue(p, why);
    if (status) {
        return status;
    }
    if (p->c_major == WEFT_COL_MAJOR) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no epilogue for a column-major C");
    }
    if ((p->extras & WEFT_GEMM_RESIDUAL) && p->beta != 0) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it adds the old C or a residual, not both");
    }
    if (vectors && (p->n % 2 != 0 || (p->gated && p->n % 4 != 0))) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes a bias or a scale for an even number of columns");
    }
    if (p->extras & WEFT_GEMM_RESIDUAL) {
        status = weft_gemm_check_distance("ld_residual", p->ld_residual, p->c_dtype, why);
        if (status == WEFT_OK && p->batch > 1) {
            status = weft_gemm_check_distance("residual_stride", p->residual_stride, p->c_dtype, why);
        }
    }
    return status;
}

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_MAX_DIMENSION - 4096; /* coordinates of tiles over the edge are 32-bit numbers, too */
    weft_status status;
    if (p->m > most || p->n > most || p->k > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes dimensions up to %" PRId64, most);
    }
    if ((status = weft_gemm_check_parts(&plan->gemm, s->sweep, why)) ||
        (status = weft_gemm_check_distance("ldc", p->ldc, p->c_dtype, why))) {
        return status;
    }
    if (p->batch > 1 && (status = weft_gemm_check_distance("c_stride", p->c_stride, p->c_dtype, why))) {
        return status;
    }
    if (weft_gemm_is_fused(p) && (status = check_epilogue(p, why))) {
        return status;
    }
    if (s->tile_k != 0 && s->tile_k != WEFT_GEMM_STEP) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its steps are %d of k, not %" PRId64, WEFT_GEMM_STEP, s->tile_k);
    }
    if (s->sweep == WEFT_SWEEP_PAIR) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no pair sweep");
    }
    if (weft_gemm_takes_tickets_by_side(s) && s->tile_n > 0 && s->tile_m > 32768 / s->tile_n) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its tiles of 256x192 have no %s under dynamic dispatch",
                         weft_order_describe(s->order)->name);
    }
    if (at_least_1(s->cluster_m) * at_least_1(s->cluster_n) * at_least_1(s->split) > WEFT_GEMM_MAX_CLUSTER) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its clusters have at most %d CTAs", WEFT_GEMM_MAX_CLUSTER);
    }
    if (s->split > 1 && s->dispatch != WEFT_DISPATCH_CHOOSE && s->dispatch != WEFT_DISPATCH_GRID) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it shares out the steps of a tile only under grid dispatch");
    }
    if (s->split > 1 && weft_ceil_divide(p->k, WEFT_GEMM_STEP) < s->split) {
        return weft_fail(why, WEFT_UNSUPPORTED, "split %" PRId64 " is more than there are steps of %d in k %" PRId64,
                         s->split, WEFT_GEMM_STEP, p->k);
    }
    return WEFT_OK;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    (void)knobs; /* how many CTAs share an SM is not its own to say */
    const weft_schedule *s = &plan->schedule;
    weft_status status = check(plan, why);
    if (status) {
        return status;
    }
    weft_gemm_pick pick;
    if (!weft_gemm_pick_best(plan, device, &pick)) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it has no tiles of %" PRId64 "x%" PRId64 " with split %" PRId64 " in clusters of %" PRId64
                         "x%" PRId64,
                         s->tile_m, s->tile_n, at_least_1(s->split), at_least_1(s->cluster_m), at_least_1(s->cluster_n));
    }
    const weft_gemm_variant *v = pick.variant;
    *choice = (weft_cuda_choice){v->module,       v->symbol,     pick.tile_m,    pick.tile_n, WEFT_GEMM_THREADS(v->tile_m),
                                 v->shared_bytes, .overlaps = 1, .ctas = v->ctas};
    return WEFT_OK;
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    (void)choice;
    weft_gemm_pick pick;
    if (weft_gemm_pick_best(plan, device, &pick)) { /* as choose() found */
        weft_gemm_complete(&pick, plan, device, schedule);
    }
}

/* A or C by phases of rows, `longer` of them, or of those that have one row less. */
static weft_tensor_view by_phase(weft_tensor_view v, const weft_gemm_phases *phases, int longer) {
    const int64_t ld = v.stride[1];
    v.length[1] = longer ? weft_ceil_divide(v.length[1], phases->count) : v.length[1] / phases->count;
    v.length[2] = longer ? phases->longer : phases->count;
    v.stride[1] = ld * phases->count;
    v.stride[2] = ld;
    return v;
}

/* What variants with an epilogue take besides. `out` is C, like which a residual lies in memory but for its distances. */
static weft_status fill_epilogue(const weft_plan *plan, const weft_gemm_data *data, weft_tensor_view out,
                                 weft_gemm_fused_params *to, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    const weft_gemm *p = &plan->gemm;
    to->epilogue = weft_gemm_epilogue_of(p, data);
    to->product.alpha = 1; /* the epilogue's is */
    to->product.beta = (float)p->beta;
    if (p->extras & WEFT_GEMM_RESIDUAL) {
        out.data = data->residual;
        out.stride[1] = p->ld_residual;
        out.stride[2] = p->residual_stride;
        to->product.beta = 1;
    }
    return weft_tensor_map_make(c->driver, p->extras & WEFT_GEMM_RESIDUAL ? "residual" : "c", &out, &to->added, message);
}

/* C as the kernel stores it: pieces of 16 of its rows, which are rows of C or, of a transposed variant, columns. */
static weft_tensor_view view_of_c(const weft_gemm *p, const weft_gemm_view *view, const weft_gemm_variant *v, void *c) {
    const int32_t row = 128 / (int32_t)weft_dtype_bytes(p->c_dtype);
    const int64_t columns = view->swapped ? view->n : weft_gemm_columns(p);
    weft_tensor_view out = {c, p->c_dtype, 3, {columns, view->m, p->batch}, {1, p->ldc, p->c_stride}, {row, 16, 1}, 1, 1};
    if (v->transposed) {
        out.length[0] = view->m;
        out.length[1] = view->n;
        out.box[0] = 16;
        out.box[1] = (int32_t)weft_smaller(v->tile_n, 64);
    }
    return out;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    if (weft_gemm_fill_beside(plan, pass, buffers, parameters)) {
        return WEFT_OK;
    }
    const weft_gemm *p = &c->computed.gemm;
    const weft_gemm_data own = weft_gemm_data_in_halves(&plan->gemm, buffers), *data = &own;
    const weft_schedule *s = &plan->schedule;
    const weft_gemm_variant *v = weft_gemm_variant_of(&c->main->choice);
    const weft_gemm_view view = weft_gemm_view_by(p, v);
    weft_gemm_phase_params *all = parameters;
    weft_gemm_params *to = &all->product;
    memset(parameters, 0, sizeof(weft_gemm_any_params));
    to->swapped = view.swapped;
    to->cluster_m = (int32_t)(view.swapped ? s->cluster_n : s->cluster_m);
    to->cluster_n = (int32_t)(view.swapped ? s->cluster_m : s->cluster_n);
    to->a_end = weft_gemm_loaded_rows(s, view.a_mn, view.m, v->tile_m);
    to->b_end = weft_gemm_loaded_rows(s, view.b_mn, view.n, v->tile_n);
    to->a_rows = weft_gemm_box_rows(view.a_mn, to->a_end, to->cluster_n);
    to->b_rows = weft_gemm_box_rows(view.b_mn, to->b_end, to->cluster_m);
    if (p->gated) { /* gates and values come in boxes of their own, even where there are fewer than a tile has */
        to->b_end = (int32_t)s->tile_n;
        to->b_rows = (int32_t)weft_smaller(weft_gemm_box_rows(view.b_mn, s->tile_n, to->cluster_m), s->tile_n / 2);
    }
    to->last_row = weft_gemm_last_of(p, view.a_mn, view.m, v->tile_m);
    to->last_col = weft_gemm_last_of(p, view.b_mn, view.n, v->tile_n);
    weft_gemm_choose_l2(plan, to);
    weft_tensor_view a = weft_gemm_view_of_operand(p, view.swapped ? data->b : data->a, view.a_mn, view.m, view.lda,
                                                   view.a_stride, to->a_rows);
    weft_tensor_view b = weft_gemm_view_of_operand(p, view.swapped ? data->a : data->b, view.b_mn, view.n, view.ldb,
                                                   view.b_stride, to->b_rows);
    /* Pairs of lines are for what streams through the L2 once: otherwise they cost, most where lines are misaligned. */
    a.narrow = to->a_keep != WEFT_KEEP_FIRST;
    b.narrow = to->b_keep != WEFT_KEEP_FIRST;
    weft_tensor_view out = view_of_c(p, &view, v, data->c);
    weft_status status;
    if (v->by_phase) {
        all->phases = weft_gemm_phases_of(p, &view, v->tile_m, v->tile_n, a.data);
        const weft_tensor_view a_short = by_phase(a, &all->phases, 0), out_short = by_phase(out, &all->phases, 0);
        if ((status = weft_tensor_map_make(c->driver, view.swapped ? "b" : "a", &a_short, &all->a_short, message)) ||
            (status = weft_tensor_map_make(c->driver, "c", &out_short, &all->c_short, message))) {
            return status;
        }
        to->last_row = INT32_MAX; /* rows of a tile are not those of C */
        a = by_phase(a, &all->phases, 1);
        out = by_phase(out, &all->phases, 1);
    }
    if ((status = weft_tensor_map_make(c->driver, view.swapped ? "b" : "a", &a, &to->a, message)) ||
        (status = weft_tensor_map_make(c->driver, view.swapped ? "a" : "b", &b, &to->b, message)) ||
        (status = weft_tensor_map_make(c->driver, "c", &out, &to->c, message))) {
        return status;
    }
    to->walk = *walk;
    to->side_of_sm = counters->own ? (const uint8_t *)(uintptr_t)c->side_of_sm : NULL;
    to->counter = walk->dispatch == WEFT_DISPATCH_DYNAMIC || to->side_of_sm ? counters->own : NULL;
    to->begun = to->pace_steps > 0 ? (uint32_t *)(counters->pace + 1) : NULL;
    to->alpha = (float)p->alpha;
    to->beta = (float)p->beta;
    to->c_dtype = (int32_t)p->c_dtype;
    to->split = (int32_t)s->split;
    if (!to->counter) { /* which deals out tiles by side, too */
        to->first = weft_first_of(walk);
        to->first.down ^= view.swapped;
    }
    return weft_gemm_is_fused(p) ? fill_epilogue(plan, data, out, parameters, message) : WEFT_OK;
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    (void)device;
    (void)knobs;
    return weft_gemm_list(plan, list, capacity);
}

/* Workers that wait for each other count their tiles. */
static int paces(const weft_plan *plan) {
    return weft_gemm_pace_steps(plan) > 0;
}

const weft_cuda_family weft_cuda_hopper_gemm = {
    .name = "hopper_gemm",
    .profile = "hopper-gemm",
    .parameter_bytes = sizeof(weft_gemm_any_params),
    .choose = choose,
    .complete = complete,
    .computes = weft_gemm_computes,
    .passes = weft_gemm_passes,
    .workspace = weft_gemm_workspace,
    .fill = fill,
    .candidates = candidates,
    .cost = weft_gemm_seconds,
    .facts = weft_gemm_facts,
    .by_side = 1,
    .paces = paces,
};
_Static_assert(sizeof(weft_gemm_any_params) <= WEFT_CUDA_MAX_PARAMETERS, "a launch has room for the parameters");
