/* SPDX-License-Identifier: Apache-2.0 */
#include "order/timetable.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* What a tile takes beside its steps, in steps; and when the last one is done, at the latest. */
enum { BESIDE = 2, MOST = INT32_MAX / 4 };

/* What it costs if two tiles come by a block so many steps apart, for each block: the later one may have to wait for the
 * other's add. Further apart it costs nothing; and a tile that is nowhere closer than CLOSE to others needs no better
 * beginning. */
enum { APART = 3, CLOSE = 2 };
static const int64_t costs[APART] = {4, 2, 1};

/* A worker in the heap of those that are free first. */
typedef struct hand {
    int64_t time, worker;
} hand;

/* What a beginning of a tile costs; and blocks at which another tile is closer than CLOSE. */
typedef struct cost {
    int64_t all, close;
} cost;

/* A tile that was dealt: the steps that it reaches, from when until when, and the one of its line before it. There may be
 * millions of them. */
typedef struct dealt {
    weft_coming coming;
    int32_t begin, end;
    int32_t from, until; /* at most MOST */
    int32_t place;       /* of its coming in the timetable */
    int32_t before;      /* below 0: none */
} dealt;
_Static_assert(WEFT_TIMETABLE_POSITIONS <= INT32_MAX, "tiles are numbered by 32 bits");

