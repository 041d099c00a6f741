/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of work that ranks share: attention, and matrix products. In each, parts of a tensor come by all ranks, and sums of
 * what ranks have computed go on from rank to rank, or home. What differs is a row of functions; kinds.c has the table. */
#ifndef WEFT_DIST_KINDS_H
#define WEFT_DIST_KINDS_H

#include "dist/work.h"

struct weft_pass;   /* pass.h */
struct weft_prices; /* prices.h */
struct weft_price_key;

typedef struct weft_dist_kind {
    /* ---- the problem, which all ranks and the simulator share ---- */

    weft_status (*resolve)(weft_dist *dist, const void *problem, weft_message *message);

    /* Fills in what is open, the cut first, and says how many rows there are of either kind: dist->rows[].total. */
    void (*choose)(weft_dist *dist);

    /* Refuses what this kind does not share, once all is chosen. */
    weft_status (*check)(const weft_dist *dist, weft_message *message);

    /* What moves: dist->row, and whether sums do: dist->adds. */
    void (*describe_rows)(weft_dist *dist);

    /* What a group computes with the rows of a part that a step brings, added to a list. */
    weft_status (*slices)(const weft_dist *dist, int64_t ring_rank, int64_t part, weft_range rows, weft_dist_slices *slices,
                          weft_message *message);

    /* Bytes that each rank tells each other one when all steps are done. */
    size_t (*told)(const weft_dist *dist);

    /* Bytes of a rank's tensors and buffers. Its slices have at most so many rows of either kind. */
    uint64_t (*memory)(const weft_dist *dist, int64_t rank, int64_t most_queries, int64_t most_keys);

    /* Its lines behind the problem and the ranks, as snprintf. */
    int (*rows_text)(const weft_dist *dist, char *text, size_t size);

    /* ---- what it costs ---- */

    int64_t (*variant)(const weft_dist *dist); /* problems of unlike variants have kernels of their own */
    weft_status (*ask)(const struct weft_prices *prices, const struct weft_price_key *key, double *seconds,
                       weft_message *message);

    /* ---- a rank's work ---- */

    weft_status (*begin)(weft_dist_work *work, weft_message *message); /* its tensors, before plans are made */
    weft_status (*plan_slice)(weft_dist_work *work, const weft_dist_slice *slice, weft_dist_slice_plans *plans,
                              weft_message *message);
    weft_status (*plan_sum)(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message);
    weft_status (*plan_end)(weft_dist_work *work, weft_message *message);
    weft_status (*take)(weft_dist_work *work, weft_message *message); /* buffers that are only of this kind */

    weft_status (*clear)(const struct weft_pass *pass); /* what is added to, beside sums of parts, which are 0 */
    weft_status (*slice)(const struct weft_pass *pass, const weft_dist_slice *slice, const weft_dist_slice_plans *plans,
                         const weft_hop *hop, const weft_dist_pair *rows);

    /* Adds rows to rows, from a pair to another. */
    weft_status (*add)(weft_dist_work *work, const weft_dist_sum *sum, const weft_dist_pair *from, const weft_dist_pair *to,
                       weft_message *message);

    /* Checks a caller's data and copies it; and runs a pass over it and brings results to where they belong. */
    weft_status (*check_data)(const weft_dist_work *work, const void *data, weft_data *checked, weft_message *message);
    weft_status (*run)(weft_dist_work *work, const weft_data *data, void *kept, weft_message *message);
} weft_dist_kind;

/* The kind of a problem; null, with a message: nobody shares it. */
const weft_dist_kind *weft_dist_kind_of(const void *problem, weft_message *message);

/* attention.c, attention_make.c, attention_pass.c, attention_prices.c, attention_run.c */
weft_status weft_dist_attention_resolve(weft_dist *dist, const void *problem, weft_message *message);
void weft_dist_attention_choose(weft_dist *dist);
weft_status weft_dist_attention_check(const weft_dist *dist, weft_message *message);
void weft_dist_attention_rows(weft_dist *dist);
weft_status weft_dist_attention_slices(const weft_dist *dist, int64_t ring_rank, int64_t part, weft_range keys,
                                       weft_dist_slices *slices, weft_message *message);
