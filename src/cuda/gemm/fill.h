/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a launch of the portable GEMM, alone or as a part of others. */
#ifndef WEFT_CUDA_GEMM_FILL_H
#define WEFT_CUDA_GEMM_FILL_H

#include "cuda/gemm/params.h"
#include "cuda/plan/tickets.h"

void weft_portable_gemm_fill(const weft_gemm *problem, const weft_gemm_data *data, const weft_walk *walk,
                             const weft_counters *counters, weft_portable_gemm_params *to);

#endif
