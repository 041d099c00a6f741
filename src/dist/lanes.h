/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: messages between a GPU and a neighbour, one way, piece by piece by way of the host. */
#ifndef WEFT_DIST_LANES_H
#define WEFT_DIST_LANES_H

#include <weft/dist.h>

#include "cuda/driver/context.h"
#include "dist/events.h"

/* What messages of a round wait for. */
typedef struct weft_round {
    weft_event *ready;
    int64_t uses; /* messages, and 1 until end() */
} weft_round;

typedef struct weft_staged {
    struct weft_staged *next; /* of its lane */
    weft_round *round;
    char *at;                  /* on the GPU */
    size_t bytes, taken, left; /* taken into buffers; that have not yet come through */
    int32_t peer, tag, is_receive;
    void *request; /* handed on as it is */
    weft_status status;
    weft_message why;
} weft_staged;

typedef enum weft_piece_state {
    WEFT_PIECE_EMPTY,
    WEFT_PIECE_COPIED_OUT,
    WEFT_PIECE_SENT,
    WEFT_PIECE_RECEIVED,
    WEFT_PIECE_COPIED_IN
} weft_piece_state;

typedef struct weft_piece {
    weft_piece_state state;
    char *pinned;
    weft_staged *of;
    size_t at, bytes;
    weft_event *copied;
    void *request;
} weft_piece;

typedef struct weft_lane {
    struct weft_lane *next;
    int32_t peer, is_receive;
    weft_staged *first, *last; /* that are not all taken */
    weft_piece pieces[2];
    int turn; /* of the buffer that the next piece takes */
} weft_lane;

typedef struct weft_staging {
    weft_transport host;
    weft_cuda_context gpu;
    weft_events events;
    void *streams[2]; /* copies from the GPU, and to it */
    size_t bytes;     /* of a pinned buffer; 0: there are none, messages are handed on as they are */
    weft_round *open;
    weft_lane *lanes;
    int lost; /* 1: what was given up may still be read or written: pinned buffers stay */
} weft_staging;

/* Ends a use of a round; the last one frees it. */
void weft_round_leave(weft_staging *s, weft_round *r);

/* The lane of a neighbour and a direction: made with its first message. */
weft_status weft_lane_of(weft_staging *s, int32_t peer, int32_t is_receive, weft_lane **found, weft_message *why);
void weft_lane_free(const weft_staging *s, weft_lane *l);

/* Does what can be done for all messages without waiting. */
void weft_lanes_go_on(weft_staging *s);

/* Takes a message out of its lane, with its pieces. Returns 1 when nobody will touch the GPU's memory for it any more. */
int weft_staged_give_up(weft_staging *s, weft_staged *m);

#endif