size_t weft_dist_attention_told(const weft_dist *dist);
uint64_t weft_dist_attention_memory(const weft_dist *dist, int64_t rank, int64_t most_queries, int64_t most_keys);
int weft_dist_attention_rows_text(const weft_dist *dist, char *text, size_t size);
int64_t weft_dist_attention_variant(const weft_dist *dist);
weft_status weft_dist_attention_ask(const struct weft_prices *prices, const struct weft_price_key *key, double *seconds,
                                    weft_message *message);
weft_status weft_dist_attention_begin(weft_dist_work *work, weft_message *message);
weft_status weft_dist_attention_plan_slice(weft_dist_work *work, const weft_dist_slice *slice, weft_dist_slice_plans *plans,
                                           weft_message *message);
weft_status weft_dist_attention_plan_sum(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message);
weft_status weft_dist_attention_plan_end(weft_dist_work *work, weft_message *message);
weft_status weft_dist_attention_take(weft_dist_work *work, weft_message *message);
weft_status weft_dist_attention_clear(const struct weft_pass *pass);
weft_status weft_dist_attention_slice(const struct weft_pass *pass, const weft_dist_slice *slice,
                                      const weft_dist_slice_plans *plans, const weft_hop *hop, const weft_dist_pair *keys);
weft_status weft_dist_attention_add(weft_dist_work *work, const weft_dist_sum *sum, const weft_dist_pair *from,
                                    const weft_dist_pair *to, weft_message *message);
weft_status weft_dist_attention_check_data(const weft_dist_work *work, const void *data, weft_data *checked,
                                           weft_message *message);
weft_status weft_dist_attention_run(weft_dist_work *work, const weft_data *data, void *kept, weft_message *message);

/* gemm.c, gemm_prices.c, gemm_make.c, gemm_run.c */
weft_status weft_dist_gemm_resolve(weft_dist *dist, const void *problem, weft_message *message);
void weft_dist_gemm_choose(weft_dist *dist);
weft_status weft_dist_gemm_check(const weft_dist *dist, weft_message *message);
void weft_dist_gemm_rows(weft_dist *dist);
weft_status weft_dist_gemm_slices(const weft_dist *dist, int64_t ring_rank, int64_t part, weft_range rows,
                                  weft_dist_slices *slices, weft_message *message);
size_t weft_dist_gemm_told(const weft_dist *dist);
uint64_t weft_dist_gemm_memory(const weft_dist *dist, int64_t rank, int64_t most_own, int64_t most_rows);
int weft_dist_gemm_rows_text(const weft_dist *dist, char *text, size_t size);
int64_t weft_dist_gemm_variant(const weft_dist *dist);
weft_status weft_dist_gemm_ask(const struct weft_prices *prices, const struct weft_price_key *key, double *seconds,
                               weft_message *message);
weft_status weft_dist_gemm_begin(weft_dist_work *work, weft_message *message);
weft_status weft_dist_gemm_plan_slice(weft_dist_work *work, const weft_dist_slice *slice, weft_dist_slice_plans *plans,
                                      weft_message *message);
weft_status weft_dist_gemm_plan_sum(weft_dist_work *work, int64_t rows, weft_dist_sum *sum, weft_message *message);
weft_status weft_dist_gemm_plan_end(weft_dist_work *work, weft_message *message);
weft_status weft_dist_gemm_take(weft_dist_work *work, weft_message *message);
weft_status weft_dist_gemm_clear(const struct weft_pass *pass);
weft_status weft_dist_gemm_slice(const struct weft_pass *pass, const weft_dist_slice *slice,
                                 const weft_dist_slice_plans *plans, const weft_hop *hop, const weft_dist_pair *rows);
weft_status weft_dist_gemm_add(weft_dist_work *work, const weft_dist_sum *sum, const weft_dist_pair *from,
                               const weft_dist_pair *to, weft_message *message);
weft_status weft_dist_gemm_check_data(const weft_dist_work *work, const void *data, weft_data *checked,
                                      weft_message *message);
weft_status weft_dist_gemm_run(weft_dist_work *work, const weft_data *data, void *kept, weft_message *message);

#endif
