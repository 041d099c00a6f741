/* The tuner's clock, and how long plans take by it. Nothing else of the tuner measures time, so that a test can link a
 * script in place of this file. */
#include <math.h>
#include <time.h>

#include "bench/bench.h"
#include "cpu/thread/team.h"

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double weft_bench_now(void) {
    return seconds_of(CLOCK_MONOTONIC);
}

static double processor_time(void) {
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* On the CPU, a run during which other programs had one of the cores says nothing about the plan. It shows in processor
 * time: threads that wait for each other spin, so that a run that had its cores to itself used all of them, all of the
 * time. Others are done again, a few times and, with patience, after waiting; the shortest counts where none is
 * undisturbed. */
weft_status weft_bench_time(weft_bench *b, const weft_plan *plan, int64_t repeats, double *seconds, weft_message *message) {
    enum { TRIES = 5 };
    if (b->driver) {
        return weft_bench_cuda_time(b, plan, repeats, seconds, message);
    }
    const int64_t threads = weft_cpu_threads(), workers = plan->walk.workers < threads ? plan->walk.workers : threads;
    weft_status status = WEFT_OK;
    *seconds = INFINITY;
    for (int attempt = 0; status == WEFT_OK; attempt++) {
        const double used = processor_time(), begin = weft_bench_now();
        for (int64_t i = 0; i < repeats && status == WEFT_OK; i++) {
            status = weft_bench_run(b, plan, message);
        }
        const double wall = weft_bench_now() - begin;
        *seconds = fmin(*seconds, wall / (double)repeats);
        if (processor_time() - used > 0.98 * (double)workers * wall) {
            break;
        }
        b->disturbed++;
        if (attempt + 1 >= TRIES && (b->patience <= 0 || (b->waiting && b->waiting(b->waiting_user)))) {
            break;
        }
        if (attempt + 1 >= TRIES) {
            const double wait = 0.01;
            nanosleep(&(struct timespec){0, (long)(1e9 * wait)}, NULL);
            b->patience -= wait + wall;
        }
    }
    return status;
}
