/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/plan/tickets.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"

enum { SLOT_BYTES = WEFT_TICKETS_WORDS * 8 }; /* a sector */

/* The device memory: the pool, the slots of streams, and the slot in which captured launches keep pace. */
enum {
    SLOTS_AT = sizeof(weft_counter_pool),
    PACE_AT = SLOTS_AT + WEFT_TICKETS_STREAMS * SLOT_BYTES,
    MEMORY_BYTES = PACE_AT + SLOT_BYTES
};

typedef struct slot {
    uint64_t stream; /* the driver's number, never used twice */
    uint64_t used;   /* when: the larger, the later; 0: never */
} slot;

struct weft_tickets {
    const weft_cuda_driver *driver;
    uint64_t memory;
    pthread_mutex_t lock;
    uint64_t clock;
    slot slots[WEFT_TICKETS_STREAMS];
};

weft_status weft_tickets_new(const weft_cuda_driver *driver, weft_tickets **tickets, weft_message *message) {
    static const weft_counter_pool empty;
    weft_tickets *t = calloc(1, sizeof *t);
    if (!t) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a plan");
    }
    weft_cu_result result = driver->memory_new(&t->memory, MEMORY_BYTES);
    if (result) {
        free(t);
        return weft_cuda_fail(driver, result, "no memory on the GPU for a plan's counters", message);
    }
    t->driver = driver;
    pthread_mutex_init(&t->lock, NULL);
    *tickets = t; /* freed with the plan from here on */
    result = weft_cuda_copy_in(driver, t->memory, &empty, sizeof empty);
    return result ? weft_cuda_fail(driver, result, "the plan's counters cannot be set", message) : WEFT_OK;
}

/* The stream's slot, or the one whose stream was used longest ago, with *fresh set. */
static size_t slot_of(weft_tickets *t, uint64_t stream, int *fresh) {
    size_t oldest = 0;
    *fresh = 1;
    for (size_t i = 0; i < WEFT_TICKETS_STREAMS; i++) {
        if (t->slots[i].used && t->slots[i].stream == stream) {
            oldest = i;
            *fresh = 0;
            break;
        }
        if (t->slots[i].used < t->slots[oldest].used) {
            oldest = i;
        }
    }
    t->slots[oldest].stream = stream;
    t->slots[oldest].used = ++t->clock;
    return oldest;
}

static weft_cu_result zero(const weft_tickets *t, uint64_t slot, void *stream) {
    return t->driver->set_words(slot, 0, SLOT_BYTES / 4, stream);
}

/* What is known of a capture: the nodes that the next one waits for. */
typedef struct capture {
    int status; /* a CUstreamCaptureStatus */
    uint64_t id;
    const void *nodes; /* handles */
    size_t count;
} capture;

static int follows_kernels(const weft_tickets *t, const capture *is) {
    int kernels = 1;
    for (size_t i = 0; i < is->count && kernels; i++) {
        int type = -1;
        kernels = t->driver->node_type(((void *const *)is->nodes)[i], &type) == 0 && type == WEFT_CU_NODE_KERNEL;
    }
    return kernels;
}

static weft_cu_result take_captured(const weft_tickets *t, void *stream, const capture *is, int paces,
                                    weft_counters *counters) {
    const uint64_t pace = t->memory + PACE_AT;
    counters->is_captured = 1;
    counters->ordered = paces || !follows_kernels(t, is);
    counters->pool = (weft_counter_pool *)(uintptr_t)t->memory;
    counters->pace = (uint64_t *)(uintptr_t)pace;
    return paces ? zero(t, pace, stream) : 0;
}

static weft_cu_result take_own(weft_tickets *t, void *stream, int left_zero, weft_counters *counters) {
    unsigned long long id = 0;
    int fresh = 0;
    weft_cu_result result = t->driver->stream_id(stream, &id);
    if (result) {
        return result;
    }
    pthread_mutex_lock(&t->lock);
    const size_t number = slot_of(t, (uint64_t)id, &fresh);
    const uint64_t at = t->memory + SLOTS_AT + (uint64_t)number * SLOT_BYTES;
    counters->own = counters->pace = (uint64_t *)(uintptr_t)at;
    counters->ordered = fresh || !left_zero;
    /* Under the lock: who asks next for the same stream is told that they are zero. */
    result = counters->ordered ? zero(t, at, stream) : 0;
    if (result) {
        t->slots[number].used = 0; /* so that they are zeroed before they are used */
    }
    pthread_mutex_unlock(&t->lock);
    return result;
}

weft_status weft_tickets_take(weft_tickets *t, void *stream, int left_zero, int paces, weft_counters *counters,
                              weft_message *message) {
    capture is = {0};
    *counters = (weft_counters){0};
    weft_cu_result result = t->driver->stream_capture(stream, &is.status, &is.id, NULL, &is.nodes, &is.count);
    if (result == 0) {
        result = is.status == WEFT_CU_CAPTURE_NONE ? take_own(t, stream, left_zero, counters)
                                                   : take_captured(t, stream, &is, paces, counters);
    }
    return result ? weft_cuda_fail(t->driver, result, "the plan's counters cannot be had on the stream", message) : WEFT_OK;
}

uint64_t weft_tickets_memory(const weft_tickets *t) {
    return t->memory;
}

void weft_tickets_free(weft_tickets *t) {
    if (t) {
        pthread_mutex_destroy(&t->lock);
        free(t);
    }
}
