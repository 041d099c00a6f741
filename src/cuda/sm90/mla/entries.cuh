/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of variants.def are in a module of kernels: two entry points each. Modules are made by
 * cmake/kernels.cmake of this file and of the rows that name them. */
#include "cuda/sm90/mla/kernel.cuh"

#define WEFT_MLA(symbol, module, DTYPE)                                                                                    \
    extern "C" __global__ void __launch_bounds__(WEFT_MLA_THREADS, 1)                                                      \
        symbol##_main(const __grid_constant__ weft_mla_params p) {                                                         \
        mla_attention<mla_shape<WEFT_##DTYPE>>(p);                                                                         \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_MERGE_WARPS, 2)                                          \
        symbol##_merge(const __grid_constant__ weft_mla_params p) {                                                        \
        mla_merge_runs<mla_shape<WEFT_##DTYPE>>(p);                                                                        \
    }
