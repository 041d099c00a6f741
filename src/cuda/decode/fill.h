/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the decode kernel that follow from a plan and its data; those of multi-head latent attention have them,
 * too. */
#ifndef WEFT_CUDA_DECODE_FILL_H
#define WEFT_CUDA_DECODE_FILL_H

#include "cuda/decode/params.h"
#include "cuda/plan/backend.h"

/* Queries of a sequence, at most, times the heads that share keys. */
int64_t weft_decode_rows(const weft_attention *p);

/* Whether sequences differ in length. */
int weft_decode_varies(const weft_attention *p);

/* What runs are made of, in tiles of so many rows. */
weft_runs weft_decode_runs(const weft_plan *plan, int64_t rows);

/* Rows that a CTA of the launch that merges has, of tiles of so many: all eight, one for each warp, where sequences are
 * alike and many, so that each is few runs. Else the fewer the better for one that is many runs; but CTAs that find nothing
 * to do take their time, too. */
int32_t weft_decode_merged_rows(const weft_attention *p, const weft_runs *runs, int64_t rows);

/* As many as divide a tile's rows; the simulator's tiles are those. */
int64_t weft_decode_heads_in_tile(const weft_attention *p, int64_t rows);

/* What a caller left open of a schedule: see weft_cuda_family. */
void weft_decode_complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                          weft_schedule *schedule);

/* All but what lies in the workspace. rows: of a tile; alone: whether the level of a sequence's runs is its own. */
void weft_decode_fill(weft_decode_params *to, const weft_plan *plan, const weft_attention_data *data, const weft_walk *walk,
                      int64_t rows, int alone);

#endif
