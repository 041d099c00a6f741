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
        if (io->list[i].handle) {
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

weft_status weft_io_send(weft_io *io, const void *from, size_t bytes, int64_t to, int32_t tag, int64_t group,
                         weft_message *message) {
    for (size_t done = 0; done < bytes;) {
        const size_t part = bytes - done < MOST_BYTES ? bytes - done : MOST_BYTES;
        weft_io_request *request = add(io, message);
        if (!request) {
            return WEFT_NO_MEMORY;
        }
        *request = (weft_io_request){NULL, (int32_t)to, 0, group};
        const weft_status status = io->transport.send(io->transport.self, (const char *)from + done, part, (int32_t)to, tag,
                                                      &request->handle, message);
        if (status) {
            return status;
        }
        io->count++;
        io->counted.sent += part;
        io->counted.messages++;
        done += part;
    }
    return WEFT_OK;
}

weft_status weft_io_receive(weft_io *io, void *to, size_t bytes, int64_t from, int32_t tag, int64_t group,
                            weft_message *message) {
    for (size_t done = 0; done < bytes;) {
        const size_t part = bytes - done < MOST_BYTES ? bytes - done : MOST_BYTES;
        weft_io_request *request = add(io, message);
        if (!request) {
            return WEFT_NO_MEMORY;
        }
        *request = (weft_io_request){NULL, (int32_t)from, 1, group};
        const weft_status status = io->transport.receive(io->transport.self, (char *)to + done, part, (int32_t)from, tag,
                                                         &request->handle, message);
        if (status) {
            return status;
        }
        io->count++;
        io->counted.received += part;
        done += part;
    }
    return WEFT_OK;
}

/* Asks after every request once and drops those that have ended, well or not. Returns how many of a group have not. */
static size_t look(weft_io *io, int64_t group) {
    size_t kept = 0, left = 0;
    for (size_t i = 0; i < io->count; i++) {
        const weft_io_request request = io->list[i];
        int32_t done = !request.handle;
        if (!done) {
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

weft_status weft_io_wait(weft_io *io, int64_t group, weft_message *message) {
    if (look(io, group) == 0 || io->failed) {
        return failure(io, message);
    }
    const double begin = weft_now();
    weft_peers_wait(&io->peers);
    for (size_t looks = 0; look(io, group) > 0 && !io->failed; looks++) {
        const weft_word waits = waits_for(io, group);
        const weft_status status = weft_peers_tend(&io->peers, &waits, message);
        if (status) {
            return status;
        }
        if (looks < 64) {
            sched_yield(); /* others may share this core */
        } else {
            pause_for((weft_now() - begin) / 32);
        }
    }
    return failure(io, message);
}
