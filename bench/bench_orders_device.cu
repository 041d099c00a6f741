/* SPDX-License-Identifier: Apache-2.0 */
/* What a position costs a kernel: cycles of one thread that asks for one tile after the other, each order computed and from
 * a table, and a worker's whole view. Nothing else runs, so this is latency, the price a producer warp pays once per tile.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { CALLS = 512, VARIANTS = 3 };

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

/* cycles[v]: for CALLS positions; each position depends on the tile before it, so that calls cannot overlap. */
__global__ void ask(weft_walk walk, const uint32_t *table, long long *cycles, int64_t *sum) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        walk.order.table = variant == 1 ? table : NULL;
        int64_t total = 0, position = 0;
        const long long begin = clock64();
        for (int i = 0; i < CALLS; i++) {
            if (variant == 2) {
                weft_visit v;
                weft_walk_visit(&walk, position, i, 0, &v);
                total += v.tile.row + v.tile.col + v.first;
            } else {
                const weft_tile t = weft_order_tile(&walk.order, position);
                total += t.row + t.col;
            }
            position = (position + 132 + (total & 1)) & 0x3ffff;
        }
        cycles[variant] = clock64() - begin;
        *sum += total;
    }
}

int main(void) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("skipped: no GPU");
        return 0;
    }
    const weft_grid grid = {1, 512, 600}; /* more than 0x3ffff tiles */
    const size_t tiles = (size_t)(grid.rows * grid.cols);
    uint32_t *table = (uint32_t *)malloc(tiles * sizeof *table), *device_table;
    long long cycles[VARIANTS], *device_cycles;
    int64_t *sum;
    if (!table) {
        return 1;
    }
    check(cudaMalloc(&device_table, tiles * sizeof *table));
    check(cudaMalloc(&device_cycles, sizeof cycles));
    check(cudaMalloc(&sum, sizeof *sum));
    printf("GPU cycles per position, %lld x %lld tiles\n%-22s%10s%10s%10s\n", (long long)grid.rows, (long long)grid.cols,
           "order", "computed", "table", "worker");
    for (int32_t kind = 1; kind <= WEFT_ORDER_KINDS; kind++) {
        weft_order order;
        weft_walk walk;
        weft_order_init(&order, (weft_order_kind)kind, grid, 12, WEFT_AXIS_N, 8);
        weft_order_fill_table(&order, table);
        weft_walk_init(&walk, &order, grid, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 1, 1, 132,
                       weft_reach_make(600 * 64, 600 * 64, 64, 64, weft_slice_causal(600 * 64, 600 * 64, 0)));
        check(cudaMemcpy(device_table, table, tiles * sizeof *table, cudaMemcpyHostToDevice));
        for (int i = 0; i < 2; i++) { /* the second time with warm caches */
            ask<<<1, 1>>>(walk, device_table, device_cycles, sum);
            check(cudaGetLastError());
        }
        check(cudaMemcpy(cycles, device_cycles, sizeof cycles, cudaMemcpyDeviceToHost));
        printf("%-22s%10.0f%10.0f%10.0f\n", weft_order_describe(kind)->name, (double)cycles[0] / CALLS,
               (double)cycles[1] / CALLS, (double)cycles[2] / CALLS);
    }
    free(table);
    return 0;
}
