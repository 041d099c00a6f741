/* The device runs the very orders that the host tests prove: every tile of random grids, and a dynamic walk with real
 * atomics. Exits 77, with one line, where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

#include <weft/order.h>

#define CHECK(call)                                                                                                        \
    do {                                                                                                                   \
        const cudaError_t error = (call);                                                                                  \
        if (error != cudaSuccess) {                                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));                                 \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

__global__ void all_tiles(weft_order order, int64_t *tiles) {
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t p = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; p < order.count; p += stride) {
        tiles[p] = weft_tile_index(&order, weft_order_tile(&order, p));
    }
}

/* One thread is one worker; `visits` counts, per tile, visits times 1000003 plus a digest of the visit. */
__global__ void all_visits(weft_walk walk, uint64_t *counter, unsigned long long *visits, int64_t workers) {
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= workers) {
        return;
    }
    weft_worker worker = weft_worker_start(&walk, index, counter);
    weft_visit v;
    while (weft_worker_next(&walk, &worker, &v)) {
        const int64_t tile = (v.tile.batch * walk.order.grid.rows + v.tile.row) * walk.cols + v.tile.col;
        atomicAdd(&visits[tile], 1000003ull + (unsigned long long)(v.steps * 7 + v.full_end * 3 + v.full_begin));
    }
}

static void check_orders(uint64_t *random, int64_t most, int64_t *device, int64_t *host, uint32_t *table,
                         uint32_t *device_table) {
    for (int i = 0; i < 40 * WEFT_ORDER_KINDS; i++) {
        weft_grid grid;
        grid.batch = random_between(random, 1, 4);
        grid.rows = random_between(random, 1, 400);
        grid.cols = random_between(random, 1, most / grid.batch / grid.rows);
        weft_order order;
        weft_order_init(&order, (weft_order_kind)(1 + i % WEFT_ORDER_KINDS), grid, random_between(random, 0, 40),
                        (weft_axis)(i % 3), random_between(random, 1, 12));
        for (int from_table = 0; from_table < 2; from_table++) {
            if (from_table) {
                weft_order_fill_table(&order, table);
                CHECK(cudaMemcpy(device_table, table, (size_t)order.count * sizeof *table, cudaMemcpyHostToDevice));
                order.table = device_table;
            }
            CHECK(cudaMemset(device, 0xff, (size_t)order.count * sizeof *device));
            all_tiles<<<264, 256>>>(order, device);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(host, device, (size_t)order.count * sizeof *host, cudaMemcpyDeviceToHost));
            order.table = NULL;
            for (int64_t p = 0; p < order.count; p++) {
                if (host[p] != weft_tile_index(&order, weft_order_tile(&order, p))) {
                    fprintf(stderr, "order %d differs at position %lld\n", (int)order.kind, (long long)p);
                    exit(1);
                }
            }
        }
    }
}

static void check_walks(uint64_t *random, unsigned long long *device, unsigned long long *host, uint64_t *counter) {
    for (int i = 0; i < 300; i++) {
        const weft_sweep sweep = (weft_sweep)(1 + i % WEFT_SWEEPS);
        const weft_dispatch dispatch = (weft_dispatch)(1 + i / WEFT_SWEEPS % WEFT_DISPATCHES);
        const weft_grid tiles = {random_between(random, 1, 3), random_between(random, 1, 60),
                                 random_between(random, 1, 200)};
        const size_t count = (size_t)(tiles.batch * tiles.rows * tiles.cols);
        weft_order order;
        weft_walk walk;
        weft_order_init(&order, (weft_order_kind)(1 + i % WEFT_ORDER_KINDS), weft_walk_positions(tiles, sweep, 1, 1),
                        random_between(random, 0, 9), WEFT_AXIS_N, random_between(random, 1, 8));
        const int64_t rows = tiles.cols * 64, high = random_between(random, -3000, 3000);
        const weft_slice slices[] = {weft_slice_full(rows, 5000), weft_slice_causal(rows, 5000, high),
                                     weft_slice_band(rows, 5000, high - random_between(random, 0, 900), high)};
        const weft_reach reach = weft_reach_make(rows, 5000, 64, 80, slices[i / 2 % 3]);
        if (!weft_walk_init(&walk, &order, tiles, sweep, dispatch, 1, 1, random_between(random, 1, 300), reach)) {
            fprintf(stderr, "walk %d was refused\n", i);
            exit(1);
        }
        const int64_t workers = dispatch == WEFT_DISPATCH_GRID ? walk.order.count : walk.workers;
        CHECK(cudaMemset(device, 0, count * sizeof *device));
        CHECK(cudaMemset(counter, 0, sizeof *counter));
        all_visits<<<(unsigned)((workers + 63) / 64), 64>>>(walk, counter, device, workers);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
        for (size_t tile = 0; tile < count; tile++) {
            const weft_steps range = weft_reach_steps(&walk.reach, (int64_t)tile % tiles.cols, 0);
            const int64_t digest = (range.end - range.begin) * 7 + range.full_end * 3 + range.full_begin;
            if (host[tile] != 1000003ull + (unsigned long long)digest) {
                fprintf(stderr, "walk %d: tile %zu was not visited exactly once and as on the host\n", i, tile);
                exit(1);
            }
        }
    }
}

int main(void) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("skipped: no GPU");
        return 77;
    }
    enum { MOST = 1 << 18 };
    int64_t *host = (int64_t *)malloc(MOST * sizeof *host), *device;
    uint32_t *table = (uint32_t *)malloc(MOST * sizeof *table), *device_table;
    uint64_t random = random_seed(8), *counter;
    if (!host || !table) {
        return 1;
    }
    CHECK(cudaMalloc(&device, MOST * sizeof *device));
    CHECK(cudaMalloc(&device_table, MOST * sizeof *device_table));
    CHECK(cudaMalloc(&counter, sizeof *counter));
    check_orders(&random, MOST, device, host, table, device_table);
    check_walks(&random, (unsigned long long *)device, (unsigned long long *)host, counter);
    CHECK(cudaFree(device));
    CHECK(cudaFree(device_table));
    CHECK(cudaFree(counter));
    free(host);
    free(table);
    printf("order_device: 1 passed, 0 failed\n");
    return 0;
}
