/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of an attention, as a problem. A tile is some rows of O; a step is some of the parts. */
#include "problem/combine.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "problem/operation.h"
#include "problem/sectors.h"
#include "problem/tensor.h"

static void init(weft_problem *problem) {
    const weft_combine fresh = WEFT_COMBINE_INIT;
    problem->combine = fresh;
}

static weft_status resolve(weft_problem *problem, weft_message *message) {
    weft_combine *p = &problem->combine;
    const weft_dimension fields[] = {
        {"parts", p->parts}, {"batch", p->batch}, {"heads", p->heads}, {"seq", p->seq}, {"head_dim", p->head_dim}};
    weft_status status = weft_check_dimensions(fields, sizeof fields / sizeof *fields, message);
    if (status) {
        return status;
    }
    if (p->parts > WEFT_MOST_PARTS) {
        return weft_fail(message, WEFT_INVALID, "parts %" PRId64 " are more than %d: combine some of them first", p->parts,
                         WEFT_MOST_PARTS);
    }
    if (p->head_dim > WEFT_MAX_HEAD_DIM) {
        return weft_fail(message, WEFT_INVALID, "head_dim %" PRId64 " is not between 1 and %d", p->head_dim,
                         WEFT_MAX_HEAD_DIM);
    }
    if (p->layout != WEFT_BSHD && p->layout != WEFT_BHSD) {
        return weft_fail(message, WEFT_INVALID, "layout %d is not WEFT_BSHD or WEFT_BHSD", (int)p->layout);
    }
    if ((p->into != 0 && p->into != 1) || (p->sum != 0 && p->sum != 1)) {
        return weft_fail(message, WEFT_INVALID, "into %d and sum %d are not each 0 or 1", (int)p->into, (int)p->sum);
    }
    if (p->sum ? p->lse_stride != 0 : p->lse_stride != 0 && p->lse_stride < p->seq) {
        return weft_fail(message, WEFT_INVALID, "lse_stride %" PRId64 " is not 0 %s", p->lse_stride,
                         p->sum ? "but a sum has no LSE" : "or at least seq");
    }
    p->lse_stride = p->sum || p->lse_stride ? p->lse_stride : p->seq;
    const weft_tensor_axis lines = {p->batch * p->heads, p->lse_stride};
    if (!weft_extent(&lines, 1, p->seq)) {
        return weft_fail(message, WEFT_INVALID, "lse spans more than 2^59 elements");
    }
    if ((status = weft_check_dtype("dtype", p->dtype, message)) ||
        (status = weft_check_dtype("o_dtype", p->o_dtype, message)) ||
        (status =
             weft_resolve_strides(&p->part_strides, "part", p->layout, p->batch, p->seq, p->heads, p->head_dim, message)) ||
        (status = weft_resolve_strides(&p->o_strides, "o", p->layout, p->batch, p->seq, p->heads, p->head_dim, message))) {
        return status;
    }
    const weft_strides *s = &p->o_strides;
    weft_tensor_axis axes[] = {{p->batch, s->batch}, {p->seq, s->seq}, {p->heads, s->head}};
    return weft_overlaps_itself(axes, 3, p->head_dim)
               ? weft_fail(message, WEFT_INVALID,
                           "o_strides make rows of o overlap: batch %" PRId64 ", seq %" PRId64 ", head %" PRId64, s->batch,
                           s->seq, s->head)
               : WEFT_OK;
}

static double flops(const weft_problem *problem) {
    const weft_combine *p = &problem->combine;
    return (p->sum ? 1.0 : 2.0) * (double)(p->parts + p->into) * (double)weft_combine_rows(p) * (double)p->head_dim;
}

static size_t extent(const weft_combine *p, const weft_strides *s) {
    const weft_tensor_axis axes[] = {{p->batch, s->batch}, {p->seq, s->seq}, {p->heads, s->head}};
    return (size_t)weft_extent(axes, 3, p->head_dim);
}

#define NAMES(of)                                                                                                          \
    {                                                                                                                      \
        of "[0]", of "[1]", of "[2]", of "[3]", of "[4]", of "[5]", of "[6]", of "[7]", of "[8]", of "[9]", of "[10]",     \
            of "[11]", of "[12]", of "[13]", of "[14]", of "[15]"                                                          \
    }
