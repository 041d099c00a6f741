/* SPDX-License-Identifier: Apache-2.0 */
/* Adds that take turns: who waits at which piece, and who goes on when an add is done. */
#ifndef WEFT_SIM_TURNS_H
#define WEFT_SIM_TURNS_H

#include <stdint.h>

typedef struct weft_sim_waiter {
    int64_t turn; /* that it waits for */
    double since;
    int32_t next; /* the worker behind it in the piece's list, plus 1; 0: none */
} weft_sim_waiter;

typedef struct weft_sim_turns {
    uint32_t *done;           /* (pieces) adds that each has had */
    double *free_at;          /* (pieces) when whoever has the next turn may add */
    int32_t *first;           /* (pieces) the first worker of the list of those that wait there, plus 1; 0: none */
    weft_sim_waiter *waiters; /* (workers) */
    int64_t count;            /* workers that wait now */
    double seconds;           /* that all have waited */
} weft_sim_turns;

/* Returns 0 when memory ran out; release it in any case. */
int weft_sim_turns_init(weft_sim_turns *turns, uint32_t pieces, int64_t workers);
void weft_sim_turns_release(weft_sim_turns *turns);

/* When a worker that comes to a piece may add: `now`, or later; INFINITY: others have to add first, and it is to be left
 * alone until weft_sim_turns_pass() names it. Who may add later asks again then. */
double weft_sim_turns_take(weft_sim_turns *turns, uint32_t piece, int32_t worker, int64_t turn, double now);

/* Counts an add to a piece, behind which the next may come at time `then`. Returns the worker that waits for that; -1:
 * none. */
int32_t weft_sim_turns_pass(weft_sim_turns *turns, uint32_t piece, double then);

#endif
