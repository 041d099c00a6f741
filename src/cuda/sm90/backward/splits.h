/* How many parts tiles are split into. */
#ifndef WEFT_CUDA_SM90_BACKWARD_SPLITS_H
#define WEFT_CUDA_SM90_BACKWARD_SPLITS_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/backward/params.h"

/* The split for a plan whose schedule leaves it open. 1: tiles are not split. */
int64_t weft_hopper_backward_splits(const weft_plan *plan, const weft_cuda_device *device,
                                    const weft_hopper_backward_variant *variant);

#endif
