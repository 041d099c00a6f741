/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters and variants of the kernel for multi-head latent attention: plain C for the host, and CUDA for the kernel.
 *
 * Two launches, as the decode kernel has them: see src/cuda/decode/params.h. `main`: CTAs take runs of keys and leave their
 * sums in the workspace, or the output where a sequence is one run. `merge`: the others' outputs. */
#ifndef WEFT_CUDA_SM90_MLA_PARAMS_H
#define WEFT_CUDA_SM90_MLA_PARAMS_H

#include "cuda/decode/params.h"
#include "cuda/driver/tensor_map.h"

enum {
    WEFT_MLA_ROWS = 64,      /* of a tile: pairs of a query and a head */
    WEFT_MLA_KEYS = 64,      /* of a block */
    WEFT_MLA_DEPTH_K = 64,   /* head dims of K and Q up to this one; the rest is filled up with zeros */
    WEFT_MLA_DEPTH_V = 512,  /* the same of V, QV and O */
    WEFT_MLA_BOX = 64 * 128, /* bytes of 64 rows of 64 elements */
    WEFT_MLA_BOXES = 9,      /* of Q and of a block: 8 of QV or V, then one of Q or K */
    WEFT_MLA_WIDE = 4,       /* boxes of V or QV that one copy brings, where it can */
    WEFT_MLA_BLOCK_BYTES = WEFT_MLA_BOXES * WEFT_MLA_BOX,
    WEFT_MLA_SLOTS = 2,     /* blocks in shared memory */
    WEFT_MLA_MERGED = 8,    /* rows that warps of a CTA of `merge` have, 32 columns each, 8 warps */
    WEFT_MLA_THREADS = 384, /* of a CTA: a producer warpgroup and two consumers */
    /* Q and the blocks, and what it takes to align them. */
    WEFT_MLA_SHARED_BYTES = 1024 + (1 + WEFT_MLA_SLOTS) * WEFT_MLA_BLOCK_BYTES
};

/* K or V, in boxes of 64 elements and so many rows: as many as a copy has, eight of them, one. */
typedef struct weft_mla_maps {
    weft_tensor_map many, eight, one;
} weft_mla_maps;

/* Boxes side by side: axes of 64 columns, rows, and 64s of columns, so that a copy brings WEFT_MLA_WIDE of them. Only of
 * head dims that are multiples of 64: a row's neighbours would follow. Maps that are not used are zeros. */
typedef struct weft_mla_wide {
    weft_tensor_map v; /* 64 rows at a time: pages that 64 divides, or none */
    weft_tensor_map q, qv;
    int32_t has_v, has_q; /* rows of Q: those of a tile lie in one query, or tiles are made of whole queries */
} weft_mla_wide;

/* Passed by value. */
typedef struct weft_mla_params {
    weft_mla_maps k, v;
    weft_mla_wide wide;
    weft_decode_params all;
    const void *qv;
    weft_strides qv_strides;
    uint64_t keep;  /* how long the L2 is to keep keys */
    int32_t places; /* of runs, at most */
    int32_t merged; /* eights of rows of a tile that `merge` has */
    int32_t rows;   /* of a copy: 1 to 64, a power of two that divides pages */
    int32_t copies; /* of a block: 64 / rows */
} weft_mla_params;

/* What is compiled: a row of variants.def. */
typedef struct weft_mla_variant {
    const char *main, *merge; /* the entry points */
    const char *module;
    weft_dtype dtype;
} weft_mla_variant;

#define WEFT_MLA_VARIANT(symbol, module, DTYPE)                                                                            \
    { #symbol "_main", #symbol "_merge", #module, WEFT_##DTYPE }

#endif
