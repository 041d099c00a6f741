/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM for groups, from the host's side: which variant, and the parameters of a launch. */
#include "cuda/sm90/gemm/grouped/params.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/boxes.h"
#include "cuda/sm90/gemm/time.h"
#include "problem/grouped_gemm.h"

static const weft_gemm_variant variants[] = {
#define WEFT_HOPPER_GROUPED(...) WEFT_HOPPER_GROUPED_VARIANT(__VA_ARGS__),
#include "cuda/sm90/gemm/grouped/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_hopper_grouped_params) <= WEFT_CUDA_MAX_PARAMETERS, "a launch has room for the parameters");

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_MAX_DIMENSION - 4096; /* coordinates of tiles over the edge are 32-bit numbers, too */
    weft_status status;
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if (p->n > most || p->k > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes dimensions up to %" PRId64, most);
    }
    if ((status = weft_gemm_check_distance("lda", p->lda, p->dtype, why)) ||
        (status = weft_gemm_check_distance("ldb", p->ldb, p->dtype, why)) ||
        (status = weft_gemm_check_distance("ldc", p->ldc, p->c_dtype, why))) {
        return status;
    }
    if (p->groups > 1 && ((status = weft_gemm_check_distance("a_stride", p->a_stride, p->dtype, why)) ||
                          (status = weft_gemm_check_distance("b_stride", p->b_stride, p->dtype, why)) ||
                          (status = weft_gemm_check_distance("c_stride", p->c_stride, p->c_dtype, why)))) {
        return status;
    }
    if (s->tile_k != 0 && s->tile_k != WEFT_GEMM_STEP) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its steps are %d of k, not %" PRId64, WEFT_GEMM_STEP, s->tile_k);
    }
    if (s->sweep == WEFT_SWEEP_PAIR) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no pair sweep");
    }
    if (s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it does not share out the steps of a tile");
    }
    return WEFT_OK;
}

/* A variant in clusters of so many CTAs. */
typedef struct pick {
    const weft_gemm_variant *variant;
    int64_t cluster_m, cluster_n;
} pick;

static const int64_t clusters[][2] = {{1, 1}, {2, 1}, {1, 2}};
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

/* Microseconds by the model: of one product with as many rows of tiles, which are loaded whole, but the bytes of all
 * groups.
 */
static double time_of(const weft_plan *plan, const weft_cuda_device *device, const pick *way) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const int64_t size = (int64_t)weft_dtype_bytes(p->dtype), rows = weft_grouped_gemm_mean_rows(p);
    const int64_t strip = way->variant->tile_m * way->cluster_m;
    const double strips = ceil(weft_grouped_gemm_strips(p, way->variant->tile_m, way->cluster_m));
    const double elements = (double)rows * (double)p->k + (double)p->k * (double)p->n;
    const double bytes = elements * (double)size + (double)rows * (double)p->n * (double)weft_dtype_bytes(p->c_dtype);
    const weft_gemm_model model = {
        .batch = 1,
        .k = p->k,
        .step = WEFT_GEMM_STEP,
        .a = {(int64_t)strips * strip, way->variant->tile_m, way->cluster_m, p->lda * size, 0},
        .b = {p->n, way->variant->tile_n, way->cluster_n, p->ldb * size, way->variant->b_mn},
        .split = 1,
        .workers = device->multiprocessors,
        .per_sm = way->variant->ctas,
        .bytes = bytes * (double)p->groups,
    };
    return weft_gemm_time(&model);
}

/* Whether a choice is the schedule's, or left to us. */
static int agrees(int64_t fixed, int64_t value) {
    return fixed == 0 || fixed == value;
}

/* The i-th way to compute the plan's problem that its schedule allows. Returns 0 behind the last. */
static int way_at(const weft_plan *plan, size_t i, pick *way) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_schedule *s = &plan->schedule;
    for (size_t n = 0; n < VARIANTS * CLUSTERS; n++) {
        const weft_gemm_variant *v = &variants[n / CLUSTERS];
        *way = (pick){v, clusters[n % CLUSTERS][0], clusters[n % CLUSTERS][1]};
        if (v->dtype == p->dtype && v->b_mn == (p->b_major == WEFT_ROW_MAJOR) && agrees(s->tile_m, v->tile_m) &&
            agrees(s->tile_n, v->tile_n) && agrees(s->cluster_m, way->cluster_m) && agrees(s->cluster_n, way->cluster_n) &&
            i-- == 0) {
            return 1;
        }
    }
    return 0;
}

