/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * hilbert: a space-filling curve over any rectangle, computed from the position in O(log) steps.
 *
 * The curve follows the generalised Hilbert construction: a rectangle is cut in two along a side that is much longer
 * than the other, otherwise in three (a turn, a straight run, a turn back), and each piece is a smaller such rectangle.
 * Cuts fall on even lengths, so that a piece ends beside the start of the next.
 */
#ifndef WEFT_ORDER_HILBERT_H
#define WEFT_ORDER_HILBERT_H

#include "base.h"

/** A rectangle on the way: from (x, y), `length` steps in direction (lx, ly), then `width` in direction (wx, wy). */
typedef struct weft_curve {
    int64_t x, y, length, width;
    int32_t lx, ly, wx, wy;
} weft_curve;

/** Half of n, rounded up to an even number where n is big enough to leave something over. */
WEFT_INLINE int64_t weft_even_half(int64_t n) {
    const int64_t half = n / 2;
    return half + (half % 2 != 0 && n > 2);
}

/** Moves c to its piece that starts `forward` steps along its length and `aside` steps along its width. */
WEFT_INLINE void weft_curve_move(weft_curve *c, int64_t forward, int64_t aside) {
    c->x += forward * c->lx + aside * c->wx;
    c->y += forward * c->ly + aside * c->wy;
}

/** Exchanges the two axes of c; sign -1 also turns both around. */
WEFT_INLINE void weft_curve_turn(weft_curve *c, int64_t length, int64_t width, int32_t sign) {
    const int32_t lx = c->lx, ly = c->ly;
    c->lx = sign * c->wx;
    c->ly = sign * c->wy;
    c->wx = sign * lx;
    c->wy = sign * ly;
    c->length = length;
    c->width = width;
}

WEFT_INLINE weft_tile weft_order_hilbert(const weft_order *order, int64_t position) {
    const int64_t batch = weft_divide_off(&position, &order->by_batch);
    const int64_t rows = order->grid.rows, cols = order->grid.cols;
    weft_curve c;
    c.x = c.y = 0;
    c.lx = c.wy = cols >= rows;
    c.ly = c.wx = cols < rows;
    c.length = cols >= rows ? cols : rows;
    c.width = cols >= rows ? rows : cols;

    /* A curve from corner to corner along an odd length needs an odd width. Otherwise the last line is left out of the
     * curve and walked at the end, straight from the corner where the curve stops: no diagonal step on any rectangle. */
    if (c.length % 2 != 0 && c.width % 2 == 0) {
        if (position >= (c.length - 1) * c.width) {
            weft_curve_move(&c, c.length - 1, position - (c.length - 1) * c.width);
            return weft_tile_at(batch, c.y, c.x);
        }
        c.length--;
    }

    while (c.length > 1 && c.width > 1) {
        if (2 * c.length > 3 * c.width) {
            const int64_t half = weft_even_half(c.length);
            if (position < half * c.width) {
                c.length = half;
            } else {
                position -= half * c.width;
                weft_curve_move(&c, half, 0);
                c.length -= half;
            }
            continue;
        }
        const int64_t length = c.length, width = c.width, near_length = length / 2, near_width = weft_even_half(width);
        const int64_t turn = near_width * near_length, run = length * (width - near_width);
        if (position < turn) {
            weft_curve_turn(&c, near_width, near_length, 1);
        } else if (position < turn + run) {
            position -= turn;
            weft_curve_move(&c, 0, near_width);
            c.width = width - near_width;
        } else {
            position -= turn + run;
            weft_curve_move(&c, length - 1, near_width - 1);
            weft_curve_turn(&c, near_width, length - near_length, -1);
        }
    }
    weft_curve_move(&c, c.width == 1 ? position : 0, c.width == 1 ? 0 : position);
    return weft_tile_at(batch, c.y, c.x);
}

#endif
