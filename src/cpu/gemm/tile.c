/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of a GEMM for this host. */
#include "cpu/gemm/tile.h"

#include "cpu/gemm/cost.h"

/* Bytes. A tile's sums and a slice of its A and B share an L2, which two threads may have to share. */
enum { HALF_L1 = 24 << 10, SHARE_OF_L2 = 1 << 20 };

static int is_order_open(const weft_schedule *s) {
    return s->order == WEFT_ORDER_CHOOSE && s->group == 0 && s->cluster_m <= 1 && s->cluster_n <= 1;
}

/* A tile, and the order that tiles come in. */
typedef struct choice {
    int64_t tile_m, tile_n;
    weft_cpu_way how;
    double cost; /* of all products */
} choice;

/* Lengths to try along an axis: `listed` of the usual ones, and equal parts of it, so that a product that is a little
 * larger than a tile packs nothing twice. `to` holds listed + 2. */
static size_t list_lengths(int64_t given, int64_t length, size_t listed, int64_t *to) {
    const size_t count = weft_cpu_list_lengths(given, length, weft_cpu_lengths, listed, to);
    if (given == 0) {
        to[count] = weft_ceil_divide(length, weft_ceil_divide(length, weft_cpu_lengths[WEFT_CPU_LENGTHS - 1]));
    }
    return count + (given == 0);
}

/* The best for walks over so many products of the batch. */
static choice best_tile(const weft_schedule *s, const weft_gemm *p, const weft_cpu_kernel *kernel, int64_t products) {
    const int64_t element = (int64_t)weft_dtype_bytes(kernel->dtype);
    int64_t m[WEFT_CPU_LENGTHS + 2], n[WEFT_CPU_ALL_LENGTHS + 2];
    const size_t ms = list_lengths(s->tile_m, p->m, WEFT_CPU_LENGTHS, m),
                 ns = list_lengths(s->tile_n, p->n, WEFT_CPU_ALL_LENGTHS, n);
    const int is_open = is_order_open(s), on_the_way = weft_cpu_packs_on_the_way(kernel, p);
    const weft_cpu_way first = is_open ? WEFT_CPU_DOWN : weft_cpu_way_of(s->order), last = is_open ? WEFT_CPU_ALONG : first;
    choice best = {0, 0, first, -1};
    for (size_t i = 0; i < ms * ns; i++) {
        const int64_t tile_m = m[i / ns], tile_n = n[i % ns];
        const weft_cpu_axis down = weft_cpu_cut_axis(p->m, tile_m, kernel->a.lines),
                            along = weft_cpu_cut_axis(p->n, tile_n, kernel->b.lines);
        const int columns = products == 1 && weft_cpu_by_columns(kernel, p, down, along, s->workers);
        if (s->tile_n == 0 && tile_n > weft_cpu_lengths[WEFT_CPU_LENGTHS - 1] && !columns && !on_the_way) {
            continue;
        }
        const int64_t sums = columns ? kernel->b.lines : tile_n, packed = columns || on_the_way ? kernel->b.lines : tile_n;
        const double bytes = (double)tile_m * (double)sums * (double)sizeof(float) +
                             ((double)tile_m + (double)packed) * (double)s->tile_k * (double)element;
        if (best.cost >= 0 && bytes > SHARE_OF_L2) {
            continue;
        }
        for (weft_cpu_way how = first; how <= last; how++) {
            if (best.cost >= 0 &&
                weft_cpu_gemm_cost(kernel, p, products, down, along, s->workers, WEFT_CPU_FLUID) >= best.cost) {
                break; /* no order beats that */
            }
            const double cost = weft_cpu_gemm_cost(kernel, p, products, down, along, s->workers, how);
            if (best.cost < 0 || cost < best.cost) {
                best = (choice){tile_m, tile_n, how, cost};
            }
        }
    }
    best.cost *= (double)p->batch / (double)products;
    return best;
}

/* One walk for each product of a batch, or one for all when products are too small for all threads. */
void weft_cpu_gemm_choose(weft_plan *plan) {
    weft_schedule *s = &plan->schedule;
    const weft_gemm *p = &plan->gemm;
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_CPU_PRODUCTS, p->dtype);
    if (s->tile_k == 0) { /* a panel of B fills about half an L1, through which A passes too; slices are equally long */
        const int64_t depth = weft_cpu_fitting_lines(kernel->b.lines * (int64_t)weft_dtype_bytes(kernel->dtype), HALF_L1);
        const int64_t slices = weft_ceil_divide(p->k, depth), even = weft_cpu_pad(weft_ceil_divide(p->k, slices), 32);
        s->tile_k = p->k < even ? p->k : even;
    }
    choice best = best_tile(s, p, kernel, plan->products);
    if (p->batch > 1 && plan->products == 1) {
        const choice at_once = best_tile(s, p, kernel, p->batch);
        plan->products = at_once.cost < best.cost ? p->batch : 1;
        best = at_once.cost < best.cost ? at_once : best;
    }
    s->tile_m = best.tile_m;
    s->tile_n = best.tile_n;
    const weft_cpu_axis down = weft_cpu_cut_axis(p->m, s->tile_m, kernel->a.lines),
                        along = weft_cpu_cut_axis(p->n, s->tile_n, kernel->b.lines);
    if (is_order_open(s) && down.tiles * along.tiles > 1 && weft_cpu_is_dealt(plan->products, down, along, s->workers)) {
        s->order = best.how == WEFT_CPU_DOWN ? WEFT_ORDER_RASTER_M : WEFT_ORDER_RASTER_N;
    }
    if (s->dispatch == WEFT_DISPATCH_CHOOSE) {
        /* Threads are not equally fast; but one that has the same single tile in every call may find it in its cache. */
        const double tiles =
            (double)plan->products * (double)weft_ceil_divide(p->m, s->tile_m) * (double)weft_ceil_divide(p->n, s->tile_n);
        s->dispatch = tiles <= (double)s->workers ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
}

size_t weft_cpu_gemm_candidates(const weft_plan *draft, weft_schedule *list, size_t capacity) {
    const weft_schedule *s = &draft->schedule;
    int64_t m[WEFT_CPU_LENGTHS + 2], n[WEFT_CPU_LENGTHS + 2];
    const size_t ms = list_lengths(s->tile_m, draft->gemm.m, WEFT_CPU_LENGTHS, m),
                 ns = list_lengths(s->tile_n, draft->gemm.n, WEFT_CPU_LENGTHS, n);
    return weft_cpu_list_tiles(s, m, ms, n, ns, list, capacity);
}

double weft_cpu_gemm_plan_cost(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_gemm *p = &plan->gemm;
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_CPU_PRODUCTS, p->dtype);
    const double walk =
        weft_cpu_gemm_cost(kernel, p, plan->products, weft_cpu_cut_axis(p->m, s->tile_m, kernel->a.lines),
                           weft_cpu_cut_axis(p->n, s->tile_n, kernel->b.lines), s->workers, weft_cpu_way_of(s->order));
    return walk * (double)p->batch / (double)plan->products;
}
