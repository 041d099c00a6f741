/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between GPUs by way of the host. Those to a neighbour, and those from it, are a lane: it has two pinned buffers,
 * through which its messages go piece by piece in their order. */
#include "dist/staging.h"

#include <stdlib.h>

#include "base/status.h"
#include "dist/lanes.h"

static void free_message(weft_staging *s, weft_staged *m) {
    weft_round_leave(s, m->round);
    free(m);
}

/* ---- the transport ---- */

static weft_status enter(const weft_staging *s, int *pushed, weft_message *why) {
    return weft_cuda_enter(s->gpu.driver, s->gpu.context, pushed, why);
}

static weft_status begin_round(void *self, void *stream, weft_message *why) {
    weft_staging *s = self;
    int pushed;
    weft_round *r = calloc(1, sizeof *r);
    if (!r) {
        return weft_fail(why, WEFT_NO_MEMORY, "no memory for a round of messages");
    }
    r->uses = 1;
    weft_status status = enter(s, &pushed, why);
    if (!status) {
        status = weft_event_take(&s->events, stream, &r->ready, why);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    if (status) {
        free(r);
        return status;
    }
    if (s->open) { /* one that a failure has left open */
        weft_round_leave(s, s->open);
    }
    s->open = r;
    return WEFT_OK;
}

static weft_status end_round(void *self, weft_message *why) {
    weft_staging *s = self;
    int pushed;
    weft_round_leave(s, s->open);
    s->open = NULL;
    const weft_status status = enter(s, &pushed, why);
    if (!status) {
        weft_lanes_go_on(s);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    return status;
}

static weft_status begin(weft_staging *s, weft_staged fresh, void **request, weft_message *why) {
    weft_lane *l = NULL;
    int pushed;
    *request = NULL;
    if (!s->open) {
        return weft_fail(why, WEFT_INVALID, "a message of a GPU outside of a round");
    }
    if (fresh.bytes == 0) {
        return WEFT_OK;
    }
    weft_status status = enter(s, &pushed, why);
    if (!status) {
        status = weft_lane_of(s, fresh.peer, fresh.is_receive, &l, why);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    weft_staged *m = status ? NULL : malloc(sizeof *m);
    if (!m) {
        return status ? status : weft_fail(why, WEFT_NO_MEMORY, "no memory for a message");
    }
    *m = fresh;
    m->left = m->bytes;
    m->round = s->open;
    m->round->uses++;
    *(l->last ? &l->last->next : &l->first) = m;
    l->last = m;
    *request = m;
    return WEFT_OK;
}

static weft_status send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                        weft_message *why) {
    return begin(self, (weft_staged){.at = (char *)(uintptr_t)buffer, .bytes = bytes, .peer = to, .tag = tag}, request,
                 why);
}

static weft_status receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *why) {
    return begin(self, (weft_staged){.at = buffer, .bytes = bytes, .peer = from, .tag = tag, .is_receive = 1}, request,
                 why);
}

static weft_status test(void *self, void *request, int32_t *done, weft_message *why) {
    weft_staging *s = self;
    weft_staged *m = request;
    int pushed;
    weft_status status = enter(s, &pushed, why);
    *done = status != WEFT_OK;
    if (status) {
        return status;
    }
    weft_lanes_go_on(s);
    if (m->request) {
        int32_t over = 0;
        m->status = s->host.test(s->host.self, m->request, &over, &m->why);
        m->request = m->status || over ? NULL : m->request;
        m->left = m->request ? m->left : 0;
    }
    *done = m->left == 0 || m->status;
    if (*done) {
        status = m->status ? weft_fail(why, m->status, "%s", m->why.text) : WEFT_OK;
        if (status) {
            weft_staged_give_up(s, m);
        }
        free_message(s, m);
    }
    weft_cuda_leave(s->gpu.driver, pushed);
    return status;
}

static int32_t cancel(void *self, void *request) {
    weft_staging *s = self;
    int pushed, left_alone = 0;
    if (enter(s, &pushed, NULL) == WEFT_OK) {
        left_alone = weft_staged_give_up(s, request);
        free_message(s, request);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    return left_alone;
}

/* ---- opening ---- */

static weft_status open_gpu(weft_staging *s, int index, weft_message *why) {
    int pushed;
    weft_status status = weft_cuda_context_open(&s->gpu, index, why);
    status = status ? status : enter(s, &pushed, why);
    if (status) {
        return status;
    }
    s->events.driver = s->gpu.driver;
    if (!s->gpu.driver->host_new || !s->gpu.driver->host_free) {
        status = weft_fail(why, WEFT_UNSUPPORTED, "the CUDA driver has no pinned memory, by which messages are staged");
    }
    for (int i = 0; i < 2 && !status; i++) {
        const weft_cu_result result = s->gpu.driver->stream_new(&s->streams[i], WEFT_CU_STREAM_NON_BLOCKING);
        if (result) {
            s->streams[i] = NULL;
            status = weft_cuda_fail(s->gpu.driver, result, "the GPU has no stream for messages", why);
        }
    }
    weft_cuda_leave(s->gpu.driver, pushed);
    return status;
}

weft_status weft_staging_open(weft_staging **staging, int index, const weft_transport *host, size_t bytes,
                              weft_transport *transport, weft_message *why) {
    const weft_transport fresh = WEFT_TRANSPORT_INIT;
    *staging = NULL;
    weft_staging *s = calloc(1, sizeof *s);
    if (!s) {
        return weft_fail(why, WEFT_NO_MEMORY, "no memory to stage messages");
    }
    s->host = *host;
    s->bytes = host->on_device == WEFT_ANY_MEMORY ? 0 : bytes ? bytes : WEFT_STAGING_BYTES;
    const weft_status status = open_gpu(s, index, why);
    if (status) {
        weft_staging_close(s);
        return status;
    }
    *staging = s;
    *transport = fresh;
    transport->self = s;
    transport->rank = host->rank;
    transport->size = host->size;
    transport->on_device = WEFT_DEVICE_MEMORY;
    transport->send = send;
    transport->receive = receive;
    transport->test = test;
    transport->cancel = cancel;
    transport->begin = begin_round;
    transport->end = end_round;
    transport->words = host->words ? host->words : &s->host;
    return WEFT_OK;
}

void weft_staging_close(weft_staging *s) {
    int pushed;
    if (!s) {
        return;
    }
    if (s->gpu.context && weft_cuda_enter(s->gpu.driver, s->gpu.context, &pushed, NULL) == WEFT_OK) {
        if (s->open) {
            weft_round_leave(s, s->open);
        }
        while (s->lanes) {
            weft_lane *next = s->lanes->next;
            weft_lane_free(s, s->lanes);
            s->lanes = next;
        }
        for (int i = 0; i < 2; i++) {
            if (s->streams[i]) {
                s->gpu.driver->stream_free(s->streams[i]);
            }
        }
        weft_events_close(&s->events);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    weft_cuda_context_close(&s->gpu);
    free(s);
}
