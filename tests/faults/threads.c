/* Starts of threads that can fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

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
