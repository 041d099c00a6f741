/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM's parameters and variants: plain C for the host, and CUDA for the kernel.
 *
 * One source, src/cuda/gemm/kernel.cuh, multiplies 16-bit matrices with mma.sync for sm_80 and later. variants.def lists
 * what is compiled of it. Order, sweep, dispatch and workers are in the walk; the fields below are the rest. */
#ifndef WEFT_CUDA_GEMM_PARAMS_H
#define WEFT_CUDA_GEMM_PARAMS_H

#include <weft/weft.h>

#include "cuda/gemm/epilogue_params.h"
#include "order/deal.h"

/* Passed by value. C = alpha A B + beta C with A (m, k), B (k, n) and a row-major C; a column-major C is computed as its
 * transpose, with A and B in each other's place, and `swapped` set. Pointers are to device memory, aligned to 16 bytes;
 * distances are in elements, lda and ldb 0 where there is but one line.
 *
 * Launch: a one-dimensional grid of walk.order.count CTAs under grid dispatch, else of walk.workers; threads and dynamic
 * shared memory from the variant. */
typedef struct weft_portable_gemm_params {
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc, a_stride, b_stride, c_stride;
    int32_t m, n, k;
    float alpha, beta;
    int32_t c_dtype;        /* a weft_dtype */
    int32_t swapped;        /* 1: the walk's rows are columns here */
    int32_t a_unit, b_unit; /* bytes of a line that can be copied at a time: 16, or in variants with `any` 4 or 2 */
    int32_t c_wide;         /* 1: lines of C begin at multiples of 16 bytes */
    uint64_t *counter;      /* dynamic dispatch: 0 before the launch; else null */
    weft_walk walk;         /* tiles of the variant's tile_m x tile_n (swapped: its n x m), its steps; no clusters */
} weft_portable_gemm_params;

/* What variants with an epilogue take. n is the number of columns of C; gated, B has twice as many, and a warp's columns of
 * a tile are half gates, then their values. */
typedef struct weft_portable_gemm_fused_params {
    weft_portable_gemm_params product; /* first, so that a variant without an epilogue can take the same */
    weft_gemm_epilogue epilogue;
    const void *residual; /* or null */
    int64_t ld_residual, residual_stride;
} weft_portable_gemm_fused_params;

/* What is compiled: a row of variants.def. */
typedef struct weft_portable_gemm_variant {
    const char *symbol; /* the entry point */
    const char *module; /* the image that holds it */
    weft_dtype dtype;   /* of A and B */
    int32_t a_mn, b_mn; /* 1: contiguous along m or n; 0: along k */
    int32_t tile_m, tile_n, step;
    int32_t threads; /* of a CTA */
    int32_t any;     /* 1: lines of A and B may begin anywhere */
    int32_t fused;   /* 1: takes weft_portable_gemm_fused_params */
    uint32_t shared_bytes;
} weft_portable_gemm_variant;

/* Dynamic shared memory: a ring of stages, each a step of A and B. */
#define WEFT_PORTABLE_GEMM_SHARED_BYTES(tile_m, tile_n, step, stages) (2 * (stages) * (step) * ((tile_m) + (tile_n)))

/* The initialiser of a weft_portable_gemm_variant from a row:
 * #define WEFT_PORTABLE_GEMM(...) WEFT_PORTABLE_GEMM_VARIANT(__VA_ARGS__), */
/* clang-format off */
#define WEFT_PORTABLE_GEMM_VARIANT(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages,      \
                                   ctas, form)                                                                             \
    { #symbol, #module, WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, step, 32 * (warps_m) * (warps_n), (form) % 2,            \
      (form) / 2 % 2,                                                                                                          \
      WEFT_PORTABLE_GEMM_SHARED_BYTES(tile_m, tile_n, step, stages) }
/* clang-format on */

#endif
