/* SPDX-License-Identifier: Apache-2.0 */
/* The study kernel's parameters and variants: plain C for the host, and CUDA for the kernel.
 *
 * One source, src/cuda/study/kernel.cuh, computes attention forward with mma.sync for sm_80 and later. variants.def lists
 * what is compiled of it: plain variants, which know full and causal masks and nothing else, and general ones, which know
 * everything that an attention may ask for. Order, sweep, dispatch and workers are in the walk; the other run-time knobs
 * are the fields below. */
#ifndef WEFT_CUDA_STUDY_PARAMS_H
#define WEFT_CUDA_STUDY_PARAMS_H

#include <weft/order/pages.h>
#include <weft/weft.h>

#include "order/deal.h"

/* What only general variants read. Zeros and null: nothing of that kind. Scores are in base 2 from the cap on. */
typedef struct weft_study_general {
    int32_t head_dim, head_dim_v;           /* at most the variant's */
    int32_t q_unit, k_unit, v_unit, o_unit; /* bytes of a row that are read or written at a time: 16, 4 or 2 */
    int32_t out_bytes; /* of an element of O, and of a gradient: 4, which are fp32, or 2 as of the others */
    float scale;       /* of either sign; with a cap, to the exponent of its tanh: 2 scale / cap */
    float cap;
    float kept;             /* dropout: 1 / (1 - its probability), else 1 */
    uint32_t dropout_limit; /* see problem/dropout.h */
    uint64_t dropout_seed;
    const float *sinks, *alibi;
    int64_t alibi_stride;
    const void *bias;
    weft_strides bias_strides; /* in elements, as the next */
    int64_t bias_key_stride;
    int32_t bias_type;  /* a weft_bias_type */
    int32_t bias_pairs; /* 1: the bias of keys 2 n and 2 n + 1 can be read at once */
    float *max;
    float lag;        /* as weft_study_params.lag, in base 2; 0 where the maximum is asked for */
    weft_pages pages; /* of K and V, whose batch strides go from page to page; the table is in device memory */
} weft_study_general;

/* Passed by value. Pointers are to device memory, aligned to 16 bytes; strides are in elements, multiples of 8 but where a
 * general variant reads in smaller units.
 *
 * Launch: a one-dimensional grid of walk.order.count CTAs under grid dispatch, else of walk.workers; threads and dynamic
 * shared memory from the variant. Asking for more shared memory than the variant's makes fewer CTAs share an SM. */
typedef struct weft_study_params {
    const void *q, *k, *v;
    void *o;
    float *lse; /* (batch, heads, seq), or null */
    weft_strides q_strides, k_strides, v_strides, o_strides;
    int64_t heads;
    int32_t seq, kv_seq;      /* walk.reach holds the mask: one full or causal slice; general: a band */
    weft_divisor by_kv_group; /* heads / kv_heads: query heads that share a K and V */
    float scale_log2;         /* |scale| * log2(e) */
    int32_t negative;         /* scale is below 0 */
    float lag;                /* how far the maximum of a row may lag behind before the row is rescaled, in raw scores */
    int32_t mask_every_block; /* 1: test the mask in every block; 0: only on the diagonal and the ragged edge */
    int32_t no_prefetch; /* 1: every load is waited for before going on; 0: loads run while earlier pieces are computed */
    uint64_t *counter;   /* dynamic dispatch: 0 before the launch; else null */
    /* The worker that the CTA on each SM stands for, under static dispatch with one CTA an SM; null: CTA i is worker i. */
    const uint32_t *worker_of_sm;
    weft_walk walk; /* tiles of the variant's tile_m x tile_n; no clusters */
    weft_study_general general;
} weft_study_params;

/* Fills scale_log2, negative and lag from a problem's scale (finite, not 0). A scale beyond what fp32 holds is kept finite
 * and away from 0, so that a masked score, -inf, stays -inf. The lag is 8 in base 2: exponentials of up to 2^8 lose nothing
 * in fp32 sums nor, being rounded relative to their size, in 16 bits; and after the first few blocks no row has to be
 * rescaled. */
