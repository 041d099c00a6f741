/* What the rows of variants.def are in a module of kernels: three entry points each. Modules are made by
 * cmake/kernels.cmake of this file and of the rows that name them. */
#include "cuda/decode/kernel.cuh"

#define WEFT_DECODE(symbol, module, DTYPE, depth, rows, stages, ctas)                                                      \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_WARPS, ctas)                                             \
        symbol##_main(const __grid_constant__ weft_decode_params p) {                                                      \
        decode_attention<decode_shape<WEFT_##DTYPE, depth, rows, stages, false>>(p);                                       \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_WARPS, ctas)                                             \
        symbol##_append(const __grid_constant__ weft_decode_params p) {                                                    \
        decode_attention<decode_shape<WEFT_##DTYPE, depth, rows, stages, true>>(p);                                        \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_MERGE_WARPS, depth > 128 ? 1 : 3)                        \
        symbol##_merge(const __grid_constant__ weft_decode_params p) {                                                     \
        decode_merge_runs<decode_shape<WEFT_##DTYPE, depth, rows, stages, false>>(p);                                      \
    }