/* What is needed while a timetable is made. */
typedef struct desk {
    const weft_walk *walk;
    int64_t members;
    hand *heap;      /* (workers) */
    uint32_t *last;  /* (workers) the position that each had last */
    dealt *tiles;    /* (positions, rows of a cluster) that have steps */
    int64_t count;   /* of them, so far */
    int64_t longest; /* and how long one of them is under way, at most */
    int64_t *latest; /* (lines, of all parts) the tile that was dealt last; below 0: none */
    cost *costs;     /* (steps of a tile) of each beginning of one of them */
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

static void begin_at(dealt *tile, int64_t first) {
    tile->coming.first = (int32_t)first;
    tile->coming.at = (int32_t)(tile->from - first);
}

/* Adds what another tile costs to what each beginning of a tile costs. Both go up and wrap around, so that they are as far
 * apart at many blocks in a row as at the first of them, and few beginnings bring them near each other. */
static void add_costs(const desk *d, const dealt *tile, const dealt *other) {
    const int64_t steps = tile->coming.steps;
    for (int64_t i = 0; i < 2 * d->members; i++) { /* each head, before and after the other wraps around */
        const int64_t head = i / 2, late = i % 2;
        const int64_t begin = weft_larger(tile->begin, late ? other->begin : other->coming.first);
        const int64_t end = weft_smaller(tile->end, late ? other->coming.first : other->end);
        const int64_t ahead =
            tile->from - other->coming.at - late * other->coming.steps - head * (other->coming.steps - steps);
        for (int64_t apart = 1 - APART; apart < APART && begin < end; apart++) {
            const int64_t early = ahead + apart, wrapped = early + steps; /* a beginning, if it is one of the tile's */
            const int is_early = early >= tile->begin;
            const int64_t first = is_early ? early : wrapped;
            const int64_t blocks = is_early ? end - weft_larger(begin, early) : weft_smaller(end, wrapped) - begin;
            if (first >= tile->begin && first < tile->end && blocks > 0) {
                cost *to = &d->costs[first - tile->begin];
                to->all += blocks * costs[llabs(apart)];
                to->close += llabs(apart) < CLOSE ? blocks : 0;
            }
        }
    }
}

/* Lets a tile that may wrap around begin where that costs least, if it is less than now; of those the first: what one has
 * read, the next ones of a long line still find in the L2. latest: the last tile of the line that may be near. */
static void choose_first(desk *d, dealt *tile, int64_t latest) {
    int64_t chosen = tile->coming.first - tile->begin;
    memset(d->costs, 0, (size_t)tile->coming.steps * sizeof *d->costs);
    for (int64_t at = latest; at >= 0 && d->tiles[at].from + d->longest >= tile->from; at = d->tiles[at].before) {
        const dealt *other = &d->tiles[at];
        if (other != tile && other->until >= tile->from && other->from <= tile->until) {
            add_costs(d, tile, other);
        }
    }
    for (int64_t i = 0; i < tile->coming.steps && d->costs[chosen].close > 0; i++) {
        chosen = d->costs[i].close == 0 || d->costs[i].all < d->costs[chosen].all ? i : chosen;
    }
    begin_at(tile, tile->begin + chosen);
}

/* The tile of a visit that begins at a time and ends at another. */
static dealt tile_of(const weft_visit *visit, int64_t start, int64_t until) {
    const int32_t begin = (int32_t)weft_smaller(visit->edge, visit->wrap);
    const int32_t at = (int32_t)(start - visit->direction * visit->first);
    return (dealt){{at, (int32_t)visit->steps, (int32_t)visit->first, visit->direction},
                   begin,
                   begin + (int32_t)visit->steps,
                   (int32_t)start,
                   (int32_t)until,
                   -1,
                   -1};
}

/* Rows of the grid that have parts of the same tiles. */
static int64_t parts_of(const weft_walk *walk) {
    return weft_larger(walk->reach.parts, 1);
}

/* Gives the tile of a visit, one row of a cluster, to a worker that is free at `time`. Returns when it will be free again;
 * below 0: too late. */
static int64_t deal_row(desk *d, const weft_visit *visit, int64_t time, weft_coming *comings) {
    const weft_walk *walk = d->walk;
    const int64_t row = weft_walk_line(walk, visit->tile.batch, visit->tile.row);
    const int64_t line = row / parts_of(walk); /* whose tiles add into the same sums */
    const int64_t until = time + visit->steps * d->members + BESIDE;
    if (until > MOST) {
        return -1;
    }
    dealt tile = tile_of(visit, time, until);
    tile.place = (int32_t)(row * walk->cols + visit->tile.col);
    if (walk->sweep == WEFT_SWEEP_SHIFT && visit->steps > 0) {
        d->longest = weft_larger(d->longest, tile.until - tile.from);
        begin_at(&tile, tile.begin);
        choose_first(d, &tile, d->latest[line]);
        tile.before = (int32_t)d->latest[line];
        d->latest[line] = d->count;
        d->tiles[d->count++] = tile;
    }
    comings[tile.place] = tile.coming;
    return tile.until;
}

/* Lets the tiles that may begin anywhere choose once more, now that those which came later are there. Not where tiles go
 * through several heads: these drift apart, and what they gain is less than what they read once more. */
static void settle(desk *d, weft_coming *comings) {
    const int64_t lines = weft_walk_line(d->walk, d->walk->order.grid.batch, 0) / parts_of(d->walk);
    for (int64_t line = 0; line < lines && d->members == 1; line++) {
        for (int64_t at = d->latest[line], latest = at; at >= 0; at = d->tiles[at].before) {
            while (latest >= 0 && d->tiles[latest].from > d->tiles[at].from + d->longest) {
                latest = d->tiles[latest].before;
            }
            choose_first(d, &d->tiles[at], latest);
            comings[d->tiles[at].place] = d->tiles[at].coming;
        }
    }
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
            const int64_t until = deal_row(d, &visit, time, comings);
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
            return weft_fail(message, WEFT_UNSUPPORTED, "a timetable has no more than %d steps", MOST);
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
    const int64_t steps = weft_ceil_divide(walk->reach.columns, walk->reach.tile_columns); /* of a tile, at most */
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
              0,
              0,
              malloc(lines * sizeof *d.latest),
              malloc((size_t)weft_smaller(steps, MOST) * sizeof *d.costs)};
    weft_status status = WEFT_NO_MEMORY;
    if (walk->dispatch == WEFT_DISPATCH_DYNAMIC) {
        table->next = malloc((size_t)count * sizeof *table->next);
        table->firsts = calloc((size_t)(workers * walk->cluster_rows), sizeof *table->firsts);
    }
    if (d.heap && d.last && d.tiles && d.latest && d.costs &&
        ((table->next && table->firsts) || walk->dispatch != WEFT_DISPATCH_DYNAMIC)) {
        status = deal(&d, table, message);
        if (status == WEFT_OK) {
            settle(&d, table->comings);
        }
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
    free(d.costs);
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
