/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of an attention with a KV cache begins with. */
#ifndef WEFT_CPU_ATTENTION_CACHE_H
#define WEFT_CPU_ATTENTION_CACHE_H

#include "plan/plan.h"

/* Appends the new keys, and rotates them and Q: on return, `problem` and `data` have the rotated Q in *memory, which the
 * caller frees by weft_cpu_free(). Both are the run's own, and checked. */
weft_status weft_cpu_cache_begin(weft_attention *problem, weft_attention_data *data, void **memory, weft_message *message);

#endif
