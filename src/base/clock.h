/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds: of a clock that only goes forward, and to wait for. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <time.h>

static inline double weft_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double weft_now(void) {
    return weft_clock(CLOCK_MONOTONIC);
}

static inline void weft_pause(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
}

#endif
