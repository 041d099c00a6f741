/* SPDX-License-Identifier: Apache-2.0 */
/* How long a launch of the Hopper attention kernel takes, by what its tiles take: measured, variant by variant, and dealt
 * out to workers as the dispatch does. */
#ifndef WEFT_CUDA_SM90_ATTENTION_TIME_H
#define WEFT_CUDA_SM90_ATTENTION_TIME_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/layout.h"

/* Bytes of K and V of a head. */
double weft_hopper_attention_head_bytes(const weft_attention *p);

/* Of the workers' time, what the tiles of one K and V fill when they take whole waves, so that no wave reads two of them.
 */
double weft_hopper_attention_wave_fill(int64_t tiles, int64_t workers);

/* Where the queries are not whole tiles, some warpgroups have none. They may be of the first tile, of the last, or of both:
 * under a mask of the first, since the last queries see the most keys; else as takes the least time. How many queries the
 * first tile has less than others, `pack` heads being in a tile. */
int64_t weft_hopper_attention_lead(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack);

/* Keys that some query sees, at least 1: the others are never read. */
int64_t weft_hopper_attention_seen_keys(const weft_attention *p);

/* Nanoseconds of a launch at least, by what the card's power allows. */
double weft_hopper_attention_power_time(const weft_hopper_attention_variant *v, const weft_attention *p);

/* Nanoseconds of a launch. */
double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                  const weft_hopper_attention_layout *layout);

/* Whether tiles grow from block to block, as under a causal mask. */
int weft_hopper_attention_grows(const weft_attention *p);

#endif
