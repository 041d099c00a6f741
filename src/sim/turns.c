/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/turns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int weft_sim_turns_init(weft_sim_turns *turns, uint32_t pieces, int64_t workers) {
    memset(turns, 0, sizeof *turns);
    turns->done = calloc(pieces, sizeof *turns->done);
    turns->free_at = calloc(pieces, sizeof *turns->free_at);
    turns->first = calloc(pieces, sizeof *turns->first);
    turns->waiters = calloc((size_t)workers, sizeof *turns->waiters);
    return turns->done && turns->free_at && turns->first && turns->waiters;
}

void weft_sim_turns_release(weft_sim_turns *turns) {
    free(turns->done);
    free(turns->free_at);
    free(turns->first);
    free(turns->waiters);
}

double weft_sim_turns_take(weft_sim_turns *turns, uint32_t piece, int32_t worker, int64_t turn, double now) {
    if ((int64_t)turns->done[piece] == turn) {
        const double then = fmax(now, turns->free_at[piece]);
        turns->seconds += then - now;
        return then;
    }
    turns->waiters[worker] = (weft_sim_waiter){turn, now, turns->first[piece]};
    turns->first[piece] = worker + 1;
    turns->count++;
    return INFINITY;
}

int32_t weft_sim_turns_pass(weft_sim_turns *turns, uint32_t piece, double then) {
    const int64_t turn = ++turns->done[piece];
    turns->free_at[piece] = then;
    for (int32_t *link = &turns->first[piece]; *link != 0; link = &turns->waiters[*link - 1].next) {
        weft_sim_waiter *w = &turns->waiters[*link - 1];
        if (w->turn == turn) {
            const int32_t worker = *link - 1;
            *link = w->next;
            turns->count--;
            turns->seconds += then - w->since;
            return worker;
        }
    }
    return -1;
}
