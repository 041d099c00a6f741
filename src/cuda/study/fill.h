/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a launch of the study kernel, but for the run-time knobs. */
#ifndef WEFT_CUDA_STUDY_FILL_H
#define WEFT_CUDA_STUDY_FILL_H

#include "cuda/plan/backend.h"
#include "cuda/study/append.h"
#include "cuda/study/params.h"

/* Describes a resolved problem, its buffers and the walk of its tiles, for any variant that can take it. */
void weft_study_fill(weft_study_params *to, const weft_attention *p, const weft_attention_data *data,
                     const weft_walk *walk);

/* Whether a run begins with a launch that appends keys to a cache or rotates; and the bytes of the workspace in which that
 * leaves the rotated queries, 0 where there are none. Of a resolved problem. */
int weft_study_appends(const weft_attention *p);
size_t weft_study_rotated_bytes(const weft_attention *p);

/* The strides of the rotated queries. */
weft_strides weft_study_rotated_strides(const weft_attention *p);

/* The launches of a run whose main kernel is `choice`, of which *main takes the plan's tiles: see weft_cuda_family. */
int weft_study_passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main);

/* The parameters of the one before. */
void weft_study_append_fill(weft_study_append *to, const weft_plan *plan, const weft_attention_data *data,
                            const weft_walk *walk);

/* The most bytes, of 16, 4 and 2, that all rows of a tensor can be read by. Of a result, which may be in fp32: written. */
int32_t weft_study_unit(const void *data, const weft_strides *s);
int32_t weft_study_out_unit(const weft_attention *p, const void *data, const weft_strides *s);

#endif
