/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of variants.def are in a module of kernels: five entry points each. Modules are made by
 * cmake/kernels.cmake of this file and of the rows that name them. */
#include "cuda/decode/kernel.cuh"

#define WEFT_DECODE_RUNS(entry, way, DTYPE, depth, rows, stages, ctas, fresh)                                              \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_WARPS, ctas)                                             \
        entry(const __grid_constant__ weft_decode_params p) {                                                              \
        decode_attention<decode_shape<WEFT_##DTYPE, depth, rows, stages, fresh>, way>(p);                                  \
    }

#define WEFT_DECODE(symbol, module, DTYPE, depth, rows, stages, ctas)                                                      \
    WEFT_DECODE_RUNS(symbol##_main, DECODE_BY_LENGTHS, DTYPE, depth, rows, stages, ctas, false)                            \
    WEFT_DECODE_RUNS(symbol##_alike, DECODE_ALIKE, DTYPE, depth, rows, stages, ctas, false)                                \
    WEFT_DECODE_RUNS(symbol##_listed, DECODE_LISTED, DTYPE, depth, rows, stages, ctas, false)                              \
    WEFT_DECODE_RUNS(symbol##_append, DECODE_ANY_WAY, DTYPE, depth, rows, stages, ctas, true)                              \
    extern "C" __global__ void __launch_bounds__(32 * WEFT_DECODE_MERGE_WARPS, depth > 128 ? 1 : 3)                        \
        symbol##_merge(const __grid_constant__ weft_decode_params p) {                                                     \
        decode_merge_runs<decode_shape<WEFT_##DTYPE, depth, rows, stages, false>>(p);                                      \
    }
