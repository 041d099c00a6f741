/* What a backward pass takes from the forward pass, where a device does not compute it again. */
#ifndef WEFT_BENCH_FORWARD_H
#define WEFT_BENCH_FORWARD_H

#include "bench/state.h"

/* Gives a backward pass on a GPU the O and LSE of its inputs. */
weft_status weft_bench_forward(weft_bench *bench, const weft_plan *plan, weft_message *message);

#endif
