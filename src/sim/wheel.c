/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/wheel.h"

#include <stdlib.h>
#include <string.h>

int weft_wheel_init(weft_wheel *wheel, uint32_t workers) {
    memset(wheel, 0, sizeof *wheel);
    wheel->workers = workers;
    wheel->end = WEFT_WHEEL_TICKS;
    wheel->sorted = calloc(2 * (size_t)workers, sizeof *wheel->sorted);
    wheel->time = calloc(workers, sizeof *wheel->time);
    wheel->events = calloc((size_t)workers * WEFT_WHEEL_BUCKETS, sizeof *wheel->events);
    wheel->late = calloc(workers, sizeof *wheel->late);
    wheel->waiting = calloc(workers, sizeof *wheel->waiting);
    return wheel->sorted && wheel->time && wheel->events && wheel->late && wheel->waiting;
}

void weft_wheel_release(weft_wheel *wheel) {
    free(wheel->sorted);
    free(wheel->time);
    free(wheel->events);
    free(wheel->late);
    free(wheel->waiting);
}

static inline void sort_in(weft_wheel *wheel, uint64_t event) {
    uint64_t *place = wheel->sorted + wheel->count++;
    for (; place > wheel->sorted + wheel->position && place[-1] > (event | UINT32_MAX); place--) {
        place[0] = place[-1];
    }
    *place = event;
}

static uint64_t tick_of(const weft_wheel *wheel, uint32_t worker) {
    return (uint64_t)(wheel->time[worker] * wheel->per_second);
}

void weft_wheel_put_now(weft_wheel *wheel, uint32_t worker) {
    if (wheel->count == 2 * wheel->workers) { /* no more than `workers` of them are still to be taken */
        wheel->count -= wheel->position;
        memmove(wheel->sorted, wheel->sorted + wheel->position, wheel->count * sizeof *wheel->sorted);
        wheel->position = 0;
    }
    sort_in(wheel, tick_of(wheel, worker) % WEFT_WHEEL_TICKS << 32 | worker);
}

/* Puts events where they belong, late ones aside. */
static void put_all(weft_wheel *wheel, const uint32_t *workers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t worker = workers[i];
        const uint64_t tick = tick_of(wheel, worker), bucket = tick / WEFT_WHEEL_TICKS;
        if (bucket - wheel->bucket < WEFT_WHEEL_BUCKETS) {
            const size_t b = bucket % WEFT_WHEEL_BUCKETS;
            wheel->events[b * wheel->workers + wheel->counts[b]++] = tick % WEFT_WHEEL_TICKS << 32 | worker;
        } else {
            wheel->late_first = wheel->late_count == 0 || bucket < wheel->late_first ? bucket : wheel->late_first;
            wheel->late[wheel->late_count++] = worker;
        }
    }
}

/* How far ahead the next bucket that has an event is; WEFT_WHEEL_BUCKETS: there is none but late ones. */
static uint32_t next_used(const weft_wheel *wheel) {
    uint32_t ahead = 1;
    for (; ahead < WEFT_WHEEL_BUCKETS; ahead++) {
        if (wheel->counts[(wheel->bucket + ahead) % WEFT_WHEEL_BUCKETS] > 0) {
            break;
        }
    }
    return ahead;
}

void weft_wheel_turn(weft_wheel *wheel) {
    put_all(wheel, wheel->waiting, wheel->waiting_count);
    wheel->waiting_count = 0;
    const uint32_t ahead = next_used(wheel);
    wheel->bucket = ahead < WEFT_WHEEL_BUCKETS ? wheel->bucket + ahead : wheel->late_first;
    wheel->end = (double)(wheel->bucket + 1) * WEFT_WHEEL_TICKS;
    wheel->position = wheel->count = 0;
    if (wheel->late_count > 0 && wheel->late_first - wheel->bucket < WEFT_WHEEL_BUCKETS) {
        const uint32_t late = wheel->late_count;
        wheel->late_count = 0;
        put_all(wheel, wheel->late, late);
    }
    const uint32_t b = (uint32_t)wheel->bucket % WEFT_WHEEL_BUCKETS;
    const uint64_t *events = wheel->events + (size_t)b * wheel->workers;
    for (uint32_t i = 0; i < wheel->counts[b]; i++) {
        sort_in(wheel, events[i]);
    }
    wheel->counts[b] = 0;
}
