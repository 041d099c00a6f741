/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/io.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

enum { MOST_BYTES = 1 << 30 };                        /* of a message: counts are of 31 bits in many transports */
static const double SHORTEST = 20e-6, LONGEST = 2e-3; /* seconds between two looks at what is waited for */

weft_status weft_io_open(weft_io *io, const weft_transport *transport, double seconds, weft_message *message) {
    *io = (weft_io){.transport = *transport};
    io->counted = (weft_dist_traffic)WEFT_DIST_TRAFFIC_INIT;
    return weft_peers_open(&io->peers, transport, seconds, message);
}

void weft_io_cancel(weft_io *io) {
    for (size_t i = 0; i < io->count; i++) {
        if (io->list[i].begun && io->list[i].handle) {
            io->lost |= !io->transport.cancel(io->transport.self, io->list[i].handle);
        }
    }
    io->count = 0;
}

void weft_io_close(weft_io *io) {
    weft_io_cancel(io);
    weft_peers_close(&io->peers);
    free(io->list);
    *io = (weft_io){.lost = io->lost};
}

void weft_io_begin(weft_io *io) {
    weft_io_cancel(io);
    weft_peers_begin(&io->peers);
    io->round = io->due = 0;
    io->failed = WEFT_OK;
}

void weft_io_end(weft_io *io, weft_status status) {
    if (status) {
        weft_peers_give_up(&io->peers);
        weft_io_cancel(io);
    }
    weft_peers_end(&io->peers);
}

/* A request at the end of the list, which only grows in the first runs. */
static weft_io_request *add(weft_io *io, weft_message *message) {
    if (io->count == io->room) {
        const size_t room = io->room ? 2 * io->room : 64;
        weft_io_request *list = realloc(io->list, room * sizeof *list);
        if (!list) {
            weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu messages", room);
            return NULL;
        }
        io->list = list;
        io->room = room;
    }
    return &io->list[io->count];
}

/* Hands a message over to the transport. */
static weft_status start(weft_io *io, weft_io_request *r, weft_message *message) {
    const weft_transport *t = &io->transport;
    const weft_status status = r->is_receive ? t->receive(t->self, r->at, r->bytes, r->peer, r->tag, &r->handle, message)
                                             : t->send(t->self, r->at, r->bytes, r->peer, r->tag, &r->handle, message);
    if (!status) {
        r->begun = 1;
        io->counted.received += r->is_receive ? r->bytes : 0;
        io->counted.sent += r->is_receive ? 0 : r->bytes;
        io->counted.messages += !r->is_receive;
    }
    return status;
}

static weft_status begin(weft_io *io, weft_io_request request, weft_message *message) {
    const size_t bytes = request.bytes;
    for (size_t done = 0; done < bytes; done += request.bytes) {
        weft_io_request *to = add(io, message);
        if (!to) {
            return WEFT_NO_MEMORY;
        }
        request.bytes = bytes - done < MOST_BYTES ? bytes - done : MOST_BYTES;
        *to = request;
        to->at += done;
        const weft_status status = io->transport.begin ? WEFT_OK : start(io, to, message);
        if (status) {
            return status;
        }
        io->count++;
    }
    return WEFT_OK;
}

weft_status weft_io_send(weft_io *io, const void *from, size_t bytes, int64_t to, int32_t tag, int64_t group,
                         weft_message *message) {
    return begin(io,
                 (weft_io_request){.peer = (int32_t)to,
                                   .tag = tag,
                                   .group = group,
                                   .round = io->round,
                                   .at = (char *)(uintptr_t)from,
                                   .bytes = bytes},
                 message);
}

weft_status weft_io_receive(weft_io *io, void *to, size_t bytes, int64_t from, int32_t tag, int64_t group,
                            weft_message *message) {
    return begin(io,
                 (weft_io_request){.peer = (int32_t)from,
                                   .tag = tag,
                                   .is_receive = 1,
                                   .group = group,
                                   .round = io->round,
                                   .at = to,
                                   .bytes = bytes},
                 message);
}

/* ---- rounds ---- */

/* The messages of a round by their tags, each tag's in the order in which they were begun: the same at both ends. */
static weft_status hand_over(weft_io *io, int64_t round, weft_message *message) {
    const weft_transport *t = &io->transport;
    weft_status status = t->begin(t->self, io->memory ? io->memory->stream : NULL, message);
    for (int32_t tag = WEFT_FIRST_TAG; tag < WEFT_FIRST_TAG + WEFT_TAGS; tag++) {
        for (size_t i = 0; i < io->count && !status; i++) {
            weft_io_request *r = &io->list[i];
            status = r->begun || r->round != round || r->tag != tag ? WEFT_OK : start(io, r, message);
        }
    }
    return status || !t->end ? status : t->end(t->self, message);
}

