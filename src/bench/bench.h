/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a bench do for each other. */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include "bench/state.h"

extern const weft_bench_memory weft_bench_memory_host, weft_bench_memory_cuda;

/* Draws the first of a buffer's random normal numbers, which are the same for any number of threads: all of them, or as
 * many as are repeated from there on. Slopes are small and positive, and lengths divide the problem's rows evenly. Returns
 * how many; *numbers, which the caller frees, is null when memory ran out. */
size_t weft_bench_draw(const weft_problem *problem, const weft_buffer *buffer, uint64_t seed, void **numbers);

/* Fills a buffer as it is before the first run. */
weft_status weft_bench_fill(const weft_bench *bench, const weft_bench_memory *memory, size_t number, void *to,
                            weft_message *message);

/* Puts a run on the bench's stream; on the CPU it is done when this returns. */
weft_status weft_bench_enqueue(weft_bench *bench, const weft_plan *plan, weft_message *message);

/* check.c: the relative error of rounding a result once, at most. */
double weft_bench_rounding(weft_dtype dtype);

/* bench_time.c: seconds of a clock that only goes forward. */
double weft_bench_now(void);

/* bench_cuda.c: the stream and events of a plan's GPU, and waiting for the stream. Runs that are enqueued between `begin`,
 * if that succeeds, and `end` are timed, the context being current; `end` with null times nothing. */
weft_status weft_bench_cuda_open(weft_bench *bench, const weft_plan *plan, weft_message *message);
weft_status weft_bench_cuda_begin(weft_bench *bench, weft_message *message);
weft_status weft_bench_cuda_end(weft_bench *bench, double *seconds, weft_message *message);
weft_status weft_bench_cuda_wait(const weft_bench *bench, weft_message *message);
void weft_bench_cuda_close(weft_bench *bench);

#endif
