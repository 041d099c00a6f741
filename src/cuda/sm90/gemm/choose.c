/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/gemm/choose.h"

#include <math.h>

#include "cuda/gemm/operands.h"
#include "cuda/sm90/gemm/boxes.h"
#include "cuda/sm90/gemm/costs.h"
#include "cuda/sm90/gemm/phases.h"
#include "cuda/sm90/gemm/time.h"
#include "plan/custom.h"
#include "problem/problem.h"

#define COST(name) weft_gemm_cost.name

static const weft_gemm_variant variants[] = {
#define WEFT_GEMM(...) WEFT_GEMM_VARIANT(__VA_ARGS__),
#include "cuda/sm90/gemm/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

const weft_gemm_variant *weft_gemm_variant_of(const weft_cuda_choice *choice) {
    const weft_gemm_variant *v = variants;
    while (v->symbol != choice->kernel) { /* it came from here */
        v++;
    }
    return v;
}

weft_gemm_view weft_gemm_view_by(const weft_gemm *p, const weft_gemm_variant *variant) {
    return variant->transposed ? weft_gemm_view_transposed(p) : weft_gemm_view_of(p);
}

/* ---- the kernel ---- */

/* SMs that are at work with so many workers, or as many as fit where that is 0. */
static int64_t sms_of(const weft_plan *plan, const weft_cuda_device *device, const weft_gemm_pick *pick) {
    const weft_gemm *p = &plan->gemm; /* of which k does not matter */
    const int64_t ctas = pick->cluster_m * pick->cluster_n * pick->split, sms = device->multiprocessors;
    const int64_t workers = plan->schedule.workers / ctas, all = weft_gemm_filled(sms * pick->variant->ctas, ctas) / ctas;
    const double positions = (double)p->batch * (double)weft_ceil_divide(p->m, pick->tile_m * pick->cluster_m) *
                             (double)weft_ceil_divide(p->n, pick->tile_n * pick->cluster_n);
    if (workers < 1 || workers >= all || positions > 1e15 ||
        weft_gemm_has_spare_workers((int64_t)positions, workers, all)) {
        return sms;
    }
    return plan->schedule.workers < sms ? plan->schedule.workers : sms;
}

static weft_gemm_model model_of(const weft_plan *plan, const weft_cuda_device *device, const weft_gemm_pick *pick) {
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    const weft_gemm_view view = weft_gemm_view_by(p, pick->variant);
    const int64_t size = (int64_t)weft_dtype_bytes(p->dtype);
    const int64_t cluster_m = view.swapped ? pick->cluster_n : pick->cluster_m;
    const int64_t line_of_a = pick->variant->by_phase
                                  ? weft_gemm_line_of_a(p, &view, pick->variant->tile_m, pick->variant->tile_n, cluster_m)
                                  : view.lda * size;
    const double elements = (double)p->m * (double)p->k + (double)p->k * (double)p->n;
    const int times = 1 + (p->beta != 0) + ((p->extras & WEFT_GEMM_RESIDUAL) != 0);
    const double bytes = elements * (double)size +
                         (double)p->m * (double)weft_gemm_columns(p) * (double)weft_dtype_bytes(p->c_dtype) * times;
    return (weft_gemm_model){
        .batch = p->batch,
        .k = p->k,
        .step = WEFT_GEMM_STEP,
        .a = {view.m, pick->variant->tile_m, cluster_m, line_of_a, view.a_mn},
        .b = {view.n, pick->variant->tile_n, view.swapped ? pick->cluster_m : pick->cluster_n, view.ldb * size, view.b_mn},
        .split = pick->split,
        .workers = sms_of(plan, device, pick),
        .per_sm = pick->variant->ctas,
        .transposed = pick->variant->transposed,
        .bytes = bytes * (double)p->batch,
    };
}

/* Microseconds. */
static double time_of(const weft_plan *plan, const weft_cuda_device *device, const weft_gemm_pick *pick) {
    const weft_gemm_model model = model_of(plan, device, pick);
    return weft_gemm_time(&model);
}

int weft_gemm_takes_tickets_by_side(const weft_schedule *s) {
    return weft_schedule_by_domain(s) && s->dispatch == WEFT_DISPATCH_DYNAMIC;
}

/* Whether a choice is the schedule's, or left to us. */
static int agrees(int64_t fixed, int64_t value) {
    return fixed == 0 || fixed == value;
}

/* Clusters that were worth it. Those of four leave SMs over that no cluster fits; they are for products that wait for
 * lines. */
static const int64_t clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}};
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

