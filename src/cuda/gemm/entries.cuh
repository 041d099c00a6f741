/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of variants.def is in a module of kernels: an entry point. Modules are made by cmake/kernels.cmake of this
 * file and of the rows that name them. */
#include "cuda/gemm/kernel.cuh"

/* What an entry takes, by its form, and the product in it. */
#define WEFT_PORTABLE_GEMM_TAKES_0   weft_portable_gemm_params
#define WEFT_PORTABLE_GEMM_TAKES_1   weft_portable_gemm_params
#define WEFT_PORTABLE_GEMM_TAKES_2   weft_portable_gemm_fused_params
#define WEFT_PORTABLE_GEMM_TAKES_3   weft_portable_gemm_fused_params
#define WEFT_PORTABLE_GEMM_PRODUCT_0 p
#define WEFT_PORTABLE_GEMM_PRODUCT_1 p
#define WEFT_PORTABLE_GEMM_PRODUCT_2 p.product
#define WEFT_PORTABLE_GEMM_PRODUCT_3 p.product

#define WEFT_PORTABLE_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ctas, form)  \
    extern "C" __global__ void __launch_bounds__(32 * (warps_m) * (warps_n), ctas)                                         \
        symbol(const __grid_constant__ WEFT_PORTABLE_GEMM_TAKES_##form p) {                                                \
        portable_gemm<portable_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, form>>(     \
            WEFT_PORTABLE_GEMM_PRODUCT_##form);                                                                            \
    }
