/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of attention for this host. */
#ifndef WEFT_CPU_ATTENTION_TILE_H
#define WEFT_CPU_ATTENTION_TILE_H

#include "plan/plan.h"

/* Fills in what the schedule leaves open: tile, dispatch, and the order where workers keep to a head. */
void weft_cpu_attention_choose(weft_plan *plan);

/* See weft_backend. */
size_t weft_cpu_attention_candidates(const weft_plan *draft, weft_schedule *list, size_t capacity);
double weft_cpu_attention_cost(const weft_plan *plan);

/* The same for backward, and its tile_n where nothing else is asked for. */
void weft_cpu_backward_choose(weft_plan *plan);
int64_t weft_cpu_backward_tile(const weft_attention *problem);

/* Whether each worker has tiles of one head only. */
int weft_cpu_shares_by_head(const weft_plan *plan);

#endif
