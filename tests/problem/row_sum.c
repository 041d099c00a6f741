/* SPDX-License-Identifier: Apache-2.0 */
/* row-sum: y[i] is the sum of row i of x, a row-major fp32 matrix of rows x columns. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "problem/operation.h"
#include "problem/sectors.h"
#include "problem/tensor.h"
#include "row_sum.h"

static row_sum get(const weft_problem *problem) {
    row_sum p;
    memcpy(&p, problem, sizeof p);
    return p;
}

static void init(weft_problem *problem) {
    const row_sum fresh = {sizeof fresh, ROW_SUM, 0, 0};
    memcpy(problem, &fresh, sizeof fresh);
}

static weft_status resolve(weft_problem *problem, weft_message *message) {
    const row_sum p = get(problem);
    const weft_dimension sizes[] = {{"rows", p.rows}, {"columns", p.columns}};
    return weft_check_dimensions(sizes, 2, message);
}

static double flops(const weft_problem *problem) {
    const row_sum p = get(problem);
    return (double)p.rows * (double)p.columns;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const row_sum p = get(problem);
    const size_t rows = (size_t)p.rows, columns = (size_t)p.columns;
    const weft_buffer all[] = {
        WEFT_BUFFER_OF(row_sum_data, x, WEFT_FP32, rows * columns, 16, 1, 0),
        WEFT_BUFFER_OF(row_sum_data, y, WEFT_FP32, rows, 4, 2, 0),
    };
    memcpy(list, all, sizeof all);
    return 2;
}

/* A tile is tile_m rows; a step is tile_n columns of them. */
static size_t sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const row_sum p = get(t->problem);
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "rows", p.rows, 64, 0};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "columns", p.columns, 256, 0};
    return 2;
}

static void choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    (void)problem;
    (void)machine;
    s->order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_RASTER_N : s->order;
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
}

/* One row of tiles. Every tile takes all steps, so its slice is full. */
static void lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const row_sum p = get(t->problem);
    const weft_schedule *s = t->schedule;
    *tiles = (weft_grid){1, 1, weft_ceil_divide(p.rows, s->tile_m)};
    *reach = weft_reach_make(p.rows, p.columns, s->tile_m, s->tile_n, weft_slice_full(p.rows, p.columns));
}

static void pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *pieces) {
    const row_sum p = get(t->problem);
    const weft_schedule *s = t->schedule;
    (void)reach;
    *pieces = (weft_pieces){.sections = 1,
                            .section = {{"x", "block of rows", weft_ceil_divide(p.rows, s->tile_m)}},
                            .steps = weft_ceil_divide(p.columns, s->tile_n),
                            .step = "block of columns",
                            .read = "blocks of x",
                            .per_piece = 1,
                            .largest = (double)s->tile_m * (4.0 * (double)s->tile_n / (double)sector + 1),
                            .distinct = (uint64_t)weft_ceil_divide(4 * p.rows * p.columns, sector),
                            .written = (uint64_t)weft_ceil_divide(4 * p.rows, sector)};
}

static void reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *reads) {
    const row_sum p = get(t->problem);
    const weft_schedule *s = t->schedule;
    const int64_t begin = visit->tile.n * s->tile_m, left = p.rows - begin, rows = left < s->tile_m ? left : s->tile_m;
    (void)reach;
    const int64_t last = p.columns - (weft_ceil_divide(p.columns, s->tile_n) - 1) * s->tile_n;
    *reads = (weft_visit_reads){.streams = 1, .dtype = WEFT_FP32, .flops = (double)s->tile_m * (double)s->tile_n};
    reads->stream[0].line = visit->tile.n;
    reads->stream[0].sectors = weft_sectors(rows, 4 * s->tile_n, 4 * p.columns, sector);
    reads->stream[0].at_end = weft_sectors(rows, 4 * last, 4 * p.columns, sector);
    reads->stream[0].shared = 1;
    reads->out_sectors = weft_ceil_divide(4 * rows, sector);
}

static double step_bytes(const weft_tiling *t) {
    return 4.0 * (double)t->schedule->tile_m * (double)t->schedule->tile_n;
}

static int text(const weft_problem *problem, char *to, size_t size) {
    const row_sum p = get(problem);
    return snprintf(to, size, "row-sum    rows %" PRId64 ", columns %" PRId64 "\n", p.rows, p.columns);
}

static int title(const weft_problem *problem, char *to, size_t size) {
    const row_sum p = get(problem);
    return snprintf(to, size, "Row sums, %" PRId64 " x %" PRId64, p.rows, p.columns);
}

static size_t key(const weft_problem *problem, int64_t *numbers, char *to, size_t size) {
    const row_sum p = get(problem);
    numbers[0] = weft_bucket(p.rows);
    numbers[1] = weft_bucket(p.columns);
    snprintf(to, size, "row-sum rows %" PRId64 ", columns %" PRId64, numbers[0], numbers[1]);
    return 2;
}

/* The work of one tile: its steps in the order of the sweep. */
static void tile(const weft_tiling *t, const void *data, const weft_visit *visit) {
    const row_sum p = get(t->problem);
    const row_sum_data *d = data;
    const int64_t begin = visit->tile.n * t->schedule->tile_m, end = begin + t->schedule->tile_m;
    for (int64_t row = begin; row < end && row < p.rows; row++) {
        double sum = 0.0;
        for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
            const int64_t first = step * t->schedule->tile_n, last = first + t->schedule->tile_n;
            for (int64_t column = first; column < last && column < p.columns; column++) {
                sum += (double)d->x[row * p.columns + column];
            }
        }
        d->y[row] = (float)sum;
    }
}

/* clang-format off */
static const weft_field fields[] = {
    {"rows",    "rows of x (1024)", WEFT_FIELD_INTEGER, offsetof(row_sum, rows), 0, NULL, 1024, NULL},
    {"columns", "columns of x (1024)", WEFT_FIELD_INTEGER, offsetof(row_sum, columns), 0, NULL, 1024, NULL},
};
/* clang-format on */

const weft_operation_row weft_operation_row_sum = {
    .info = {.operation = ROW_SUM,
             .name = "row-sum",
             .text = "y = sums of the rows of x",
             .problem_size = sizeof(row_sum),
             .data_size = sizeof(row_sum_data),
             .grid = WEFT_GRID_MATRIX,
             .fields = fields,
             .field_count = sizeof fields / sizeof *fields},
    .init = init,
    .resolve = resolve,
    .flops = flops,
    .buffers = buffers,
    .sides = sides,
    .choose = choose,
    .lay_out = lay_out,
    .pieces = pieces,
    .reads = reads,
    .step_bytes = step_bytes,
    .text = text,
    .title = title,
    .key = key,
    .tile = tile,
};
