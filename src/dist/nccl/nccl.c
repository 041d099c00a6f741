/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by NCCL. A round is a group of its sends and receives on a stream of the transport's: groups go one after the
 * other, and all messages of one end together. Calls do not wait: a communicator that does not block says whether a group
 * has been launched, and an event whether it is over. */
#include <weft/nccl.h>

#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct.h"
#include "cuda/driver/context.h"
#include "dist/events.h"
#include "dist/nccl/library.h"

typedef enum state { WAITS, IS_LAUNCHED, RUNS, IS_OVER } state;

typedef struct round round;

typedef struct message {  /* what a request is */
    struct message *next; /* of its round */
    round *round;
    void *at;
    size_t bytes;
    int32_t peer, is_receive;
} message;

struct round {
    round *next;
    state state;
    weft_event *ready, *over;
    message *first, **last;
    int64_t left; /* messages that nobody has been told the end of */
};

struct weft_nccl {
    const weft_nccl_library *library;
    weft_cuda_context gpu;
    weft_events events;
    void *stream, *comm;
    int is_ours, is_aborted;
    double seconds;
    round *first, **last; /* in their order, the open one last */
    round *open;
    weft_status failed;
    weft_message why;
};

static int fails(int result) {
    return result != 0 && result != WEFT_NCCL_IN_PROGRESS;
}

static weft_status fail(weft_nccl *n, int result, const char *what) {
    n->failed = weft_nccl_fail(n->library, result, what, &n->why);
    return n->failed;
}

static weft_status cuda_fail(weft_nccl *n, weft_cu_result result) {
    n->failed = weft_cuda_fail(n->gpu.driver, result, "messages by NCCL", &n->why);
    return n->failed;
}

static weft_status enter(const weft_nccl *n, int *pushed, weft_message *why) {
    return weft_cuda_enter(n->gpu.driver, n->gpu.context, pushed, why);
}

/* ---- rounds ---- */

/* Takes the rounds that are over and told of out of the list. */
static void drop_rounds(weft_nccl *n, int all) {
    for (round **at = &n->first; *at;) {
        round *r = *at;
        if (r->left == 0 && r != n->open && (r->state == IS_OVER || all)) {
            *at = r->next;
            weft_event_give(&n->events, r->ready);
            weft_event_give(&n->events, r->over);
            free(r);
        } else {
            at = &r->next;
        }
    }
    n->last = &n->first;
    while (*n->last) {
        n->last = &(*n->last)->next;
    }
}

static weft_status launch(weft_nccl *n, round *r) {
    const weft_nccl_library *l = n->library;
    const weft_cu_result waits = n->gpu.driver->stream_wait(n->stream, r->ready->event, 0);
    if (waits) {
        return cuda_fail(n, waits);
    }
    int result = l->group_begin();
    for (const message *m = r->first; m && !fails(result); m = m->next) {
        result = m->is_receive ? l->receive(m->at, m->bytes, WEFT_NCCL_BYTES, m->peer, n->comm, n->stream)
                               : l->send(m->at, m->bytes, WEFT_NCCL_BYTES, m->peer, n->comm, n->stream);
    }
    const int end = l->group_end(); /* also of one that has failed */
    r->state = IS_LAUNCHED;
    result = fails(result) ? result : end;
    return fails(result) ? fail(n, result, "a round of messages") : WEFT_OK;
}

/* Launches what can be, and looks what is over. */
static weft_status go_on(weft_nccl *n) {
    int error = 0, over = 0;
    weft_status status = n->failed;
    const int result = status ? 0 : n->library->comm_error(n->comm, &error);
    if (fails(result) || fails(error)) {
        return fail(n, fails(result) ? result : error, "another rank, or the way to it");
    }
    for (round *r = n->first; r && !status; r = r->next) {
        if (r == n->open) {
            break;
        }
        if (r->state == WAITS) {
            status = launch(n, r);
            const int asked = status ? 0 : n->library->comm_error(n->comm, &error);
            status = fails(asked) || fails(error) ? fail(n, fails(asked) ? asked : error, "a round of messages") : status;
        }
        if (!status && r->state == IS_LAUNCHED && error != WEFT_NCCL_IN_PROGRESS) {
            status = weft_event_take(&n->events, n->stream, &r->over, &n->why);
            r->state = status ? r->state : RUNS;
        }
        if (!status && r->state == RUNS) {
            status = weft_event_look(&n->events, r->over, &over, &n->why);
            r->state = over ? IS_OVER : RUNS;
        }
        if (r->state == IS_LAUNCHED) {
            break; /* the next group waits until this one is on the stream */
        }
    }
    n->failed = status;
    return status;
}

/* ---- the transport ---- */

static weft_status failure(const weft_nccl *n, weft_message *why) {
    return weft_fail(why, n->failed, "%s", n->why.text);
}

