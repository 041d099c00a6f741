#include "order/timetable.h"

#include <stdlib.h>

#include "base/status.h"

/* What a tile takes beside its steps, in steps. Where a tile may begin anywhere: so many steps between it and the others of
 * its line are enough, and so many beginnings are tried at least. */
enum { BESIDE = 2, APART = 2, TRIES = 64 };

/* A worker in the heap of those that are free first. */
typedef struct hand {
    int64_t time, worker;
} hand;

/* A tile that was dealt: the steps that it reaches, until when, and the one of its line before it. */
typedef struct dealt {
    weft_coming coming;
    int64_t begin, end;
    int64_t until;
    int64_t before; /* below 0: none */
} dealt;

/* What is needed while a timetable is made. */
typedef struct desk {
    const weft_walk *walk;
    int64_t members;
    hand *heap;      /* (workers) */
    uint32_t *last;  /* (workers) the position that each had last */
    dealt *tiles;    /* (positions, rows of a cluster) */
    int64_t *latest; /* (lines, of all parts) the tile that was dealt last; below 0: none */
} desk;

static int is_before(const hand *a, const hand *b) {
    return a->time < b->time || (a->time == b->time && a->worker < b->worker);
}

/* Puts the first of a heap where it belongs. */
static void sink(hand *heap, int64_t count) {
    for (int64_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &heap[at])) {
            return;
        }
        const hand higher = heap[child];
        heap[child] = heap[at];
        heap[at] = higher;
    }
}

/* How many steps are at least between two tiles that go up, wherever both come by: before and after each wraps around. */
static int64_t apart(const dealt *a, const dealt *b, int64_t members) {
    int64_t least = INT32_MAX;
    for (int i = 0; i < 4; i++) {
        const int a_late = i / 2, b_late = i % 2;
        const int64_t begin = weft_larger(a_late ? a->begin : a->coming.first, b_late ? b->begin : b->coming.first);
        const int64_t end = weft_smaller(a_late ? a->coming.first : a->end, b_late ? b->coming.first : b->end);
        const int64_t first = a->coming.at - b->coming.at + a_late * a->coming.steps - b_late * b->coming.steps;
        const int64_t last = first + (members - 1) * (a->coming.steps - b->coming.steps); /* at the last head */
        if (begin < end) {
            const int64_t now = (first < 0) != (last < 0) ? 0 : weft_smaller(llabs(first), llabs(last));
            least = weft_smaller(least, now);
        }
    }
    return least;
}

/* The least of these distances to the tiles of the line that are still under way; those that are not are forgotten. */
static int64_t apart_from_all(desk *d, int64_t line, const dealt *tile, int64_t start, int64_t enough) {
    int64_t least = INT32_MAX;
    for (int64_t *at = &d->latest[line]; *at >= 0 && least > enough;) {
        dealt *other = &d->tiles[*at];
        if (other->until < start) {
            *at = other->before;
        } else {
            least = weft_smaller(least, apart(tile, other, d->members));
            at = &other->before;
        }
    }
    return least;
}

/* Lets a tile that may wrap around begin where it is far enough from the others, but no further: what one has read, the
 * next ones of a long line still find in the L2. */
static void choose_first(desk *d, int64_t line, dealt *tile, int64_t start) {
    const int64_t stride = weft_between((tile->end - tile->begin) / TRIES, 1, APART + 1);
    int64_t best = -1, chosen = tile->begin;
    for (int64_t first = tile->begin; first < tile->end && best < APART; first += stride) {
        tile->coming.first = (int32_t)first;
        tile->coming.at = (int32_t)(start - first);
        const int64_t now = apart_from_all(d, line, tile, start, best);
        if (now > best) {
            best = now;
            chosen = first;
        }
    }
    tile->coming.first = (int32_t)chosen;
    tile->coming.at = (int32_t)(start - chosen);
}

/* The tile of a visit that begins at a time. */
static dealt tile_of(const desk *d, const weft_visit *visit, int64_t start) {
    const int64_t begin = weft_smaller(visit->edge, visit->wrap);
    const int32_t at = (int32_t)(start - visit->direction * visit->first);
    return (dealt){{at, (int32_t)visit->steps, (int32_t)visit->first, visit->direction},
                   begin,
                   begin + visit->steps,
                   start + visit->steps * d->members + BESIDE,
                   -1};
}

