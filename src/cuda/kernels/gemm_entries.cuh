/* The entry points of one module. A module defines WEFT_GEMM_IN_<module>(x) as x and includes this file; rows of
 * hopper_gemm.def that belong to other modules expand to nothing. */
#include "cuda/kernels/gemm_hopper.cuh"

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

#define WEFT_GEMM_ENTRY(symbol, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas)                                           \
    extern "C" __global__ void __launch_bounds__(WEFT_GEMM_THREADS(tile_m), ctas)                                          \
        symbol(const __grid_constant__ weft_gemm_params p) {                                                               \
        gemm_hopper<gemm_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, stages>>(p);                                      \
    }

#define WEFT_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas)                                         \
    WEFT_GEMM_IN_##module(WEFT_GEMM_ENTRY(symbol, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas))
#include "cuda/hopper_gemm.def"
