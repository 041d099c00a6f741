/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a GPU, used again and again: by them a transport knows how far a stream has come. */
#ifndef WEFT_DIST_EVENTS_H
#define WEFT_DIST_EVENTS_H

#include "cuda/driver/driver.h"

typedef struct weft_event {
    struct weft_event *next; /* of the free ones */
    void *event;
    int is_over; /* it has been seen to have passed */
} weft_event;

typedef struct weft_events {
    const weft_cuda_driver *driver;
    weft_event *free;
} weft_events;

/* An event behind all that a stream has so far. The GPU's context is current in all of these. */
weft_status weft_event_take(weft_events *events, void *stream, weft_event **event, weft_message *message);

/* Whether the stream has passed it. */
weft_status weft_event_look(const weft_events *events, weft_event *event, int *over, weft_message *message);
void weft_event_give(weft_events *events, weft_event *event); /* null is fine */
void weft_events_close(weft_events *events);                  /* all have been given back */

#endif
