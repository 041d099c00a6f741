/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads: each runs its part. */
#ifndef WEFT_TESTS_DIST_ON_THREADS_H
#define WEFT_TESTS_DIST_ON_THREADS_H

#include <pthread.h>

#include "parts.h"
#include "products.h"

/* A rank as a thread, which changes its transport at will before it runs. */
typedef struct thread_rank {
    pthread_t thread;
    weft_transport transport;
    part *part;
    part_product *product; /* null: it is an attention */
} thread_rank;

static inline void *thread_rank_run(void *at) {
    thread_rank *r = at;
    if (r->product) {
        r->product->status = run_product(r->product, &r->transport);
    } else {
        r->part->status = run_part(r->part, &r->transport);
    }
    return NULL;
}

#endif
