/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a product beside its own, for both families: operands of fp32 before it, sums of columns behind it. */
#ifndef WEFT_CUDA_GEMM_LAUNCHES_H
#define WEFT_CUDA_GEMM_LAUNCHES_H

#include "cuda/plan/backend.h"

/* See weft_cuda_family. */
int weft_gemm_passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main);
size_t weft_gemm_workspace(const weft_plan *plan);
void weft_gemm_computes(const weft_problem *problem, weft_problem *computed);

/* Fills the parameters of such a launch; 0: it is the product's own, which takes data as weft_gemm_data_in_halves(). */
int weft_gemm_fill_beside(const weft_plan *plan, const weft_cuda_pass *pass, const weft_gemm_data *data, void *parameters);

#endif