static const char *const part_names[WEFT_MOST_PARTS] = NAMES("parts"), *const lse_names[WEFT_MOST_PARTS] = NAMES("lses");
_Static_assert(2 * WEFT_MOST_PARTS + 2 <= WEFT_BUFFERS, "all buffers are listed");

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_combine *p = &problem->combine;
    const size_t rows = (size_t)weft_combine_rows(p), parts = (size_t)p->parts;
    const weft_buffer part =
        WEFT_BUFFER_OF(weft_combine_data, parts, p->dtype, extent(p, &p->part_strides), weft_dtype_bytes(p->dtype), 1, 0);
    const weft_buffer of_part = WEFT_BUFFER_OF(weft_combine_data, lses, WEFT_FP32, rows, sizeof(float), 1, 0);
    const int access = p->into ? 3 : 2;
    const weft_buffer o =
        WEFT_BUFFER_OF(weft_combine_data, o, p->o_dtype, extent(p, &p->o_strides), weft_dtype_bytes(p->o_dtype), access, 0);
    const weft_tensor_axis lines = {p->batch * p->heads, p->lse_stride};
    const weft_buffer lse = WEFT_BUFFER_OF(weft_combine_data, lse, WEFT_FP32, (size_t)weft_extent(&lines, 1, p->seq),
                                           sizeof(float), access, !p->into);
    size_t count = 0;
    for (size_t i = 0; i < parts; i++, count++) {
        list[count] = part;
        list[count].name = part_names[i];
        list[count].offset += i * sizeof(void *);
    }
    for (size_t i = 0; i < parts && !p->sum; i++, count++) {
        list[count] = of_part;
        list[count].name = lse_names[i];
        list[count].offset += i * sizeof(void *);
    }
    list[count++] = o;
    if (!p->sum) {
        list[count++] = lse;
    }
    return count;
}

static size_t sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_combine *p = &t->problem->combine;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "rows", weft_combine_rows(p), 16, 0};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "parts", p->parts, 1, 0};
    return 2;
}

static void choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    (void)problem;
    (void)machine;
    s->order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_RASTER_N : s->order;
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
}

static void lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_combine *p = &t->problem->combine;
    const weft_schedule *s = t->schedule;
    const int64_t rows = weft_combine_rows(p);
    *tiles = (weft_grid){1, 1, weft_ceil_divide(rows, s->tile_m)};
    *reach = weft_reach_make(rows, p->parts, s->tile_m, s->tile_n, weft_slice_full(rows, p->parts));
}

static void pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *pieces) {
    const weft_combine *p = &t->problem->combine;
    const weft_schedule *s = t->schedule;
    const int64_t rows = weft_combine_rows(p), row = p->head_dim * (int64_t)weft_dtype_bytes(p->dtype);
    const int64_t out = p->head_dim * (int64_t)weft_dtype_bytes(p->o_dtype);
    (void)reach;
    *pieces = (weft_pieces){.sections = 1,
                            .section = {{"parts", "block of rows", weft_ceil_divide(rows, s->tile_m)}},
                            .steps = weft_ceil_divide(p->parts, s->tile_n),
                            .step = "part",
                            .read = "blocks of parts",
                            .row = "row",
                            .column = "block of rows",
                            .per_piece = 1,
                            .largest = (double)s->tile_n * (double)s->tile_m * ((double)row / (double)sector + 2),
                            .distinct = (uint64_t)(p->parts * weft_ceil_divide(rows * row, sector)),
                            .written = (uint64_t)weft_ceil_divide(rows * out, sector)};
    pieces->distinct += p->into ? pieces->written : 0;
}

static void reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *reads) {
    const weft_combine *p = &t->problem->combine;
    const weft_schedule *s = t->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), out = (int64_t)weft_dtype_bytes(p->o_dtype);
    const int64_t left = weft_combine_rows(p) - visit->tile.n * s->tile_m, rows = weft_smaller(left, s->tile_m);
    const int64_t last = p->parts - (weft_ceil_divide(p->parts, s->tile_n) - 1) * s->tile_n;
    const int64_t part = weft_sectors(rows, p->head_dim * bytes, p->part_strides.seq * bytes, sector);
    (void)reach;
    *reads = (weft_visit_reads){.streams = 1, .dtype = WEFT_FP32};
    reads->stream[0].line = visit->tile.n;
    reads->stream[0].sectors = s->tile_n * part;
    reads->stream[0].at_end = last * part;
    reads->stream[0].shared = 1;
    reads->out_sectors = weft_sectors(rows, p->head_dim * out, p->o_strides.seq * out, sector);
    reads->reads_out = p->into;
    reads->first_sectors = p->into ? reads->out_sectors : 0;
    reads->flops = (p->sum ? 1.0 : 2.0) * (double)s->tile_m * (double)s->tile_n * (double)p->head_dim;
    reads->exponentials = p->sum ? 0 : (double)s->tile_m * (double)s->tile_n;
}

