/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of one process: a message is copied when both its send and its receive have begun. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/dist.h"

/* A send or a receive that has begun. Small sends are copied, so that they have ended. */
typedef struct letter {
    struct letter *next;
    const void *from;
    void *to;
    size_t bytes;
    int32_t sender, receiver, tag;
    int is_receive, owned; /* owned: nobody asks after it */
    int busy, done;        /* is being copied, without the lock; has been */
    int wrong;             /* the two had unlike sizes */
    char small[64];
} letter;

typedef struct seat {
    weft_threads *threads;
    int32_t rank;
} seat;

struct weft_threads {
    pthread_mutex_t lock;
    int32_t size;
    seat *seats;
    letter **waiting; /* for each receiver: what has begun and has no counterpart, in its order */
};

weft_status weft_threads_create(weft_threads **threads, int32_t size, weft_message *message) {
    if (!threads || size < 1 || size > 4096) {
        return weft_fail(message, WEFT_INVALID, threads ? "size %d is not between 1 and 4096" : "threads is null",
                         (int)size);
    }
    *threads = NULL;
    weft_threads *t = calloc(1, sizeof *t);
    if (t) {
        t->size = size;
        t->seats = calloc((size_t)size, sizeof *t->seats);
        t->waiting = calloc((size_t)size, sizeof(letter *));
    }
    if (!t || !t->seats || !t->waiting || pthread_mutex_init(&t->lock, NULL) != 0) {
        if (t) {
            free(t->seats);
            free(t->waiting);
        }
        free(t);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %d ranks", (int)size);
    }
    for (int32_t i = 0; i < size; i++) {
        t->seats[i] = (seat){t, i};
    }
    *threads = t;
    return WEFT_OK;
}

void weft_threads_destroy(weft_threads *threads) {
    if (!threads) {
        return;
    }
    for (int32_t i = 0; i < threads->size; i++) {
        for (letter *at = threads->waiting[i]; at;) {
            letter *next = at->next;
            free(at);
            at = next;
        }
    }
    pthread_mutex_destroy(&threads->lock);
    free(threads->seats);
    free(threads->waiting);
    free(threads);
}

/* Takes the first counterpart of a letter out of what waits; null when there is none. */
static letter *take_counterpart(weft_threads *t, const letter *of) {
    for (letter **at = &t->waiting[of->receiver]; *at; at = &(*at)->next) {
        letter *other = *at;
        if (other->is_receive != of->is_receive && other->sender == of->sender && other->tag == of->tag) {
            *at = other->next;
            return other;
        }
    }
    return NULL;
}

static void put_last(letter **list, letter *l) {
    while (*list) {
        list = &(*list)->next;
    }
    l->next = NULL;
    *list = l;
}

/* Copies a message. Takes the lock away while it does: others go on. */
static void deliver(weft_threads *t, letter *send, letter *receive) {
    send->wrong = receive->wrong = send->bytes != receive->bytes;
    send->busy = receive->busy = 1;
    pthread_mutex_unlock(&t->lock);
    if (!send->wrong) {
        memcpy(receive->to, send->from, send->bytes);
    }
    pthread_mutex_lock(&t->lock);
    send->busy = receive->busy = 0;
    send->done = receive->done = 1;
    if (send->owned) {
        free(send);
    }
}

static weft_status begin(const seat *s, letter fresh, void **request, weft_message *message) {
    weft_threads *t = s->threads;
    *request = NULL;
    const int32_t peer = fresh.is_receive ? fresh.sender : fresh.receiver;
    if (peer < 0 || peer >= t->size) {
        return weft_fail(message, WEFT_INVALID, "rank %d is not one of %d", (int)peer, (int)t->size);
    }
    if (fresh.bytes == 0) {
        return WEFT_OK;
    }
    letter *l = malloc(sizeof *l);
    if (!l) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a message");
    }
    *l = fresh;
    if (!l->is_receive && l->bytes <= sizeof l->small) {
        memcpy(l->small, l->from, l->bytes);
        l->from = l->small;
        l->owned = 1;
    }
    const int is_owned = l->owned;
    pthread_mutex_lock(&t->lock);
    letter *other = take_counterpart(t, l);
    if (!other) {
        put_last(&t->waiting[l->receiver], l);
    } else {
        deliver(t, l->is_receive ? other : l, l->is_receive ? l : other);
    }
    pthread_mutex_unlock(&t->lock);
    *request = is_owned ? NULL : l;
    return WEFT_OK;
}

static weft_status send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                        weft_message *message) {
    const seat *s = self;
    return begin(s, (letter){.from = buffer, .bytes = bytes, .sender = s->rank, .receiver = to, .tag = tag}, request,
                 message);
}

static weft_status receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *message) {
    const seat *s = self;
    const letter fresh = {.to = buffer, .bytes = bytes, .sender = from, .receiver = s->rank, .tag = tag, .is_receive = 1};
    return begin(s, fresh, request, message);
}

static weft_status test(void *self, void *request, int32_t *done, weft_message *message) {
    const seat *s = self;
    letter *l = request;
    pthread_mutex_lock(&s->threads->lock);
    *done = l->done;
    pthread_mutex_unlock(&s->threads->lock);
    if (!*done) {
        return WEFT_OK;
    }
    const int wrong = l->wrong;
    const letter copy = *l;
    free(l);
    return wrong ? weft_fail(message, WEFT_FAILED, "a message from rank %d to rank %d is not as long as was expected",
                             (int)copy.sender, (int)copy.receiver)
                 : WEFT_OK;
}

static int32_t cancel(void *self, void *request) {
    const seat *s = self;
    letter *l = request;
    pthread_mutex_lock(&s->threads->lock);
    while (l->busy) {
        pthread_mutex_unlock(&s->threads->lock);
        sched_yield();
        pthread_mutex_lock(&s->threads->lock);
    }
    for (letter **at = &s->threads->waiting[l->receiver]; *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    pthread_mutex_unlock(&s->threads->lock);
    free(l);
    return 1;
}

weft_status weft_threads_transport(weft_threads *threads, int32_t rank, weft_transport *transport, weft_message *message) {
    if (!threads || rank < 0 || rank >= threads->size) {
        return weft_fail(message, WEFT_INVALID, threads ? "rank %d is not one of these" : "threads is null", (int)rank);
    }
    const weft_transport ours = {.struct_size = sizeof ours,
                                 .self = &threads->seats[rank],
                                 .rank = rank,
                                 .size = threads->size,
                                 .send = send,
                                 .receive = receive,
                                 .test = test,
                                 .cancel = cancel};
    return weft_struct_give(transport, &ours, sizeof ours, sizeof(size_t), "WEFT_TRANSPORT_INIT", message);
}
