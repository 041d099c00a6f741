/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of variants.def is in a module of kernels: an entry point. */
#include "cuda/gemm/kernel.cuh"

#define WEFT_PORTABLE_GROUPED(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ctas,     \
                              any)                                                                                         \
    extern "C" __global__ void __launch_bounds__(32 * (warps_m) * (warps_n), ctas)                                         \
        symbol(const __grid_constant__ weft_portable_grouped_params p) {                                                   \
        portable_gemm<                                                                                                     \
            portable_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, (any) + 4>>(          \
            p.product);                                                                                                    \
    }