/* Hands over what is due, the first round first. */
static weft_status hand_over_due(weft_io *io, weft_message *message) {
    weft_status status = WEFT_OK;
    for (int found = 1; found && !status;) {
        int64_t round = 0;
        found = 0;
        for (size_t i = 0; i < io->count; i++) {
            const weft_io_request *r = &io->list[i];
            if (!r->begun && r->round <= io->due && (!found || r->round < round)) {
                round = r->round;
                found = 1;
            }
        }
        status = found ? hand_over(io, round, message) : WEFT_OK;
    }
    return status;
}

void weft_io_round(weft_io *io, int64_t round) {
    io->round = round;
}

weft_status weft_io_due(weft_io *io, int64_t round, weft_message *message) {
    io->due = round;
    return hand_over_due(io, message);
}

/* ---- waiting ---- */

/* Asks after every request once and drops those that have ended, well or not. Returns how many of a group have not. */
static size_t look(weft_io *io, int64_t group) {
    size_t kept = 0, left = 0;
    for (size_t i = 0; i < io->count; i++) {
        const weft_io_request request = io->list[i];
        int32_t done = request.begun && !request.handle;
        if (request.begun && !done) {
            weft_message why = {""};
            const weft_status status = io->transport.test(io->transport.self, request.handle, &done, &why);
            if (status) {
                done = 1;
                io->why = io->failed ? io->why : why;
                io->failed = io->failed ? io->failed : status;
            }
        }
        if (!done) {
            left += request.group == group;
            io->list[kept++] = request;
        }
    }
    io->count = kept;
    return left;
}

static weft_status failure(const weft_io *io, weft_message *message) {
    return io->failed ? weft_fail(message, io->failed, "%s", io->why.text) : WEFT_OK;
}

void weft_io_poll(weft_io *io) {
    const weft_word none = {.count = 0};
    look(io, -1);
    if (!io->failed) {
        io->failed = weft_peers_tend(&io->peers, &none, &io->why);
    }
}

/* The ranks that a group waits for. */
static weft_word waits_for(const weft_io *io, int64_t group) {
    weft_word word = {.count = 0};
    for (size_t i = 0; i < io->count && word.count < WEFT_WORD_RANKS; i++) {
        int known = io->list[i].group != group;
        for (int32_t j = 0; j < word.count; j++) {
            known |= word.ranks[j] == io->list[i].peer;
        }
        if (!known) {
            word.ranks[word.count++] = io->list[i].peer;
        }
    }
    return word;
}

/* Long waits are looked after less often: it costs a core that others may need. */
static void pause_for(double seconds) {
    weft_pause(seconds < SHORTEST ? SHORTEST : seconds > LONGEST ? LONGEST : seconds);
}

/* While its device computes, a rank computes: it does not yet wait for others. */
static int is_computing(weft_io *io) {
    const int computes = io->memory && io->memory->is_busy && io->memory->is_busy(io->memory);
    if (computes) {
        weft_peers_wait(&io->peers);
    }
    return computes;
}

/* Answers others, and lets a moment pass before the next look. */
static weft_status tend(weft_io *io, const weft_word *waits, size_t looks, double since, weft_message *message) {
    const weft_status status = weft_peers_tend(&io->peers, waits, message);
    if (status == WEFT_OK && looks < 64) {
        sched_yield(); /* others may share this core */
    } else if (status == WEFT_OK) {
        pause_for((weft_now() - since) / 32);
    }
    return status;
}

weft_status weft_io_wait(weft_io *io, int64_t group, weft_message *message) {
    const weft_word none = {.count = 0};
    weft_status status = io->transport.begin ? hand_over_due(io, message) : WEFT_OK;
    if (status || look(io, group) == 0 || io->failed) {
        return status ? status : failure(io, message);
    }
    const double since = weft_now();
    weft_peers_wait(&io->peers);
    for (size_t looks = 0; look(io, group) > 0 && !io->failed && !status; looks++) {
        const weft_word waits = is_computing(io) ? none : waits_for(io, group);
        status = tend(io, &waits, looks, since, message);
    }
    return status ? status : failure(io, message);
}

weft_status weft_io_settle(weft_io *io, weft_message *message) {
    const weft_word none = {.count = 0};
    const double since = weft_now();
    weft_status status = WEFT_OK;
    for (size_t looks = 0; !status && is_computing(io); looks++) {
        status = tend(io, &none, looks, since, message);
    }
    return status || !io->memory ? status : io->memory->settle(io->memory, message);
}
