/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/events.h"

#include <stdlib.h>

#include "base/status.h"

weft_status weft_event_take(weft_events *events, void *stream, weft_event **event, weft_message *message) {
    weft_event *e = events->free;
    weft_cu_result result = 0;
    *event = NULL;
    if (e) {
        events->free = e->next;
    } else if (!(e = calloc(1, sizeof *e))) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for an event");
    } else {
        result = events->driver->event_new(&e->event, WEFT_CU_EVENT_UNTIMED);
    }
    if (result) {
        free(e);
        return weft_cuda_fail(events->driver, result, "the GPU has no event for a message", message);
    }
    e->is_over = 0;
    if ((result = events->driver->event_record(e->event, stream))) {
        weft_event_give(events, e);
        return weft_cuda_fail(events->driver, result, "messages cannot follow the stream", message);
    }
    *event = e;
    return WEFT_OK;
}

weft_status weft_event_look(const weft_events *events, weft_event *event, int *over, weft_message *message) {
    const weft_cu_result result = event->is_over ? 0 : events->driver->event_query(event->event);
    *over = event->is_over = result == 0;
    return result == 0 || result == WEFT_CU_NOT_READY
               ? WEFT_OK
               : weft_cuda_fail(events->driver, result, "the GPU fails before a message", message);
}

void weft_event_give(weft_events *events, weft_event *event) {
    if (event) {
        event->next = events->free;
        events->free = event;
    }
}

void weft_events_close(weft_events *events) {
    while (events->free) {
        weft_event *next = events->free->next;
        events->driver->event_free(events->free->event);
        free(events->free);
        events->free = next;
    }
}
