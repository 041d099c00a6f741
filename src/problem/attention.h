/* SPDX-License-Identifier: Apache-2.0 */
/* What forward and backward attention share as operations: the descriptor, its check, its words; and the tiles of the
 * forward pass. */
#ifndef WEFT_PROBLEM_ATTENTION_H
#define WEFT_PROBLEM_ATTENTION_H

#include "problem/operation.h"
#include "problem/tensor.h"

enum { WEFT_ATTENTION_FIELDS = 28 };
extern const weft_field weft_attention_fields[WEFT_ATTENTION_FIELDS];

/* attention.c: as in weft_operation_row. */
void weft_attention_init(weft_problem *problem);
weft_status weft_attention_complete(weft_problem *problem, weft_message *message);
double weft_attention_forward_flops(const weft_problem *problem);

/* attention_words.c: the same with the operation's name, or pass ("", " backward"). */
int weft_attention_line(const char *name, const weft_attention *p, char *text, size_t size);
int weft_attention_caption(const char *pass, const weft_attention *p, char *text, size_t size);
size_t weft_attention_key(const char *name, const weft_attention *p, int64_t *numbers, char *text, size_t size);

/* Inputs beside Q, K and V, as buffers of the data's struct and of the gradients'. */
size_t weft_attention_data_inputs(const weft_attention *p, weft_buffer *list);
size_t weft_attention_gradient_inputs(const weft_attention *p, weft_buffer *list);

/* attention_scores.c: softcap, dropout, slopes and bias, checked. */
weft_status weft_attention_resolve_scores(weft_attention *p, weft_message *message);
weft_dtype weft_attention_bias_dtype(const weft_attention *p);
size_t weft_attention_bias_extent(const weft_attention *p);

/* attention_mask.c: the mask and the lengths, checked; copies of the lengths, and the bytes that these take. */
weft_status weft_attention_resolve_lengths(weft_attention *p, weft_message *message);
weft_status weft_attention_resolve_mask(weft_attention *p, weft_message *message);
weft_status weft_attention_check_starts(const char *name, const int32_t *starts, int64_t count, int64_t rows,
                                        weft_message *message);
size_t weft_attention_length_bytes(const weft_attention *p);
void weft_attention_keep_lengths(weft_attention *p, void *memory);

/* attention_pairs.c: block masks and tree masks, checked; elements of their arrays in the order of weft_pairs; copies of
 * them and of the lengths. The share of all pairs that a block mask shows, as far as it is known. */
weft_status weft_attention_resolve_pairs(weft_attention *p, weft_message *message);
enum { WEFT_PAIR_ARRAYS = 5 };
void weft_attention_pair_elements(const weft_attention *p, size_t elements[WEFT_PAIR_ARRAYS]);
weft_status weft_attention_keep(weft_problem *problem, void **memory, weft_message *message);
size_t weft_attention_kept_bytes(const weft_problem *problem);
double weft_attention_listed_share(const weft_attention *p);

/* attention_cache.c: the cache, checked; and its new keys, once the strides of K and V are known. Its buffers. Whether K
 * and V, whose spans overlap, share no element: `first` and `second` are fields of the data. The outer axes of K and V. */
weft_status weft_attention_resolve_cache(weft_attention *p, weft_message *message);
weft_status weft_attention_resolve_new_keys(weft_attention *p, weft_message *message);
size_t weft_attention_cache_inputs(const weft_attention *p, weft_buffer *list);
int weft_attention_kv_apart(const weft_problem *problem, const weft_data *data, size_t first, size_t second);
weft_tensor_axis weft_attention_kv_batches(const weft_attention *p, const weft_strides *s);
weft_tensor_axis weft_attention_kv_rows(const weft_attention *p, const weft_strides *s);
weft_status weft_attention_check_table(const weft_attention *p, const int32_t *table, weft_message *message);

/* attention_places.c: as in weft_operation_row; and the sectors of a block of keys in pages that lie apart. */
weft_status weft_attention_place(const weft_tiling *tiling, const int32_t *table, int64_t sector, weft_place **places,
                                 weft_message *message);
int64_t weft_attention_kv_sectors(const weft_attention *p, int64_t keys, int64_t sector);

/* attention_backward.c: the parts that a split cuts the heads that share keys into, from 1 to all of them. It cuts the
 * blocks of queries of each head into split / that many. */
int64_t weft_attention_head_parts(const weft_attention *p, int64_t split);

/* attention_tiles.c: the mask, queries as rows; tiles of queries, steps over keys. */
weft_slice weft_attention_slice(const weft_attention *p);
size_t weft_attention_sides(const weft_tiling *tiling, weft_schedule *schedule, weft_tile_side *list);
void weft_attention_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *schedule);
void weft_attention_lay_out(const weft_tiling *tiling, weft_grid *tiles, weft_reach *reach);
int64_t weft_attention_seen(const weft_reach *reach, int64_t batch); /* columns of the steps that some tile visits */
void weft_attention_pieces(const weft_tiling *tiling, const weft_reach *reach, int64_t sector, weft_pieces *pieces);
void weft_attention_reads(const weft_tiling *tiling, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                          weft_visit_reads *reads);
double weft_attention_step_bytes(const weft_tiling *tiling);

#endif
