/* SPDX-License-Identifier: Apache-2.0 */
/* The bench's clock, and how long plans take by it. Nothing else of the tuner measures time, so that a test can link a
 * script in place of this file. */
#include <math.h>

#include "base/clock.h"
#include "base/status.h"
#include "bench/bench.h"
#include "cpu/thread/team.h"

double weft_bench_now(void) {
    return weft_now();
}

static weft_status time_on_gpu(weft_bench *b, const weft_plan *plan, int64_t repeats, double *seconds,
                               weft_message *message) {
    weft_status status = weft_bench_cuda_begin(b, message);
    *seconds = 0;
    if (status) {
        return status;
    }
    for (int64_t i = 0; i < repeats && status == WEFT_OK; i++) {
        status = weft_bench_enqueue(b, plan, message);
    }
    const weft_status ended = weft_bench_cuda_end(b, status ? NULL : seconds, message);
    *seconds /= (double)repeats;
    return status ? status : ended;
}

/* Waits for a quiet moment, while there is patience. `attempt` runs were disturbed; the last took `wall` seconds. Returns 0
 * to give up. */
static int wait_for_quiet(weft_bench *b, int64_t attempt, double wall) {
    if (attempt <= b->options.retries) {
        return 1;
    }
    if (b->patience <= 0 || (b->waiting && b->waiting(b->waiting_user))) {
        return 0;
    }
    const double wait = 0.01;
    nanosleep(&(struct timespec){0, (long)(1e9 * wait)}, NULL);
    b->patience -= wait + wall;
    return 1;
}

/* On the CPU, a run during which other programs had one of the cores says nothing about the plan. It shows in processor
 * time: threads that wait for each other spin, so that a run that had its cores to itself used all of them, all of the
 * time. Others are repeated, and the shortest counts when none is undisturbed. */
weft_status weft_bench_time(weft_bench *b, const weft_plan *plan, int64_t repeats, double *seconds, weft_message *message) {
    if (repeats < 1) {
        return weft_fail(message, WEFT_INVALID, "repeats %lld is not at least 1", (long long)repeats);
    }
    if (b->driver) {
        return time_on_gpu(b, plan, repeats, seconds, message);
    }
    const int64_t threads = weft_cpu_threads(), workers = plan->walk.workers < threads ? plan->walk.workers : threads;
    weft_status status = WEFT_OK;
    *seconds = INFINITY;
    for (int64_t attempt = 1; status == WEFT_OK; attempt++) {
        const double used = weft_clock(CLOCK_PROCESS_CPUTIME_ID), begin = weft_bench_now();
        for (int64_t i = 0; i < repeats && status == WEFT_OK; i++) {
            status = weft_bench_run(b, plan, message);
        }
        const double wall = weft_bench_now() - begin;
        *seconds = fmin(*seconds, wall / (double)repeats);
        if (weft_clock(CLOCK_PROCESS_CPUTIME_ID) - used > 0.98 * (double)workers * wall) {
            break;
        }
        b->disturbed++;
        if (!wait_for_quiet(b, attempt, wall)) {
            break;
        }
    }
    return status;
}
