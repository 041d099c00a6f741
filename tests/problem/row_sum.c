#include "row_sum.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "problem/operation.h"
#include "problem/sectors.h"
#include "problem/tensor.h"

static const row_sum *of(const weft_problem *problem) {
    return (const row_sum *)(const void *)problem;
}

static void init(weft_problem *problem) {
    *(row_sum *)(void *)problem = (row_sum)ROW_SUM_INIT;
}

static weft_status resolve(weft_problem *problem, weft_message *message) {
    const weft_dimension fields[] = {{"rows", of(problem)->rows}, {"cols", of(problem)->cols}};
    return weft_check_dimensions(fields, 2, message);
}

static double flops(const weft_problem *problem) {
    return (double)of(problem)->rows * (double)of(problem)->cols;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const size_t rows = (size_t)of(problem)->rows, cols = (size_t)of(problem)->cols, size = sizeof(weft_buffer);
    list[0] = (weft_buffer){size, "matrix", offsetof(row_sum_data, matrix), WEFT_FP32, rows * cols, 4, 1, 0, 0};
    list[1] = (weft_buffer){size, "sums", offsetof(row_sum_data, sums), WEFT_FP32, rows, 4, 0, 1, 0};
    return 2;
}

/* A tile is a block of rows; its steps are blocks of columns. */
static size_t sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "rows", of(t->problem)->rows, 16};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "cols", of(t->problem)->cols, 256};
    return 2;
}

static void choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    (void)problem;
    (void)machine;
    s->order = s->order ? s->order : WEFT_ORDER_RASTER_M;
    s->sweep = s->sweep ? s->sweep : WEFT_SWEEP_FORWARD;
    s->dispatch = s->dispatch ? s->dispatch : WEFT_DISPATCH_STATIC;
}

static void lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const row_sum *p = of(t->problem);
    *tiles = (weft_grid){1, weft_ceil_divide(p->rows, t->schedule->tile_m), 1};
    *reach = weft_reach_make(1, p->cols, 1, t->schedule->tile_n, weft_slice_full(1, p->cols));
}

static void pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *to) {
    const row_sum *p = of(t->problem);
    (void)reach;
    *to = (weft_pieces){.sections = 1,
                        .section = {{"matrix", "block of rows", weft_ceil_divide(p->rows, t->schedule->tile_m)}},
                        .steps = weft_ceil_divide(p->cols, t->schedule->tile_n),
                        .step = "block of columns",
                        .read = "blocks of the matrix",
                        .per_piece = 1};
    to->largest = (double)t->schedule->tile_m * (4.0 * (double)t->schedule->tile_n / (double)sector + 1);
    to->distinct = (uint64_t)weft_ceil_divide(p->rows * p->cols * 4, sector);
    to->written = (uint64_t)weft_ceil_divide(p->rows * 4, sector);
}

static void reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *to) {
    const row_sum *p = of(t->problem);
    const weft_schedule *s = t->schedule;
    const int64_t left = p->rows - visit->tile.m * s->tile_m, rows = left < s->tile_m ? left : s->tile_m;
    (void)reach;
    *to = (weft_visit_reads){.streams = 1, .dtype = WEFT_FP32};
    to->stream[0].line = visit->tile.m;
    to->stream[0].sectors = weft_sectors(rows, s->tile_n * 4, p->cols * 4, sector);
    to->stream[0].at_end = weft_sectors(rows, ((p->cols - 1) % s->tile_n + 1) * 4, p->cols * 4, sector);
    to->stream[0].shared = 1;
    to->out_sectors = weft_ceil_divide(rows * 4, sector);
    to->flops = (double)s->tile_m * (double)s->tile_n;
}

static double step_bytes(const weft_tiling *t) {
    return 4.0 * (double)t->schedule->tile_m * (double)t->schedule->tile_n;
}

static int text(const weft_problem *problem, char *to, size_t size) {
    return snprintf(to, size, "row-sum    %lld x %lld\n", (long long)of(problem)->rows, (long long)of(problem)->cols);
}

static size_t key(const weft_problem *problem, int64_t *numbers, char *to, size_t size) {
    numbers[0] = weft_bucket(of(problem)->rows);
    numbers[1] = weft_bucket(of(problem)->cols);
    snprintf(to, size, "row-sum rows %lld, cols %lld", (long long)numbers[0], (long long)numbers[1]);
    return 2;
}

/* The sums grow step by step, in the sweep's direction. */
static void tile(const weft_tiling *t, const void *data, const weft_visit *visit) {
    const row_sum *p = of(t->problem);
    const row_sum_data *d = data;
    const int64_t begin = visit->tile.m * t->schedule->tile_m, end = begin + t->schedule->tile_m;
    for (int64_t row = begin; row < end && row < p->rows; row++) {
        float sum = 0;
        for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
            const int64_t first = step * t->schedule->tile_n, last = first + t->schedule->tile_n;
            for (int64_t col = first; col < last && col < p->cols; col++) {
                sum += d->matrix[row * p->cols + col];
            }
        }
        d->sums[row] = sum;
    }
}

static const weft_field fields[] = {
    {"rows", "rows of the matrix (1024)", WEFT_FIELD_INTEGER, offsetof(row_sum, rows), 0, NULL, 1024, NULL},
    {"cols", "its columns (1024)", WEFT_FIELD_INTEGER, offsetof(row_sum, cols), 0, NULL, 1024, NULL},
};

extern const weft_operation_row weft_operation_row_sum;
const weft_operation_row weft_operation_row_sum = {
    .info = {.operation = ROW_SUM,
             .name = "row-sum",
             .text = "the sum of each row of a matrix",
             .problem_size = sizeof(row_sum),
             .data_size = sizeof(row_sum_data),
             .grid = WEFT_GRID_MATRIX,
             .fields = fields,
             .field_count = 2},
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
    .title = text,
    .key = key,
    .tile = tile,
};
