/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of variants.def is in a module of kernels: an entry point. Modules are made by cmake/kernels.cmake of this
 * file and of the rows that name them. */
#include "cuda/sm90/attention/kernel.cuh"

#define WEFT_HOPPER_ATTENTION(symbol, module, DTYPE, depth, groups, keys, stages, splits, form, ...)                       \
    extern "C" __global__ void __launch_bounds__(128 * ((groups) + 1), 1)                                                  \
        symbol(const __grid_constant__ hopper_params<form>::type p) {                                                      \
        hopper_attention<hopper_shape<WEFT_##DTYPE, depth, groups, keys, stages, splits, form>>(hopper_common(p));         \
    }
