/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of a GEMM: blocks of C, whose steps are slices of k. */
#include <math.h>

#include "problem/gemm.h"
#include "problem/problem.h"
#include "problem/sectors.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

size_t weft_gemm_sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_gemm *p = &t->problem->gemm;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "m", p->m, 128, 0};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "n", p->n, 128, 0};
    list[2] = (weft_tile_side){&s->tile_k, "tile_k", "k", p->k, 64, 0};
    return 3;
}

void weft_gemm_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    (void)problem;
    (void)machine;
    s->order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_GROUP : s->order;
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
    if (s->group == 0 && weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP) {
        /* A wave of w workers touches g lines of one operand and w / g of the other: the sum is least at the square root.
         */
        s->group = (int64_t)ceil(sqrt((double)s->workers));
    }
}

void weft_gemm_lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_gemm *p = &t->problem->gemm;
    const weft_schedule *s = t->schedule;
    const int64_t products = t->products ? t->products : p->batch;
    *tiles = (weft_grid){products, weft_ceil_divide(p->m, s->tile_m), weft_ceil_divide(p->n, s->tile_n)};
    *reach = weft_reach_make(p->n, p->k, s->tile_n, s->tile_k, weft_slice_full(p->n, p->k));
}

void weft_gemm_pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *pieces) {
    const weft_gemm *p = &t->problem->gemm;
    const weft_schedule *s = t->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    (void)reach;
    *pieces = (weft_pieces){.refused = p->batch > 1 ? "the simulator takes one product" : NULL,
                            .sections = 2,
                            .section = {{"A", "tile row m", weft_ceil_divide(p->m, s->tile_m)},
                                        {"B", "tile column n", weft_ceil_divide(p->n, s->tile_n)}},
                            .steps = weft_ceil_divide(p->k, s->tile_k),
                            .step = "k slice",
                            .read = "slices of A and B",
                            .row = "tile row m",
                            .column = "tile column n",
                            .per_piece = 1};
    const double size = (double)sector, ctas = (double)(s->cluster_m * s->cluster_n), widest = 4.0;
    const double line = fmax((double)s->tile_m, (double)s->tile_n), step = (double)s->tile_k;
    const double operand = fmax(line * (step * widest / size + 1), step * (line * widest / size + 1));
    pieces->largest = fmax(operand, ctas * line * (line * widest / size + 1));
    pieces->written = (uint64_t)weft_ceil_divide(p->m * weft_gemm_columns(p) * c_bytes, sector);
    pieces->distinct =
        (uint64_t)(weft_ceil_divide(p->m * p->k * bytes, sector) + weft_ceil_divide(p->k * p->n * bytes, sector));
    pieces->distinct += p->beta != 0 ? pieces->written : 0;
    pieces->distinct += p->extras & WEFT_GEMM_RESIDUAL ? pieces->written : 0;
}

/* A step's products of elements: for those of fp32 that need not be exact, as many of bf16 as take as long. TF32 has half
 * the rate of bf16 (vendor datasheets, from memory, unchecked). */
static void count_products(const weft_gemm *p, const weft_schedule *s, weft_visit_reads *reads) {
    static const int in_bf16[] = {[WEFT_PRECISION_FP32] = 1, [WEFT_PRECISION_BF16X3] = 3, [WEFT_PRECISION_TF32] = 2};
    const int is_cheaper = p->dtype == WEFT_FP32 && p->precision != WEFT_PRECISION_FP32;
    reads->dtype = is_cheaper ? WEFT_BF16 : p->dtype;
    reads->flops =
        2.0 * (double)s->tile_m * (double)s->tile_n * (double)s->tile_k * (is_cheaper ? in_bf16[p->precision] : 1);
}

/* A cluster asks once for each of its rows of A and columns of B (multicast). */
void weft_gemm_reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                     weft_visit_reads *reads) {
    const weft_gemm *p = &t->problem->gemm;
    const weft_schedule *s = t->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const int64_t steps = weft_ceil_divide(p->k, s->tile_k), last_k = p->k - (steps - 1) * s->tile_k;
    const int64_t tiles_m = weft_ceil_divide(p->m, s->tile_m), tiles_n = weft_ceil_divide(p->n, s->tile_n);
    (void)reach;
    reads->streams = 0;
    for (int64_t i = 0; i < s->cluster_m + s->cluster_n; i++) {
        const int is_a = i < s->cluster_m;
        const int64_t line = is_a ? visit->tile.m + i : visit->tile.n + i - s->cluster_m;
        if (line >= (is_a ? tiles_m : tiles_n)) { /* the cluster reaches over the edge */
            continue;
        }
        const int64_t length =
            is_a ? smaller(s->tile_m, p->m - line * s->tile_m) : smaller(s->tile_n, p->n - line * s->tile_n);
        const int64_t ld = (is_a ? p->lda : p->ldb) * bytes;
        /* With k contiguous a piece is `length` rows of tile_k elements, otherwise tile_k rows of `length`. */
        const int k_inner = is_a ? p->a_major == WEFT_ROW_MAJOR : p->b_major == WEFT_COL_MAJOR;
        reads->stream[reads->streams].line = is_a ? line : tiles_m + line;
        reads->stream[reads->streams].sectors = k_inner ? weft_sectors(length, s->tile_k * bytes, ld, sector)
                                                        : weft_sectors(s->tile_k, length * bytes, ld, sector);
        reads->stream[reads->streams].at_end =
            k_inner ? weft_sectors(length, last_k * bytes, ld, sector) : weft_sectors(last_k, length * bytes, ld, sector);
        reads->stream[reads->streams++].shared = is_a ? s->cluster_n : s->cluster_m;
    }
    const int64_t rows = smaller(p->m - visit->tile.m * s->tile_m, s->tile_m * s->cluster_m);
    const int64_t cols = smaller(p->n - visit->tile.n * s->tile_n, s->tile_n * s->cluster_n) / (p->gated ? 2 : 1);
    reads->out_sectors = p->c_major == WEFT_ROW_MAJOR ? weft_sectors(rows, cols * c_bytes, p->ldc * c_bytes, sector)
                                                      : weft_sectors(cols, rows * c_bytes, p->ldc * c_bytes, sector);
    /* A residual is as large as C. Where both are read, the tile's own lines stand for both. */
    const int residual = (p->extras & WEFT_GEMM_RESIDUAL) != 0;
    reads->reads_out = p->beta != 0;
    reads->first_sectors = (reads->reads_out + residual) * reads->out_sectors;
    reads->exponentials = 0;
    count_products(p, s, reads);
}

/* Two slices each of A and B. */
double weft_gemm_step_bytes(const weft_tiling *t) {
    const weft_schedule *s = t->schedule;
    const double lines = (double)s->tile_m + (double)s->tile_n;
    return 2.0 * (double)s->tile_k * lines * (double)weft_dtype_bytes(t->problem->gemm.dtype);
}
