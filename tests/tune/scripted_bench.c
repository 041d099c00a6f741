/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted_bench.h"

static script current;
static double now = 100;

void scripted_bench(script seconds) {
    current = seconds;
}

double weft_bench_now(void) {
    return now;
}

/* Runs the plan once, so that one that cannot run is found out. */
weft_status weft_bench_time(weft_bench *bench, const weft_plan *plan, int64_t repeats, double *seconds,
                            weft_message *message) {
    *seconds = current ? current(plan, repeats) : 1e-3;
    now += *seconds * (double)repeats;
    return weft_bench_run(bench, plan, message);
}
