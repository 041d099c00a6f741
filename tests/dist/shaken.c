/* SPDX-License-Identifier: Apache-2.0 */
#include "shaken.h"

#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "base/status.h"

/* HELD: the inner transport does not know of it. BEGUN: it does. ENDED: it has ended there. */
typedef enum shaken_state { HELD, BEGUN, ENDED } shaken_state;

struct shaken_message {
    shaken_message *next;
    void *to; /* the caller's buffer; null: a send */
    const void *from;
    char *copy; /* what the inner transport reads or writes */
    size_t bytes;
    int32_t peer, tag;
    int is_eager; /* a send that ends when it has been copied */
    int is_free;  /* nobody asks after it any more */
    shaken_state state;
    void *handle;
    weft_status status; /* that it has ended with */
    weft_message why;
};

static int chance(shaken *s, int64_t of) {
    return random_between(&s->random, 1, of) == 1;
}

static void drop(shaken *s, shaken_message *m) {
    shaken_message *before = NULL;
    for (shaken_message *at = s->first; at != m; at = at->next) {
        before = at;
    }
    *(before ? &before->next : &s->first) = m->next;
    s->last = s->last == m ? before : s->last;
    free(m->copy);
    free(m);
}

/* Lets the inner transport have a message, unless one of the same rank and tag is before it. */
static void hand_over(shaken *s, shaken_message *m) {
    const weft_transport *t = &s->inner;
    for (const shaken_message *at = s->first; at != m; at = at->next) {
        if (at->state == HELD && at->peer == m->peer && at->tag == m->tag && !at->to == !m->to) {
            return;
        }
    }
    if (!m->to) {
        memcpy(m->copy, m->from, m->bytes); /* as late as it may be: the caller may not have written to it */
    }
    m->status = m->to ? t->receive(t->self, m->copy, m->bytes, m->peer, m->tag, &m->handle, &m->why)
                      : t->send(t->self, m->copy, m->bytes, m->peer, m->tag, &m->handle, &m->why);
    m->state = m->status || !m->handle ? ENDED : BEGUN;
}

/* Something goes on, in an order of its own. */
static void go_on(shaken *s) {
    const weft_transport *t = &s->inner;
    for (shaken_message *m = s->first, *next; m; m = next) {
        next = m->next;
        if (m->state == HELD && chance(s, 3)) {
            hand_over(s, m);
        } else if (m->state == BEGUN) {
            int32_t done = 0;
            m->status = t->test(t->self, m->handle, &done, &m->why);
            m->state = done || m->status ? ENDED : BEGUN;
        }
        if (m->is_free && m->state == ENDED) {
            drop(s, m);
        }
    }
}

static weft_status begin(shaken *s, const void *from, void *to, size_t bytes, int32_t peer, int32_t tag, void **request) {
    *request = NULL;
    shaken_message *m = calloc(1, sizeof *m);
    char *copy = malloc(bytes + 1);
    if (!m || !copy) {
        free(m);
        free(copy);
        return WEFT_NO_MEMORY;
    }
    *m = (shaken_message){.to = to, .from = from, .copy = copy, .bytes = bytes, .peer = peer, .tag = tag};
    m->is_eager = !to && chance(s, 2);
    *(s->last ? &s->last->next : &s->first) = m;
    s->last = m;
    *request = m;
    return WEFT_OK;
}

static weft_status send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                        weft_message *message) {
    (void)message;
    return begin(self, buffer, NULL, bytes, to, tag, request);
}

static weft_status receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *message) {
    (void)message;
    return begin(self, NULL, buffer, bytes, from, tag, request);
}

static weft_status test(void *self, void *request, int32_t *done, weft_message *message) {
    shaken *s = self;
    shaken_message *m = request;
    *done = 0;
    go_on(s);
    if (m->state == HELD || (m->state == BEGUN && !m->is_eager) || chance(s, 2)) {
        return WEFT_OK;
    }
    const weft_status status = m->status ? weft_fail(message, m->status, "%s", m->why.text) : WEFT_OK;
    *done = 1;
    if (m->to && !status) {
        memcpy(m->to, m->copy, m->bytes); /* not before it has ended for the caller, who may not have read it */
    }
    m->is_free = 1;
    if (m->state == ENDED) {
        drop(s, m);
    }
    return status;
}

static int32_t cancel(void *self, void *request) {
    shaken *s = self;
    shaken_message *m = request;
    const int32_t is_over = m->state != BEGUN || s->inner.cancel(s->inner.self, m->handle);
    drop(s, m);
    return is_over;
}

weft_transport shaken_open(shaken *s, const weft_transport *inner, uint64_t seed) {
    *s = (shaken){.inner = *inner, .random = seed};
    weft_transport t = *inner;
    t.self = s;
    t.send = send;
    t.receive = receive;
    t.test = test;
    t.cancel = cancel;
    return t;
}

void shaken_close(shaken *s) {
    while (s->first) {
        cancel(s, s->first);
    }
}
