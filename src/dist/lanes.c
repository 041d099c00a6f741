/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/lanes.h"

#include <stdlib.h>

#include "base/status.h"

void weft_round_leave(weft_staging *s, weft_round *r) {
    if (--r->uses == 0) {
        weft_event_give(&s->events, r->ready);
        free(r);
    }
}

static void fail_message(weft_staged *m, weft_status status, const weft_message *why) {
    if (m->status == WEFT_OK) {
        m->status = status;
        m->why = *why;
    }
}

/* ---- pieces ---- */

/* Begins what a piece does next. */
static weft_status copy_out(weft_staging *s, weft_piece *p, weft_message *why) {
    const weft_cu_result result =
        s->gpu.driver->copy_out_async(p->pinned, (uint64_t)(uintptr_t)(p->of->at + p->at), p->bytes, s->streams[0]);
    p->state = WEFT_PIECE_COPIED_OUT;
    return result ? weft_cuda_fail(s->gpu.driver, result, "a message cannot be copied from the GPU", why)
                  : weft_event_take(&s->events, s->streams[0], &p->copied, why);
}

static weft_status copy_in(weft_staging *s, weft_piece *p, weft_message *why) {
    const weft_cu_result result =
        s->gpu.driver->copy_in_async((uint64_t)(uintptr_t)(p->of->at + p->at), p->pinned, p->bytes, s->streams[1]);
    p->state = WEFT_PIECE_COPIED_IN;
    return result ? weft_cuda_fail(s->gpu.driver, result, "a message cannot be copied to the GPU", why)
                  : weft_event_take(&s->events, s->streams[1], &p->copied, why);
}

static weft_status begin_send(const weft_staging *s, weft_piece *p, weft_message *why) {
    p->state = WEFT_PIECE_SENT;
    return s->host.send(s->host.self, p->pinned, p->bytes, p->of->peer, p->of->tag, &p->request, why);
}

static weft_status begin_receive(const weft_staging *s, weft_piece *p, weft_message *why) {
    p->state = WEFT_PIECE_RECEIVED;
    return s->host.receive(s->host.self, p->pinned, p->bytes, p->of->peer, p->of->tag, &p->request, why);
}

/* A piece has come through, or its message has failed. */
static void empty(weft_staging *s, weft_piece *p) {
    p->of->left -= p->bytes;
    weft_event_give(&s->events, p->copied);
    p->copied = NULL;
    p->request = NULL;
    p->of = NULL;
    p->state = WEFT_PIECE_EMPTY;
}

/* Looks after a piece: whether what it does is over, and then the next. */
static void push(weft_staging *s, weft_piece *p) {
    weft_message why = {""};
    weft_status status = WEFT_OK;
    int32_t done = 1;
    int over = 1;
    if (p->state == WEFT_PIECE_COPIED_OUT || p->state == WEFT_PIECE_COPIED_IN) {
        status = weft_event_look(&s->events, p->copied, &over, &why);
    } else if (p->request) {
        status = s->host.test(s->host.self, p->request, &done, &why);
        p->request = status || done ? NULL : p->request;
    }
    if (status == WEFT_OK && (!done || !over)) {
        return;
    }
    const weft_piece_state was = p->state;
    if (status == WEFT_OK && (was == WEFT_PIECE_COPIED_OUT || was == WEFT_PIECE_RECEIVED)) {
        weft_event_give(&s->events, p->copied);
        p->copied = NULL;
        status = was == WEFT_PIECE_COPIED_OUT ? begin_send(s, p, &why) : copy_in(s, p, &why);
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
static int is_ready(const weft_staging *s, const weft_lane *l) {
    weft_staged *m = l->first;
    weft_message why = {""};
    int over = 0;
    const weft_status status = m && !m->status ? weft_event_look(&s->events, m->round->ready, &over, &why) : WEFT_OK;
    if (status) {
        fail_message(m, status, &why);
    }
    return over;
}

static void take_first(weft_lane *l) {
    l->first = l->first->next;
    l->last = l->first ? l->last : NULL;
}

/* Gives the lane's next piece a buffer. Returns whether there was one, and a buffer for it. */
static int fill(weft_staging *s, weft_lane *l) {
    weft_piece *p = &l->pieces[l->turn];
    weft_staged *m = l->first;
    weft_message why = {""};
    if (p->state != WEFT_PIECE_EMPTY || !is_ready(s, l)) {
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
static int hand_on(weft_staging *s, weft_lane *l) {
    weft_staged *m = l->first;
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
static void push_both(weft_staging *s, weft_lane *l) {
    weft_piece *older = &l->pieces[l->turn], *younger = &l->pieces[!l->turn];
    if (older->state != WEFT_PIECE_EMPTY) {
        push(s, older);
    }
    if (younger->state != WEFT_PIECE_EMPTY && older->state != WEFT_PIECE_COPIED_OUT) {
        push(s, younger);
    }
}

void weft_lanes_go_on(weft_staging *s) {
    for (weft_lane *l = s->lanes; l; l = l->next) {
        push_both(s, l);
        while (s->bytes > 0 ? fill(s, l) : hand_on(s, l)) {
        }
    }
}

/* ---- lanes ---- */

void weft_lane_free(const weft_staging *s, weft_lane *l) {
    for (int i = 0; i < 2; i++) {
        if (l->pieces[i].pinned && !s->lost) {
            s->gpu.driver->host_free(l->pieces[i].pinned);
        }
    }
    free(l);
}

weft_status weft_lane_of(weft_staging *s, int32_t peer, int32_t is_receive, weft_lane **found, weft_message *why) {
    for (*found = s->lanes; *found; *found = (*found)->next) {
        if ((*found)->peer == peer && (*found)->is_receive == is_receive) {
            return WEFT_OK;
        }
    }
    weft_lane *l = calloc(1, sizeof *l);
    if (!l) {
        return weft_fail(why, WEFT_NO_MEMORY, "no memory for messages of rank %d", (int)peer);
    }
    l->peer = peer;
    l->is_receive = is_receive;
    for (int i = 0; i < 2 && s->bytes > 0; i++) {
        void *pinned = NULL;
        const weft_cu_result result = s->gpu.driver->host_new(&pinned, s->bytes, WEFT_CU_HOST_MAPPED);
        if (result) {
            weft_lane_free(s, l);
            return weft_cuda_fail(s->gpu.driver, result, "no pinned memory for messages", why);
        }
        l->pieces[i].pinned = pinned;
    }
    l->next = s->lanes;
    s->lanes = *found = l;
    return WEFT_OK;
}

int weft_staged_give_up(weft_staging *s, weft_staged *m) {
    int left_alone = 1;
    for (int i = 0; i < 2; i++) { /* what is being copied is waited for */
        left_alone &= s->gpu.driver->stream_synchronize(s->streams[i]) == 0;
    }
    for (weft_lane *l = s->lanes; l; l = l->next) {
        weft_staged *before = NULL;
        for (weft_staged **at = &l->first; *at; before = *at, at = &(*at)->next) {
            if (*at == m) {
                *at = m->next;
                l->last = l->last == m ? before : l->last;
                break;
            }
        }
        for (int i = 0; i < 2; i++) {
            weft_piece *p = &l->pieces[i];
            if (p->state != WEFT_PIECE_EMPTY && p->of == m) {
                s->lost |= p->request && !s->host.cancel(s->host.self, p->request);
                empty(s, p);
            }
        }
    }
    return m->request ? left_alone & s->host.cancel(s->host.self, m->request) : left_alone;
}
