/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/search/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cost/cost.h"
#include "cpu/thread/team.h"
#include "search/space.h"

enum { MOST_SHAPES = 512 };

/* What is being listed. */
typedef struct builder {
    weft_candidates *c;
    weft_plan draft;  /* its schedule is the candidate in the making */
    uint64_t *prints; /* of those in the list */
    int stays, is_also;
    weft_message first_refusal;
    int no_memory;
} builder;

static int make_room(builder *b) {
    weft_candidates *c = b->c;
    if (c->count < c->room) {
        return 1;
    }
    const size_t room = c->room ? 2 * c->room : 64;
    weft_candidate *list = realloc(c->list, room * sizeof *list);
    if (list) {
        c->list = list;
    }
    uint64_t *prints = realloc(b->prints, room * sizeof *prints);
    if (prints) {
        b->prints = prints;
    }
    if (list && prints) {
        c->room = room;
    }
    return list && prints;
}

/* Memory that ran out says nothing about the device: the list would not be whole. */
static void refuse(builder *b, weft_status status, const weft_message *why) {
    if (status == WEFT_NO_MEMORY) {
        b->no_memory = 1;
        return;
    }
    b->c->refused++;
    b->first_refusal = b->c->refused == 1 ? *why : b->first_refusal;
}

/* Adds the draft's schedule, unless the device refuses it or the list has its like: most have, and are not placed. */
static void add(builder *b) {
    weft_candidates *c = b->c;
    weft_plan *plan = NULL;
    weft_message why = {""};
    if (b->no_memory || !make_room(b)) {
        b->no_memory = 1;
        return;
    }
    weft_status status = weft_plan_lay_out(&plan, &b->draft, NULL, &why);
    if (status) {
        refuse(b, status, &why);
        return;
    }
    const uint64_t print = weft_space_fingerprint(plan);
    for (size_t i = 0; i < c->count; i++) {
        if (b->prints[i] == print) {
            c->same += !b->is_also;
            c->list[i].is_also |= b->is_also;
            weft_plan_destroy(plan);
            return;
        }
    }
    if ((status = weft_plan_place(plan, &why))) {
        refuse(b, status, &why);
        weft_plan_destroy(plan);
        return;
    }
    b->prints[c->count] = print;
    c->list[c->count++] = (weft_candidate){
        .schedule = b->draft.schedule, .plan = plan, .racing = 1, .stays = b->stays, .is_also = b->is_also};
}

void weft_candidates_fit(weft_plan *draft) {
    const weft_tiling tiling = {.problem = &draft->problem, .schedule = &draft->schedule, .heads_in_tile = 1};
    weft_tile_side sides[WEFT_TILE_SIDES];
    const size_t count = draft->operation->sides(&tiling, &draft->schedule, sides);
    for (size_t i = 0; i < count && draft->device.kind == WEFT_DEVICE_CPU; i++) {
        *sides[i].size = *sides[i].size < sides[i].length ? *sides[i].size : sides[i].length;
    }
}

static void add_visited(void *user, const weft_schedule *schedule) {
    builder *b = user;
    b->draft.schedule = *schedule;
    add(b);
}

weft_status weft_candidates_make(weft_candidates *c, const weft_plan *draft, const weft_schedule *also, size_t also_count,
                                 weft_message *message) {
    builder b = {.c = c, .draft = *draft, .stays = 1};
    weft_schedule *shapes = malloc(MOST_SHAPES * sizeof *shapes);
    memset(c, 0, sizeof *c);
    if (!shapes) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for candidates");
    }
    add(&b); /* as it is: what the model chooses */
    b.is_also = 1;
    for (size_t i = 0; i < also_count && c->count > 0; i++) {
        b.draft.schedule = also[i];
        b.draft.schedule.order_table = NULL; /* order custom is not stored, so it is refused */
        weft_candidates_fit(&b.draft);
        add(&b);
    }
    b.is_also = b.stays = 0;
    if (c->count > 0) {
        const size_t count = draft->backend->candidates ? draft->backend->candidates(draft, shapes, MOST_SHAPES) : 0;
        const weft_space space = {shapes, count, 1, 1};
        weft_space_walk(&space, &draft->schedule, draft->operation, add_visited, &b);
    }
    free(shapes);
    free(b.prints);
    if (b.no_memory) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for candidates");
    }
    if (c->count == 0 && message) {
        *message = b.first_refusal;
    }
    return c->count == 0 ? WEFT_UNSUPPORTED : WEFT_OK;
}

static void predict_one(void *context, int64_t i) {
    weft_candidate *one = &((weft_candidates *)context)->list[i];
    weft_cost cost;
    one->priced = weft_cost_of(one->plan, &cost, NULL);
    one->model = one->priced == WEFT_OK ? cost.time : 0;
}

/* Those that nobody can price come after those with a price: they may be the best, but nothing says so. */
static int by_model(const void *a, const void *b) {
    const weft_candidate *x = a, *y = b;
    const double first = x->model > 0 ? x->model : INFINITY, second = y->model > 0 ? y->model : INFINITY;
    return x->stays != y->stays ? y->stays - x->stays : (first > second) - (first < second);
}

static int by_rank(const void *a, const void *b) {
    const weft_candidate *x = a, *y = b;
    return x->stays != y->stays ? y->stays - x->stays
           : x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                                : by_model(a, b);
}

/* Schedules of one tile are much alike: the first of each tile comes before the second of any, in case there is no time for
 * all of them. */
static void rank_by_tile(weft_candidates *c) {
    for (size_t i = 0; i < c->count; i++) {
        const weft_schedule *s = &c->list[i].schedule;
        c->list[i].rank = 0;
        for (size_t j = 0; j < i; j++) {
            const weft_schedule *t = &c->list[j].schedule;
            c->list[i].rank += s->tile_m == t->tile_m && s->tile_n == t->tile_n && s->cluster_m == t->cluster_m &&
                               s->cluster_n == t->cluster_n && s->split == t->split;
        }
    }
    qsort(c->list + 1, c->count - 1, sizeof *c->list, by_rank);
}

weft_status weft_candidates_drop(weft_candidates *c, double behind, weft_message *message) {
    double best = 0;
    weft_cpu_for((int64_t)c->count, predict_one, c);
    for (size_t i = 0; i < c->count; i++) {
        if (c->list[i].priced == WEFT_NO_MEMORY) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory to price candidates");
        }
        const double model = c->list[i].model;
        best = model > 0 && (best == 0 || model < best) ? model : best;
    }
    qsort(c->list + 1, c->count - 1, sizeof *c->list, by_model);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        weft_candidate *one = &c->list[i];
        if (i == 0 || one->stays || one->model <= behind * best) { /* also what has no price: nothing says it is slow */
            c->list[kept++] = *one;
        } else {
            c->dropped_from = c->dropped++ ? c->dropped_from : one->model / best; /* the first is the nearest */
            weft_plan_destroy(one->plan);
        }
    }
    c->count = kept;
    rank_by_tile(c);
    return WEFT_OK;
}

void weft_candidates_free(weft_candidates *c) {
    for (size_t i = 0; i < c->count; i++) {
        weft_plan_destroy(c->list[i].plan);
        free(c->list[i].times);
    }
    free(c->list);
    memset(c, 0, sizeof *c);
}
