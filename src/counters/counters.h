/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware counters around work on a GPU, read inside the process through CUPTI's range profiler, which is loaded when it
 * is first asked for.
 *
 * Where CUPTI is missing or refuses, weft_counters_open() says why in one line and weft_counters_ncu() gives the command
 * that reads the same counters from outside. */
#ifndef WEFT_COUNTERS_COUNTERS_H
#define WEFT_COUNTERS_COUNTERS_H

#include <weft/study.h>

/* Which counters, and of what. */
typedef struct weft_counters_request {
    void *context;              /* a CUcontext, current in the calling thread */
    int32_t device;             /* its CUdevice */
    const weft_counter *wanted; /* null: all of counters.def */
    size_t count;               /* of wanted, each at most once */
    const char *library;        /* CUPTI's path; null: see weft_cupti_load() */
} weft_counters_request;

/* What is measured. The counters of a chip do not fit one pass, so both are called several times and `launch` must do the
 * same each time; each has finished on the GPU when it returns. What `prepare` does (emptying a cache, say) is not
 * counted; null where there is nothing to prepare. A status other than WEFT_OK ends the measurement. */
typedef struct weft_counters_work {
    weft_status (*prepare)(void *user, weft_message *message);
    weft_status (*launch)(void *user, weft_message *message);
    void *user;
} weft_counters_work;

/* A set of counters, ready to measure with. One context has one at a time, used by one thread at a time. */
typedef struct weft_counters weft_counters;

/* Opens a session. On failure *session is null, and the status is
 *   WEFT_NOT_FOUND    there is no CUPTI
 *   WEFT_UNSUPPORTED  CUPTI is too old, the chip or its driver refuses, or none of the counters exists on the chip */
weft_status weft_counters_open(weft_counters **session, const weft_counters_request *request, weft_message *message);

/* How often a measurement launches the work. */
size_t weft_counters_passes(const weft_counters *session);

/* Measures. `values` gets one for each wanted counter, in their order, in the units of counters.def; NaN for a counter that
 * the chip does not have. */
weft_status weft_counters_measure(weft_counters *session, const weft_counters_work *work, double *values,
                                  weft_message *message);

/* Ends a session; null is fine. */
void weft_counters_close(weft_counters *session);

#endif
