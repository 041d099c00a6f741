/* SPDX-License-Identifier: Apache-2.0 */
/* Who of the other ranks is there: ranks that wait for long ask those that they wait for, and these answer. */
#ifndef WEFT_DIST_PEERS_H
#define WEFT_DIST_PEERS_H

#include <weft/dist.h>

/* What ranks tell each other. It is small, so that a transport sends it without waiting for whom it is for. */
typedef enum weft_word_kind {
    WEFT_WORD_ASKS = 1, /* are you there? */
    WEFT_WORD_COMPUTES, /* an answer: yes, and computing */
    WEFT_WORD_WAITS,    /* an answer: yes, and waiting for `ranks` */
    WEFT_WORD_GIVES_UP  /* my run has failed because of `ranks`; of none: for a reason of its own */
} weft_word_kind;

enum { WEFT_WORD_RANKS = 10 };

typedef struct weft_word {
    uint64_t number; /* of an ask, and of its answer: an answer to an earlier ask does not count */
    int32_t kind;
    int32_t count;
    int32_t ranks[WEFT_WORD_RANKS];
} weft_word;

/* A word on its way. */
typedef struct weft_mail {
    void *handle; /* null: it is not under way */
    weft_word word;
} weft_mail;

typedef struct weft_peer {
    weft_mail in, ask, answer, farewell;
    uint64_t asked, owes; /* numbers of asks: that it has not answered, that it is still to be answered; 0: none */
    double asked_at;
    weft_word said; /* its last answer */
    int chained;    /* it is waited for, or who is waited for waits for it */
} weft_peer;

typedef struct weft_peers {
    weft_transport transport; /* of words */
    int mute;                 /* it takes the memory of a device only, and words lie in the host's */
    double seconds;           /* that is waited at most */
    weft_peer *list;
    int32_t *chain;    /* (size) */
    uint64_t number;   /* of the last ask */
    double began;      /* the run */
    double heard;      /* when was last listened */
    double since;      /* that nobody has been known to compute: waiting is counted from here */
    weft_status over;  /* the run has failed, since a rank has given up */
    weft_message why;  /* what is returned then */
    weft_word verdict; /* whom this rank has found silent */
    int lost;          /* 1: a buffer that was given up may still be written to, or read */
} weft_peers;

weft_status weft_peers_open(weft_peers *peers, const weft_transport *transport, double seconds, weft_message *message);
void weft_peers_close(weft_peers *peers);

/* A run begins, and ends: no word is under way. */
void weft_peers_begin(weft_peers *peers);
void weft_peers_end(weft_peers *peers);

/* A wait begins. */
void weft_peers_wait(weft_peers *peers);

/* Hears what there is to hear and answers, if that is due: `waits` are the ranks that this one waits for, of whom each may
 * be there several times; none: it computes. Fails when a rank has given up, or has not answered for the time limit. */
weft_status weft_peers_tend(weft_peers *peers, const weft_word *waits, weft_message *message);

/* Tells all others that this rank's run has failed. */
void weft_peers_give_up(weft_peers *peers);

#endif
