/* SPDX-License-Identifier: Apache-2.0 */
/* Times in turns, and what they say together. */
#include "base/statistics.h"
#include "bench/bench.h"

weft_status weft_bench_times(weft_bench *b, const weft_plan *const *plans, size_t count, size_t rounds, double *times,
                             weft_message *message) {
    weft_status status = WEFT_OK;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            status = weft_bench_time(b, plans[i], 1, &times[i * rounds + round], message);
        }
    }
    return status;
}

double weft_median(double *times, size_t count) {
    weft_sort(times, count);
    return count > 0 ? weft_quantile(times, count, 0.5) : 0;
}