/* The fastest by the model. Returns 0 when there is none. */
static int pick_best(const weft_plan *plan, const weft_cuda_device *device, pick *best) {
    double least = 0;
    pick way;
    *best = (pick){0};
    for (size_t i = 0; way_at(plan, i, &way); i++) {
        const double time = time_of(plan, device, &way);
        if (!best->variant || time < least) {
            least = time;
            *best = way;
        }
    }
    return best->variant != NULL;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    (void)knobs; /* how many CTAs share an SM is not its own to say */
    const weft_schedule *s = &plan->schedule;
    const weft_status status = check(plan, why);
    if (status) {
        return status;
    }
    pick best;
    if (!pick_best(plan, device, &best)) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it has no tiles of %" PRId64 "x%" PRId64 " in clusters of %" PRId64 "x%" PRId64, s->tile_m,
                         s->tile_n, weft_larger(s->cluster_m, 1), weft_larger(s->cluster_n, 1));
    }
    const weft_gemm_variant *v = best.variant;
    *choice = (weft_cuda_choice){v->module,       v->symbol,     v->tile_m,      v->tile_n, WEFT_GEMM_THREADS(v->tile_m),
                                 v->shared_bytes, .overlaps = 1, .ctas = v->ctas};
    return WEFT_OK;
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *s) {
    (void)choice;
    pick best;
    if (pick_best(plan, device, &best)) { /* as choose() found */
        s->tile_k = WEFT_GEMM_STEP;
        s->cluster_m = best.cluster_m;
        s->cluster_n = best.cluster_n;
    }
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    (void)device;
    (void)knobs;
    size_t count = 0;
    pick way;
    for (; count < capacity && way_at(plan, count, &way); count++) {
        list[count] = plan->schedule;
        list[count].tile_m = way.variant->tile_m;
        list[count].tile_n = way.variant->tile_n;
        list[count].cluster_m = way.cluster_m;
        list[count].cluster_n = way.cluster_n;
    }
    return count;
}

/* How long a finished plan takes by the model, in seconds: what its tile and cluster were picked by. */
static double cost(const weft_plan *plan, const weft_cuda_device *device) {
    pick way;
    return way_at(plan, 0, &way) ? 1e-6 * time_of(plan, device, &way) : 0;
}

/* A and C of contiguous groups are one matrix. */
static weft_tensor_view as_one(weft_tensor_view v, const weft_grouped_gemm *p) {
    if (p->layout == WEFT_GROUPS_CONTIGUOUS) {
        v.length[2] = 1;
        v.stride[2] = v.stride[1] * v.length[1];
    }
    return v;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    const weft_cuda_plan *c = plan->placed;
    const weft_grouped_gemm_data *data = buffers;
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const weft_gemm product = weft_grouped_gemm_product(p);
    const weft_schedule *s = &plan->schedule;
    const int b_mn = p->b_major == WEFT_ROW_MAJOR;
    const double c_bytes =
        (double)p->groups * (double)weft_grouped_gemm_mean_rows(p) * (double)p->n * (double)weft_dtype_bytes(p->c_dtype);
    weft_hopper_grouped_params *all = parameters;
    weft_gemm_params *to = &all->product;
    memset(all, 0, sizeof *all);
    to->cluster_m = (int32_t)s->cluster_m;
    to->cluster_n = (int32_t)s->cluster_n;
    to->a_end = weft_gemm_loaded_rows(s, 0, p->rows, s->tile_m);
    to->b_end = weft_gemm_loaded_rows(s, b_mn, p->n, s->tile_n);
    to->a_rows = weft_gemm_box_rows(0, to->a_end, to->cluster_n);
    to->b_rows = weft_gemm_box_rows(b_mn, to->b_end, to->cluster_m);
    to->last_row = INT32_MAX;
    to->last_col = weft_gemm_last_of(&product, b_mn, p->n, s->tile_n);
    /* B of short groups is read once; that of others comes again, for the next rows of tiles. */
    const int once = weft_grouped_gemm_mean_rows(p) <= s->tile_m * s->cluster_m;
    to->a_keep = to->again_keep = WEFT_KEEP_NORMAL;
    to->b_keep = once ? WEFT_KEEP_FIRST : WEFT_KEEP_NORMAL;
    to->c_first = c_bytes > (double)plan->machine.l2_bytes * (double)plan->machine.domains;
    weft_tensor_view a =
        as_one(weft_gemm_view_of_operand(&product, data->a, 0, p->rows, p->lda, p->a_stride, to->a_rows), p);
    weft_tensor_view b = weft_gemm_view_of_operand(&product, data->b, b_mn, p->n, p->ldb, p->b_stride, to->b_rows);
    a.narrow = 1;
    b.narrow = !once;
    const int32_t row = 128 / (int32_t)weft_dtype_bytes(p->c_dtype);
    const weft_tensor_view whole = {data->c,      p->c_dtype, 3, {p->n, p->rows, p->groups}, {1, p->ldc, p->c_stride},
                                    {row, 16, 1}, 1,          1};
    const weft_tensor_view out = as_one(whole, p);
    weft_status status;
    if ((status = weft_tensor_map_make(c->driver, "a", &a, &to->a, message)) ||
        (status = weft_tensor_map_make(c->driver, "b", &b, &to->b, message)) ||
        (status = weft_tensor_map_make(c->driver, "c", &out, &to->c, message))) {
        return status;
    }
    to->walk = *walk;
    to->counter = walk->dispatch == WEFT_DISPATCH_DYNAMIC ? counters->own : NULL;
    to->alpha = (float)p->alpha;
    to->c_dtype = (int32_t)p->c_dtype;
    to->split = 1;
    const int32_t *bounds = plan->kept ? (const int32_t *)(uintptr_t)c->lengths : weft_grouped_gemm_bounds(p, data);
    all->groups = weft_grouped_gemm_groups(p, bounds, s->tile_m, s->cluster_m);
    all->step = weft_groups_step(walk);
    all->c = data->c;
    all->ldc = p->ldc;
    all->c_stride = p->c_stride;
    all->n = (int32_t)p->n;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_hopper_grouped = {
    .name = "hopper_grouped",
    .profile = "hopper-gemm",
    .parameter_bytes = sizeof(weft_hopper_grouped_params),
    .choose = choose,
    .complete = complete,
    .fill = fill,
    .candidates = candidates,
    .cost = cost,
};
