/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of variants.def is in a module of kernels: an entry point. */
#include "cuda/sm90/gemm/kernel.cuh"

#define WEFT_HOPPER_GROUPED(symbol, module, DTYPE, b_mn, tile_m, tile_n, stages, ctas)                                     \
    extern "C" __global__ void __launch_bounds__(WEFT_GEMM_THREADS(tile_m), ctas)                                          \
        symbol(const __grid_constant__ weft_hopper_grouped_params p) {                                                     \
        gemm_hopper<gemm_shape<WEFT_##DTYPE, 0, b_mn, tile_m, tile_n, stages, WEFT_GEMM_GROUPED>>(p.product);              \
    }
