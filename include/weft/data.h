/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What a problem is computed from and to, and calls that compute it in one go, on the CPU.
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include "problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a cache needs beside K and V, which are written where keys are appended. */
typedef struct weft_kv_cache_data {
    const int32_t *table;      /**< pages: (sequences, table_stride) numbers of pages */
    const void *k_new, *v_new; /**< append */
    const int32_t
        *new_starts;       /**< append to a packed batch: (sequences + 1) first new keys, ascending; null: the problem's */
    const void *cos, *sin; /**< rotation: (rotary_rows, rotary_dim / 2), of the problem's dtype */
    const int32_t *positions; /**< (sequences), or null */
} weft_kv_cache_data;

/** Buffers of a forward attention; the caller owns them all. lse may be null. No output may overlap anything else.
 * What the problem's `extras` does not name is null. */
typedef struct weft_attention_data {
    size_t struct_size; /**< set by WEFT_ATTENTION_DATA_INIT */
    int32_t operation;  /**< WEFT_ATTENTION */
    const void *q, *k, *v;
    void *o;
    float *lse;         /**< (batch, heads, seq): natural logarithm of each query's sum of exponentials */
    const float *sinks; /**< (heads) */
    const float *alibi; /**< (heads) */
    const void *bias;
    float *max;            /**< (batch, heads, seq): each query's largest score, sinks apart; -inf where it sees no key */
    weft_lengths lengths;  /**< those that `extras` names and the problem does not have */
    uint64_t dropout_seed; /**< which weights count as 0: a function of this, batch, head, query and key */
    weft_pairs pairs;      /**< as `lengths` */
    weft_kv_cache_data cache; /**< a cache's */
    void *workspace;          /**< as in weft_attention_gradients */
    const void *qv;           /**< (batch, seq, heads, head_dim_v), of the problem's dtype */
    int32_t prepared;         /**< 1: weft_plan_prepare() has had the same workspace and lengths, earlier on the stream */
} weft_attention_data;

