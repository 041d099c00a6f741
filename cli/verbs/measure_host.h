/* Schedules of one problem, run on this host: interleaved, timed, checked. */
#ifndef WEFT_CLI_MEASURE_HOST_H
#define WEFT_CLI_MEASURE_HOST_H

#include <jansson.h>

#include "options/options.h"
#include "verbs/candidates.h"

/* Seconds of a clock that only goes forward. */
double now(void);

/* The median of `count` times, which it sorts. */
double median(double *times, size_t count);

/* Runs every schedule `repeats` times, A B A B ..., and checks each result against the reference. Fills *result with
 * {"title", "problem", "kernel", "threads", "repeats", "schedules": [{"schedule", "seconds": median, "least", "most",
 * "tflops", "max_error", "bound", "passed"}]}, a new object. Returns an exit code, with the message printed. */
int measure_schedules(const settings *list, size_t count, weft_subject subject, int repeats, json_t **result);

/* The same for the candidates of a comparison: fills in what was measured. */
int measure_on_host(const settings *s, candidate *list, size_t count, weft_subject subject);

#endif
