/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to look up a tuning that this process knows: the median of some series. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/bench.h>
#include <weft/tune.h>

#include "base/clock.h"

enum { SERIES = 51, CALLS = 1000 };

int main(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_tune_options o = WEFT_TUNE_INIT;
    weft_tuned tuned = WEFT_TUNED_INIT;
    double times[SERIES];
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 64;
    p.head_dim = 16;
    o.seconds = 0.1;
    setenv("WEFT_TUNING_DB", "/none/such/tuning.db", 1); /* nothing is written: what was tuned is known in memory */
    (void)weft_tune(&p, NULL, NULL, &o, &tuned, NULL, NULL);
    for (int i = 0; i < SERIES; i++) {
        const double begin = weft_now();
        for (int call = 0; call < CALLS; call++) {
            if (weft_tuned_find(&p, NULL, NULL, &tuned, NULL) != WEFT_OK) {
                fprintf(stderr, "bench_lookup: the tuning is not known\n");
                return 1;
            }
        }
        times[i] = (weft_now() - begin) / CALLS;
    }
    printf("a lookup of a known tuning takes %.0f ns\n", 1e9 * weft_median(times, SERIES));
    return 0;
}
