/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: plain, slow, fp64 inside, any dtype outside. The oracle that every kernel is held to.
 *
 * All problems are resolved (plan/problem.h). */
#ifndef WEFT_REF_REF_H
#define WEFT_REF_REF_H

#include "order/groups.h"
#include "plan/plan.h"

/* One element. Stores round to nearest, ties to even; overflow goes to infinity; NaN stays NaN. */
double weft_ref_load(weft_dtype dtype, const void *data, size_t index);
void weft_ref_store(weft_dtype dtype, void *data, size_t index, double value);
double weft_ref_round(weft_dtype dtype, double value); /* what a store followed by a load gives */

/* What is known of a query beside its output: its LSE, with the sink, and its largest score, without; -inf each where it
 * sees nothing. */
typedef struct weft_ref_row {
    double lse, max;
} weft_ref_row;

/* One query: out (head_dim_v), not rounded. `weights` is room for kv_seq doubles; on return, the probabilities of the keys
 * that the query sees, before dropout; the rest is not touched. weights[0] is key 0, or its sequence's first where keys lie
 * in pages and queries are packed. The data's lengths do not count, only the problem's. New keys count as appended, whether
 * or not the cache has them. */
weft_ref_row weft_ref_attention_row(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                                    int64_t row, double *weights, double *out);

/* What dropout multiplies a weight by: 0, or 1 / (1 - dropout). `line` is batch * heads + head. */
double weft_ref_kept(const weft_attention *p, uint64_t seed, int64_t line, int64_t row, int64_t key);

/* The same as a plain kernel would do it in the problem's dtype: fp32 sums, probabilities rounded to the dtype before they
 * meet V, the result rounded to the dtype of results. Its distance from weft_ref_attention_row is the yardstick for error
 * bounds. */
void weft_ref_attention_row_naive(const weft_attention *p, const weft_attention_data *data, int64_t batch, int64_t head,
                                  int64_t row, float *weights, double *out);

/* The whole problem, row by row, with the problem's lengths; new keys are appended first. WEFT_NO_MEMORY is the only
 * failure. */
weft_status weft_ref_attention(const weft_attention *p, const weft_attention_data *data, weft_message *message);
weft_status weft_ref_attention_backward(const weft_attention *p, const weft_attention_gradients *data,
                                        weft_message *message);

/* The gradient of a head's sink, by the data's O and LSE, which must be there. */
double weft_ref_attention_sink_gradient(const weft_attention *p, const weft_attention_gradients *data, int64_t head);

/* dQ of one query, not rounded; `weights` is room for kv_seq doubles. dK and dV of one key by the data's O and LSE, which
 * must be there: a sample of large problems. */
void weft_ref_attention_query_gradient(const weft_attention *p, const weft_attention_gradients *data, int64_t batch,
                                       int64_t head, int64_t row, double *weights, double *grad_q);
void weft_ref_attention_key_gradients(const weft_attention *p, const weft_attention_gradients *data, int64_t batch,
                                      int64_t kv_head, int64_t key, double *grad_k, double *grad_v);

/* One element of C, not rounded (the epilogue applied but for the caller's function; `c` is the old C), and the same with
 * fp32 sums of products of the problem's precision, rounded. weft_ref_gemm is for one product. */
double weft_ref_gemm_element(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col);
double weft_ref_gemm_element_naive(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col);
weft_status weft_ref_gemm(const weft_gemm *p, const weft_gemm_data *data, weft_message *message);

/* The product of some rows of a group, and its matrices; which group has a row of C, counted over all groups where they are
 * masked, 0: none has; and all groups, by the problem's bounds or the data's. */
weft_gemm weft_ref_grouped_product(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data,
                                   const weft_group_rows *rows, weft_gemm_data *matrices);
int weft_ref_grouped_row(const weft_grouped_gemm *p, const int32_t *bounds, int64_t row, weft_group_rows *found);
weft_status weft_ref_grouped_gemm(const weft_grouped_gemm *p, const weft_grouped_gemm_data *data, weft_message *message);

/* One row of a combination, of (batch, heads, seq): out (head_dim), not rounded. Returns its LSE. */
double weft_ref_combine_row(const weft_combine *p, const weft_combine_data *data, int64_t row, double *out);

/* Tile by tile through the plan's order, sweep and dispatch, attention with an online softmax in base 2. Order and sweep
 * change nothing but rounding. */
weft_status weft_ref_attention_tiled(const weft_plan *plan, const weft_attention_data *data, weft_message *message);
weft_status weft_ref_gemm_tiled(const weft_plan *plan, const weft_gemm_data *data, weft_message *message);

#endif