WEFT_INLINE void weft_study_set_scale(weft_study_params *p, double scale) {
    const double least = 1e-30, most = 1e30, scaled = (scale < 0 ? -scale : scale) * 1.4426950408889634;
    p->scale_log2 = (float)(scaled < least ? least : scaled > most ? most : scaled);
    p->negative = scale < 0;
    p->lag = 8 / p->scale_log2;
}

typedef enum weft_study_math {
    WEFT_STUDY_FAST = 0,   /* exp2 flushes denormals to zero, division by an approximate reciprocal */
    WEFT_STUDY_PRECISE = 1 /* exp2 keeps denormals, IEEE division */
} weft_study_math;

/* What is compiled: a row of variants.def. */
typedef struct weft_study_variant {
    const char *symbol; /* the entry point */
    const char *module; /* the image that holds it */
    weft_dtype dtype;
    int32_t head_dim;
    int32_t head_dim_v;     /* general: the most of both; plain: 0 */
    int32_t tile_m, tile_n; /* queries of a tile, keys of a step */
    weft_study_math math;   /* build-time knob */
    int32_t ctas;           /* CTAs that fit an SM's registers */
    int32_t threads;        /* of a CTA */
    uint32_t shared_bytes;  /* dynamic */
} weft_study_variant;

/* Bytes of a row of Q, K or V in shared memory. Rows of 128 or 256 bytes are swizzled; others are as long as it takes for
 * eight rows to lie in different banks (an odd number of 16 bytes). A head dim of 56 is filled up with zeros to 64. */
#define WEFT_STUDY_ROW_BYTES(head_dim) ((head_dim) <= 64 ? 128 : (head_dim) == 128 ? 256 : 2 * (head_dim) + 16)

/* Tiles of queries in shared memory. With two, the next tile's first loads begin before this one's output is stored. */
#define WEFT_STUDY_TILES(head_dim, ring) ((head_dim) <= 64 && (ring) == 2 ? 2 : 1)

/* Dynamic shared memory: tiles of queries, and a ring of pieces of `piece` keys each, of K and V in turn. */
#define WEFT_STUDY_SHARED_BYTES(head_dim, tile_m, piece, ring)                                                             \
    (WEFT_STUDY_ROW_BYTES(head_dim) * (WEFT_STUDY_TILES(head_dim, ring) * (tile_m) + (piece) * (ring)))

/* A general variant also has the keys that each query sees there. */
#define WEFT_STUDY_RUN_BYTES 8

/* The initialisers of a weft_study_variant from rows: #define WEFT_STUDY(...) WEFT_STUDY_VARIANT(__VA_ARGS__), and
 * likewise WEFT_STUDY_GENERAL. */
#define WEFT_STUDY_VARIANT(symbol, module, DTYPE, head_dim, tile_m, tile_n, MATH, warps, piece, ring, q_held, overlap,     \
                           ctas)                                                                                           \
    {                                                                                                                      \
#symbol, #module, WEFT_##DTYPE, head_dim, 0, tile_m, tile_n, WEFT_STUDY_##MATH, ctas, 32 * (warps),                \
            WEFT_STUDY_SHARED_BYTES(head_dim, tile_m, piece, ring)                                                         \
    }
#define WEFT_STUDY_GENERAL_VARIANT(symbol, module, DTYPE, head_dim, head_dim_v, tile_m, tile_n, MATH, warps, split, piece, \
                                   ring, ctas)                                                                             \
    {                                                                                                                      \
#symbol, #module, WEFT_##DTYPE, head_dim, head_dim_v, tile_m, tile_n, WEFT_STUDY_##MATH, ctas, 32 * (warps),       \
            WEFT_STUDY_SHARED_BYTES(head_dim, tile_m, piece, ring) + WEFT_STUDY_RUN_BYTES *(tile_m)                        \
    }

#endif
