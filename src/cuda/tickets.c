#include "cuda/tickets.h"

#include <pthread.h>
#include <stdlib.h>

#include "plan/status.h"

enum { SLOTS = WEFT_TICKETS_STREAMS + WEFT_TICKETS_CAPTURES, SLOT_BYTES = WEFT_TICKETS_WORDS * 8 }; /* a sector each */

typedef struct slot {
    uint64_t
        stream; /* the driver's number, never used twice; in a capture the handle, since a number is not to be had there */
    uint64_t capture; /* the driver's number, or 0 outside one */
    uint64_t used;    /* when: the larger, the later; 0: never */
} slot;

struct weft_tickets {
    const weft_cuda_driver *driver;
    uint64_t memory; /* SLOTS counters */
    pthread_mutex_t lock;
    uint64_t clock;
    size_t captures;   /* slots of captures in use */
    slot slots[SLOTS]; /* first those of streams, then those of captures */
};

weft_status weft_tickets_new(const weft_cuda_driver *driver, weft_tickets **tickets, weft_message *message) {
    weft_tickets *t = calloc(1, sizeof *t);
    if (!t) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a plan");
    }
    const weft_cu_result result = driver->memory_new(&t->memory, (size_t)SLOTS * SLOT_BYTES);
    if (result) {
        free(t);
        return weft_cuda_fail(driver, result, "no memory on the GPU for a plan's counters", message);
    }
    t->driver = driver;
    pthread_mutex_init(&t->lock, NULL);
    *tickets = t;
    return WEFT_OK;
}

/* The stream's slot, or the one whose stream was used longest ago, with *fresh set. */
static size_t slot_of_stream(weft_tickets *t, uint64_t stream, int *fresh) {
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

/* The slot of a stream in a capture; SLOTS when there are no more. */
static size_t slot_of_capture(weft_tickets *t, uint64_t stream, uint64_t capture, int *fresh) {
    *fresh = 0;
    for (size_t i = t->captures; i-- > 0;) { /* the latest is the likeliest */
        const slot *s = &t->slots[WEFT_TICKETS_STREAMS + i];
        if (s->stream == stream && s->capture == capture) {
            return WEFT_TICKETS_STREAMS + i;
        }
    }
    if (t->captures == WEFT_TICKETS_CAPTURES) {
        return SLOTS;
    }
    slot *s = &t->slots[WEFT_TICKETS_STREAMS + t->captures];
    s->stream = stream;
    s->capture = capture;
    *fresh = 1;
    return WEFT_TICKETS_STREAMS + t->captures++;
}

/* Forgets who has the slot, so that its counters are zeroed before they are used. */
static void give_up(weft_tickets *t, size_t number) {
    t->slots[number].used = 0;
    t->captures -= number >= WEFT_TICKETS_STREAMS; /* it was the latest */
}

weft_status weft_tickets_take(weft_tickets *t, void *stream, int left_zero, uint64_t *counter, int *ordered,
                              weft_message *message) {
    int capturing = 0, fresh = 0;
    uint64_t capture = 0;
    unsigned long long id = 0;
    weft_cu_result result = t->driver->stream_capture(stream, &capturing, &capture, NULL, NULL, NULL);
    if (result == 0 && capturing == WEFT_CU_CAPTURE_NONE) {
        result = t->driver->stream_id(stream, &id);
    }
    if (result) {
        return weft_cuda_fail(t->driver, result, "the stream cannot be used", message);
    }
    pthread_mutex_lock(&t->lock);
    const size_t number = capturing == WEFT_CU_CAPTURE_NONE
                              ? slot_of_stream(t, (uint64_t)id, &fresh)
                              : slot_of_capture(t, (uint64_t)(uintptr_t)stream, capture, &fresh);
    if (number < SLOTS) {
        *counter = t->memory + (uint64_t)number * SLOT_BYTES;
        *ordered = fresh || !left_zero;
        /* Under the lock: who asks next for the same stream is told that they are zero. */
        result = *ordered ? t->driver->set_words(*counter, 0, SLOT_BYTES / 4, stream) : 0;
        if (result && fresh) {
            give_up(t, number);
        }
    }
    pthread_mutex_unlock(&t->lock);
    if (number == SLOTS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "this plan is in %d captures already: make another one for the next",
                         (int)WEFT_TICKETS_CAPTURES);
    }
    return result ? weft_cuda_fail(t->driver, result, "the plan's counter cannot be set on the stream", message) : WEFT_OK;
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
