/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/gemm/l2.h"

#include "cuda/gemm/operands.h"
#include "cuda/sm90/gemm/costs.h"
#include "problem/problem.h"

#define COST(name) weft_gemm_cost.name

/* The lines of positions that a wave covers, across its band and along it, and bytes of all k of one. */
typedef struct wave {
    int64_t across, along;
    double across_bytes, along_bytes;
    int64_t waves; /* in the whole product */
} wave;

static int has_bands(const weft_schedule *s) {
    return s->order == WEFT_ORDER_GROUP || s->order == WEFT_ORDER_SERPENTINE || s->order == WEFT_ORDER_SERPENTINE_SWIZZLED;
}

static wave wave_of(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_walk *walk = &plan->walk;
    const weft_gemm in_halves = weft_gemm_in_halves(&plan->gemm), *p = &in_halves;
    const int across_n = s->axis == WEFT_AXIS_N;
    const int64_t shares = s->order == WEFT_ORDER_SERPENTINE_SWIZZLED ? s->domains : 1;
    const double line = (double)p->k * (double)weft_dtype_bytes(p->dtype);
    const double row = line * (double)(s->tile_m * s->cluster_m), col = line * (double)(s->tile_n * s->cluster_n);
    wave w = {walk->order.group * shares, 0, across_n ? col : row, across_n ? row : col, 0};
    w.along = weft_ceil_divide(walk->workers, w.across);
    w.waves = weft_ceil_divide(walk->order.count, walk->workers);
    return w;
}

/* Of the whole chip. */
static double l2_bytes(const weft_plan *plan) {
    return (double)plan->machine.l2_bytes * (double)plan->machine.domains;
}

int32_t weft_gemm_pace_steps(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const int64_t steps = weft_ceil_divide(weft_gemm_in_halves(&plan->gemm).k, WEFT_GEMM_STEP);
    if (s->dispatch != WEFT_DISPATCH_STATIC || !has_bands(s) || plan->walk.order.count < plan->walk.workers) {
        return 0;
    }
    const wave w = wave_of(plan);
    const double panels = (double)w.across * w.across_bytes + (double)w.along * w.along_bytes;
    const int is_long = (double)w.waves >= COST(pace_least_waves) && (double)steps >= COST(pace_least_steps) &&
                        w.waves >= (int64_t)COST(pace_least_all) / steps;
    return is_long && panels > l2_bytes(plan) ? (int32_t)COST(pace_steps) : 0;
}

/* Whether all waves of a band are alike, so that all workers change direction at the same time. */
static int has_whole_waves(const weft_plan *plan, const wave *w, int64_t *band_waves) {
    const weft_schedule *s = &plan->schedule;
    const weft_order *o = &plan->walk.order;
    const int64_t length = s->axis == WEFT_AXIS_N ? o->grid.rows : o->grid.cols;
    const int64_t lines = s->axis == WEFT_AXIS_N ? o->grid.cols : o->grid.rows;
    *band_waves = w->across * length / plan->walk.workers;
    return s->dispatch == WEFT_DISPATCH_STATIC && w->across * length % plan->walk.workers == 0 && lines % w->across == 0 &&
           *band_waves <= INT32_MAX;
}

/* A and B change places. */
static int32_t swapped_bits(int32_t bits) {
    return (bits & 1) << 1 | bits >> 1;
}

void weft_gemm_choose_l2(const weft_plan *plan, weft_gemm_params *to) {
    const weft_schedule *s = &plan->schedule;
    const weft_grid *grid = &plan->walk.order.grid;
    const int swapped = to->swapped;
    const double c_bytes =
        (double)plan->gemm.m * (double)weft_gemm_columns(&plan->gemm) * (double)weft_dtype_bytes(plan->gemm.c_dtype);
    uint64_t a = WEFT_KEEP_NORMAL, b = WEFT_KEEP_NORMAL;
    to->again_keep = WEFT_KEEP_NORMAL;
    to->band_waves = to->wave_again = 0;
    to->pace_steps = weft_gemm_pace_steps(plan);
    to->c_first = c_bytes > l2_bytes(plan);
    if (grid->rows == 1 || grid->cols == 1) {
        a = grid->cols == 1 ? WEFT_KEEP_FIRST : a;
        b = grid->rows == 1 ? WEFT_KEEP_FIRST : b;
    } else if (s->sweep == WEFT_SWEEP_SAWTOOTH && has_bands(s)) {
        const wave w = wave_of(plan);
        const int32_t across =
            s->axis == WEFT_AXIS_N ? 2 : 1; /* what a band reads again and again: columns of B, rows of A */
        const int fits = (double)w.across * w.across_bytes <= COST(kept_last) * l2_bytes(plan);
        int64_t waves;
        if (fits && has_whole_waves(plan, &w, &waves)) {
            to->again_keep = WEFT_KEEP_LAST;
            to->band_waves = (int32_t)waves;
            /* Nothing at the end of a band, where the walk turns: keeping the other operand made 2 to 6 % more be read. */
            to->wave_again = swapped ? swapped_bits(across) : across;
        } else if (fits) {
            *(across == 2 ? &b : &a) = WEFT_KEEP_LAST;
        }
    }
    to->a_keep = swapped ? b : a;
    to->b_keep = swapped ? a : b;
}
