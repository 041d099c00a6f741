/* SPDX-License-Identifier: Apache-2.0 */
/* Every schedule that a question leaves open: the one enumerator, for tuning by time and for searching by simulation. */
#ifndef WEFT_SEARCH_SPACE_H
#define WEFT_SEARCH_SPACE_H

#include "plan/plan.h"

/* What varies beside orders and sweeps. What the caller has fixed stays fixed. */
typedef struct weft_space {
    const weft_schedule *shapes; /* schedules that differ in tiles (and what goes with them); null: as given */
    size_t count;                /* of shapes */
    int groups, dispatches;      /* 1: these vary, too */
} weft_space;

/* Calls `visit` for every schedule of a space, in an order that is always the same: shapes, orders and sweeps that apply to
 * the operation, with groups between them, dispatches, the last varying fastest. */
void weft_space_walk(const weft_space *space, const weft_schedule *given, const weft_operation_row *operation,
                     void (*visit)(void *user, const weft_schedule *schedule), void *user);

/* The usual tiles, as copies of the draft's schedule with their sides filled in, their steps `cut` times shorter. Returns
 * how many. */
enum { WEFT_SHAPES = 8 };
size_t weft_space_shapes(const weft_plan *draft, int64_t cut, weft_schedule shapes[WEFT_SHAPES]);

/* Whether what a step of a plan's tiles reads fits the memory of a worker. */
int weft_space_fits(const weft_plan *plan);

/* A number that is the same for plans that do the same: kernel, tiles, and which worker visits what, in which direction. */
uint64_t weft_space_fingerprint(const weft_plan *plan);

#endif