/* Rows of the grid that have parts of the same tiles. */
static int64_t parts_of(const weft_walk *walk) {
    return weft_larger(walk->reach.parts, 1);
}

/* Gives the tile of a visit, one row of a cluster, to a worker that is free at `time`. number: of all such tiles. Returns
 * when it will be free again; below 0: too late. */
static int64_t deal_row(desk *d, const weft_visit *visit, int64_t number, int64_t time, weft_coming *comings) {
    const weft_walk *walk = d->walk;
    const int64_t row = weft_walk_line(walk, visit->tile.batch, visit->tile.row);
    const int64_t line = row / parts_of(walk); /* whose tiles add into the same sums */
    dealt tile = tile_of(d, visit, time);
    if (tile.until > INT32_MAX / 4) {
        return -1;
    }
    if (walk->sweep == WEFT_SWEEP_SHIFT && visit->steps > 0) {
        choose_first(d, line, &tile, time);
        tile.before = d->latest[line];
        d->tiles[number] = tile;
        d->latest[line] = number;
    }
    comings[row * walk->cols + visit->tile.col] = tile.coming;
    return tile.until;
}

/* Gives a position to a worker that is free at `time`, and returns when it will be free again: when all rows of its cluster
 * are done. Below 0: too late. */
static int64_t deal_one(desk *d, int64_t position, int64_t time, weft_coming *comings) {
    const weft_walk *walk = d->walk;
    const int64_t wave = position / walk->workers;
    weft_visit visit;
    for (int32_t i = 0; i < walk->visits && weft_walk_visit(walk, position, wave, i, &visit); i++) {
        int64_t last = time;
        for (int64_t rank = 0; rank < walk->cluster_rows; rank++) {
            weft_walk_visit_of(walk, position, wave, i, walk->reach.kind, 1, rank, &visit);
            const int64_t until = deal_row(d, &visit, position * walk->cluster_rows + rank, time, comings);
            if (until < 0) {
                return until;
            }
            last = weft_larger(last, until);
        }
        time = last;
    }
    return time;
}

/* Domains that have workers of their own, in turn by number as positions are: an order by domain would be in vain if a
 * position went to a worker of another. */
static int64_t domains_of(const weft_walk *walk, int64_t workers) {
    const weft_order *order = &walk->order;
    const int by_domain = order->kind == WEFT_ORDER_BLOCK_FIRST_SWIZZLED || order->kind == WEFT_ORDER_HEAD_FIRST_SWIZZLED ||
                          order->kind == WEFT_ORDER_CUSTOM;
    return by_domain && walk->dispatch == WEFT_DISPATCH_DYNAMIC && order->domains <= workers ? order->domains : 1;
}

/* Lengths are known: positions go to whoever of their domain is free first, or under static dispatch to whose turn it is.
 * A domain's workers are a heap, one domain's behind the other's. */
static weft_status deal(desk *d, weft_timetable *table, weft_message *message) {
    const weft_walk *walk = d->walk;
    const int64_t count = walk->order.count, workers = weft_smaller(walk->workers, count);
    const int64_t domains = domains_of(walk, workers), each = workers / domains, more = workers % domains;
    for (int64_t i = 0; i < workers; i++) {
        const int64_t domain = i % domains;
        d->heap[domain * each + weft_smaller(domain, more) + i / domains] = (hand){0, i};
    }
    for (int64_t i = 0; i < weft_walk_line(walk, walk->order.grid.batch, 0); i++) {
        d->latest[i] = -1;
    }
    for (int64_t position = 0; position < count; position++) {
        const int64_t domain = position % domains;
        hand *heap = d->heap + domain * each + weft_smaller(domain, more);
        hand *taker = table->next ? heap : &d->heap[position % workers];
        taker->time = deal_one(d, position, taker->time, table->comings);
        if (taker->time < 0) {
            return weft_fail(message, WEFT_UNSUPPORTED, "a timetable has no more than %d steps", INT32_MAX / 4);
        }
        if (table->next) {
            table->next[position] = (uint32_t)count;
            if (position >= workers) {
                table->next[d->last[taker->worker]] = (uint32_t)position;
            }
            d->last[taker->worker] = (uint32_t)position;
            sink(heap, each + (domain < more));
        }
    }
    return WEFT_OK;
}

/* Lengths are not known, or it does not matter when tiles begin: they add one after the other as they begin; or, of groups
 * of neighbours that climb, the one that is ahead first. Groups begin one after the other. */
