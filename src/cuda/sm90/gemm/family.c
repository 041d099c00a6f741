/* The Hopper GEMM, from the host's side: which variant, and the parameters of a launch. */
#include "cuda/sm90/gemm/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/choose.h"
#include "cuda/sm90/gemm/l2.h"
#include "cuda/sm90/gemm/phases.h"

/* The copy engine takes lines and matrices that begin at multiples of 16 bytes. */
static weft_status check_distance(const char *name, int64_t distance, weft_dtype dtype, weft_message *why) {
    const int64_t multiple = 16 / (int64_t)weft_dtype_bytes(dtype);
    return distance % multiple == 0
               ? WEFT_OK
               : weft_fail(why, WEFT_UNSUPPORTED, "%s %" PRId64 " is not a multiple of %" PRId64, name, distance, multiple);
}

static int64_t at_least_1(int64_t value) {
    return value > 1 ? value : 1;
}

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_MAX_DIMENSION - 4096; /* coordinates of tiles over the edge are 32-bit numbers, too */
    weft_status status;
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if (p->m > most || p->n > most || p->k > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes dimensions up to %" PRId64, most);
    }
    if ((status = check_distance("lda", p->lda, p->dtype, why)) ||
        (status = check_distance("ldb", p->ldb, p->dtype, why)) ||
        (status = check_distance("ldc", p->ldc, p->c_dtype, why))) {
        return status;
    }
    if (p->batch > 1 && ((status = check_distance("a_stride", p->a_stride, p->dtype, why)) ||
                         (status = check_distance("b_stride", p->b_stride, p->dtype, why)) ||
                         (status = check_distance("c_stride", p->c_stride, p->c_dtype, why)))) {
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

/* Rows of a box of A or columns of one of B. CTAs that share them take a box each, as large as the layout allows: 8 rows
 * are what the copy engine swizzles together. Where there are fewer than a tile has, and no such boxes, one CTA takes all.
 */
static int32_t box_rows(int mn_major, int64_t rows, int64_t sharers) {
    const int64_t some = rows % WEFT_GEMM_ATOM == 0 ? WEFT_GEMM_ATOM : rows;
    return (int32_t)(mn_major || rows % (sharers * 8) != 0 ? some : rows / sharers);
}

/* Rows of a tile that are loaded: where a product has fewer, those that it has, to the nearest 8. In clusters of two
 * dimensions every CTA must have a box. */
static int32_t loaded_rows(const weft_schedule *s, int mn_major, int64_t length, int64_t tile) {
    const int all = mn_major || (s->cluster_m > 1 && s->cluster_n > 1);
    return (int32_t)(all ? tile : weft_smaller(weft_ceil_divide(length, 8) * 8, tile));
}

/* Where tiles of a product of that length begin at the latest, if they are to lie within it, to the nearest 16 bytes. What
 * two tiles have in common is stored twice, so nothing may be added to it; and lines that run along m or n would begin
 * anywhere. */
static int32_t last_of(const weft_gemm *p, int mn_major, int64_t length, int64_t tile) {
    const int within = p->beta == 0 && !mn_major && length >= tile;
    return within ? (int32_t)(weft_ceil_divide(length, 8) * 8 - tile) : INT32_MAX;
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

/* One of A and B: `mn` is its length along m or n, and `mn_major` whether that axis is contiguous. */
static weft_tensor_view view_of(const weft_gemm *p, const void *data, int mn_major, int64_t mn, int64_t ld, int64_t stride,
                                int32_t rows) {
    const int32_t step = WEFT_GEMM_STEP;
    weft_tensor_view v = {.data = data, .dtype = p->dtype, .rank = 3, .stride = {1, ld, stride}, .swizzle = 1};
    v.length[0] = mn_major ? mn : p->k;
    v.length[1] = mn_major ? p->k : mn;
    v.length[2] = p->batch;
    v.box[0] = mn_major ? rows : step;
    v.box[1] = mn_major ? step : rows;
    v.box[2] = 1;
    return v;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    const weft_cuda_plan *c = plan->placed;
    const weft_gemm_data *data = buffers;
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const weft_gemm_view view = weft_gemm_view_of(p);
    weft_gemm_phase_params *all = parameters;
    weft_gemm_params *to = &all->product;
    memset(all, 0, sizeof *all);
    to->cluster_m = (int32_t)(view.swapped ? s->cluster_n : s->cluster_m);
    to->cluster_n = (int32_t)(view.swapped ? s->cluster_m : s->cluster_n);
    to->a_end = loaded_rows(s, view.a_mn, view.m, view.swapped ? s->tile_n : s->tile_m);
    to->b_end = loaded_rows(s, view.b_mn, view.n, view.swapped ? s->tile_m : s->tile_n);
    to->a_rows = box_rows(view.a_mn, to->a_end, to->cluster_n);
    to->b_rows = box_rows(view.b_mn, to->b_end, to->cluster_m);
    to->last_row = last_of(p, view.a_mn, view.m, view.swapped ? s->tile_n : s->tile_m);
    to->last_col = last_of(p, view.b_mn, view.n, view.swapped ? s->tile_m : s->tile_n);
    weft_gemm_choose_l2(plan, to);
    weft_tensor_view a =
        view_of(p, view.swapped ? data->b : data->a, view.a_mn, view.m, view.lda, view.a_stride, to->a_rows);
    weft_tensor_view b =
        view_of(p, view.swapped ? data->a : data->b, view.b_mn, view.n, view.ldb, view.b_stride, to->b_rows);
    /* Pairs of lines are for what streams through the L2 once: otherwise they cost, most where lines are misaligned. */
    a.narrow = to->a_keep != WEFT_KEEP_FIRST;
    b.narrow = to->b_keep != WEFT_KEEP_FIRST;
    const int32_t row = 128 / (int32_t)weft_dtype_bytes(p->c_dtype);
    weft_tensor_view out = {data->c,      p->c_dtype, 3, {view.n, view.m, p->batch}, {1, p->ldc, p->c_stride},
                            {row, 16, 1}, 1,          1};
    weft_status status;
    all->phases = view.swapped ? weft_gemm_phases_of(p, &view, s->tile_n, s->tile_m, a.data)
                               : weft_gemm_phases_of(p, &view, s->tile_m, s->tile_n, a.data);
    if (all->phases.count > 0) {
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
    to->swapped = view.swapped;
    to->split = (int32_t)s->split;
    if (!to->counter) { /* which deals out tiles by side, too */
        to->first = weft_first_of(walk);
        to->first.down ^= view.swapped;
    }
    return WEFT_OK;
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
    .parameter_bytes = sizeof(weft_gemm_phase_params),
    .choose = choose,
    .complete = complete,
    .fill = fill,
    .candidates = candidates,
    .cost = weft_gemm_seconds,
    .facts = weft_gemm_facts,
    .by_side = 1,
    .paces = paces,
};
_Static_assert(sizeof(weft_gemm_phase_params) <= WEFT_CUDA_MAX_PARAMETERS, "a launch has room for the parameters");
