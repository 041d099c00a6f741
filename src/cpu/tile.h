/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles for this host: what attention and GEMM choose theirs by. */
#ifndef WEFT_CPU_TILE_H
#define WEFT_CPU_TILE_H

#include "plan/plan.h"

/* Lengths that a tile may have along one axis. All kernels' blocks divide 96, so its multiples waste nothing; powers of two
 * divide what is often asked for. The last three are for tiles that threads share by columns of blocks, which hold the sums
 * of one column only. */
enum { WEFT_CPU_LENGTHS = 7, WEFT_CPU_ALL_LENGTHS = 10 };
extern const int64_t weft_cpu_lengths[WEFT_CPU_ALL_LENGTHS];

/* Lengths to try: the given one, or each of `from` up to the problem's length. `to` holds one more than `from`. */
size_t weft_cpu_list_lengths(int64_t given, int64_t length, const int64_t *from, size_t from_count, int64_t *to);

/* Schedules to time: every tile of these lengths, with every dispatch that the schedule leaves open and that differs here.
 * Returns how many there are, at most `capacity`. */
size_t weft_cpu_list_tiles(const weft_schedule *schedule, const int64_t *m, size_t ms, const int64_t *n, size_t ns,
                           weft_schedule *to, size_t capacity);

/* How many lines of so many bytes fit a memory: a multiple of 96, at most 480. */
int64_t weft_cpu_fitting_lines(int64_t bytes, int64_t memory);

/* How tiles cut one axis: how many there are, and the lines of one and of all, each tile padded to whole blocks; the last
 * one may be shorter. */
typedef struct weft_cpu_axis {
    double tiles, one, all;
} weft_cpu_axis;

weft_cpu_axis weft_cpu_cut_axis(int64_t length, int64_t tile, int64_t lines);

/* What fetching and packing a line of a tile costs, in products. */
typedef struct weft_cpu_fetching {
    double m, n;
} weft_cpu_fetching;

/* What tiles cost, in products of one value of k: their blocks, padded, and fetching their lines. */
typedef struct weft_cpu_spent {
    double tiles; /* how many */
    double one, all;
} weft_cpu_spent;

weft_cpu_spent weft_cpu_spend(weft_cpu_fetching f, double grids, weft_cpu_axis m, weft_cpu_axis n);

/* WEFT_UNSUPPORTED when a thread could not hold the plan's tile. */
weft_status weft_cpu_check_tile(const weft_plan *plan, weft_message *message);

#endif
