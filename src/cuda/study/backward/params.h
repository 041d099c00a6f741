/* SPDX-License-Identifier: Apache-2.0 */
/* The portable backward: its parameters and variants, in plain C for the host and in CUDA for the kernels.
 *
 * A run is up to three launches, one after the other. None adds to memory that another CTA adds to, so the bits are the
 * same in every run:
 *   dq      a CTA holds a tile of queries and sweeps keys: dQ, the gradient of a bias, and what later launches need of
 *           each query
 *   dk_dv   a CTA holds a tile of keys and sweeps the queries of all heads that share them: dK and dV
 *   sinks   a CTA for each head adds up the gradient of its sink
 * Products are computed again by the second launch: seven in all, where five would do with sums of dQ in memory. */
#ifndef WEFT_CUDA_STUDY_BACKWARD_PARAMS_H
#define WEFT_CUDA_STUDY_BACKWARD_PARAMS_H

#include "cuda/study/params.h"

/* Passed by value. Launch as weft_study_params says; `sinks` has a CTA for each head. */
typedef struct weft_study_backward_params {
    weft_study_params forward; /* tensors, scores and this launch's walk; O and LSE are read */
    const void *grad_o;
    void *grad_q, *grad_k, *grad_v;
    float *grad_sinks;         /* or null */
    float *grad_bias;          /* (batch, heads, seq, kv_seq), or null */
    float *log2_sums, *deltas; /* workspace, (batch, heads, seq): see study_query_numbers() */
    int32_t grad_o_unit, grad_q_unit, grad_k_unit, grad_v_unit; /* as weft_study_general.q_unit */
    float scale;                                                /* the problem's */
} weft_study_backward_params;

/* Bytes of the workspace for so many rows of LSE. */
#define WEFT_STUDY_BACKWARD_WORKSPACE(rows) (2 * sizeof(float) * (rows))

/* What is compiled: a row of variants.def. */
typedef struct weft_study_backward_variant {
    const char *symbol, *module;    /* of the row; the image */
    const char *dq, *dk_dv, *sinks; /* the entry points */
    weft_dtype dtype;
    int32_t head_dim, head_dim_v; /* the most of Q and K, and of V */
    int32_t tile;                 /* queries or keys of a tile, and keys or queries of a step */
    int32_t threads;              /* of a CTA */
    uint32_t shared_bytes;        /* dynamic */
} weft_study_backward_variant;

enum { WEFT_STUDY_SINKS_THREADS = 128 };

/* Dynamic shared memory: two tiles that are held; two stages of two pieces each that pass; the keys that each query sees,
 * of a tile or of two pieces; two numbers for each query of two pieces. */
#define WEFT_STUDY_BACKWARD_SHARED_BYTES(head_dim, tile, piece)                                                            \
    (WEFT_STUDY_ROW_BYTES(head_dim) * (2 * (tile) + 4 * (piece)) +                                                         \
     WEFT_STUDY_RUN_BYTES * ((tile) > 2 * (piece) ? (tile) : 2 * (piece)) + 2 * 2 * 4 * (piece))

#define WEFT_STUDY_BACKWARD_VARIANT(symbol, module, DTYPE, head_dim, head_dim_v, tile, warps, split, piece, ctas)          \
    {                                                                                                                      \
#symbol, #module, #symbol "_dq", #symbol "_dk_dv", #symbol "_sinks", WEFT_##DTYPE, head_dim, head_dim_v, tile,     \
            32 * (warps), WEFT_STUDY_BACKWARD_SHARED_BYTES(head_dim, tile, piece)                                          \
    }

#endif