static void number(weft_timetable *table, const weft_walk *walk, int64_t group) {
    for (int64_t position = 0; position < walk->order.count; position++) {
        weft_visit visit;
        for (int32_t i = 0; i < walk->visits && weft_walk_visit(walk, position, 0, i, &visit); i++) {
            const int64_t line = weft_walk_line(walk, visit.tile.batch, visit.tile.row), col = visit.tile.col;
            const int64_t at = group > 1 ? 2 * (col / group) * group + group - 1 - col % group : 2 * position + i;
            for (int64_t rank = 0; rank < walk->cluster_rows; rank++) {
                table->comings[(line + rank) * walk->cols + col] = (weft_coming){(int32_t)at, 0, 0, 0};
            }
        }
    }
}

/* What workers begin with, under dynamic dispatch. */
static void begin(weft_timetable *table, const weft_walk *walk, int64_t workers) {
    weft_walk with = *walk;
    with.comings = table->comings;
    for (int64_t i = 0; i < workers * walk->cluster_rows; i++) {
        weft_walk_visit_of(&with, i / walk->cluster_rows, 0, 0, walk->reach.kind, 1, i % walk->cluster_rows,
                           &table->firsts[i]);
    }
}

static weft_status make(weft_timetable *table, const weft_walk *walk, int64_t members, weft_message *message) {
    const int64_t count = walk->order.count, workers = weft_smaller(walk->workers, count), cols = walk->cols;
    const size_t lines = (size_t)weft_walk_line(walk, walk->order.grid.batch, 0);
    if (members == 0 || walk->dispatch == WEFT_DISPATCH_GRID) {
        const int climbs = walk->sweep == WEFT_SWEEP_CLIMB && walk->order.kind == WEFT_ORDER_HEAD_FIRST &&
                           walk->dispatch != WEFT_DISPATCH_GRID;
        const int64_t group = climbs ? weft_ceil_divide(cols, weft_ceil_divide(cols, workers)) : 1;
        number(table, walk, group);
        table->together = group > 1;
        return WEFT_OK;
    }
    desk d = {walk,
              members,
              malloc((size_t)workers * sizeof *d.heap),
              malloc((size_t)workers * sizeof *d.last),
              malloc((size_t)(count * walk->cluster_rows) * sizeof *d.tiles),
              malloc(lines * sizeof *d.latest)};
    weft_status status = WEFT_NO_MEMORY;
    if (walk->dispatch == WEFT_DISPATCH_DYNAMIC) {
        table->next = malloc((size_t)count * sizeof *table->next);
        table->firsts = calloc((size_t)(workers * walk->cluster_rows), sizeof *table->firsts);
    }
    if (d.heap && d.last && d.tiles && d.latest &&
        ((table->next && table->firsts) || walk->dispatch != WEFT_DISPATCH_DYNAMIC)) {
        status = deal(&d, table, message);
        if (status == WEFT_OK && table->firsts) {
            begin(table, walk, workers);
        }
    } else {
        weft_fail(message, status, "no memory for a timetable of %lld positions", (long long)count);
    }
    free(d.heap);
    free(d.last);
    free(d.tiles);
    free(d.latest);
    table->together = 1;
    return status;
}

weft_status weft_timetable_make(weft_timetable *table, const weft_walk *walk, int64_t members, weft_message *message) {
    const int64_t lines = weft_walk_line(walk, walk->order.grid.batch, 0);
    *table = (weft_timetable){NULL, NULL, NULL, 0};
    if (walk->cluster_cols > 1 || walk->order.count > WEFT_TIMETABLE_POSITIONS / walk->cluster_rows) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "adds take no turns with clusters of several columns, nor with more than %d tiles",
                         WEFT_TIMETABLE_POSITIONS);
    }
    table->comings = malloc((size_t)(lines * walk->cols) * sizeof *table->comings);
    const weft_status status = table->comings
                                   ? make(table, walk, members, message)
                                   : weft_fail(message, WEFT_NO_MEMORY, "no memory for a timetable of %lld positions",
                                               (long long)walk->order.count);
    if (status) {
        weft_timetable_free(table);
    }
    return status;
}

void weft_timetable_free(weft_timetable *table) {
    free(table->comings);
    free(table->next);
    free(table->firsts);
    *table = (weft_timetable){NULL, NULL, NULL, 0};
}
