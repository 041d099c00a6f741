/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of grouped products: blocks of rows of one group by columns, whose steps are slices of k. */
#include <math.h>

#include "problem/grouped_gemm.h"
#include "problem/sectors.h"

size_t weft_grouped_gemm_sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "rows", p->rows, 128, 0};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "n", p->n, 128, 0};
    list[2] = (weft_tile_side){&s->tile_k, "tile_k", "k", p->k, 64, 0};
    return 3;
}

/* Those of a schedule's tiles, as far as their bounds are known. */
static weft_groups groups_of(const weft_tiling *t) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    return weft_grouped_gemm_groups(p, weft_grouped_gemm_bounds(p, NULL), t->schedule->tile_m, t->schedule->cluster_m);
}

int64_t weft_grouped_gemm_band(const weft_grouped_gemm *p, int64_t tile_rows, int64_t most) {
    const int64_t of_group = weft_ceil_divide(weft_grouped_gemm_mean_rows(p), tile_rows);
    return weft_larger(weft_smaller(of_group, most), 1);
}

/* The rows of tiles of a group at a time, so that its B is read once for all of them, and is still in the L2 for the next.
 */
void weft_grouped_gemm_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    (void)machine;
    if (s->order == WEFT_ORDER_CHOOSE) {
        s->order = WEFT_ORDER_GROUP;
        s->axis = WEFT_AXIS_M;
    }
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
    if (s->group == 0 && weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP) {
        const int64_t most = (int64_t)ceil(sqrt((double)s->workers)); /* as for one product */
        s->group = s->axis == WEFT_AXIS_M
                       ? weft_grouped_gemm_band(&problem->grouped, s->tile_m * weft_larger(s->cluster_m, 1), most)
                       : most;
    }
}

/* All strips of groups whose bounds are known. */
static int64_t count_strips(const weft_groups *groups) {
    int64_t strips = 0;
    for (int32_t i = 0; i < groups->count; i++) {
        strips += weft_group_strips(groups, weft_group_at(groups, i).count);
    }
    return strips;
}

double weft_grouped_gemm_strips(const weft_grouped_gemm *p, int64_t tile, int64_t strip) {
    const weft_groups groups = weft_grouped_gemm_groups(p, weft_grouped_gemm_bounds(p, NULL), tile, strip);
    if (groups.bounds) {
        return (double)weft_larger(count_strips(&groups), 1);
    }
    const double rows = (double)weft_grouped_gemm_mean_rows(p) / (double)(tile * strip);
    return (double)p->groups * fmax(rows + 0.5, 1); /* the last strip of a group is half full in the mean */
}

/* Rows of tiles, in whole strips; at least one strip, which may have no rows. */
static int64_t tile_rows(const weft_tiling *t) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    const weft_groups groups = groups_of(t);
    return groups.bounds ? weft_larger(count_strips(&groups), 1) * groups.strip
                         : weft_groups_most(p->groups, p->rows, groups.masked, groups.tile, groups.strip);
}

void weft_grouped_gemm_lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    const weft_schedule *s = t->schedule;
    *tiles = (weft_grid){1, tile_rows(t), weft_ceil_divide(p->n, s->tile_n)};
    *reach = weft_reach_make(p->n, p->k, s->tile_n, s->tile_k, weft_slice_full(p->n, p->k));
}

