/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fork.h"

#include <pthread.h>

static pthread_rwlock_t held = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int depth; /* how often this thread holds it */

/* A thread that forks while it holds it, in a callback, goes on in the child with what it holds. */
static void before(void) {
    if (depth == 0) {
        pthread_rwlock_wrlock(&held);
    }
}

static void after_in_parent(void) {
    if (depth == 0) {
        pthread_rwlock_unlock(&held);
    }
}

static void after_in_child(void) {
    const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
    held = fresh;
    if (depth > 0) {
        pthread_rwlock_rdlock(&held);
    }
}

static void begin(void) {
    (void)pthread_atfork(before, after_in_parent, after_in_child); /* without memory for it forks are as they were */
}

void weft_fork_hold(void) {
    pthread_once(&once, begin);
    if (depth++ == 0) {
        pthread_rwlock_rdlock(&held);
    }
}

void weft_fork_release(void) {
    if (--depth == 0) {
        pthread_rwlock_unlock(&held);
    }
}
