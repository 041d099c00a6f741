/* The next event of every worker, in the order of time to within a tick: a timing wheel. Events of one tick come in the
 * order in which they were put there.
 *
 * A bucket of the wheel spans several ticks. Its events are sorted all at once when their time has come: what comes next
 * is then known far ahead, and a processor can begin with it before it is done with what went before. */
#ifndef WEFT_SIM_WHEEL_H
#define WEFT_SIM_WHEEL_H

#include <stdint.h>

enum { WEFT_WHEEL_BUCKETS = 256, WEFT_WHEEL_TICKS = 16 };

/* A bucket is a list that begins with itself, so that an event is put into an empty one as into any other: bucket b is
 * number b of `next`, worker w is number WEFT_WHEEL_BUCKETS + w. */
typedef struct weft_wheel {
    uint64_t *sorted;         /* (2 x workers) events of the bucket at hand: tick % WEFT_WHEEL_TICKS << 32 | worker */
    uint32_t position, count; /* of them: how many were taken, how many there are */
    uint32_t workers;
    uint64_t bucket;   /* the one at hand, rounds included */
    double per_second; /* ticks; as long as it is 0 all events are at time 0 */
    double *time;      /* (workers) of the event */
    uint32_t *next;
    uint32_t last[WEFT_WHEEL_BUCKETS]; /* the bucket's own number: empty */
    uint32_t *late;                    /* (workers) those whose events are a round or more ahead, in the order they came */
    uint32_t late_count;
    uint64_t late_first; /* the bucket of the earliest of them */
} weft_wheel;

/* Returns 0 when memory ran out; release it in any case. */
int weft_wheel_init(weft_wheel *wheel, uint32_t workers);
void weft_wheel_release(weft_wheel *wheel);

void weft_wheel_put_late(weft_wheel *wheel, uint32_t worker, uint64_t bucket);

/* Puts an event into the bucket at hand, behind all that do not come later. */
void weft_wheel_put_now(weft_wheel *wheel, uint32_t worker, uint64_t tick);

/* Gives a worker that has no event one, not before the last that was taken. */
static inline void weft_wheel_put(weft_wheel *wheel, uint32_t worker, double time) {
    const uint64_t tick = (uint64_t)(time * wheel->per_second), bucket = tick / WEFT_WHEEL_TICKS;
    wheel->time[worker] = time;
    if (bucket == wheel->bucket) {
        weft_wheel_put_now(wheel, worker, tick);
        return;
    }
    if (bucket - wheel->bucket >= WEFT_WHEEL_BUCKETS) {
        weft_wheel_put_late(wheel, worker, bucket);
        return;
    }
    uint32_t *last = &wheel->last[bucket % WEFT_WHEEL_BUCKETS];
    wheel->next[*last] = WEFT_WHEEL_BUCKETS + worker;
    *last = WEFT_WHEEL_BUCKETS + worker;
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
