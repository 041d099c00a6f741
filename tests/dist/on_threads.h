/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads: each runs its part. */
#ifndef WEFT_TESTS_DIST_ON_THREADS_H
#define WEFT_TESTS_DIST_ON_THREADS_H

#include <pthread.h>

#include "parts.h"
#include "products.h"
#include "shaken.h"

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

/* Runs all parts, or all parts of products, at once, and checks what they sent. `shakes`: null, or the seed of what their
 * transport does at random. */
static inline void threads_run(int32_t size, part *parts, part_product *products, void *(*run)(void *), int on_device,
                               uint64_t *shakes) {
    weft_threads *threads;
    thread_rank ranks[MOST_RANKS];
    shaken shakens[MOST_RANKS];
    assert_int_equal(weft_threads_create(&threads, size, NULL), WEFT_OK);
    for (int32_t rank = 0; rank < size; rank++) {
        weft_transport plain = WEFT_TRANSPORT_INIT;
        ranks[rank] = (thread_rank){.part = parts ? &parts[rank] : NULL, .product = products ? &products[rank] : NULL};
        assert_int_equal(weft_threads_transport(threads, rank, &plain, NULL), WEFT_OK);
        ranks[rank].transport = shakes ? shaken_open(&shakens[rank], &plain, random_bits(shakes)) : plain;
        ranks[rank].transport.on_device = on_device; /* the fake GPU has the host's memory, so threads take both */
        assert_int_equal(pthread_create(&ranks[rank].thread, NULL, run, &ranks[rank]), 0);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        pthread_join(ranks[rank].thread, NULL);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        if (products ? products[rank].status : parts[rank].status) {
            fail_msg("rank %d of %d: %s", (int)rank, (int)size,
                     products ? products[rank].message.text : parts[rank].message.text);
        }
        if (shakes) {
            shaken_close(&shakens[rank]);
        }
        if (products) {
            check_product_counts(&products[rank]);
        } else {
            check_counts(&parts[rank]);
        }
    }
    weft_threads_destroy(threads);
}

#endif
