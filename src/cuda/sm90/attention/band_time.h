/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the time model that is for bands over sequences: windows, packed batches, lengths that vary. */
#ifndef WEFT_CUDA_SM90_ATTENTION_BAND_TIME_H
#define WEFT_CUDA_SM90_ATTENTION_BAND_TIME_H

#include "cuda/sm90/attention/layout.h"

/* Workers that are followed one by one, at most. */
enum { WEFT_HOPPER_MOST_WORKERS = 256 };

/* Gives a tile to the worker that is free first, the top of a heap of the times when they are. */
void weft_hopper_attention_take(double *free_at, int64_t workers, double time);

/* Nanoseconds of a launch over a problem with a band. Lengths that are not known yet count as alike. */
double weft_hopper_attention_band_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                       const weft_hopper_attention_layout *layout);

#endif