/* Whether every CTA of a cluster loads a share of what it shares. A CTA without a box of its own is nobody's sender, and in
 * clusters of two dimensions others could then be a lap of the ring ahead of one that still reads. */
static int all_send(const weft_gemm_variant *v, int swapped, int64_t cluster_m, int64_t cluster_n) {
    const int64_t along_m = swapped ? cluster_n : cluster_m, along_n = swapped ? cluster_m : cluster_n;
    return along_m == 1 || along_n == 1 ||
           (weft_gemm_box_rows(v->a_mn, v->tile_m, along_n) * along_n <= v->tile_m &&
            weft_gemm_box_rows(v->b_mn, v->tile_n, along_m) * along_m <= v->tile_n);
}

/* Whether a variant computes a product that it sees so. Rows of a transposed one are columns of C, which have no phases,
 * and it stores 16 bits. */
static int computes(const weft_gemm_variant *v, const weft_gemm *p, const weft_gemm_view *view) {
    const int phases = !v->transposed && weft_gemm_wants_phases(p, view, v->tile_m, v->tile_n);
    return v->dtype == weft_gemm_multiplied(p) && v->a_mn == view->a_mn && v->b_mn == view->b_mn && v->by_phase == phases &&
           v->fused == weft_gemm_is_fused(p) && (!p->gated || WEFT_GEMM_HAS_GATES(v->tile_n)) &&
           (p->beta == 0 || (WEFT_GEMM_WHOLE_PIECES(v->tile_n) && !v->transposed)) &&
           (!v->transposed || p->c_dtype != WEFT_FP32);
}

/* Whether a transposed variant's tile is one of plain variants, too, but for its splits. */
static int is_twin(const weft_gemm_variant *v) {
    return v->transposed && v->tile_n == 64;
}

/* What may be made of one variant, in any order; returns how many, at most MAX_WAYS. */
enum { SPLITS = WEFT_GEMM_MAX_CLUSTER - 1, SHARERS = 3, MAX_WAYS = CLUSTERS + SHARERS * SPLITS };

static size_t ways_of(const weft_gemm_variant *v, const weft_plan *plan, weft_gemm_pick ways[MAX_WAYS]) {
    const weft_gemm p = weft_gemm_in_halves(&plan->gemm);
    const weft_gemm_view view = weft_gemm_view_by(&p, v);
    const weft_schedule *s = &plan->schedule;
    const int64_t steps = weft_ceil_divide(p.k, WEFT_GEMM_STEP);
    /* Gates and values of a column lie in different units of a tile. */
    const int64_t most = WEFT_GEMM_SPLITS(v->tile_m) && !p.gated ? weft_smaller(steps, WEFT_GEMM_MAX_CLUSTER) : 1;
    const int on_grid = s->dispatch == WEFT_DISPATCH_CHOOSE || s->dispatch == WEFT_DISPATCH_GRID;
    weft_gemm_pick one = {v, view.swapped ? v->tile_n : v->tile_m, view.swapped ? v->tile_m : v->tile_n, 1, 1, 1};
    const int by_side = weft_gemm_takes_tickets_by_side(s);
    size_t count = 0;
    if ((by_side && WEFT_GEMM_LEAN(v->tile_m, v->tile_n)) || !computes(v, &p, &view) || !agrees(s->tile_m, one.tile_m) ||
        !agrees(s->tile_n, one.tile_n)) {
        return 0;
    }
    for (int64_t i = 0; on_grid && i < SHARERS * SPLITS; i++) { /* alone, or with two CTAs for each part */
        one.split = 2 + i / SHARERS;
        one.cluster_m = s->cluster_m ? s->cluster_m : clusters[i % SHARERS][0];
        one.cluster_n = s->cluster_n ? s->cluster_n : clusters[i % SHARERS][1];
        if (one.split <= most && one.split * one.cluster_m * one.cluster_n <= WEFT_GEMM_MAX_CLUSTER &&
            agrees(s->split, one.split) && (i % SHARERS == 0 || s->cluster_m == 0 || s->cluster_n == 0)) {
            ways[count] = one;
            count += (size_t)all_send(v, view.swapped, one.cluster_m, one.cluster_n);
        }
    }
    one.split = 1;
    for (size_t i = 0; i < CLUSTERS && s->split <= 1 && !is_twin(v); i++) {
        one.cluster_m = s->cluster_m ? s->cluster_m : clusters[i][0];
        one.cluster_n = s->cluster_n ? s->cluster_n : clusters[i][1];
        /* Of clusters of four, two CTAs come to lie on one SM where two fit, and other SMs have none. */
        const int packed = v->ctas > 1 && clusters[i][0] * clusters[i][1] > 2;
        if (i == 0 || (!packed && agrees(s->cluster_m, clusters[i][0]) && agrees(s->cluster_n, clusters[i][1]) &&
                       (s->cluster_m == 0 || s->cluster_n == 0))) {
            ways[count] = one;
            count += (size_t)all_send(v, view.swapped, one.cluster_m, one.cluster_n);
        }
    }
    return count;
}

