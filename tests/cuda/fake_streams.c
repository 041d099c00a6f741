/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_streams.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

typedef struct item {
    struct item *next;
    fake_work work;
    _Alignas(64) char self[];
} item;

typedef struct stream {
    struct stream *next;
    item *first;
} stream;

struct fake_event {
    int64_t recorded, done; /* records that were put on streams, and the last of them that is done */
    double at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stream *streams;
static uint64_t chance = 88172645463325252u;

static int is_lazy(const void *of) {
    return of && fake_script("lazy", 0);
}

/* Does one piece of work of some stream. */
static void pump(void) {
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (const stream *s = streams; s; s = s->next) {
        count++;
    }
    chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    size_t skip = count ? chance % count : 0, looked = 0;
    for (stream *s = streams; s && looked < 2 * count; s = s->next ? s->next : streams, looked++) {
        item *i = looked >= skip ? s->first : NULL;
        if (i && i->work(i->self)) {
            s->first = i->next;
            free(i);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

void *fake_stream_new(void) {
    stream *s = calloc(1, sizeof *s);
    pthread_mutex_lock(&lock);
    if (s) {
        s->next = streams;
        streams = s;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

void fake_stream_free(void *of) {
    fake_stream_wait(of);
    pthread_mutex_lock(&lock);
    for (stream **at = &streams; *at; at = &(*at)->next) {
        if (*at == of) {
            *at = (*at)->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    free(of);
}

__attribute__((visibility("default"))) void fake_stream_add(void *of, fake_work work, const void *self, size_t bytes) {
    item *i = aligned_alloc(64, (sizeof *i + bytes + 63) / 64 * 64);
    if (!i) {
        abort();
    }
    i->next = NULL;
    i->work = work;
    memcpy(i->self, self, bytes);
    if (!is_lazy(of)) {
        int done = 0;
        while (!done) {
            pthread_mutex_lock(&lock);
            done = work(i->self);
            pthread_mutex_unlock(&lock);
            sched_yield();
        }
        free(i);
        return;
    }
    pthread_mutex_lock(&lock);
    item **at = &((stream *)of)->first;
    while (*at) {
        at = &(*at)->next;
    }
    *at = i;
    pthread_mutex_unlock(&lock);
}

int fake_stream_done(void *of) {
    if (!is_lazy(of)) {
        return 1;
    }
    pump();
    pthread_mutex_lock(&lock);
    const int done = !((stream *)of)->first;
    pthread_mutex_unlock(&lock);
    return done;
}

void fake_stream_wait(void *of) {
    while (!fake_stream_done(of)) {
        sched_yield();
    }
}

fake_event *fake_event_new(void) {
    return calloc(1, sizeof(fake_event));
}

void fake_event_free(fake_event *event) {
    free(event);
}

typedef struct mark {
    fake_event *event;
    int64_t number;
} mark;

static int record(void *self) {
    static double now;
    const mark *m = self;
    m->event->done = m->number;
    m->event->at = now++;
    return 1;
}

static int await(void *self) {
    const mark *m = self;
    return m->event->done >= m->number;
}

void fake_event_record(fake_event *event, void *of) {
    pthread_mutex_lock(&lock);
    const mark m = {event, ++event->recorded};
    pthread_mutex_unlock(&lock);
    fake_stream_add(of, record, &m, sizeof m);
}

void fake_event_await(const fake_event *event, void *of) {
    pthread_mutex_lock(&lock);
    const mark m = {(fake_event *)(uintptr_t)event, event->recorded};
    pthread_mutex_unlock(&lock);
    fake_stream_add(of, await, &m, sizeof m);
}

int fake_event_done(fake_event *event) {
    pump();
    pthread_mutex_lock(&lock);
    const int done = event->done >= event->recorded;
    pthread_mutex_unlock(&lock);
    return done;
}

double fake_event_at(const fake_event *event) {
    return event->at;
}