static weft_status begin_round(void *self, void *stream, weft_message *why) {
    weft_nccl *n = self;
    int pushed;
    if (n->failed) {
        return failure(n, why);
    }
    round *r = calloc(1, sizeof *r);
    if (!r) {
        return weft_fail(why, WEFT_NO_MEMORY, "no memory for a round of messages");
    }
    weft_status status = enter(n, &pushed, why);
    if (!status) {
        status = weft_event_take(&n->events, stream, &r->ready, why);
        weft_cuda_leave(n->gpu.driver, pushed);
    }
    if (status) {
        free(r);
        return status;
    }
    r->last = &r->first;
    *n->last = r;
    n->last = &r->next;
    n->open = r;
    return WEFT_OK;
}

static weft_status end_round(void *self, weft_message *why) {
    weft_nccl *n = self;
    int pushed;
    n->open = NULL;
    weft_status status = enter(n, &pushed, why);
    if (!status) {
        status = go_on(n) ? failure(n, why) : WEFT_OK;
        weft_cuda_leave(n->gpu.driver, pushed);
    }
    return status;
}

static weft_status begin(weft_nccl *n, message fresh, void **request, weft_message *why) {
    *request = NULL;
    if (!n->open) {
        return weft_fail(why, WEFT_INVALID, "a message by NCCL outside of a round");
    }
    message *m = fresh.bytes > 0 ? malloc(sizeof *m) : NULL;
    if (!m) {
        return fresh.bytes > 0 ? weft_fail(why, WEFT_NO_MEMORY, "no memory for a message") : WEFT_OK;
    }
    *m = fresh;
    m->round = n->open;
    *m->round->last = m;
    m->round->last = &m->next;
    m->round->left++;
    *request = m;
    return WEFT_OK;
}

static weft_status send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                        weft_message *why) {
    (void)tag; /* rounds have an order of their own */
    return begin(self, (message){.at = (void *)(uintptr_t)buffer, .bytes = bytes, .peer = to}, request, why);
}

static weft_status receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *why) {
    (void)tag;
    return begin(self, (message){.at = buffer, .bytes = bytes, .peer = from, .is_receive = 1}, request, why);
}

static void free_message(weft_nccl *n, message *m) {
    round *r = m->round;
    for (message **at = &r->first; *at; at = &(*at)->next) {
        if (*at == m) {
            *at = m->next;
            break;
        }
    }
    r->last = &r->first;
    while (*r->last) {
        r->last = &(*r->last)->next;
    }
    r->left--;
    free(m);
    drop_rounds(n, n->failed || n->is_aborted);
}

static weft_status test(void *self, void *request, int32_t *done, weft_message *why) {
    weft_nccl *n = self;
    message *m = request;
    int pushed;
    *done = 1;
    weft_status status = enter(n, &pushed, why);
    if (status) {
        return status;
    }
    status = go_on(n);
    if (status) {
        status = weft_fail(why, status, "a message %s rank %d: %.200s", m->is_receive ? "from" : "to", (int)m->peer,
                           n->why.text);
    }
    *done = status || m->round->state == IS_OVER;
    weft_cuda_leave(n->gpu.driver, pushed);
    if (*done) {
        free_message(n, m);
    }
    return status;
}

/* What waits on the GPU ends when the communicator is aborted. Nothing else ends it. */
static int abort_comm(weft_nccl *n) {
    const int was = n->is_aborted;
    n->is_aborted = 1;
    if (!was) {
        n->library->comm_abort(n->comm);
    }
    if (!n->failed) {
        n->failed = weft_fail(&n->why, WEFT_FAILED, "NCCL's communicator was aborted when an earlier run failed");
    }
    return n->gpu.driver->stream_synchronize(n->stream) == 0;
}

static int32_t cancel(void *self, void *request) {
    weft_nccl *n = self;
    int pushed, left_alone = 0;
    if (enter(n, &pushed, NULL) == WEFT_OK) {
        left_alone = abort_comm(n);
        n->open = NULL;
        free_message(n, request);
        weft_cuda_leave(n->gpu.driver, pushed);
    }
    return left_alone;
}

/* ---- opening ---- */

/* Waits until a call on the communicator is done. */
static weft_status wait_for(weft_nccl *n, int result, const char *what, weft_message *why) {
    const double end = weft_now() + n->seconds;
    while (result == WEFT_NCCL_IN_PROGRESS && weft_now() < end) {
        int error = 0;
        const int asked = n->library->comm_error(n->comm, &error);
        result = fails(asked) ? asked : error;
        weft_pause(result == WEFT_NCCL_IN_PROGRESS ? 1e-4 : 0);
    }
    return result == WEFT_NCCL_IN_PROGRESS
               ? weft_fail(why, WEFT_FAILED, "%s: a rank has not come for %g s", what, n->seconds)
           : result ? weft_nccl_fail(n->library, result, what, why)
                    : WEFT_OK;
}

static weft_status make_comm(weft_nccl *n, const weft_nccl_options *o, weft_message *why) {
    weft_nccl_config config = {sizeof config, WEFT_NCCL_MAGIC, WEFT_NCCL_OLDEST, 0};
    if (o->size < 1 || o->rank < 0 || o->rank >= o->size) {
        return weft_fail(why, WEFT_INVALID, "rank %d is not one of %d", (int)o->rank, (int)o->size);
    }
    n->is_ours = 1;
    const int result = n->library->comm_new(&n->comm, o->size, *o->id, o->rank, &config);
    return fails(result) ? weft_nccl_fail(n->library, result, "a communicator", why)
                         : wait_for(n, result, "a communicator", why);
}

