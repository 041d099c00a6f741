/* How long a launch of the Hopper attention kernel takes, by what its tiles take: measured, variant by variant, and dealt
 * out to workers as dynamic and grid dispatch do. */
#ifndef WEFT_CUDA_HOPPER_ATTENTION_TIME_H
#define WEFT_CUDA_HOPPER_ATTENTION_TIME_H

#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/params.h"

/* How a variant takes a problem. */
typedef struct weft_hopper_attention_layout {
    int64_t pack;    /* query heads in a tile: see weft_plan */
    int64_t split;   /* CTAs that share the steps of a tile; 1 for a variant that does not split */
    int64_t workers; /* tiles at work at a time: as many as CTAs or, of a split tile, clusters */
    int64_t section; /* causal: heads of a section of longest-first */
    int64_t l2_bytes;
} weft_hopper_attention_layout;

/* Where the queries are not whole tiles, some warpgroups have none. They may be of the first tile, of the last, or of both:
 * under a mask of the first, since the last queries see the most keys; else as takes the least time. How many queries the
 * first tile has less than others, `pack` heads being in a tile. */
int64_t weft_hopper_attention_lead(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack);

/* Keys that some query sees, at least 1: the others are never read. */
int64_t weft_hopper_attention_seen_keys(const weft_attention *p);

/* Nanoseconds of a launch. */
double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                  const weft_hopper_attention_layout *layout);

#endif
