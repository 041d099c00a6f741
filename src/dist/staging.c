/* Messages between GPUs by way of the host. Those to a neighbour, and those from it, are a lane: it has two pinned buffers,
 * through which its messages go piece by piece in their order. */
#include "dist/staging.h"

#include <stdlib.h>

#include "base/status.h"
#include "cuda/driver/context.h"
#include "dist/events.h"

/* What messages of a round wait for. */
typedef struct round {
    weft_event *ready;
    int64_t uses; /* messages, and 1 until end() */
} round;

typedef struct message {
    struct message *next; /* of its lane */
    round *round;
    char *at;                  /* on the GPU */
    size_t bytes, taken, left; /* taken into buffers; that have not yet come through */
    int32_t peer, tag, is_receive;
    void *request; /* handed on as it is */
    weft_status status;
    weft_message why;
} message;

typedef enum state { EMPTY, COPIED_OUT, SENT, RECEIVED, COPIED_IN } state;

typedef struct piece {
    state state;
    char *pinned;
    message *of;
    size_t at, bytes;
    weft_event *copied;
    void *request;
} piece;

typedef struct lane {
    struct lane *next;
    int32_t peer, is_receive;
    message *first, *last; /* that are not all taken */
    piece pieces[2];
    int turn; /* of the buffer that the next piece takes */
} lane;

struct weft_staging {
    weft_transport host;
    weft_cuda_context gpu;
    weft_events events;
    void *streams[2]; /* copies from the GPU, and to it */
    size_t bytes;     /* of a pinned buffer; 0: there are none, messages are handed on as they are */
    round *open;
    lane *lanes;
    int lost; /* 1: what was given up may still be read or written: pinned buffers stay */
};

static void leave_round(weft_staging *s, round *r) {
    if (--r->uses == 0) {
        weft_event_give(&s->events, r->ready);
        free(r);
    }
}

static void free_message(weft_staging *s, message *m) {
    leave_round(s, m->round);
    free(m);
}

static void fail_message(message *m, weft_status status, const weft_message *why) {
    if (m->status == WEFT_OK) {
        m->status = status;
        m->why = *why;
    }
}

/* ---- pieces ---- */

/* Begins what a piece does next. */
static weft_status copy_out(weft_staging *s, piece *p, weft_message *why) {
    const weft_cu_result result =
        s->gpu.driver->copy_out_async(p->pinned, (uint64_t)(uintptr_t)(p->of->at + p->at), p->bytes, s->streams[0]);
    p->state = COPIED_OUT;
    return result ? weft_cuda_fail(s->gpu.driver, result, "a message cannot be copied from the GPU", why)
                  : weft_event_take(&s->events, s->streams[0], &p->copied, why);
}

static weft_status copy_in(weft_staging *s, piece *p, weft_message *why) {
    const weft_cu_result result =
        s->gpu.driver->copy_in_async((uint64_t)(uintptr_t)(p->of->at + p->at), p->pinned, p->bytes, s->streams[1]);
    p->state = COPIED_IN;
    return result ? weft_cuda_fail(s->gpu.driver, result, "a message cannot be copied to the GPU", why)
                  : weft_event_take(&s->events, s->streams[1], &p->copied, why);
}

static weft_status begin_send(const weft_staging *s, piece *p, weft_message *why) {
    p->state = SENT;
    return s->host.send(s->host.self, p->pinned, p->bytes, p->of->peer, p->of->tag, &p->request, why);
}

static weft_status begin_receive(const weft_staging *s, piece *p, weft_message *why) {
    p->state = RECEIVED;
    return s->host.receive(s->host.self, p->pinned, p->bytes, p->of->peer, p->of->tag, &p->request, why);
}

/* A piece has come through, or its message has failed. */
static void empty(weft_staging *s, piece *p) {
    p->of->left -= p->bytes;
    weft_event_give(&s->events, p->copied);
    p->copied = NULL;
    p->request = NULL;
    p->of = NULL;
    p->state = EMPTY;
}

