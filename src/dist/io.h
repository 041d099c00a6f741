/* What a rank has under way with others, and waiting for it. */
#ifndef WEFT_DIST_IO_H
#define WEFT_DIST_IO_H

#include "dist/peers.h"
#include "dist/tags.h"

typedef struct weft_io_request {
    void *handle; /* null: it has ended */
    int32_t peer;
    int32_t is_receive;
    int64_t group;
} weft_io_request;

typedef struct weft_io {
    weft_transport transport;
    weft_peers peers;
    weft_io_request *list;
    size_t count, room;
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

/* Waits for all of a group. A rank that does not answer in time is named. */
weft_status weft_io_wait(weft_io *io, int64_t group, weft_message *message);

/* Lets what is under way go on, without waiting: to be called now and then while computing. */
void weft_io_poll(weft_io *io);

/* Gives up whatever is under way. */
void weft_io_cancel(weft_io *io);

#endif
