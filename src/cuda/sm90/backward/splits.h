/* SPDX-License-Identifier: Apache-2.0 */
/* How many parts tiles are split into, and how these are added. */
#ifndef WEFT_CUDA_SM90_BACKWARD_SPLITS_H
#define WEFT_CUDA_SM90_BACKWARD_SPLITS_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/backward/params.h"

/* The split for a plan whose schedule leaves it open: 1: tiles are not split. */
int64_t weft_hopper_backward_splits(const weft_plan *plan, const weft_cuda_device *device,
                                    const weft_hopper_backward_variant *variant);

/* Rounds in which parts of a tile are sent, as few as fit where K and V were: see join.cuh. 0: that many parts do not fit.
 */
int32_t weft_hopper_backward_rounds(const weft_hopper_backward_variant *variant, int64_t splits);

/* How the parts of a tile are added, of which there are at least two that fit. */
weft_hopper_backward_joining weft_hopper_backward_join(const weft_hopper_backward_variant *variant, int64_t splits);

#endif
