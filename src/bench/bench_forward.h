/* SPDX-License-Identifier: Apache-2.0 */
/* What a backward pass takes from the forward pass, where a device does not compute it again. */
#ifndef WEFT_BENCH_FORWARD_H
#define WEFT_BENCH_FORWARD_H

#include "bench/state.h"

/* Gives a backward pass on a GPU the O and LSE of its inputs. */
weft_status weft_bench_forward(weft_bench *bench, const weft_plan *plan, weft_message *message);

/* The same in the host's memory, by a plan for the CPU: fills in O and LSE of the data, which point to what the caller
 * frees. Fails without a message. progress: null, or told how much of it is done. */
weft_status weft_bench_host_forward(const weft_attention *p, weft_attention_gradients *data, void *memory[2],
                                    weft_progress progress, void *user);

#endif
