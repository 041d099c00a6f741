/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of variants.def are in a module of kernels: entry points. Modules are made by cmake/kernels.cmake of this
 * file and of the rows that name them. */
#include "cuda/study/kernel.cuh"

/* ptxas for 12.x finds no room for the scores of 128 keys beside the output. Half as many need less of everything. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define WEFT_STUDY_PIECE(piece) ((piece) == 128 ? 64 : (piece))
#else
#define WEFT_STUDY_PIECE(piece) (piece)
#endif

/* Likewise general variants: keys in pages need some registers more than ptxas for 10.0 and later finds beside three CTAs
 * at head dim 128, and beside scores of 64 keys for 128 queries. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define WEFT_STUDY_GENERAL_CTAS(head_dim, ctas) ((head_dim) == 128 && (ctas) == 3 ? 2 : (ctas))
#define WEFT_STUDY_GENERAL_PIECE(tile_m, piece) ((tile_m) == 128 && (piece) == 64 ? 32 : (piece))
#else
#define WEFT_STUDY_GENERAL_CTAS(head_dim, ctas) (ctas)
#define WEFT_STUDY_GENERAL_PIECE(tile_m, piece) (piece)
#endif

#define WEFT_STUDY(symbol, module, DTYPE, head_dim, tile_m, tile_n, MATH, warps, piece, ring, q_held, overlap, ctas)       \
    extern "C" __global__ void __launch_bounds__(32 * (warps), ctas) symbol(const __grid_constant__ weft_study_params p) { \
        study_attention<study_shape<WEFT_##DTYPE, head_dim, tile_m, tile_n, WEFT_STUDY_##MATH, warps,                      \
                                    WEFT_STUDY_PIECE(piece), ring, q_held, overlap>>(p);                                   \
    }

#define WEFT_STUDY_GENERAL(symbol, module, DTYPE, head_dim, head_dim_v, tile_m, tile_n, MATH, warps, split, piece, ring,   \
                           ctas)                                                                                           \
    extern "C" __global__ void __launch_bounds__(32 * (warps), WEFT_STUDY_GENERAL_CTAS(head_dim, ctas))                    \
        symbol(const __grid_constant__ weft_study_params p) {                                                              \
        study_attention<study_shape<WEFT_##DTYPE, head_dim, tile_m, tile_n, WEFT_STUDY_##MATH, warps,                      \
                                    WEFT_STUDY_GENERAL_PIECE(tile_m, piece), ring, 0, 0, head_dim_v, split>>(p);           \
    }
