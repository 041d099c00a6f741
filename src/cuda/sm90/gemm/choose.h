/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hopper GEMM does when the schedule leaves it open: tile, cluster, split, order, workers, and what stays in L2.
 */
#ifndef WEFT_CUDA_SM90_GEMM_CHOOSE_H
#define WEFT_CUDA_SM90_GEMM_CHOOSE_H

#include "cuda/gemm/view.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/params.h"

/* Whether workers draw their tiles from a counter for each side of the L2, which needs more registers than the largest
 * tiles leave: see WEFT_GEMM_LEAN. */
int weft_gemm_takes_tickets_by_side(const weft_schedule *schedule);

/* A variant, and how to run it; tile and cluster in the schedule's terms. */
typedef struct weft_gemm_pick {
    const weft_gemm_variant *variant;
    int64_t tile_m, tile_n, cluster_m, cluster_n, split;
} weft_gemm_pick;

/* The variant of a choice that weft_gemm_pick_best() led to. */
const weft_gemm_variant *weft_gemm_variant_of(const weft_cuda_choice *choice);

/* A product as a variant sees it. */
weft_gemm_view weft_gemm_view_by(const weft_gemm *p, const weft_gemm_variant *variant);

/* The fastest by the model among those that fit what the schedule has fixed. Returns 0 when none does. */
int weft_gemm_pick_best(const weft_plan *plan, const weft_cuda_device *device, weft_gemm_pick *pick);

/* All of them, as copies of the schedule with what tells them apart filled in. Returns how many, at most `capacity`. */
size_t weft_gemm_list(const weft_plan *plan, weft_schedule *list, size_t capacity);

/* Chooses what the schedule leaves open. */
void weft_gemm_complete(const weft_gemm_pick *pick, const weft_plan *plan, const weft_cuda_device *device,
                        weft_schedule *schedule);

/* How long a finished plan takes by the model, in seconds: what its tile, cluster and split were picked by. */
double weft_gemm_seconds(const weft_plan *plan, const weft_cuda_device *device);

/* What the simulator is to know of a finished plan: see weft_cuda_family. */
void weft_gemm_facts(const weft_plan *plan, const weft_cuda_plan *placed, weft_kernel_facts *facts);

#endif
