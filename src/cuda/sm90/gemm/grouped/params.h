/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters and variants of the Hopper GEMM for groups: plain C for the host, and CUDA for the kernel. */
#ifndef WEFT_CUDA_SM90_GEMM_GROUPED_PARAMS_H
#define WEFT_CUDA_SM90_GEMM_GROUPED_PARAMS_H

#include "cuda/sm90/gemm/params.h"
#include "order/groups.h"

/* Passed by value. The product of a group with all rows. B has the group as its last axis; A and C have it where groups are
 * masked, and a last axis of length 1 where they are contiguous. A tile may load rows of the next group; what a group does
 * not have is not stored, so C is also given as it lies in memory. */
typedef struct weft_hopper_grouped_params {
    weft_gemm_params product; /* first, so that the kernel can take either */
    weft_groups groups;       /* their bounds in device memory */
    void *c;
    int64_t ldc, c_stride; /* elements from row to row and from group to group */
    int32_t n;
    int32_t step; /* weft_groups_step() of the walk */
} weft_hopper_grouped_params;

/* A row of variants.def. */
#define WEFT_HOPPER_GROUPED_VARIANT(symbol, module, DTYPE, b_mn, tile_m, tile_n, stages, ctas)                             \
    WEFT_GEMM_VARIANT(symbol, module, DTYPE, 0, b_mn, tile_m, tile_n, stages, ctas, 0)

#endif
