/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank has under way with others, and waiting for it. */
#ifndef WEFT_DIST_IO_H
#define WEFT_DIST_IO_H

#include "dist/memory.h"
#include "dist/peers.h"
#include "dist/tags.h"

typedef struct weft_io_request {
    void *handle; /* null: it has ended, if it has begun */
    int32_t peer, tag;
    int32_t is_receive, begun;
    int64_t group, round;
    char *at;
    size_t bytes;
} weft_io_request;

typedef struct weft_io {
    weft_transport transport;
    const weft_dist_memory *memory; /* where the rank computes; null: on the host */
    weft_peers peers;
    weft_io_request *list;
    size_t count, room;
    int64_t round, due;
    weft_status failed; /* what a message has failed with, for whoever waits next */
    weft_message why;
    int lost; /* 1: a buffer that was given up may still be written to, or read */
    weft_dist_traffic counted;
} weft_io;

weft_status weft_io_open(weft_io *io, const weft_transport *transport, double seconds, weft_message *message);

/* Gives up what is under way, and its memory. */
void weft_io_close(weft_io *io);

/* A run begins: nothing of another is under way. */
void weft_io_begin(weft_io *io);

/* It ends. A run that has failed here fails at all ranks: they are told, and what is under way is given up. */
void weft_io_end(weft_io *io, weft_status status);

/* Begin to send or receive. What is of a group is waited for together. */
weft_status weft_io_send(weft_io *io, const void *from, size_t bytes, int64_t to, int32_t tag, int64_t group,
                         weft_message *message);
weft_status weft_io_receive(weft_io *io, void *to, size_t bytes, int64_t from, int32_t tag, int64_t group,
                            weft_message *message);

/* A transport with begin() takes messages round by round. All ranks have the same rounds in the same order, and a message
 * is sent and received in the same one: so none waits for a message behind one that waits for it. What is begun is of the
 * round that was said last, 0 at first; rounds up to the one that is due are handed over, the others when they are. To
 * other transports rounds are nothing: messages begin at once. */
void weft_io_round(weft_io *io, int64_t round);
weft_status weft_io_due(weft_io *io, int64_t round, weft_message *message);

/* Waits until the rank's device has done what it was given, and answers others meanwhile. */
weft_status weft_io_settle(weft_io *io, weft_message *message);

/* Waits for all of a group. A rank that does not answer in time is named. */
weft_status weft_io_wait(weft_io *io, int64_t group, weft_message *message);

/* Lets what is under way go on, without waiting: to be called now and then while computing. */
void weft_io_poll(weft_io *io);

/* Gives up whatever is under way. */
void weft_io_cancel(weft_io *io);

#endif
