/* The CPU's attention. */
#ifndef WEFT_CPU_ATTENTION_ATTENTION_H
#define WEFT_CPU_ATTENTION_ATTENTION_H

#include "plan/plan.h"

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message);

/* Backward's grid of tiles is batch x kv heads x stretches of tile_n keys: tile.head is a kv head, tile.block a stretch.
 * Its steps are blocks of queries, which all query heads of the kv head go through. Blocks that see no key of the tile cost
 * nothing. A block is a multiple of every kernel's rows and columns; tile_n is a multiple of it. */
enum { WEFT_CPU_BACKWARD_BLOCK = 96 };

/* tile_n where nothing else is asked for. */
int64_t weft_cpu_backward_tile(const weft_attention *problem);

/* Backward along a walk over that grid. The result depends on tile_n and on the direction of each tile's sweep, but neither
 * on the order of tiles nor on who visits them. */
weft_status weft_cpu_backward_walk(const weft_attention *problem, const weft_attention_gradients *data, int64_t tile_n,
                                   const weft_walk *walk, weft_progress progress, void *user, weft_message *message);

/* The same with tiles and a walk for this host. */
weft_status weft_cpu_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                        weft_message *message);

#endif
