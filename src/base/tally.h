/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of work that has several parts, in turn or on several threads: its caller is told of all of them together. */
#ifndef WEFT_BASE_TALLY_H
#define WEFT_BASE_TALLY_H

#include <pthread.h>

#include <weft/weft.h>

typedef struct weft_tally {
    weft_progress progress; /* null: nobody wants to know */
    void *user;
    double planned, done; /* units of all parts together; what is planned may turn out to be more */
    pthread_mutex_t lock;
} weft_tally;

#define WEFT_TALLY(progress, user, planned)                                                                                \
    { (progress), (user), (planned), 0, PTHREAD_MUTEX_INITIALIZER }

/* One part: begin with told = 0. */
typedef struct weft_tally_part {
    weft_tally *of;
    double units, told; /* of the whole part, and those that the tally counts already */
} weft_tally_part;

/* A weft_progress that takes a weft_tally_part. Its caller may say less than it has said before: that counts for nothing.
 */
void weft_tally_told(void *part, int64_t done, int64_t total);

#endif