/* clang-format off */
#define WEFT_ATTENTION_DATA_INIT                                                                                           \
    {sizeof(weft_attention_data), WEFT_ATTENTION, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,                    \
     {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, {NULL, NULL, NULL, NULL, NULL, NULL, NULL}, NULL, NULL, 0}
/* clang-format on */

/** Buffers of a backward attention: dO in, dQ, dK and dV out, each laid out like the tensor it belongs to. */
typedef struct weft_attention_gradients {
    size_t struct_size; /**< set by WEFT_ATTENTION_GRADIENTS_INIT */
    int32_t operation;  /**< WEFT_ATTENTION_BACKWARD */
    const void *q, *k, *v, *grad_o;
    void *grad_q, *grad_k, *grad_v;
    const void *o;              /**< what the forward pass gave, with its lse; both null: computed again, by a CPU only */
    const float *lse;           /**< as in weft_attention_data, or null */
    const float *sinks, *alibi; /**< from here on as in weft_attention_data */
    const void *bias;
    float *grad_sinks; /**< (heads), or null */
    weft_lengths lengths;
    uint64_t dropout_seed;
    weft_pairs pairs;
    void *workspace; /**< on a GPU: weft_plan_workspace() bytes that no other run uses at the same time, or null: the plan's
                          own. Nothing need be in it, and nothing of use is left there */
    float *grad_bias; /**< (batch, heads, seq, kv_seq), contiguous whatever the strides of the bias; or null. The gradient
                         of what is added to each score: whoever repeats a bias adds it up. 0 where a key is hidden */
} weft_attention_gradients;

/* clang-format off */
#define WEFT_ATTENTION_GRADIENTS_INIT                                                                                      \
    {sizeof(weft_attention_gradients), WEFT_ATTENTION_BACKWARD, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,      \
     NULL, NULL, NULL, NULL, {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, NULL, NULL}
/* clang-format on */

/** A part of a product's result: rows x cols of C from (row, col) of a product of the batch on. */
typedef struct weft_gemm_part {
    size_t struct_size;
    int64_t batch, row, col, rows, cols;
    int64_t ld;    /**< elements from a row of values to the next */
    float *values; /**< (rows, cols), as they would be stored; the function may change them */
} weft_gemm_part;

/** A caller's last word on C, for the CPU: called once for each part of C, by several threads at once. Parts do not overlap
 * and cover C; how they cut it is the schedule's. The function returns before the part is stored, and keeps no pointer. */
typedef void (*weft_gemm_function)(void *user, const weft_gemm_part *part);

/** Buffers of a GEMM. c is read only when beta is not 0. What the problem's `extras` does not name is null. */
typedef struct weft_gemm_data {
    size_t struct_size; /**< set by WEFT_GEMM_DATA_INIT */
    int32_t operation;  /**< WEFT_GEMM */
    const void *a, *b;
    void *c;
    const void *bias;          /**< (batch, n) of bias_dtype */
    const void *residual;      /**< (batch, m, columns of C) in C's layout, no part of C: that is what beta is for */
    const float *scale;        /**< (batch): one number for a product */
    const float *row_scale;    /**< (batch, m) */
    const float *column_scale; /**< (batch, n) */
    float *column_sums;        /**< (batch, columns of C) */
    weft_gemm_function function;
    void *user;      /**< what the function gets */
    void *workspace; /**< as in weft_attention_gradients */
} weft_gemm_data;

#define WEFT_GEMM_DATA_INIT                                                                                                \
    { sizeof(weft_gemm_data), WEFT_GEMM, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/** Buffers of a grouped product. Of starts and counts, that of the problem's layout is read where the problem has none. A
 * CPU refuses bounds that are wrong. A GPU clamps them: it never leaves the tensors, and rows of wrong bounds hold
 * anything.
 */
typedef struct weft_grouped_gemm_data {
    size_t struct_size; /**< set by WEFT_GROUPED_GEMM_DATA_INIT */
    int32_t operation;  /**< WEFT_GROUPED_GEMM */
    const void *a, *b;
    void *c;
    const int32_t *starts; /**< (groups + 1) */
    const int32_t *counts; /**< (groups) */
} weft_grouped_gemm_data;

#define WEFT_GROUPED_GEMM_DATA_INIT                                                                                        \
    { sizeof(weft_grouped_gemm_data), WEFT_GROUPED_GEMM, NULL, NULL, NULL, NULL, NULL }

/** Buffers of a combination, of which `parts` parts and their lses are read. lse may be null, except with `into`. With
 * `sum` lses and lse are not used. */
typedef struct weft_combine_data {
    size_t struct_size; /**< set by WEFT_COMBINE_DATA_INIT */
    int32_t operation;  /**< WEFT_COMBINE */
    const void *parts[WEFT_MOST_PARTS];
    const float *lses[WEFT_MOST_PARTS]; /**< (batch, heads, seq) each, as weft_attention_data has it */
    void *o;
    float *lse; /**< (batch, heads, seq), lse_stride apart from head to head */
} weft_combine_data;

#define WEFT_COMBINE_DATA_INIT                                                                                             \
    { sizeof(weft_combine_data), WEFT_COMBINE, {NULL}, {NULL}, NULL, NULL }

/** Makes the default plan of a problem on the CPU, runs it and destroys it. weft_attention_backward() takes a problem of
 * either operation. */
WEFT_API weft_status weft_attention_forward(const weft_attention *problem, const weft_attention_data *data,
                                            weft_message *message);
WEFT_API weft_status weft_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                             weft_message *message);
WEFT_API weft_status weft_gemm_multiply(const weft_gemm *problem, const weft_gemm_data *data, weft_message *message);
WEFT_API weft_status weft_combine_parts(const weft_combine *problem, const weft_combine_data *data, weft_message *message);
WEFT_API weft_status weft_grouped_gemm_multiply(const weft_grouped_gemm *problem, const weft_grouped_gemm_data *data,
                                                weft_message *message);

/** Gives memory back to the system. Runs on the CPU keep up to 128 MiB of scratch memory for the next one, which then need
 * not wait for fresh pages; this frees what is kept and not in use. Any thread may call it at any time, also while others
 * run plans. Returns how many bytes it freed. */
WEFT_API size_t weft_release_memory(void);

#ifdef __cplusplus
}
#endif

#endif
