/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of costs.def by their names. */
#ifndef WEFT_CUDA_SM90_GEMM_COSTS_H
#define WEFT_CUDA_SM90_GEMM_COSTS_H

static const struct weft_gemm_costs {
#define WEFT_COST(name, value, unit, source, meaning) double name;
#include "cuda/sm90/gemm/costs.def"
} weft_gemm_cost = {
#define WEFT_COST(name, value, unit, source, meaning) value,
#include "cuda/sm90/gemm/costs.def"
};

#endif
