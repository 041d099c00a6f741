/* Counters of dynamic dispatch: each launch needs some in device memory, 0 when it begins, that no other launch uses
 * meanwhile. A kernel that leaves them at 0 when it ends spares the next launch the order to zero them.
 *
 * Launches on one stream follow each other, so a counter belongs to a stream; in a capture, to a stream of that capture,
 * for as long as the plan lives, because the graph may be replayed at any time. */
#ifndef WEFT_CUDA_TICKETS_H
#define WEFT_CUDA_TICKETS_H

#include "cuda/driver.h"

/* Streams that may have launches of one plan in flight at a time, and captures of one plan. */
enum { WEFT_TICKETS_STREAMS = 256, WEFT_TICKETS_CAPTURES = 1024 };

/* Counters of a launch, of 64 bits each: tickets, and what else the kernel counts. */
enum { WEFT_TICKETS_WORDS = 4 };

typedef struct weft_tickets weft_tickets;

/* Allocates the counters, in the current context. */
weft_status weft_tickets_new(const weft_cuda_driver *driver, weft_tickets **tickets, weft_message *message);

/* The counters for a launch on `stream`, with an order on the stream to zero them, and *ordered set; not where `left_zero`
 * says that kernels leave them so and the stream has had them before. Any number of threads may ask at once. */
weft_status weft_tickets_take(weft_tickets *tickets, void *stream, int left_zero, uint64_t *counter, int *ordered,
                              weft_message *message);

/* The device memory of the counters, which the caller frees, if its context is still there. */
uint64_t weft_tickets_memory(const weft_tickets *tickets);
void weft_tickets_free(weft_tickets *tickets);

#endif
