/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's attention. */
#ifndef WEFT_CPU_ATTENTION_ATTENTION_H
#define WEFT_CPU_ATTENTION_ATTENTION_H

#include "plan/plan.h"

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message);

/* Backward's grid of tiles is batch x kv heads x stretches of tile_n keys: tile.head is a kv head, tile.block a stretch.
 * Its steps are blocks of queries, which all query heads of the kv head go through. Blocks that see no key of the tile cost
 * nothing. A block is a multiple of every kernel's rows and columns; tile_n is a multiple of it, or all keys. The result
 * depends on tile_n and on the direction of each tile's sweep, but neither on the order of tiles nor on who visits them. */
enum { WEFT_CPU_BACKWARD_BLOCK = 96 };

weft_status weft_cpu_attention_backward(const weft_plan *plan, const weft_attention_gradients *data, weft_message *message);

#endif
