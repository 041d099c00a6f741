/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of plans on a bench. */
#include "bench/bench.h"

weft_status weft_bench_enqueue(weft_bench *b, const weft_plan *plan, weft_message *message) {
    return b->driver ? weft_plan_enqueue(plan, &b->data, b->stream, message)
                     : weft_plan_run_with_progress(plan, &b->data, b->options.progress, b->options.progress_user, message);
}

weft_status weft_bench_run(weft_bench *b, const weft_plan *plan, weft_message *message) {
    const weft_status status = weft_bench_enqueue(b, plan, message);
    return status || !b->driver ? status : weft_bench_cuda_wait(b, message);
}
