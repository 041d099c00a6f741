/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products, resolved: the product that each group is, and the rows that it has. */
#ifndef WEFT_PROBLEM_GROUPED_GEMM_H
#define WEFT_PROBLEM_GROUPED_GEMM_H

#include "order/groups.h"
#include "problem/operation.h"

/* grouped_gemm_rows.c. One group with all rows, as a batch of products; contiguous groups share their A and C. */
weft_gemm weft_grouped_gemm_product(const weft_grouped_gemm *p);

/* The matrices of a group, from one of its rows on. */
weft_gemm_data weft_grouped_gemm_at(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data,
                                    const weft_group_rows *rows);

/* The bounds that count: the problem's, or the data's. */
const int32_t *weft_grouped_gemm_bounds(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data);

/* WEFT_INVALID, and which it is, where one of them is wrong. In the host's memory. */
weft_status weft_grouped_gemm_check_bounds(const weft_grouped_gemm *p, const int32_t *bounds, weft_message *message);

/* The groups, in tiles of so many rows and strips of so many tiles. */
weft_groups weft_grouped_gemm_groups(const weft_grouped_gemm *p, const int32_t *bounds, int64_t tile, int64_t strip);

/* Rows of all groups, as far as they are known; and what a group has in the mean, at least 1. */
int64_t weft_grouped_gemm_rows(const weft_grouped_gemm *p);
int64_t weft_grouped_gemm_mean_rows(const weft_grouped_gemm *p);

/* grouped_gemm_tiles.c. Bands of so many rows of tiles that all groups have: counted where their bounds are known, else to
 * be expected of groups that end anywhere. */
double weft_grouped_gemm_strips(const weft_grouped_gemm *p, int64_t tile, int64_t strip);

/* Rows of tiles of a band whose tiles follow each other in the order of choice: those of a group, as far as `most` are
 * worth it. */
int64_t weft_grouped_gemm_band(const weft_grouped_gemm *p, int64_t tile_rows, int64_t most);

/* The tiles, as in weft_operation_row. */
size_t weft_grouped_gemm_sides(const weft_tiling *tiling, weft_schedule *schedule, weft_tile_side *list);
void weft_grouped_gemm_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *schedule);
void weft_grouped_gemm_lay_out(const weft_tiling *tiling, weft_grid *tiles, weft_reach *reach);
void weft_grouped_gemm_pieces(const weft_tiling *tiling, const weft_reach *reach, int64_t sector, weft_pieces *pieces);
void weft_grouped_gemm_reads(const weft_tiling *tiling, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                             weft_visit_reads *reads);
double weft_grouped_gemm_step_bytes(const weft_tiling *tiling);

#endif
