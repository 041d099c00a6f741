/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters and variants of the portable GEMM for groups: plain C for the host, and CUDA for the kernel. */
#ifndef WEFT_CUDA_GEMM_GROUPED_PARAMS_H
#define WEFT_CUDA_GEMM_GROUPED_PARAMS_H

#include "cuda/gemm/params.h"
#include "order/groups.h"

/* Passed by value. The product of a group with all rows; the strides of its batch go from group to group, those of A and C
 * are 0 where groups are contiguous. */
typedef struct weft_portable_grouped_params {
    weft_portable_gemm_params product; /* first, so that the kernel can take either */
    weft_groups groups;                /* their bounds in device memory */
    int32_t step;                      /* weft_groups_step() of the walk */
} weft_portable_grouped_params;

/* A row of variants.def, the columns of a row of the plain products'. */
#define WEFT_PORTABLE_GROUPED_VARIANT(...) WEFT_PORTABLE_GEMM_VARIANT(__VA_ARGS__)

#endif
