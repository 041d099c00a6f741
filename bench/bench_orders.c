/* SPDX-License-Identifier: Apache-2.0 */
/* What a position costs: every order, computed and from a table, and a worker's whole view. Median of interleaved
 * repetitions. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/bench.h>

#include "base/clock.h"

enum { REPETITIONS = 15, VARIANTS = 3 };

/* The sum keeps the compiler from dropping the work. */
static int64_t visit_all(const weft_order *order) {
    int64_t sum = 0;
    for (int64_t p = 0; p < order->count; p++) {
        const weft_tile t = weft_order_tile(order, p);
        sum += t.row ^ t.col;
    }
    return sum;
}

static int64_t walk_all(const weft_walk *walk) {
    int64_t sum = 0;
    for (int64_t w = 0; w < walk->workers; w++) {
        weft_worker worker = weft_worker_start(walk, w, NULL);
        weft_visit v;
        while (weft_worker_next(walk, &worker, &v)) {
            sum += v.tile.row ^ v.tile.col ^ v.first;
        }
    }
    return sum;
}

int main(void) {
    const weft_grid grid = {1, 512, 600};
    uint32_t *table = malloc((size_t)(grid.rows * grid.cols) * sizeof *table);
    if (!table) {
        return 1;
    }
    int64_t sum = 0;
    printf("ns per position, %lld x %lld tiles\n%-22s%10s%10s%10s\n", (long long)grid.rows, (long long)grid.cols, "order",
           "computed", "table", "worker");
    for (int32_t kind = 1; kind <= WEFT_ORDER_KINDS; kind++) {
        weft_order online, offline;
        weft_walk walk;
        weft_order_init(&online, (weft_order_kind)kind, grid, 12, WEFT_AXIS_N, 8);
        weft_order_fill_table(&online, table);
        offline = online;
        offline.table = table;
        weft_walk_init(&walk, &online, grid, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 1, 1, 132,
                       weft_reach_make(600 * 64, 600 * 64, 64, 64, weft_slice_causal(600 * 64, 600 * 64, 0)));
        double times[VARIANTS][REPETITIONS];
        for (int i = 0; i < REPETITIONS; i++) {
            for (int variant = 0; variant < VARIANTS; variant++) {
                const double begin = weft_now();
                sum += variant == 2 ? walk_all(&walk) : visit_all(variant == 0 ? &online : &offline);
                times[variant][i] = (weft_now() - begin) * 1e9 / (double)online.count;
            }
        }
        printf("%-22s%10.2f%10.2f%10.2f\n", weft_order_describe(kind)->name, weft_median(times[0], REPETITIONS),
               weft_median(times[1], REPETITIONS), weft_median(times[2], REPETITIONS));
    }
    free(table);
    return sum == 0;
}
