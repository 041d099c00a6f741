/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of a GEMM: gemm_tiles.c. As in weft_operation_row. */
#ifndef WEFT_PROBLEM_GEMM_H
#define WEFT_PROBLEM_GEMM_H

#include "problem/operation.h"

size_t weft_gemm_sides(const weft_tiling *tiling, weft_schedule *schedule, weft_tile_side *list);
void weft_gemm_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *schedule);
void weft_gemm_lay_out(const weft_tiling *tiling, weft_grid *tiles, weft_reach *reach);
void weft_gemm_pieces(const weft_tiling *tiling, const weft_reach *reach, int64_t sector, weft_pieces *pieces);
void weft_gemm_reads(const weft_tiling *tiling, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                     weft_visit_reads *reads);
double weft_gemm_step_bytes(const weft_tiling *tiling);

#endif
