/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of variants.def is in a module of kernels: an entry point. Modules are made by cmake/kernels.cmake of this
 * file and of the rows that name them. */
#include "cuda/sm90/gemm/kernel.cuh"

/* The product in what an entry takes. */
#define WEFT_GEMM_PRODUCT_0 p
#define WEFT_GEMM_PRODUCT_1 p.product
#define WEFT_GEMM_PRODUCT_2 p.product
#define WEFT_GEMM_PRODUCT_4 p

#define WEFT_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, form)                                   \
    extern "C" __global__ void __launch_bounds__(WEFT_GEMM_THREADS(tile_m), ctas)                                          \
        symbol(const __grid_constant__ WEFT_GEMM_TAKES_##form p) {                                                         \
        gemm_hopper<gemm_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, stages, form>>(WEFT_GEMM_PRODUCT_##form);         \
    }
