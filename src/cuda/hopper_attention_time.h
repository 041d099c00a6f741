/* How long a launch of the Hopper attention kernel takes, by what its tiles take: measured, variant by variant, and dealt
 * out to workers as dynamic dispatch does. */
#ifndef WEFT_CUDA_HOPPER_ATTENTION_TIME_H
#define WEFT_CUDA_HOPPER_ATTENTION_TIME_H

#include "cuda/cuda.h"
#include "cuda/hopper_attention.h"

/* Where the queries are not whole tiles, some warpgroups have none. They may be of the first tile, of the last, or of both:
 * under a mask of the first, since the last queries see the most keys; else as takes the least time. How many queries the
 * first tile has less than others, `pack` heads being in a tile. */
int64_t weft_hopper_attention_lead(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack);

/* Nanoseconds of a plan's problem by a variant, with `pack` heads in a tile (see weft_plan), on so many workers. Under a
 * causal mask tiles are in sections of so many heads, as longest-first orders them. */
double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack,
                                  int64_t workers, int64_t section);

#endif
