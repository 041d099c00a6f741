/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Timing plans: random inputs where the plans run, and the time of runs by the device's own clock.
 *
 * A bench serves plans of one problem on one device, and one thread at a time. Clocks move with heat, so times are
 * comparable only when they were taken in turns, A B A B ...: weft_bench_times() does that.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "check.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The buffers of a problem, in the host's memory or a GPU's. */
typedef struct weft_bench weft_bench;

/** How to time. A zero means the default. */
typedef struct weft_bench_options {
    size_t struct_size;     /**< set by WEFT_BENCH_INIT */
    uint64_t seed;          /**< of the inputs, which are the same for any number of threads; 0: 1 */
    int64_t retries;        /**< on the CPU: repeat a run this often at most while other programs had the cores */
    int32_t required_only;  /**< 1: optional outputs are left out, too */
    int32_t check_once;     /**< 1: only the first check asks the reference; later results are held to the first one */
    weft_progress progress; /**< null, or told how far opening, a run, a check, a count or a measurement of energy is; a
                               GPU's runs do not say */
    void *progress_user;    /**< its first argument */
    double
        check_operations; /**< how much of a result is compared: operations and seconds of weft_check_options, with the */
    double check_seconds; /**< seed of the inputs */
} weft_bench_options;

#define WEFT_BENCH_INIT                                                                                                    \
    { sizeof(weft_bench_options), 0, 0, 0, 0, NULL, NULL, 0.0, 0.0 }

/** Makes the buffers of a plan's problem where it runs: inputs random normal, outputs NaN, optional inputs left out.
 *
 * WEFT_UNSUPPORTED when the host has less memory than that, WEFT_NO_MEMORY when there is none left. On failure *bench is
 * null. On a GPU the plan must outlive the bench. */
WEFT_API weft_status weft_bench_open(weft_bench **bench, const weft_plan *plan, const weft_bench_options *options,
                                     weft_message *message);

/** Releases it; null is fine. */
WEFT_API void weft_bench_close(weft_bench *bench);

/** Makes what a run writes NaN again; what it also reads becomes what it was at first. */
WEFT_API weft_status weft_bench_reset(weft_bench *bench, weft_message *message);

/** Runs a plan of the same problem and device once, and returns when it is done. */
WEFT_API weft_status weft_bench_run(weft_bench *bench, const weft_plan *plan, weft_message *message);

/** Runs it `repeats` times, at least once, and says how long one run took: on a GPU between two events, on the CPU by the
 * clock. */
WEFT_API weft_status weft_bench_time(weft_bench *bench, const weft_plan *plan, int64_t repeats, double *seconds,
                                     weft_message *message);

/** Times `count` plans in turns, each once in a round. times is (count, rounds), in seconds. */
WEFT_API weft_status weft_bench_times(weft_bench *bench, const weft_plan *const *plans, size_t count, size_t rounds,
                                      double *times, weft_message *message);

/** The struct of the problem's data in the host's memory, as the last run left it. It belongs to the bench, and what it
 * points to changes with the next run or call. */
WEFT_API weft_status weft_bench_data(weft_bench *bench, const void **data, weft_message *message);

/** Compares what the last run left with the reference: see weft_check_result(). Where a run reads what it writes, it must
 * have been the first since weft_bench_reset() or weft_bench_open(). */
WEFT_API weft_status weft_bench_check(weft_bench *bench, weft_check *check, weft_message *message);

/** The median of some times; 0 of none. Sorts them. */
WEFT_API double weft_median(double *times, size_t count);

#ifdef __cplusplus
}
#endif

#endif
