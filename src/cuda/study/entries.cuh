/* The entry points of one module. A module defines WEFT_STUDY_IN_<module>(x) as x and includes this file; rows of
 * variants.def that belong to other modules expand to nothing. */
#include "cuda/study/kernel.cuh"

#ifndef WEFT_STUDY_IN_study_bf16_d56
#define WEFT_STUDY_IN_study_bf16_d56(x)
#endif
#ifndef WEFT_STUDY_IN_study_fp16_d56
#define WEFT_STUDY_IN_study_fp16_d56(x)
#endif
#ifndef WEFT_STUDY_IN_study_bf16_d64
#define WEFT_STUDY_IN_study_bf16_d64(x)
#endif
#ifndef WEFT_STUDY_IN_study_fp16_d64
#define WEFT_STUDY_IN_study_fp16_d64(x)
#endif
#ifndef WEFT_STUDY_IN_study_bf16_d80
#define WEFT_STUDY_IN_study_bf16_d80(x)
#endif
#ifndef WEFT_STUDY_IN_study_fp16_d80
#define WEFT_STUDY_IN_study_fp16_d80(x)
#endif
#ifndef WEFT_STUDY_IN_study_bf16_d96
#define WEFT_STUDY_IN_study_bf16_d96(x)
#endif
#ifndef WEFT_STUDY_IN_study_fp16_d96
#define WEFT_STUDY_IN_study_fp16_d96(x)
#endif
#ifndef WEFT_STUDY_IN_study_bf16_d128
#define WEFT_STUDY_IN_study_bf16_d128(x)
#endif
#ifndef WEFT_STUDY_IN_study_fp16_d128
#define WEFT_STUDY_IN_study_fp16_d128(x)
#endif

/* ptxas for 12.x finds no room for the scores of 128 keys beside the output. Half as many need less of everything. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define WEFT_STUDY_PIECE(piece) ((piece) == 128 ? 64 : (piece))
#else
#define WEFT_STUDY_PIECE(piece) (piece)
#endif

#define WEFT_STUDY_ENTRY(symbol, DTYPE, head_dim, tile_m, tile_n, MATH, warps, piece, ring, q_held, overlap, ctas)         \
    extern "C" __global__ void __launch_bounds__(32 * (warps), ctas) symbol(const __grid_constant__ weft_study_params p) { \
        study_attention<study_shape<WEFT_##DTYPE, head_dim, tile_m, tile_n, WEFT_STUDY_##MATH, warps,                      \
                                    WEFT_STUDY_PIECE(piece), ring, q_held, overlap>>(p);                                   \
    }

#define WEFT_STUDY(symbol, module, DTYPE, head_dim, tile_m, tile_n, MATH, warps, piece, ring, q_held, overlap, ctas)       \
    WEFT_STUDY_IN_##module(                                                                                                \
        WEFT_STUDY_ENTRY(symbol, DTYPE, head_dim, tile_m, tile_n, MATH, warps, piece, ring, q_held, overlap, ctas))
#ifndef WEFT_STUDY_DEF
#define WEFT_STUDY_DEF "cuda/study/variants.def"
#endif
#include WEFT_STUDY_DEF