static weft_status borrow_comm(weft_nccl *n, void *comm, int index, weft_message *why) {
    int device = -1;
    n->comm = comm;
    const int result = n->library->comm_device(comm, &device);
    if (result) {
        return weft_nccl_fail(n->library, result, "the communicator", why);
    }
    return device == index
               ? WEFT_OK
               : weft_fail(why, WEFT_INVALID, "the communicator is of GPU %d, and the device is GPU %d", device, index);
}

static weft_status open(weft_nccl *n, const weft_nccl_options *o, weft_transport *transport, weft_message *why) {
    const int index = o->device ? o->device->index : 0;
    int pushed, rank = 0, size = 0;
    weft_status status = weft_nccl_library_get(&n->library, why);
    status = status ? status : weft_cuda_context_open(&n->gpu, index, why);
    status = status ? status : enter(n, &pushed, why);
    if (status) {
        return status;
    }
    n->events.driver = n->gpu.driver;
    const weft_cu_result made = n->gpu.driver->stream_new(&n->stream, WEFT_CU_STREAM_NON_BLOCKING);
    if (made) {
        n->stream = NULL;
        status = weft_cuda_fail(n->gpu.driver, made, "the GPU has no stream for messages", why);
    }
    status = status ? status : o->comm ? borrow_comm(n, o->comm, index, why) : make_comm(n, o, why);
    if (!status) {
        int result = n->library->comm_rank(n->comm, &rank);
        result = result ? result : n->library->comm_size(n->comm, &size);
        status = result ? weft_nccl_fail(n->library, result, "the communicator", why) : WEFT_OK;
    }
    weft_cuda_leave(n->gpu.driver, pushed);
    const weft_transport ours = {.struct_size = sizeof ours,
                                 .self = n,
                                 .rank = rank,
                                 .size = size,
                                 .on_device = WEFT_DEVICE_MEMORY,
                                 .send = send,
                                 .receive = receive,
                                 .test = test,
                                 .cancel = cancel,
                                 .begin = begin_round,
                                 .end = end_round,
                                 .words = o->words};
    return status ? status : weft_struct_give(transport, &ours, sizeof ours, sizeof(size_t), "WEFT_TRANSPORT_INIT", why);
}

weft_status weft_nccl_open(weft_nccl **nccl, const weft_nccl_options *options, weft_transport *transport,
                           weft_message *message) {
    weft_nccl_options ours = WEFT_NCCL_OPTIONS_INIT;
    if (!nccl || !transport) {
        return weft_fail(message, WEFT_INVALID, "nccl or transport is null");
    }
    *nccl = NULL;
    weft_status status = weft_struct_take_options(&ours, sizeof ours, options, "WEFT_NCCL_OPTIONS_INIT", message);
    if (status) {
        return status;
    }
    if (!ours.comm == !ours.id) {
        return weft_fail(message, WEFT_INVALID, "comm and id: one of them is given, the other is null");
    }
    if (ours.device && ours.device->kind != WEFT_DEVICE_CUDA) {
        return weft_fail(message, WEFT_INVALID, "device is not a GPU");
    }
    if (!(ours.seconds >= 0) || ours.seconds > 1e6) {
        return weft_fail(message, WEFT_INVALID, "seconds %g is not between 0 and 1000000", ours.seconds);
    }
    weft_nccl *n = calloc(1, sizeof *n);
    if (!n) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for ranks by NCCL");
    }
    n->last = &n->first;
    n->seconds = ours.seconds > 0 ? ours.seconds : 60;
    status = open(n, &ours, transport, message);
    if (status) {
        n->failed = status;
        weft_nccl_close(n);
        return status;
    }
    *nccl = n;
    return WEFT_OK;
}

/* A communicator that has failed is aborted, since finishing it would wait for the others. */
static void end_comm(weft_nccl *n) {
    if (n->failed || wait_for(n, n->library->comm_finish(n->comm), "the end", NULL)) {
        n->library->comm_abort(n->comm);
    } else {
        n->library->comm_free(n->comm);
    }
}

void weft_nccl_close(weft_nccl *nccl) {
    weft_nccl *n = nccl;
    int pushed;
    if (!n) {
        return;
    }
    if (n->gpu.context && enter(n, &pushed, NULL) == WEFT_OK) {
        if (n->is_ours && n->comm && !n->is_aborted) {
            end_comm(n);
        }
        n->open = NULL;
        drop_rounds(n, 1);
        if (n->stream) {
            n->gpu.driver->stream_free(n->stream);
        }
        weft_events_close(&n->events);
        weft_cuda_leave(n->gpu.driver, pushed);
    }
    weft_cuda_context_close(&n->gpu);
    free(n);
}

int32_t weft_nccl_is_aborted(const weft_nccl *nccl) {
    return nccl && nccl->is_aborted;
}
