/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of costs.def by their names. */
#ifndef WEFT_CUDA_SM90_ATTENTION_COSTS_H
#define WEFT_CUDA_SM90_ATTENTION_COSTS_H

static const struct weft_hopper_attention_costs {
#define WEFT_COST(name, value, unit, source, meaning) double name;
#include "cuda/sm90/attention/costs.def"
} weft_hopper_attention_cost = {
#define WEFT_COST(name, value, unit, source, meaning) value,
#include "cuda/sm90/attention/costs.def"
};

#endif
