/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of heads among the ranks of a group: see heads.c. `of` is WEFT_QUERY_ROWS or WEFT_KEY_ROWS. */
#ifndef WEFT_DIST_HEADS_H
#define WEFT_DIST_HEADS_H

#include "dist/work.h"

typedef struct weft_dist_heads weft_dist_heads;
weft_status weft_dist_heads_create(weft_dist_work *work, weft_message *message);
void weft_dist_heads_destroy(weft_dist_heads *heads);

/* From a caller's tensor, this rank's rows of all heads, to all rows of the group of `heads` heads: (rows, batch, heads,
 * dim); and back. */
weft_status weft_dist_heads_in(weft_dist_work *work, int32_t of, const weft_dist_tensor *tensor, int64_t heads, void *rows,
                               weft_message *message);
weft_status weft_dist_heads_out(weft_dist_work *work, int32_t of, const void *rows, const weft_dist_tensor *tensor,
                                int64_t heads, weft_message *message);

/* Whether several members have the same kv head: gradients of its keys then are sums in fp32 that are added up. */
int weft_dist_heads_repeat(const weft_dist_work *work);
weft_status weft_dist_heads_add(weft_dist_work *work, const void *sums, const weft_dist_tensor *tensor, int is_value,
                                weft_message *message);

weft_status weft_dist_lse_in(weft_dist_work *work, const float *lse, float *to, weft_message *message);
weft_status weft_dist_lse_out(weft_dist_work *work, const float *from, float *lse, weft_message *message);

#endif
