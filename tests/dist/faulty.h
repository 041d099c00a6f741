/* SPDX-License-Identifier: Apache-2.0 */
/* A transport over another that breaks down, or stands still, at a certain message. */
#ifndef WEFT_TESTS_DIST_FAULTY_H
#define WEFT_TESTS_DIST_FAULTY_H

#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include <weft/dist.h>

typedef enum fault { NO_FAULT, NEVER_COMES, LEAVES, STALLS } fault;

typedef struct faulty {
    weft_transport inner;
    fault fault;
    int64_t after;         /* so many sends and receives it works */
    int64_t looks;         /* and then for so many tests */
    int64_t begun;         /* sends and receives so far */
    pthread_mutex_t *lock; /* who holds it stalls those who stall */
} faulty;

static inline weft_status faulty_now(faulty *f, weft_message *message) {
    if (f->fault == NO_FAULT || f->begun < f->after || (f->begun == f->after && f->looks-- > 0)) {
        return WEFT_OK;
    }
    if (f->fault == LEAVES) {
        return weft_fail(message, WEFT_FAILED, "this rank has left");
    }
    pthread_mutex_lock(f->lock);
    pthread_mutex_unlock(f->lock);
    f->fault = NO_FAULT;
    return WEFT_OK;
}

static inline weft_status faulty_send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                                      weft_message *message) {
    faulty *f = self;
    f->begun++;
    const weft_status status = faulty_now(f, message);
    return status ? status : f->inner.send(f->inner.self, buffer, bytes, to, tag, request, message);
}

static inline weft_status faulty_receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                                         weft_message *message) {
    faulty *f = self;
    f->begun++;
    const weft_status status = faulty_now(f, message);
    return status ? status : f->inner.receive(f->inner.self, buffer, bytes, from, tag, request, message);
}

static inline weft_status faulty_test(void *self, void *request, int32_t *done, weft_message *message) {
    faulty *f = self;
    const weft_status status = faulty_now(f, message);
    if (status) {
        f->inner.cancel(f->inner.self, request); /* a request whose test fails is gone */
        return status;
    }
    return f->inner.test(f->inner.self, request, done, message);
}

static inline int32_t faulty_cancel(void *self, void *request) {
    faulty *f = self;
    return f->inner.cancel(f->inner.self, request);
}

static inline weft_transport faulty_open(faulty *f, const weft_transport *inner) {
    weft_transport t = *inner;
    f->inner = *inner;
    t.self = f;
    t.send = faulty_send;
    t.receive = faulty_receive;
    t.test = faulty_test;
    t.cancel = faulty_cancel;
    return t;
}

#endif
