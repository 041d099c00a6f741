#include "order/turns.h"

#include <stdlib.h>

#include "base/status.h"

/* The group of a line of positions, batch by batch and head by head, that started last, and its first position. */
typedef struct started {
    int64_t group, first;
} started;

/* Positions that are looked at, at most. */
enum { MOST = 1 << 20 };

/* Lines to look at: one where an order takes them one after the other, all of them alike; else all. */
static int64_t lines_of(const weft_order *o) {
    const int alike = o->kind == WEFT_ORDER_HEAD_FIRST || o->kind == WEFT_ORDER_REVERSE;
    return alike ? 1 : o->grid.batch * o->grid.rows;
}

/* Whether groups of so many columns start one after the other in every line, each within `workers` positions. */
static int fits(const weft_walk *walk, int64_t together, int from_end, started *lines) {
    const weft_order *o = &walk->order;
    const int64_t count = lines_of(o);
    for (int64_t i = 0; i < count; i++) {
        lines[i].group = -1;
    }
    for (int64_t position = 0; position < count * o->grid.cols; position++) {
        const weft_tile t = weft_order_tile(o, position);
        started *line = &lines[t.batch * o->grid.rows + t.row];
        const int64_t group = t.col / together;
        if (line->group < 0 || (from_end ? group < line->group : group > line->group)) {
            *line = (started){group, position};
        } else if (group != line->group) {
            return 0;
        }
        if (position - line->first >= walk->workers) {
            return 0;
        }
    }
    return 1;
}

/* The largest groups of less than all columns that fit; 0: there are none. Smaller ones fit where larger do. */
static int64_t largest(const weft_walk *walk, int64_t most, int from_end, started *lines) {
    int64_t low = 0, high = most;
    while (low < high) {
        const int64_t middle = high - (high - low) / 2;
        if (fits(walk, middle, from_end, lines)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

weft_status weft_turns_make(weft_turns *turns, const weft_walk *walk, weft_message *message) {
    const weft_order *o = &walk->order;
    const int64_t cols = o->grid.cols;
    const int shifts = weft_sweep_shifts(walk->sweep);
    if (lines_of(o) > MOST / cols || walk->cluster_rows * walk->cluster_cols > 1) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "adds take no turns with clusters, nor in order %s with more than %d positions",
                         weft_order_describe(o->kind)->name, MOST);
    }
    if (shifts && walk->sweep != WEFT_SWEEP_CLIMB && o->kind == WEFT_ORDER_HEAD_FIRST) {
        *turns = weft_turns_of(walk, weft_smaller(cols, walk->workers), walk->workers, 0);
        return WEFT_OK;
    }
    started *lines = malloc((size_t)lines_of(o) * sizeof *lines);
    if (!lines) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the turns of %lld heads", (long long)lines_of(o));
    }
    int64_t together = 0;
    int from_end = 0;
    if (shifts && fits(walk, cols, 0, lines)) {
        together = cols;
    }
    for (int i = 0; together == 0 && i < 2; i++) {
        from_end = i;
        together = largest(walk, shifts ? cols : 1, from_end, lines);
    }
    if (together == 0 && fits(walk, cols, 0, lines)) { /* whatever starts first */
        together = cols;
        from_end = 0;
    }
    if (together > 0) { /* of equal size, if that fits, too */
        const int64_t even = weft_ceil_divide(cols, weft_ceil_divide(cols, together));
        together = fits(walk, even, from_end, lines) ? even : together;
    }
    free(lines);
    if (together == 0) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "adds take no turns in order %s: %lld workers do not run a head at once",
                         weft_order_describe(o->kind)->name, (long long)walk->workers);
    }
    *turns = weft_turns_of(walk, together, 0, from_end);
    return WEFT_OK;
}