/* Looks after a piece: whether what it does is over, and then the next. */
static void push(weft_staging *s, piece *p) {
    weft_message why = {""};
    weft_status status = WEFT_OK;
    int32_t done = 1;
    int over = 1;
    if (p->state == COPIED_OUT || p->state == COPIED_IN) {
        status = weft_event_look(&s->events, p->copied, &over, &why);
    } else if (p->request) {
        status = s->host.test(s->host.self, p->request, &done, &why);
        p->request = status || done ? NULL : p->request;
    }
    if (status == WEFT_OK && (!done || !over)) {
        return;
    }
    const state was = p->state;
    if (status == WEFT_OK && (was == COPIED_OUT || was == RECEIVED)) {
        weft_event_give(&s->events, p->copied);
        p->copied = NULL;
        status = was == COPIED_OUT ? begin_send(s, p, &why) : copy_in(s, p, &why);
        if (status == WEFT_OK) {
            return;
        }
    }
    if (status) {
        fail_message(p->of, status, &why);
    }
    empty(s, p);
}

/* Whether the first message of a lane may begin: the stream has come so far. Its failure is told when it is tested. */
static int is_ready(const weft_staging *s, const lane *l) {
    message *m = l->first;
    weft_message why = {""};
    int over = 0;
    const weft_status status = m && !m->status ? weft_event_look(&s->events, m->round->ready, &over, &why) : WEFT_OK;
    if (status) {
        fail_message(m, status, &why);
    }
    return over;
}

static void take_first(lane *l) {
    l->first = l->first->next;
    l->last = l->first ? l->last : NULL;
}

/* Gives the lane's next piece a buffer. Returns whether there was one, and a buffer for it. */
static int fill(weft_staging *s, lane *l) {
    piece *p = &l->pieces[l->turn];
    message *m = l->first;
    weft_message why = {""};
    if (p->state != EMPTY || !is_ready(s, l)) {
        return 0;
    }
    p->of = m;
    p->at = m->taken;
    p->bytes = m->bytes - m->taken < s->bytes ? m->bytes - m->taken : s->bytes;
    m->taken += p->bytes;
    if (m->taken == m->bytes) {
        take_first(l);
    }
    l->turn = !l->turn;
    const weft_status status = m->is_receive ? begin_receive(s, p, &why) : copy_out(s, p, &why);
    if (status) {
        fail_message(m, status, &why);
        empty(s, p);
    }
    return 1;
}

/* Hands the first message of a lane on as it is. */
static int hand_on(weft_staging *s, lane *l) {
    message *m = l->first;
    const weft_transport *t = &s->host;
    if (!is_ready(s, l)) {
        return 0;
    }
    take_first(l);
    m->status = m->is_receive ? t->receive(t->self, m->at, m->bytes, m->peer, m->tag, &m->request, &m->why)
                              : t->send(t->self, m->at, m->bytes, m->peer, m->tag, &m->request, &m->why);
    m->left = m->request ? m->left : 0;
    return 1;
}

/* Looks after the pieces of a lane, the older one first: what it has copied is sent first, though the other may have been
 * found copied before it. */
static void push_both(weft_staging *s, lane *l) {
    piece *older = &l->pieces[l->turn], *younger = &l->pieces[!l->turn];
    if (older->state != EMPTY) {
        push(s, older);
    }
    if (younger->state != EMPTY && older->state != COPIED_OUT) {
        push(s, younger);
    }
}

static void go_on(weft_staging *s) {
    for (lane *l = s->lanes; l; l = l->next) {
        push_both(s, l);
        while (s->bytes > 0 ? fill(s, l) : hand_on(s, l)) {
        }
    }
}

/* ---- lanes ---- */

static void free_lane(const weft_staging *s, lane *l) {
    for (int i = 0; i < 2; i++) {
        if (l->pieces[i].pinned && !s->lost) {
            s->gpu.driver->host_free(l->pieces[i].pinned);
        }
    }
    free(l);
}

