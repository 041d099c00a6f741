/* SPDX-License-Identifier: Apache-2.0 */
/* The next event of every worker, in the order of time to within a tick: a timing wheel. Events of one tick come in the
 * order in which they were put there.
 *
 * A bucket of the wheel spans several ticks. Its events are sorted all at once when their time has come: what comes next
 * is then known far ahead, and a processor can begin with it before it is done with what went before. */
#ifndef WEFT_SIM_WHEEL_H
#define WEFT_SIM_WHEEL_H

#include <stdint.h>

enum { WEFT_WHEEL_BUCKETS = 64, WEFT_WHEEL_TICKS = 32 };

/* An event is a number: tick % WEFT_WHEEL_TICKS << 32 | worker. */
typedef struct weft_wheel {
    uint64_t *sorted;         /* (2 x workers) events of the bucket at hand */
    uint32_t position, count; /* of them: how many were taken, how many there are */
    uint32_t workers;
    uint32_t waiting_count;
    uint32_t *waiting; /* (workers) those whose events are in later buckets, but not there yet */
    uint64_t bucket;   /* the one at hand, rounds included */
    double end;        /* of it, in ticks */
    double per_second; /* ticks; as long as it is 0 all events are at time 0 */
    double *time;      /* (workers) of the event */
    uint64_t *events;  /* (buckets x workers) those of later buckets, in the order they came */
    uint32_t counts[WEFT_WHEEL_BUCKETS];
    uint32_t *late; /* (workers) those whose events are a round or more ahead, in the order they came */
    uint32_t late_count;
    uint64_t late_first; /* the bucket of the earliest of them */
} weft_wheel;

/* Returns 0 when memory ran out; release it in any case. */
int weft_wheel_init(weft_wheel *wheel, uint32_t workers);
void weft_wheel_release(weft_wheel *wheel);

/* 1: an event of that time is in the bucket at hand. */
static inline int weft_wheel_is_now(const weft_wheel *wheel, double time) {
    return time * wheel->per_second < wheel->end;
}

/* Puts an event into the bucket at hand, behind all that do not come later. */
void weft_wheel_put_now(weft_wheel *wheel, uint32_t worker);

/* Gives a worker that has no event one, not before the last that was taken.
 *
 * Events of later buckets wait until the one at hand is done: where they go depends on a time that was just computed, and
 * a processor that does not know yet where it stores may wait with its loads. */
static inline void weft_wheel_put(weft_wheel *wheel, uint32_t worker, double time) {
    wheel->time[worker] = time;
    if (weft_wheel_is_now(wheel, time)) {
        weft_wheel_put_now(wheel, worker);
    } else {
        wheel->waiting[wheel->waiting_count++] = worker;
    }
}

/* Goes on to the next bucket that has an event. */
void weft_wheel_turn(weft_wheel *wheel);

/* Takes out the worker whose event is next; there must be one. */
static inline uint32_t weft_wheel_take(weft_wheel *wheel) {
    if (wheel->position == wheel->count) {
        weft_wheel_turn(wheel);
    }
    return (uint32_t)wheel->sorted[wheel->position++];
}

#endif
