/* SPDX-License-Identifier: Apache-2.0 */
/* Which items of a result are compared with the reference: all, or a sample. */
#ifndef WEFT_BENCH_SAMPLE_H
#define WEFT_BENCH_SAMPLE_H

#include <pthread.h>

#include <weft/check.h>

/* Items stand in lines of `stride`, of each of which one is drawn. Lines are taken far from each other, so that those that
 * are taken before the time is over lie everywhere. */
typedef struct weft_sample {
    int64_t items, stride, lines;
    int64_t step;          /* from a line to that which is taken next, modulo `lines`; 1: one after the other */
    int64_t next;          /* how many have been taken */
    double began, seconds; /* when, and for how long; 0 seconds: for ever */
    uint64_t seed;
    weft_progress progress; /* null, or told by one thread at a time */
    void *progress_user;
    pthread_mutex_t lock; /* of telling */
} weft_sample;

/* Operations up to which a result is compared whole though it cannot be in part. */
double weft_sample_whole(const weft_check_options *options);

/* Draws from `items` that take the reference `cost` operations each. */
weft_sample weft_sample_begin(const weft_check_options *options, int64_t items, double cost);

/* The next item, for any thread; -1 when there is none, or no time. The first is there in any case. */
int64_t weft_sample_take(weft_sample *s);

#endif
