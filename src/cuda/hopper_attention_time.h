/* How long a launch of the Hopper attention kernel takes, by what its tiles take: measured, variant by variant, and dealt
 * out to workers as dynamic dispatch does. */
#ifndef WEFT_CUDA_HOPPER_ATTENTION_TIME_H
#define WEFT_CUDA_HOPPER_ATTENTION_TIME_H

#include "cuda/cuda.h"
#include "cuda/hopper_attention.h"

/* Nanoseconds of a plan's problem by a variant, with `pack` heads in a tile (see weft_plan), on so many workers. Under a
 * causal mask tiles are in sections of so many heads, as longest-first orders them. */
double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack,
                                  int64_t workers, int64_t section);

#endif
