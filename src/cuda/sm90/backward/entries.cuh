/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of variants.def are in a module of kernels: entry points, three for each. Modules are made by
 * cmake/kernels.cmake of this file and of the rows that name them. `begin` of general forms reads lists of block masks, for
 * which it needs more registers. */
#include "cuda/sm90/backward/kernel.cuh"

#define WEFT_HOPPER_BACKWARD(symbol, module, DTYPE, depth, depth_v, keys, queries, form)                                   \
    extern "C" __global__ void __launch_bounds__(WEFT_HOPPER_BACKWARD_QUERY_THREADS,                                       \
                                                 (form) == WEFT_HOPPER_BACKWARD_GENERAL ? 3 : 4)                           \
        symbol##_begin(const __grid_constant__ weft_hopper_backward_params p) {                                            \
        backward_begin<backward_shape_of<WEFT_##DTYPE, depth, depth_v, keys, queries, form>>(p);                           \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(WEFT_HOPPER_BACKWARD_THREADS, 1)                                          \
        symbol##_main(const __grid_constant__ weft_hopper_backward_params p) {                                             \
        backward_main<backward_shape_of<WEFT_##DTYPE, depth, depth_v, keys, queries, form>>(p);                            \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(WEFT_HOPPER_BACKWARD_END_THREADS(keys))                                   \
        symbol##_end(const __grid_constant__ weft_hopper_backward_params p) {                                              \
        backward_last<backward_shape_of<WEFT_##DTYPE, depth, depth_v, keys, queries, form>>(p);                            \
    }