/* That of a neighbour and a direction: made with its first message. */
static weft_status lane_of(weft_staging *s, int32_t peer, int32_t is_receive, lane **found, weft_message *why) {
    for (*found = s->lanes; *found; *found = (*found)->next) {
        if ((*found)->peer == peer && (*found)->is_receive == is_receive) {
            return WEFT_OK;
        }
    }
    lane *l = calloc(1, sizeof *l);
    if (!l) {
        return weft_fail(why, WEFT_NO_MEMORY, "no memory for messages of rank %d", (int)peer);
    }
    l->peer = peer;
    l->is_receive = is_receive;
    for (int i = 0; i < 2 && s->bytes > 0; i++) {
        void *pinned = NULL;
        const weft_cu_result result = s->gpu.driver->host_new(&pinned, s->bytes, WEFT_CU_HOST_MAPPED);
        if (result) {
            free_lane(s, l);
            return weft_cuda_fail(s->gpu.driver, result, "no pinned memory for messages", why);
        }
        l->pieces[i].pinned = pinned;
    }
    l->next = s->lanes;
    s->lanes = *found = l;
    return WEFT_OK;
}

/* ---- the transport ---- */

static weft_status enter(const weft_staging *s, int *pushed, weft_message *why) {
    return weft_cuda_enter(s->gpu.driver, s->gpu.context, pushed, why);
}

static weft_status begin_round(void *self, void *stream, weft_message *why) {
    weft_staging *s = self;
    int pushed;
    round *r = calloc(1, sizeof *r);
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
        leave_round(s, s->open);
    }
    s->open = r;
    return WEFT_OK;
}

static weft_status end_round(void *self, weft_message *why) {
    weft_staging *s = self;
    int pushed;
    leave_round(s, s->open);
    s->open = NULL;
    const weft_status status = enter(s, &pushed, why);
    if (!status) {
        go_on(s);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    return status;
}

static weft_status begin(weft_staging *s, message fresh, void **request, weft_message *why) {
    lane *l = NULL;
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
        status = lane_of(s, fresh.peer, fresh.is_receive, &l, why);
        weft_cuda_leave(s->gpu.driver, pushed);
    }
    message *m = status ? NULL : malloc(sizeof *m);
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
    return begin(self, (message){.at = (char *)(uintptr_t)buffer, .bytes = bytes, .peer = to, .tag = tag}, request, why);
}

static weft_status receive(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *why) {
    return begin(self, (message){.at = buffer, .bytes = bytes, .peer = from, .tag = tag, .is_receive = 1}, request, why);
}

/* Takes a message out of its lane, with its pieces. Returns 1 when nobody will touch the GPU's memory for it any more. */
static int give_up(weft_staging *s, message *m) {
    int left_alone = 1;
    for (int i = 0; i < 2; i++) { /* what is being copied is waited for */
        left_alone &= s->gpu.driver->stream_synchronize(s->streams[i]) == 0;
    }
    for (lane *l = s->lanes; l; l = l->next) {
        message *before = NULL;
        for (message **at = &l->first; *at; before = *at, at = &(*at)->next) {
            if (*at == m) {
                *at = m->next;
                l->last = l->last == m ? before : l->last;
                break;
            }
        }
        for (int i = 0; i < 2; i++) {
            piece *p = &l->pieces[i];
            if (p->state != EMPTY && p->of == m) {
                s->lost |= p->request && !s->host.cancel(s->host.self, p->request);
                empty(s, p);
            }
        }
    }
    return m->request ? left_alone & s->host.cancel(s->host.self, m->request) : left_alone;
}

static weft_status test(void *self, void *request, int32_t *done, weft_message *why) {
    weft_staging *s = self;
    message *m = request;
    int pushed;
    weft_status status = enter(s, &pushed, why);
    *done = status != WEFT_OK;
    if (status) {
        return status;
    }
    go_on(s);
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
            give_up(s, m);
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
        left_alone = give_up(s, request);
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
            leave_round(s, s->open);
        }
        while (s->lanes) {
            lane *next = s->lanes->next;
            free_lane(s, s->lanes);
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