static double step_bytes(const weft_tiling *t) {
    const weft_combine *p = &t->problem->combine;
    return (double)t->schedule->tile_m * (double)t->schedule->tile_n * (double)p->head_dim *
           (double)weft_dtype_bytes(p->dtype);
}

static int text(const weft_problem *problem, char *to, size_t size) {
    const weft_combine *p = &problem->combine;
    return snprintf(to, size,
                    "combine    parts %" PRId64 ", batch %" PRId64 ", heads %" PRId64 ", seq %" PRId64 ", head_dim %" PRId64
                    ", %s in, %s out%s%s\n",
                    p->parts, p->batch, p->heads, p->seq, p->head_dim, weft_dtype_name(p->dtype),
                    weft_dtype_name(p->o_dtype), p->into ? ", into a running result" : "", p->sum ? ", sum" : "");
}

static int title(const weft_problem *problem, char *to, size_t size) {
    const weft_combine *p = &problem->combine;
    char seq[24];
    return snprintf(to, size, "%s %" PRId64 " parts, %" PRId64 " heads of %" PRId64 ", %s queries, %s",
                    p->sum ? "Sum of" : "Attention combined from", p->parts + p->into, p->heads, p->head_dim,
                    weft_size_text(p->seq, seq, sizeof seq), weft_dtype_name(p->dtype));
}

static size_t key(const weft_problem *problem, int64_t *n, char *to, size_t size) {
    const weft_combine *p = &problem->combine;
    n[0] = p->dtype;
    n[1] = p->o_dtype;
    n[2] = p->parts;
    n[3] = p->head_dim;
    n[4] = weft_bucket(weft_combine_rows(p));
    n[5] = p->into;
    n[6] = p->sum;
    snprintf(to, size, "combine %s to %s, parts %" PRId64 ", head_dim %" PRId64 ", rows %" PRId64 "%s%s",
             weft_dtype_name(p->dtype), weft_dtype_name(p->o_dtype), n[2], n[3], n[4], p->into ? ", into" : "",
             p->sum ? ", sum" : "");
    return 7;
}

#define AT(field) offsetof(weft_combine, field)
/* clang-format off */
static const weft_field fields[] = {
    {"parts",    "parts of the keys, 1 to 16 (2)", WEFT_FIELD_INTEGER, AT(parts), 0, NULL, 2, NULL},
    {"batch",    "sequences (1)", WEFT_FIELD_INTEGER, AT(batch), 0, NULL, 1, NULL},
    {"heads",    "query heads (1)", WEFT_FIELD_INTEGER, AT(heads), 0, NULL, 1, NULL},
    {"seq",      "queries (1024)", WEFT_FIELD_INTEGER, AT(seq), 0, NULL, 1024, NULL},
    {"head_dim", "1 to 576 (64)", WEFT_FIELD_INTEGER, AT(head_dim), 0, NULL, 64, NULL},
    {"layout",   "bshd or bhsd (bshd)", WEFT_FIELD_CHOICE, AT(layout), 0, weft_layout_name, WEFT_BSHD, NULL},
    {"o_dtype",  "of O (as the parts)", WEFT_FIELD_CHOICE, AT(o_dtype), 0, weft_dtype_choice, WEFT_FP32, "dtype"},
    {"into",     "O holds a part already, which is the first", WEFT_FIELD_BIT, AT(into), 1, NULL, 0, NULL},
    {"sum",      "add parts up, without weights", WEFT_FIELD_BIT, AT(sum), 1, NULL, 0, NULL},
    {"dtype",    "fp32, fp16, bf16 or, simulated, fp8 (fp32)", WEFT_FIELD_CHOICE, AT(dtype), 0, weft_dtype_choice, WEFT_FP32, NULL},
};
/* clang-format on */

const weft_operation_row weft_operation_combine = {
    .info = {.operation = WEFT_COMBINE,
             .name = "combine",
             .text = "O of an attention from its parts over other keys",
             .problem_size = sizeof(weft_combine),
             .data_size = sizeof(weft_combine_data),
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
};