int weft_gemm_pick_best(const weft_plan *plan, const weft_cuda_device *device, weft_gemm_pick *pick) {
    weft_gemm_pick ways[MAX_WAYS];
    double least = 0;
    pick->variant = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const size_t found = ways_of(&variants[i], plan, ways);
        for (size_t j = 0; j < found; j++) {
            const double time = time_of(plan, device, &ways[j]);
            if (!pick->variant || time < least) {
                least = time;
                *pick = ways[j];
            }
        }
    }
    return pick->variant != NULL;
}

size_t weft_gemm_list(const weft_plan *plan, weft_schedule *list, size_t capacity) {
    weft_gemm_pick ways[MAX_WAYS];
    size_t listed = 0;
    for (size_t i = 0; i < VARIANTS; i++) {
        const size_t found = ways_of(&variants[i], plan, ways);
        for (size_t j = 0; j < found && listed < capacity; j++) {
            weft_schedule *s = &list[listed++];
            *s = plan->schedule;
            s->tile_m = ways[j].tile_m;
            s->tile_n = ways[j].tile_n;
            s->cluster_m = ways[j].cluster_m;
            s->cluster_n = ways[j].cluster_n;
            s->split = ways[j].split;
            s->dispatch = ways[j].split > 1 ? WEFT_DISPATCH_GRID : s->dispatch;
        }
    }
    return listed;
}

/* ---- the order ---- */

/* A wave of g columns of positions by h rows. */
typedef struct wave {
    int64_t across, along;
    double lines; /* rows of A and columns of B that it reads */
} wave;

/* The wave that reads least, among those that take hardly more waves than one of all workers would: an exact rectangle, so
 * that the next wave reads its rows or its columns again. */
static wave best_wave(int64_t rows, int64_t cols, int64_t workers, double row_lines, double col_lines) {
    wave best = {1, workers, -1};
    for (int64_t g = 1; g <= workers && g <= cols; g++) {
        const int64_t h = workers / g < rows ? workers / g : rows;
        if (!weft_gemm_has_spare_workers(rows * cols, g * h, workers)) {
            continue;
        }
        const double ragged = (cols % g != 0 ? COST(ragged_across) : 1.0) * (rows % h != 0 ? COST(ragged_along) : 1.0);
        const double lines = ((double)g * col_lines + (double)h * row_lines) * ragged;
        if (best.lines < 0 || lines < best.lines) {
            best = (wave){g, h, lines};
        }
    }
    return best;
}

/* Bytes that come from DRAM, if a wave goes through k in step: a band's panel once, or in each of its waves where the L2
 * cannot hold it, and the other operand in each band, unless the L2 holds it all. */
static double bytes_read(double row_bytes, double col_bytes, int64_t rows, int64_t cols, double across, double along,
                         double l2) {
    const double bands = ceil((double)cols / across), waves = ceil((double)rows / along);
    const double a = row_bytes * (double)rows, b = col_bytes * (double)cols;
    return a * (a > COST(panel_stays) * l2 ? bands : 1) + b * (col_bytes * across > COST(panel_stays) * l2 ? waves : 1);
}

/* Whether a narrow product reads much less if all of its columns are one band, and a wave of all workers no rectangle. */
static int is_one_band(const wave *w, int64_t rows, int64_t cols, int64_t workers, double row_bytes, double col_bytes,
                       double l2) {
    const double along = (double)workers / (double)cols;
    return w->across < cols && along >= 1 &&
           bytes_read(row_bytes, col_bytes, rows, cols, (double)cols, along, l2) <
               COST(one_band) * bytes_read(row_bytes, col_bytes, rows, cols, (double)w->across, (double)w->along, l2);
}

/* Whether the columns one by one, each with all of its rows, are the better order: the L2 holds all of A, and B is read
 * once. Where C does not fit the L2 it is enough that they read no more: what a band comes back to has gone by then. */
static int is_by_columns(const wave *w, int64_t rows, int64_t cols, double row_bytes, double col_bytes, double c_bytes,
                         double l2) {
    const double in_waves = bytes_read(row_bytes, col_bytes, rows, cols, (double)w->across, (double)w->along, l2);
    return bytes_read(row_bytes, col_bytes, rows, cols, 1, (double)rows, l2) <=
           (c_bytes > l2 ? 1 : COST(one_band)) * in_waves;
}

