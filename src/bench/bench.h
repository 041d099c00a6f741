/* Timing plans of one problem: one set of inputs in the device's memory, shared by all of them. */
#ifndef WEFT_TUNE_BENCH_H
#define WEFT_TUNE_BENCH_H

#include "plan/plan.h"

typedef struct weft_bench {
    weft_data data;                   /* of the plans' operation: buffers in the host's memory, or the GPU's */
    weft_buffer buffers[WEFT_BUFFERS]; /* what they are */
    size_t count;
    const void *driver; /* of a GPU: a weft_cuda_driver; null for the CPU */
    void *context, *stream, *start, *end;
    int mode;                   /* of captures, for weft_cuda_restore() */
    int (*waiting)(void *user); /* asked while waiting for a quiet moment: anything but 0 ends that; or null */
    void *waiting_user;
    double
        settle; /* seconds that a plan runs alone until a GPU's clock is what its power allows; 0: clocks do not follow */
    double patience;   /* seconds left to wait for moments without other programs */
    int64_t disturbed; /* runs that did not count */
} weft_bench;

/* Makes inputs, random normal, where `plan` runs. weft_bench_close() takes it in any state, zeroed at first. */
weft_status weft_bench_open(weft_bench *bench, const weft_plan *plan, weft_message *message);
void weft_bench_close(weft_bench *bench);

/* bench_time.c: runs a plan `repeats` times and says how long one took. */
weft_status weft_bench_time(weft_bench *bench, const weft_plan *plan, int64_t repeats, double *seconds,
                            weft_message *message);

/* bench_time.c: seconds of a clock that only goes forward. */
double weft_bench_now(void);

/* The same on a GPU: memory that holds `bytes` of `host`, and runs between events. */
weft_status weft_bench_cuda_open(weft_bench *bench, const weft_plan *plan, weft_message *message);
weft_status weft_bench_cuda_copy(const weft_bench *bench, void **to, const void *host, size_t bytes, weft_message *message);
weft_status weft_bench_cuda_time(const weft_bench *bench, const weft_plan *plan, int64_t repeats, double *seconds,
                                 weft_message *message);
void weft_bench_cuda_close(weft_bench *bench);

/* Runs a plan once, on the bench's stream or in this thread. */
weft_status weft_bench_run(const weft_bench *bench, const weft_plan *plan, weft_message *message);

/* The place in the data that holds a buffer's address. */
void **weft_bench_at(weft_bench *bench, size_t buffer);

#endif
