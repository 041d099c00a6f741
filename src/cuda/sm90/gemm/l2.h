/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hopper GEMM does for the L2: what is to stay in it, and workers that keep step, so that what one reads is still
 * there for the others. */
#ifndef WEFT_CUDA_SM90_GEMM_L2_H
#define WEFT_CUDA_SM90_GEMM_L2_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/params.h"

/* Steps that are left of a tile when it counts as nearly loaded, where workers wait for each other; else 0: in short
 * products they do not lose step, and under other dispatches there are no waves. */
int32_t weft_gemm_pace_steps(const weft_plan *plan);

/* Fills a_keep, b_keep, again_keep, c_first, band_waves, wave_again and pace_steps. What is read once goes first, and
 * a C that is larger than the L2; what the next wave reads again goes last, if that much fits. */
void weft_gemm_choose_l2(const weft_plan *plan, weft_gemm_params *to);

#endif
