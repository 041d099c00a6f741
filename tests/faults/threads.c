/* SPDX-License-Identifier: Apache-2.0 */
/* Starts of threads that can fail, and waiting. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *),
                   void *restrict argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const int error = FAULTS_HIT(FAULTS_THREADS, "pthread_create");
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    }
    return error ? error : real(thread, attributes, run, argument);
}

/* SQLite waits between attempts to lock a file, ten seconds in all. Once something has failed that only costs time. */
int usleep(useconds_t microseconds) {
    const struct timespec time = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    return faults_have_failed() ? 0 : nanosleep(&time, NULL);
}