void weft_grouped_gemm_pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *pieces) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    const weft_schedule *s = t->schedule;
    const weft_groups groups = groups_of(t);
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    int64_t rows = 0, used = 0;
    (void)reach;
    for (int32_t i = 0; i < groups.count && groups.bounds; i++) {
        const int64_t of_group = weft_group_at(&groups, i).count;
        rows += of_group;
        used += of_group > 0;
    }
    *pieces =
        (weft_pieces){.refused = rows > 0 ? NULL : "the simulator must know the rows of each group, not all of them 0",
                      .sections = 2,
                      .section = {{"A", "tile row", tile_rows(t)},
                                  {"B", "tile column of a group", p->groups * weft_ceil_divide(p->n, s->tile_n)}},
                      .steps = weft_ceil_divide(p->k, s->tile_k),
                      .step = "k slice",
                      .read = "slices of A and B",
                      .row = "tile row",
                      .column = "tile column",
                      .per_piece = 1};
    const double size = (double)sector, ctas = (double)(s->cluster_m * s->cluster_n), widest = 4.0;
    const double line = fmax((double)s->tile_m, (double)s->tile_n), step = (double)s->tile_k;
    const double operand = fmax(line * (step * widest / size + 1), step * (line * widest / size + 1));
    pieces->largest = fmax(operand, ctas * line * (line * widest / size + 1));
    pieces->written = (uint64_t)weft_ceil_divide(rows * p->n * c_bytes, sector);
    pieces->distinct =
        (uint64_t)(weft_ceil_divide(rows * p->k * bytes, sector) + used * weft_ceil_divide(p->k * p->n * bytes, sector));
}

static void add_stream(weft_visit_reads *reads, int64_t line, int64_t sectors, int64_t at_end, int64_t shared) {
    reads->stream[reads->streams].line = line;
    reads->stream[reads->streams].sectors = sectors;
    reads->stream[reads->streams].at_end = at_end;
    reads->stream[reads->streams++].shared = shared;
}

/* A cluster asks once for each of its rows of A and columns of B (multicast). */
void weft_grouped_gemm_reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                             weft_visit_reads *reads) {
    const weft_grouped_gemm *p = &t->problem->grouped;
    const weft_schedule *s = t->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const int64_t steps = weft_ceil_divide(p->k, s->tile_k), last_k = p->k - (steps - 1) * s->tile_k;
    const int64_t tiles_n = weft_ceil_divide(p->n, s->tile_n), lda = p->lda * bytes, ldb = p->ldb * bytes;
    const weft_groups groups = groups_of(t);
    weft_group_finger finger = {0, 0};
    weft_group_rows rows;
    (void)reach;
    *reads = (weft_visit_reads){.pass = reads->pass, .dtype = p->dtype};
    if (!weft_groups_find(&groups, &finger, (int32_t)visit->tile.m, &rows)) {
        return;
    }
    for (int64_t i = 0; i < s->cluster_m && i * s->tile_m < rows.count; i++) {
        const int64_t length = weft_smaller(s->tile_m, rows.count - i * s->tile_m);
        add_stream(reads, visit->tile.m + i, weft_sectors(length, s->tile_k * bytes, lda, sector),
                   weft_sectors(length, last_k * bytes, lda, sector), s->cluster_n);
    }
    for (int64_t i = 0; i < s->cluster_n && visit->tile.n + i < tiles_n; i++) {
        const int64_t col = visit->tile.n + i, length = weft_smaller(s->tile_n, p->n - col * s->tile_n);
        const int k_inner = p->b_major == WEFT_COL_MAJOR;
        const int64_t whole = k_inner ? weft_sectors(length, s->tile_k * bytes, ldb, sector)
                                      : weft_sectors(s->tile_k, length * bytes, ldb, sector);
        const int64_t last =
            k_inner ? weft_sectors(length, last_k * bytes, ldb, sector) : weft_sectors(last_k, length * bytes, ldb, sector);
        add_stream(reads, tile_rows(t) + rows.group * tiles_n + col, whole, last, s->cluster_m);
    }
    const int64_t height = weft_smaller(rows.count, s->tile_m * s->cluster_m);
    const int64_t width = weft_smaller(p->n - visit->tile.n * s->tile_n, s->tile_n * s->cluster_n);
    reads->out_sectors = weft_sectors(height, width * c_bytes, p->ldc * c_bytes, sector);
    reads->flops = 2.0 * (double)s->tile_m * (double)s->tile_n * (double)s->tile_k;
}

/* Two slices each of A and B. */
double weft_grouped_gemm_step_bytes(const weft_tiling *t) {
    const weft_schedule *s = t->schedule;
    const double lines = (double)s->tile_m + (double)s->tile_n;
    return 2.0 * (double)s->tile_k * lines * (double)weft_dtype_bytes(t->problem->grouped.dtype);
}
