/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of variants.def are in a module of kernels: entry points, three for each. Modules are made by
 * cmake/kernels.cmake of this file and of the rows that name them. */
#include "cuda/study/backward/kernel.cuh"

#define WEFT_STUDY_BACKWARD(symbol, module, DTYPE, head_dim, head_dim_v, tile, warps, split, piece, ctas)                  \
    extern "C" __global__ void __launch_bounds__(32 * (warps), ctas)                                                       \
        symbol##_dq(const __grid_constant__ weft_study_backward_params p) {                                                \
        study_gradients<study_backward_shape<WEFT_##DTYPE, head_dim, head_dim_v, tile, warps, split, piece, 0>>(p);        \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(32 * (warps), ctas)                                                       \
        symbol##_dk_dv(const __grid_constant__ weft_study_backward_params p) {                                             \
        study_gradients<study_backward_shape<WEFT_##DTYPE, head_dim, head_dim_v, tile, warps, split, piece, 1>>(p);        \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(WEFT_STUDY_SINKS_THREADS)                                                 \
        symbol##_sinks(const __grid_constant__ weft_study_backward_params p) {                                             \
        study_sink_gradient(p);                                                                                            \
    }
