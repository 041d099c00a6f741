/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, a few queries over many keys: threads share the keys of a tile. */
#ifndef WEFT_CPU_ATTENTION_DECODE_H
#define WEFT_CPU_ATTENTION_DECODE_H

#include "plan/plan.h"

/* Fills in the tile, sweep and dispatch of a decode, and how many heads are in a tile; returns 0 when the problem is no
 * decode or the schedule has another tile. */
int weft_cpu_open_decode(const weft_attention *problem, weft_schedule *schedule, int64_t *heads_in_tile);
int weft_cpu_decodes(const weft_plan *plan); /* whether a plan is one */
weft_status weft_cpu_attention_decode(const weft_plan *plan, const weft_attention_data *data, weft_message *message);

#endif
