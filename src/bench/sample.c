/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/sample.h"

#include <math.h>

#include "base/clock.h"
#include "base/random.h"

/* What the reference may take where nobody says; and what it takes in part of a second, so that no clock is asked. */
static const double OPERATIONS = 4e9, SMALL = 5e7;

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* About the golden ratio of all: steps of it leave no gap for long. All lines are met as they have no common divisor. */
static int64_t choose_step(int64_t lines) {
    int64_t step = (int64_t)(0.6180339887 * (double)lines);
    while (step > 1 && divisor(step, lines) > 1) {
        step--;
    }
    return step > 1 ? step : 1;
}

static double most(const weft_check_options *o) {
    return o->operations > 0 ? o->operations : OPERATIONS;
}

double weft_sample_whole(const weft_check_options *o) {
    return o->seconds > 0 ? fmin(most(o), SMALL) : most(o);
}

weft_sample weft_sample_begin(const weft_check_options *o, int64_t items, double cost) {
    enum { MOST = 1 << 30 }; /* whose product with a step is no more than 2^60 */
    const double affordable = fmax(1.0, most(o) / cost);
    weft_sample s = {.items = items, .stride = 1, .step = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
    s.stride = affordable >= (double)items ? 1 : (int64_t)ceil((double)items / affordable);
    s.lines = items > 0 ? (items - 1) / s.stride + 1 : 0;
    s.seconds = (double)items * cost > SMALL ? o->seconds : 0;
    s.step = (s.stride > 1 || s.seconds > 0) && s.lines <= MOST ? choose_step(s.lines) : 1;
    s.seed = o->seed ? o->seed : 1;
    s.progress = o->progress;
    s.progress_user = o->progress_user;
    s.began = weft_now();
    return s;
}

int64_t weft_sample_take(weft_sample *s) {
    const int64_t taken = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
    const double passed = s->seconds > 0 && taken > 0 ? weft_now() - s->began : 0;
    if (taken >= s->lines || passed > s->seconds) {
        return -1;
    }
    if (s->progress) { /* how much of the items, or of the time where that ends before */
        const double part = s->seconds > 0 ? passed / s->seconds * (double)s->lines : 0;
        pthread_mutex_lock(&s->lock);
        s->progress(s->progress_user, part > (double)taken ? (int64_t)part : taken, s->lines);
        pthread_mutex_unlock(&s->lock);
    }
    const int64_t line = s->step > 1 ? taken * s->step % s->lines : taken;
    const int64_t first = line * s->stride, length = s->items - first < s->stride ? s->items - first : s->stride;
    uint64_t state = s->seed ^ (uint64_t)line * UINT64_C(0x9e3779b97f4a7c15);
    return first + (length > 1 ? (int64_t)(weft_random(&state) % (uint64_t)length) : 0);
}
