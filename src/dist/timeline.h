/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in time: what a simulation knows of each, and what they send each other. */
#ifndef WEFT_DIST_TIMELINE_H
#define WEFT_DIST_TIMELINE_H

#include "dist/dist.h"
#include "dist/links.h"
#include "dist/prices.h"

/* What is sent: keys by whose they are, or by who passes them on; gradients to who goes on with them, or to whose they are.
 */
typedef enum weft_sent_kind { WEFT_SENT_OWN, WEFT_SENT_ON, WEFT_SENT_ADDS, WEFT_SENT_HOME } weft_sent_kind;

typedef struct weft_transfer {
    double ready;
    int64_t from, to, step; /* gradients: of which step they are */
    uint64_t bytes;
    weft_sent_kind kind;
} weft_transfer;

enum { WEFT_TIMELINE_WINDOW = 8 }; /* steps that are remembered: two lags and this one are needed */

typedef struct weft_group_step {
    weft_hop hop;
    double seconds; /* that it computes */
} weft_group_step;

/* Times of a rank at a step. */
typedef struct weft_moment {
    double received; /* what it computes with is there, and what the next step needs is asked for */
    double computed;
    double sent_adds; /* the gradients of the step have left */
} weft_moment;

typedef struct weft_rank_times {
    double start; /* of the pass */
    double came;  /* to the step: the one before is done, and what it had a lag ago is passed on */
    double begin; /* of computing */
    double end;
    double keys, passed_on, adds, home; /* when messages of the step have come, or gone */
    int64_t home_rows;
    double computing;
    uint64_t sent, left; /* bytes, and of these what left the node */
} weft_rank_times;

typedef struct weft_group_size {
    double pairs;
    int64_t most_queries, most_keys; /* of a slice */
} weft_group_size;

typedef struct weft_timeline {
    const weft_dist *dist;
    weft_prices *prices;
    weft_links links;
    int64_t ranks, members, lag, ahead; /* ahead: steps that a rank receives for at a time */
    int back, all_posted;               /* all_posted: every send is handed over at the start */
    weft_group_step *steps;             /* (WEFT_TIMELINE_WINDOW, groups) */
    int64_t known;                      /* steps that have been looked up */
    weft_moment *moments;               /* (WEFT_TIMELINE_WINDOW, ranks) */
    weft_rank_times *rank;
    weft_group_size *group;
    weft_transfer *transfers;
    size_t count;
    size_t known_kernels; /* from before */
    weft_message *message;
} weft_timeline;

static inline weft_group_step *weft_timeline_step(const weft_timeline *s, int64_t group, int64_t step) {
    return &s->steps[(step % WEFT_TIMELINE_WINDOW) * s->dist->rings + group];
}

static inline weft_moment *weft_timeline_moment(const weft_timeline *s, int64_t rank, int64_t step) {
    return &s->moments[(step % WEFT_TIMELINE_WINDOW) * s->ranks + rank];
}

/* The keys of a step, when the sender has handed them over and the receiver has asked for them. */
void weft_timeline_keys(weft_timeline *s, int64_t rank, int64_t step);

/* The gradients that a rank goes on with at a step. It asked for them when it began the step before. */
void weft_timeline_adds(weft_timeline *s, int64_t rank, int64_t step);

/* The gradients of a rank's own keys that come home from a step. */
void weft_timeline_home(weft_timeline *s, int64_t rank, int64_t step, double asked);

/* Links serve messages in the order of steps, and within a step as they are ready. */
void weft_timeline_send(weft_timeline *s);

/* The exchange of heads within groups, tensor by tensor. */
void weft_timeline_heads(weft_timeline *s, int out);

/* All ranks tell all others a few words. */
void weft_timeline_tell(weft_timeline *s);

#endif
