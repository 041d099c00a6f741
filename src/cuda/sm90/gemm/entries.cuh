/* The entry points of one module. A module defines WEFT_GEMM_IN_<module>(x) as x and includes this file; rows of
 * variants.def that belong to other modules expand to nothing. */
#include "cuda/sm90/gemm/kernel.cuh"

#ifndef WEFT_GEMM_IN_gemm_bf16_kk_sm90a
#define WEFT_GEMM_IN_gemm_bf16_kk_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_bf16_kn_sm90a
#define WEFT_GEMM_IN_gemm_bf16_kn_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_bf16_mk_sm90a
#define WEFT_GEMM_IN_gemm_bf16_mk_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_bf16_mn_sm90a
#define WEFT_GEMM_IN_gemm_bf16_mn_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_kk_sm90a
#define WEFT_GEMM_IN_gemm_fp16_kk_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_kn_sm90a
#define WEFT_GEMM_IN_gemm_fp16_kn_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_mk_sm90a
#define WEFT_GEMM_IN_gemm_fp16_mk_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_mn_sm90a
#define WEFT_GEMM_IN_gemm_fp16_mn_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_bf16_kk_by_class_sm90a
#define WEFT_GEMM_IN_gemm_bf16_kk_by_class_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_bf16_kn_by_class_sm90a
#define WEFT_GEMM_IN_gemm_bf16_kn_by_class_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_kk_by_class_sm90a
#define WEFT_GEMM_IN_gemm_fp16_kk_by_class_sm90a(x)
#endif
#ifndef WEFT_GEMM_IN_gemm_fp16_kn_by_class_sm90a
#define WEFT_GEMM_IN_gemm_fp16_kn_by_class_sm90a(x)
#endif

/* What an entry takes, by whether it has classes, and the product in it. */
#define WEFT_GEMM_TAKES_0   weft_gemm_params
#define WEFT_GEMM_TAKES_1   weft_gemm_class_params
#define WEFT_GEMM_PRODUCT_0 p
#define WEFT_GEMM_PRODUCT_1 p.product

#define WEFT_GEMM_ENTRY(symbol, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, by_class)                                 \
    extern "C" __global__ void __launch_bounds__(WEFT_GEMM_THREADS(tile_m), ctas)                                          \
        symbol(const __grid_constant__ WEFT_GEMM_TAKES_##by_class p) {                                                     \
        gemm_hopper<gemm_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, stages, by_class>>(WEFT_GEMM_PRODUCT_##by_class); \
    }

#define WEFT_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, by_class)                               \
    WEFT_GEMM_IN_##module(WEFT_GEMM_ENTRY(symbol, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, by_class))
#include "cuda/sm90/gemm/variants.def"
