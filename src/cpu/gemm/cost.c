/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/gemm/cost.h"

#include <math.h>

#include "cpu/costs.h"
#include "cpu/thread/team.h"

weft_cpu_way weft_cpu_way_of(int32_t order) {
    return order == WEFT_ORDER_RASTER_M ? WEFT_CPU_DOWN : WEFT_CPU_ALONG;
}

/* Up to so many workers are taken to be equally fast; up to so many tiles a worker are simulated one by one. */
enum { MOST_ALIKE = 8, DEALT_EACH = 16 };

/* Whether each worker has a core. VMs misreport topology, so it is trusted up to 8 threads only. */
static int are_alike(int64_t workers) {
    return workers <= MOST_ALIKE && !weft_cpu_shares_cores();
}

int weft_cpu_is_dealt(int64_t products, weft_cpu_axis m, weft_cpu_axis n, int64_t workers) {
    return are_alike(workers) && (double)products * m.tiles * n.tiles <= (double)(DEALT_EACH * workers);
}

/* When the last tile is done, if each goes to the worker that is free first. */
static double deal(weft_cpu_fetching f, int64_t products, weft_cpu_axis m, weft_cpu_axis n, int64_t workers,
                   weft_cpu_way how) {
    const weft_cpu_axis outer = how == WEFT_CPU_DOWN ? n : m, inner = how == WEFT_CPU_DOWN ? m : n;
    const double last_outer = outer.all - (outer.tiles - 1) * outer.one,
                 last_inner = inner.all - (inner.tiles - 1) * inner.one;
    const double outer_line = how == WEFT_CPU_DOWN ? f.n : f.m, inner_line = how == WEFT_CPU_DOWN ? f.m : f.n;
    double free_at[MOST_ALIKE] = {0}, end = 0;
    for (double i = 0; i < (double)products * outer.tiles; i++) {
        const double x = fmod(i, outer.tiles) < outer.tiles - 1 ? outer.one : last_outer;
        for (double j = 1; j <= inner.tiles; j++) {
            const double y = j < inner.tiles ? inner.one : last_inner;
            int64_t first = 0;
            for (int64_t w = 1; w < workers; w++) {
                first = free_at[w] < free_at[first] ? w : first;
            }
            free_at[first] += x * y + outer_line * x + inner_line * y;
            end = free_at[first] > end ? free_at[first] : end;
        }
    }
    return end;
}

/* Threads that share cores differ in speed, and all wait for the last. Threads with a core each are equally fast, and
 * greedy dealing predicts them. */
static double with_waiting(weft_cpu_fetching f, int64_t products, weft_cpu_axis m, weft_cpu_axis n, int64_t workers,
                           weft_cpu_way how) {
    const weft_cpu_spent s = weft_cpu_spend(f, (double)products, m, n);
    if (!are_alike(workers)) {
        return s.tiles <= (double)workers ? weft_cpu_costs.one_each * s.one
                                          : s.all / (double)workers + weft_cpu_costs.end * s.all / s.tiles;
    }
    const double share = how != WEFT_CPU_FLUID && weft_cpu_is_dealt(products, m, n, workers)
                             ? deal(f, products, m, n, workers, how)
                             : fmax(s.one, s.all / (double)workers);
    return share + (s.tiles > 1 ? weft_cpu_costs.end_alike * s.all / s.tiles : 0);
}

/* Lines of A and of B: those that are contiguous along k are transposed while they are packed. */
static weft_cpu_fetching fetching_of(const weft_cpu_kernel *kernel, const weft_gemm *p) {
    return (weft_cpu_fetching){p->a_major == WEFT_ROW_MAJOR ? kernel->fetch : kernel->fetch_across,
                               p->b_major == WEFT_ROW_MAJOR ? kernel->fetch_across : kernel->fetch};
}

int weft_cpu_takes_unpacked(const weft_cpu_kernel *kernel, const weft_gemm *p) {
    return kernel->multiply_unpacked && p->dtype == kernel->dtype && p->a_major == WEFT_ROW_MAJOR && !p->gated;
}

