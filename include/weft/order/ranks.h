/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Orders across ranks: which part of the keys a rank takes at which step.
 *
 * R ranks, a GPU or a process each, have a part of the keys each, and all parts come by every rank: at step 0 its own. At
 * each step every part is at one rank, so nobody sends or receives more than one. Rows are in orders.def; these are pure
 * functions, which the ranks and the simulator share.
 */
#ifndef WEFT_ORDER_RANKS_H
#define WEFT_ORDER_RANKS_H

#include "base.h"

/** Orders across ranks, in the order of orders.def. */
typedef enum weft_rank_order {
    WEFT_RANK_ORDER_CHOOSE = 0,
#define WEFT_RANK_ORDER(ID, function, name, lag, text) WEFT_RANK_ORDER_##ID,
#include "../orders.def"
    WEFT_RANK_ORDER_END,
    WEFT_RANK_ORDERS = WEFT_RANK_ORDER_END - 1 /**< how many there are */
} weft_rank_order;

/** Who goes by which order: a plain value. */
typedef struct weft_ring {
    int32_t order; /**< a weft_rank_order */
    int64_t ranks;
    int64_t columns; /**< of the mesh that ranks lie in, row by row; at least 1. Orders without a mesh ignore it */
} weft_ring;

/** n modulo count, from 0 on. */
WEFT_INLINE int64_t weft_wrap(int64_t n, int64_t count) {
    const int64_t rest = n % count;
    return rest < 0 ? rest + count : rest;
}

/* Each order says how far along its circle of ranks a part has come at a step, and where a rank is on that circle. */

WEFT_INLINE int64_t weft_ring_distance_ring(int64_t step) {
    return step;
}

WEFT_INLINE int64_t weft_ring_distance_zigzag(int64_t step) {
    return step % 2 ? step / 2 + 1 : -(step / 2);
}

WEFT_INLINE int64_t weft_ring_distance_mesh_cycle(int64_t step) {
    return step;
}

/** Place of (row, column) on a circle through all of rows x columns, where rows is even and both are at least 2: through
 * the columns from 1 on, line by line, to and fro, and back along column 0. */
WEFT_INLINE int64_t weft_mesh_place(int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return column == 0 ? rows * (columns - 1) + rows - 1 - row
                       : row * (columns - 1) + (row % 2 ? columns - 1 - column : column - 1);
}

/** The inverse: row * columns + column. */
WEFT_INLINE int64_t weft_mesh_at(int64_t rows, int64_t columns, int64_t place) {
    if (place >= rows * (columns - 1)) {
        return (rows * columns - 1 - place) * columns;
    }
    const int64_t row = place / (columns - 1), along = place % (columns - 1);
    return row * columns + (row % 2 ? columns - 1 - along : along + 1);
}

/** How the ranks of a mesh can be gone through: 1: its rows are even, or its columns are, and then 2; 0: there is no circle
 * through all of its neighbours, and they are gone through line by line, to and fro. */
WEFT_INLINE int weft_mesh_circle(const weft_ring *ring) {
    const int64_t rows = ring->columns > 0 ? ring->ranks / ring->columns : 0;
    if (rows < 2 || ring->columns < 2 || rows * ring->columns != ring->ranks) {
        return 0;
    }
    return rows % 2 == 0 ? 1 : ring->columns % 2 == 0 ? 2 : 0;
}

/** Where a rank is on the circle, and which rank is at a place. */
WEFT_INLINE int64_t weft_ring_place(const weft_ring *ring, int64_t rank) {
    if (ring->order != WEFT_RANK_ORDER_MESH_CYCLE || ring->columns < 2) {
        return rank;
    }
    const int64_t columns = ring->columns, rows = ring->ranks / columns, row = rank / columns, column = rank % columns;
    const int circle = weft_mesh_circle(ring);
    if (circle == 0) {
        const int64_t last = ring->ranks - row * columns, line = last < columns ? last : columns;
        return row * columns + (row % 2 ? line - 1 - column : column);
    }
    return circle == 1 ? weft_mesh_place(rows, columns, row, column) : weft_mesh_place(columns, rows, column, row);
}

WEFT_INLINE int64_t weft_ring_rank(const weft_ring *ring, int64_t place) {
    if (ring->order != WEFT_RANK_ORDER_MESH_CYCLE || ring->columns < 2) {
        return place;
    }
    const int64_t columns = ring->columns, rows = ring->ranks / columns;
    const int circle = weft_mesh_circle(ring);
    if (circle == 0) {
        return weft_ring_place(ring, place); /* to and fro is its own inverse */
    }
    const int64_t at = weft_mesh_at(circle == 1 ? rows : columns, circle == 1 ? columns : rows, place);
    return circle == 1 ? at : at % rows * columns + at / rows;
}

/** How far along the circle parts are at a step. */
WEFT_INLINE int64_t weft_ring_distance(const weft_ring *ring, int64_t step) {
    switch (ring->order) {
#define WEFT_RANK_ORDER(ID, function, name, lag, text)                                                                     \
    case WEFT_RANK_ORDER_##ID:                                                                                             \
        return weft_ring_distance_##function(step);
#include "../orders.def"
    default:
        return 0;
    }
}

/** Steps that a part takes from a rank to the next that has it: who relays it keeps it for so long. */
WEFT_INLINE int64_t weft_ring_lag(const weft_ring *ring) {
    switch (ring->order) {
#define WEFT_RANK_ORDER(ID, function, name, lag, text)                                                                     \
    case WEFT_RANK_ORDER_##ID:                                                                                             \
        return lag;
#include "../orders.def"
    default:
        return 1;
    }
}

/** The part that a rank takes at a step, 0 .. ranks - 1: that of the rank of this number. */
WEFT_INLINE int64_t weft_ring_part(const weft_ring *ring, int64_t rank, int64_t step) {
    return weft_ring_rank(ring, weft_wrap(weft_ring_place(ring, rank) - weft_ring_distance(ring, step), ring->ranks));
}

/** The rank that takes a part at a step. */
WEFT_INLINE int64_t weft_ring_taker(const weft_ring *ring, int64_t part, int64_t step) {
    return weft_ring_rank(ring, weft_wrap(weft_ring_place(ring, part) + weft_ring_distance(ring, step), ring->ranks));
}

#endif
