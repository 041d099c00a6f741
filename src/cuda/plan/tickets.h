/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of dynamic dispatch: each launch needs some in device memory, 0 when it begins, that no other launch uses
 * meanwhile. A kernel that leaves them at 0 when it ends spares the next launch the order to zero them.
 *
 * Launches on one stream follow each other, so counters belong to a stream. A captured launch finds its own when it runs,
 * if its kernel can, in a pool: see counter_pool.h. */
#ifndef WEFT_CUDA_PLAN_TICKETS_H
#define WEFT_CUDA_PLAN_TICKETS_H

#include "cuda/driver/driver.h"
#include "cuda/plan/counter_pool.h"

/* Streams that may have launches of one plan in flight at a time. */
enum { WEFT_TICKETS_STREAMS = 256 };

/* Counters of a launch, of 64 bits each: tickets, and what else the kernel counts. */
enum { WEFT_TICKETS_WORDS = 4 };

/* What a launch gets, in device memory. */
typedef struct weft_counters {
    int is_captured;
    int ordered;             /* whether something that is no kernel, as an order to zero, precedes it on the stream */
    uint64_t *own;           /* WEFT_TICKETS_WORDS of 0 that no other launch uses meanwhile; null in a capture */
    weft_counter_pool *pool; /* in a capture: where it finds such counters; else null */
    uint64_t *pace;          /* as own, but in a capture others may count in it, too: for what only waits and gives up */
} weft_counters;

typedef struct weft_tickets weft_tickets;

/* Allocates the counters, in the current context. */
weft_status weft_tickets_new(const weft_cuda_driver *driver, weft_tickets **tickets, weft_message *message);

/* The counters for a launch on `stream`, with an order on the stream to zero them; not where `left_zero` says that kernels
 * leave them so and the stream has had them before, and in a capture only where `paces` asks for those of the pace. Any
 * number of threads may ask at once. */
weft_status weft_tickets_take(weft_tickets *tickets, void *stream, int left_zero, int paces, weft_counters *counters,
                              weft_message *message);

/* The device memory of the counters, which the caller frees, if its context is still there. */
uint64_t weft_tickets_memory(const weft_tickets *tickets);
void weft_tickets_free(weft_tickets *tickets);

#endif
