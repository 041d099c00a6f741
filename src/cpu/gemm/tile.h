/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of a GEMM for this host. */
#ifndef WEFT_CPU_GEMM_TILE_H
#define WEFT_CPU_GEMM_TILE_H

#include "plan/plan.h"

/* Fills in what the schedule leaves open: tile, dispatch, the order of few tiles; and how many products a walk has. */
void weft_cpu_gemm_choose(weft_plan *plan);

/* See weft_backend. */
size_t weft_cpu_gemm_candidates(const weft_plan *draft, weft_schedule *list, size_t capacity);
double weft_cpu_gemm_plan_cost(const weft_plan *plan);

#endif
