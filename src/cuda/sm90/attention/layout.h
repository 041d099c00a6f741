/* SPDX-License-Identifier: Apache-2.0 */
/* What the time of a launch depends on beside its problem and its variant. */
#ifndef WEFT_CUDA_SM90_ATTENTION_LAYOUT_H
#define WEFT_CUDA_SM90_ATTENTION_LAYOUT_H

#include "cuda/sm90/attention/params.h"

/* How a variant takes a problem: what a plan's schedule says of it, every choice made. */
typedef struct weft_hopper_attention_layout {
    int64_t pack;           /* query heads in a tile: see weft_plan */
    int64_t split;          /* CTAs that share the steps of a tile; 1 for a variant that does not split */
    int64_t workers;        /* tiles at work at a time: as many as CTAs or, of a split tile, clusters */
    int64_t sms;            /* of the GPU */
    int32_t order;          /* a weft_order_kind */
    int64_t group, domains; /* of the order: see weft_order_init() */
    const uint32_t *table;  /* of the order, over all tiles; null: computed */
    int32_t sweep;          /* a weft_sweep */
    int32_t dispatch;       /* a weft_dispatch */
    int64_t l2_bytes;       /* of the whole GPU */
} weft_hopper_attention_layout;

#endif