void weft_gemm_complete(const weft_gemm_pick *pick, const weft_plan *plan, const weft_cuda_device *device,
                        weft_schedule *s) {
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    s->tile_k = WEFT_GEMM_STEP;
    s->cluster_m = pick->cluster_m;
    s->cluster_n = pick->cluster_n;
    s->split = pick->split;
    if (s->dispatch == WEFT_DISPATCH_CHOOSE) {
        s->dispatch = s->split > 1 ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_STATIC;
    }
    const int64_t ctas = s->cluster_m * s->cluster_n * s->split;
    const int64_t rows = weft_ceil_divide(weft_ceil_divide(p->m, s->tile_m), s->cluster_m);
    const int64_t cols = weft_ceil_divide(weft_ceil_divide(p->n, s->tile_n), s->cluster_n);
    /* A worker more than fit would begin when others end. */
    const int64_t fit = weft_gemm_filled(device->multiprocessors * pick->variant->ctas, ctas);
    const int64_t workers = (s->workers ? s->workers : fit) / ctas;
    const int open = s->order == WEFT_ORDER_CHOOSE && s->group == 0;
    const int bands = s->order == WEFT_ORDER_CHOOSE || s->order == WEFT_ORDER_GROUP || s->order == WEFT_ORDER_SERPENTINE;
    if (workers < 1 || !bands || s->group != 0 || rows > INT64_C(1) << 31 || cols > INT64_C(1) << 31) {
        return;
    }
    const double row_lines = (double)(s->tile_m * s->cluster_m), col_lines = (double)(s->tile_n * s->cluster_n);
    const int across_rows = s->axis == WEFT_AXIS_M; /* only where the caller says so */
    const wave w = across_rows ? best_wave(cols, rows, workers, col_lines, row_lines)
                               : best_wave(rows, cols, workers, row_lines, col_lines);
    const int several = p->batch > 1 || rows * cols > workers;
    const double line = (double)p->k * (double)weft_dtype_bytes(p->dtype);
    const double l2 = (double)plan->machine.l2_bytes * (double)plan->machine.domains;
    const double c_bytes = (double)p->m * (double)p->n * (double)weft_dtype_bytes(p->c_dtype);
    const int one = open && several && p->batch == 1, any = one && !across_rows;
    const int narrow = any && is_one_band(&w, rows, cols, workers, row_lines * line, col_lines * line, l2);
    const int by_columns = any && !narrow && is_by_columns(&w, rows, cols, row_lines * line, col_lines * line, c_bytes, l2);
    if (s->order == WEFT_ORDER_CHOOSE) {
        s->order = by_columns ? WEFT_ORDER_RASTER_M : WEFT_ORDER_SERPENTINE;
    }
    s->group = narrow ? cols : by_columns ? 0 : w.across; /* in positions: a cluster counts as one */
    if (one && !narrow && !by_columns && s->workers == 0 && s->dispatch != WEFT_DISPATCH_GRID) {
        s->workers = w.across * w.along * ctas;
    }
    if (open && s->sweep == WEFT_SWEEP_CHOOSE) {
        const double bytes = w.lines * line;
        const int turns = several && !weft_gemm_has_parts(&plan->gemm) && bytes > (double)plan->machine.l2_bytes;
        s->sweep = turns ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
    }
}

/* What a finished plan has picked. */
static weft_gemm_pick pick_of(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_schedule *s = &plan->schedule;
    return (weft_gemm_pick){
        weft_gemm_variant_of(&c->main->choice), s->tile_m, s->tile_n, s->cluster_m, s->cluster_n, s->split};
}

/* What the launch that writes operands of fp32 takes, if there is one. */
static double operands_seconds(const weft_plan *plan) {
    const double bytes = weft_gemm_operands_traffic(&plan->gemm);
    return bytes > 0 ? 1e-6 * (COST(launch) + bytes / COST(dram)) : 0;
}

double weft_gemm_seconds(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_gemm_pick pick = pick_of(plan);
    return operands_seconds(plan) + 1e-6 * time_of(plan, device, &pick);
}

void weft_gemm_facts(const weft_plan *plan, const weft_cuda_plan *placed, weft_kernel_facts *facts) {
    const weft_gemm_pick pick = pick_of(plan);
    const weft_gemm_model model = model_of(plan, &placed->device, &pick);
    weft_gemm_parts(&model, &facts->launch, &facts->tile, &facts->step);
    facts->launch += operands_seconds(plan);
    facts->keeps_step = placed->family->paces(plan);
}
