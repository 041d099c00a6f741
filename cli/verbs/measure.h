/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of one problem, run in turns, timed and checked. */
#ifndef WEFT_CLI_MEASURE_H
#define WEFT_CLI_MEASURE_H

#include <jansson.h>

#include <weft/bench.h>

#include "options/options.h"

/* Runs plans of one problem and device in turns; times is (count, rounds). The first run of each warms up and is checked.
 * Returns an exit code, with the message printed. */
int measure_plans(weft_plan *const *plans, size_t count, size_t rounds, uint64_t seed, double *times, weft_check *checks);

/* Runs every schedule on this host `repeats` times, A B A B ..., and checks each result against the reference. Fills
 * *result with {"title", "problem", "kernel", "threads", "repeats", "schedules": [{"schedule", "seconds": median, "least",
 * "most", "tflops", "max_error", "bound", "passed"}]}, a new object. Returns an exit code, with the message printed. */
int measure_schedules(const settings *list, size_t count, int repeats, json_t **result);

#endif