int weft_cpu_packs_on_the_way(const weft_cpu_kernel *kernel, const weft_gemm *p) {
    return kernel->multiply_and_pack && p->dtype == kernel->dtype && p->b_major == WEFT_ROW_MAJOR && !p->gated;
}

/* FEW: packing A takes longer than that many blocks save by it. AMX's blocks save more. */
int weft_cpu_leaves_a_in_place(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t panels) {
    enum { FEW = 8 };
    return panels <= FEW && kernel->multiply_and_pack && kernel->depth == 1 && weft_cpu_takes_unpacked(kernel, p);
}

int weft_cpu_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_axis m, weft_cpu_axis n,
                        int64_t workers) {
    return m.tiles * n.tiles > 1 && m.tiles * n.tiles <= (double)workers && weft_cpu_takes_unpacked(kernel, p);
}

/* All threads have equal work, up to the last column. Each column packs its B; each worker fetches the A of its tile, and a
 * worker without a tile the A of two others. */
static double cost_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_axis m, weft_cpu_axis n,
                              int64_t workers) {
    const double rows = (double)weft_cpu_pad(p->m, kernel->a.lines), cols = (double)weft_cpu_pad(p->n, kernel->b.lines);
    const double column = kernel->b.lines * (m.one + kernel->fetch);
    const double share = cols * (rows + kernel->fetch * m.tiles) / (double)workers;
    const double fetched = m.tiles * n.tiles < (double)workers ? 2 : 1;
    return (share > column ? share : column) + weft_cpu_costs.end_column * column + fetched * kernel->fetch * m.one;
}

/* Each thread packs what its tile needs, even if others pack the same. */
static double cost_alone(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t products, weft_cpu_axis m,
                         weft_cpu_axis n, int64_t workers, weft_cpu_way how) {
    weft_cpu_fetching f = fetching_of(kernel, p);
    f.m *= weft_cpu_leaves_a_in_place(kernel, p, (int64_t)n.one / kernel->b.lines) ? weft_cpu_costs.in_place : 1;
    f.n *= weft_cpu_packs_on_the_way(kernel, p) ? weft_cpu_costs.on_the_way : 1;
    return products == 1 && weft_cpu_by_columns(kernel, p, m, n, workers) ? cost_by_columns(kernel, p, m, n, workers)
                                                                          : with_waiting(f, products, m, n, workers, how);
}

/* Both operands are packed first, once, by all threads. Then tiles fetch lines faster, but packing hardly scales: packed
 * lines move between the cores' caches, before they are read and before they are written again. */
static double cost_shared(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_axis m, weft_cpu_axis n,
                          int64_t workers, weft_cpu_way how) {
    const weft_cpu_fetching f = fetching_of(kernel, p);
    const double packing = weft_cpu_costs.packing * (f.m * (double)p->m + f.n * (double)p->n);
    const weft_cpu_fetching packed = {weft_cpu_costs.packed_fetch * f.m, weft_cpu_costs.packed_fetch * f.n};
    return m.tiles * n.tiles <= (double)workers ? INFINITY /* nothing to share */
                                                : with_waiting(packed, 1, m, n, workers, how) + packing;
}

double weft_cpu_gemm_cost(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t products, weft_cpu_axis m,
                          weft_cpu_axis n, int64_t workers, weft_cpu_way how) {
    const double alone = cost_alone(kernel, p, products, m, n, workers, how),
                 shared = products == 1 ? cost_shared(kernel, p, m, n, workers, how) : INFINITY;
    const double waking =
        (double)products * m.tiles * n.tiles <= 1 ? 0 : weft_cpu_costs.waking * kernel->fetch / (double)p->k;
    return (alone < shared ? alone : shared) + waking;
}

int weft_cpu_packs_alone(const weft_plan *plan) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_CPU_PRODUCTS, p->dtype);
    const weft_cpu_axis m = weft_cpu_cut_axis(p->m, s->tile_m, kernel->a.lines),
                        n = weft_cpu_cut_axis(p->n, s->tile_n, kernel->b.lines);
    const weft_cpu_way how = weft_cpu_way_of(s->order);
    return plan->products > 1 ||
           cost_alone(kernel, p, 1, m, n, s->workers, how) < cost_shared(kernel, p, m, n, s->workers, how);
}
