/* What it costs to look up a tuning that this process knows: the median of some series. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/tune.h>

enum { SERIES = 51, CALLS = 1000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

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
        const double begin = now();
        for (int call = 0; call < CALLS; call++) {
            if (weft_tuned_find(&p, NULL, NULL, &tuned, NULL) != WEFT_OK) {
                fprintf(stderr, "bench_lookup: the tuning is not known\n");
                return 1;
            }
        }
        times[i] = (now() - begin) / CALLS;
    }
    qsort(times, SERIES, sizeof *times, compare);
    printf("a lookup of a known tuning takes %.0f ns\n", 1e9 * times[SERIES / 2]);
    return 0;
}
