/* SPDX-License-Identifier: Apache-2.0 */
/* Plain steps: most of all that is simulated. */
#include "sim/spread.h"
#include "sim/worker.h"

/* 1: the step at hand is plain. */
static inline int is_plain(const weft_sim_worker *w) {
    return (uint64_t)(w->done - 1) < (uint64_t)w->plain;
}

static inline uint32_t piece_of(const weft_sim_worker *w) {
    return w->piece + (uint32_t)w->done * (uint32_t)w->direction;
}

static inline double seconds_of(const weft_sim_worker *w, uint64_t *random) {
    return w->spread > 0 ? w->seconds * weft_spread_of_step(random, w->spread) : w->seconds;
}

/* Takes steps whose pieces are near the head of their L2's list, and which end in a later bucket. Without calls, and with
 * all that does not change in registers. `ahead` is a constant: steps are requested ahead. */
static inline __attribute__((always_inline)) void take_hits(weft_sim_engine *e, int ahead) {
    weft_wheel *const wheel = &e->wheel;
    const weft_memory *const memory = e->memory;
    weft_sim_worker *const workers = e->workers;
    double *const time = wheel->time;
    const double early = e->early, rest = 1.0 - e->early;
    const double per_second = wheel->per_second, bucket_end = wheel->end;
    const int32_t stages = (int32_t)e->stages;
    const uint64_t *const events = wheel->sorted + wheel->position;
    uint32_t *const waiting = wheel->waiting + wheel->waiting_count;
    const uint32_t count = wheel->count - wheel->position;
    uint64_t random = e->random;
    uint32_t taken = 0;
    for (; taken < count; taken++) {
        const uint32_t number = (uint32_t)events[taken];
        weft_sim_worker *const w = &workers[number];
        if (!is_plain(w)) {
            break;
        }
        weft_memory_domain *const d = w->at;
        const uint32_t slot = weft_cache_find(&d->l2, piece_of(w));
        if (!weft_cache_is_near(&d->l2, slot)) {
            break;
        }
        uint64_t drawn = random;
        const double now = time[number], seconds = seconds_of(w, &drawn);
        const double ready = weft_memory_hit_ready(memory, &d->l2.slots[slot], now);
        const int32_t stage = w->stage, next = stage + 1 == stages ? 0 : stage + 1;
        const double end = ahead ? weft_later(next == stage ? ready : w->ready[next], now + seconds)
                                 : weft_later(ready, now + early * seconds) + rest * seconds;
        if (end * per_second < bucket_end) {
            break;
        }
        weft_memory_hit(d, slot, w->weight, now, ready);
        if (ahead) {
            w->ready[stage] = ready;
            w->stage = next;
        }
        w->done++;
        time[number] = end;
        waiting[taken] = number;
        random = drawn;
    }
    e->random = random;
    e->outcome->steps += taken;
    wheel->waiting_count += taken;
    wheel->position += taken;
}

/* Takes any plain step. Returns 0 if none is next; sets whether its piece was in its L2. */
static int take_any(weft_sim_engine *e, int *hit) {
    weft_wheel *const wheel = &e->wheel;
    if (wheel->position == wheel->count) {
        return 0;
    }
    const uint32_t number = (uint32_t)wheel->sorted[wheel->position];
    weft_sim_worker *const w = &e->workers[number];
    if (!is_plain(w)) {
        return 0;
    }
    wheel->position++;
    const uint32_t piece = piece_of(w);
    const double now = wheel->time[number], seconds = seconds_of(w, &e->random);
    *hit = weft_cache_find(&w->at->l2, piece) != 0;
    const double ready = weft_memory_read(e->memory, w->domain, piece, w->weight, now);
    e->outcome->steps++;
    w->done++;
    weft_wheel_put(wheel, number, weft_sim_end_of_step(e, w, now, ready, seconds, 0, 0));
    return 1;
}

void weft_sim_run_plain(weft_sim_engine *e) {
    const int simple = e->memory->plain && !e->memory->reuse;
    int hit = simple; /* where one misses, the next will, too */
    do {
        if (hit && simple) {
            if (e->stages > 0) {
                take_hits(e, 1);
            } else {
                take_hits(e, 0);
            }
        }
    } while (take_any(e, &hit));
}
