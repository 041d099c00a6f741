#include "sim/wheel.h"

#include <stdlib.h>
#include <string.h>

int weft_wheel_init(weft_wheel *wheel, uint32_t workers) {
    memset(wheel, 0, sizeof *wheel);
    wheel->workers = workers;
    wheel->sorted = calloc(2 * (size_t)workers, sizeof *wheel->sorted);
    wheel->time = calloc(workers, sizeof *wheel->time);
    wheel->next = calloc((size_t)WEFT_WHEEL_BUCKETS + workers, sizeof *wheel->next);
    wheel->late = calloc(workers, sizeof *wheel->late);
    for (uint32_t bucket = 0; bucket < WEFT_WHEEL_BUCKETS; bucket++) {
        wheel->last[bucket] = bucket;
    }
    return wheel->sorted && wheel->time && wheel->next && wheel->late;
}

void weft_wheel_release(weft_wheel *wheel) {
    free(wheel->sorted);
    free(wheel->time);
    free(wheel->next);
    free(wheel->late);
}

static inline void sort_in(weft_wheel *wheel, uint32_t worker, uint64_t tick) {
    const uint64_t event = tick % WEFT_WHEEL_TICKS << 32;
    uint64_t *place = wheel->sorted + wheel->count++;
    for (; place > wheel->sorted + wheel->position && place[-1] >= event + (UINT64_C(1) << 32); place--) {
        place[0] = place[-1];
    }
    *place = event | worker;
}

void weft_wheel_put_now(weft_wheel *wheel, uint32_t worker, uint64_t tick) {
    if (wheel->count == 2 * wheel->workers) { /* no more than `workers` of them are still to be taken */
        wheel->count -= wheel->position;
        memmove(wheel->sorted, wheel->sorted + wheel->position, wheel->count * sizeof *wheel->sorted);
        wheel->position = 0;
    }
    sort_in(wheel, worker, tick);
}

void weft_wheel_put_late(weft_wheel *wheel, uint32_t worker, uint64_t bucket) {
    wheel->late_first = wheel->late_count == 0 || bucket < wheel->late_first ? bucket : wheel->late_first;
    wheel->late[wheel->late_count++] = worker;
}

/* Puts those that are less than a round ahead now where they belong. */
static void recall_late(weft_wheel *wheel) {
    const uint32_t count = wheel->late_count;
    wheel->late_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        weft_wheel_put(wheel, wheel->late[i], wheel->time[wheel->late[i]]);
    }
}

/* How far ahead the next bucket that has an event is; WEFT_WHEEL_BUCKETS: there is none but late ones. */
static uint32_t next_used(const weft_wheel *wheel) {
    uint32_t ahead = 1;
    for (; ahead < WEFT_WHEEL_BUCKETS; ahead++) {
        const uint32_t b = (uint32_t)(wheel->bucket + ahead) % WEFT_WHEEL_BUCKETS;
        if (wheel->last[b] != b) {
            break;
        }
    }
    return ahead;
}

void weft_wheel_turn(weft_wheel *wheel) {
    const uint32_t ahead = next_used(wheel);
    wheel->bucket = ahead < WEFT_WHEEL_BUCKETS ? wheel->bucket + ahead : wheel->late_first;
    wheel->position = wheel->count = 0;
    if (wheel->late_count > 0 && wheel->late_first - wheel->bucket < WEFT_WHEEL_BUCKETS) {
        recall_late(wheel);
    }
    const uint32_t b = (uint32_t)wheel->bucket % WEFT_WHEEL_BUCKETS, last = wheel->last[b];
    wheel->last[b] = b;
    for (uint32_t number = b; number != last;) {
        number = wheel->next[number];
        const uint32_t worker = number - WEFT_WHEEL_BUCKETS;
        sort_in(wheel, worker, (uint64_t)(wheel->time[worker] * wheel->per_second));
    }
}
