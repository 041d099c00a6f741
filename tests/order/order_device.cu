/* SPDX-License-Identifier: Apache-2.0 */
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

/* A digest of the path of a visit and of its turns. */
static __host__ __device__ unsigned long long digest_of(const weft_walk &walk, const weft_visit &v) {
    unsigned long long digest = 1;
    for (int64_t i = 0, step = v.first; i < v.steps; i++, step = weft_visit_next(&v, step)) {
        digest = digest * 1000003 + (unsigned long long)(step * 4096 + weft_turn_at(&walk, v.tile, 1, step));
    }
    return digest;
}

/* One thread is one position. */
__global__ void all_turns(weft_walk walk, unsigned long long *digests) {
    const int64_t position = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    weft_visit v;
    for (int32_t which = 0; position < walk.order.count && which < walk.visits; which++) {
        if (weft_walk_visit(&walk, position, 0, which, &v)) {
            digests[position * walk.visits + which] = digest_of(walk, v);
        }
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

/* Tiles of keys under every sweep: where they go, and when they add. */
static void check_turns(uint64_t *random, unsigned long long *device, unsigned long long *host) {
    for (int i = 0; i < 120; i++) {
        const weft_sweep sweep = (weft_sweep)(1 + i % WEFT_SWEEPS);
        const int64_t parts = random_between(random, 1, 3); /* of a tile */
        const weft_grid tiles = {1, parts * random_between(random, 1, 20), random_between(random, 1, 80)};
        const int64_t keys = tiles.cols * 64, queries = random_between(random, 1, 5000);
        const weft_slice slices[] = {weft_slice_full(queries, keys), weft_slice_causal(queries, keys, keys - queries),
                                     weft_slice_band(queries, keys, -900, 100)};
        weft_reach reach = weft_reach_make(keys, queries, 64, 80, weft_slice_transpose(&slices[i / 6 % 3]));
        weft_reach_set_parts(&reach, parts);
        weft_order order;
        weft_walk walk;
        weft_order_init(&order, i % 2 ? WEFT_ORDER_HEAD_FIRST : WEFT_ORDER_REVERSE, weft_walk_positions(tiles, sweep, 1, 1),
                        0, WEFT_AXIS_N, 1);
        weft_walk_init(&walk, &order, tiles, sweep, WEFT_DISPATCH_GRID, 1, 1, 132, reach);
        const size_t count = (size_t)(order.count * walk.visits), all = (size_t)(tiles.rows * tiles.cols);
        weft_coming *comings; /* which both sides read */
        CHECK(cudaMallocManaged(&comings, all * sizeof *comings));
        for (size_t n = 0; n < all; n++) {
            comings[n] = {(int32_t)random_between(random, -500, 500), (int32_t)random_between(random, 0, 80),
                          (int32_t)random_between(random, 0, 80), (int32_t)random_between(random, -1, 1)};
        }
        walk.comings = comings;
        CHECK(cudaMemset(device, 0, count * sizeof *device));
        all_turns<<<(unsigned)((order.count + 63) / 64), 64>>>(walk, device);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
        for (size_t n = 0; n < count; n++) {
            weft_visit v;
            const int visits = walk.visits;
            const int there = weft_walk_visit(&walk, (int64_t)n / visits, 0, (int32_t)(n % (size_t)visits), &v);
            if (host[n] != (there ? digest_of(walk, v) : 0)) {
                fprintf(stderr, "turns %d: visit %zu is not as on the host\n", i, n);
                exit(1);
            }
        }
        CHECK(cudaFree(comings));
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
    check_turns(&random, (unsigned long long *)device, (unsigned long long *)host);
    CHECK(cudaFree(device));
    CHECK(cudaFree(device_table));
    CHECK(cudaFree(counter));
    free(host);
    free(table);
    printf("order_device: 1 passed, 0 failed\n");
    return 0;
}
