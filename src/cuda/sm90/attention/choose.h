/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hopper attention kernel does when the schedule leaves it open: tile, heads in a tile, order, dispatch, workers.
 */
#ifndef WEFT_CUDA_SM90_ATTENTION_CHOOSE_H
#define WEFT_CUDA_SM90_ATTENTION_CHOOSE_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/params.h"

/* The variant for a plan's problem, with the tile that its schedule asks for; null when none fits. */
const weft_hopper_attention_variant *weft_hopper_attention_best(const weft_plan *plan, const weft_cuda_device *device);

/* The same, from the choice that was made of it. */
const weft_hopper_attention_variant *weft_hopper_attention_variant_of(const weft_cuda_choice *choice);

/* Query heads in one tile: see weft_plan. */
int64_t weft_hopper_attention_pack(const weft_plan *plan, const weft_cuda_device *device);

/* Schedules worth timing, one for each tile that is not far from the best. Returns how many. */
size_t weft_hopper_attention_candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                                        weft_schedule *list, size_t capacity);

/* Keys of a step of so many that lie in one page, or, without pages, in one sequence; 0: steps would cross pages. */
int64_t weft_hopper_attention_page_rows(const weft_attention *p, int64_t tile_n);

/* Chooses what the schedule leaves open. */
void weft_hopper_attention_complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                                    weft_schedule *schedule);

/* How long a finished plan takes by the model, in seconds: what its tile was chosen by. */
double weft_hopper_attention_seconds(const weft_plan *plan, const weft_cuda_device *device);

#endif
