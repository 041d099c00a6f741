#include "tune/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>

#include "cpu/threads.h"
#include "plan/status.h"

enum { MOST_SHAPES = 512, PRINTED = 4096 };

/* A number that is the same for plans that do the same: kernel, tiles, and which worker visits what, in which direction. */
static uint64_t fingerprint(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_walk *w = &plan->walk;
    const int one_step = w->reach.columns <= w->reach.tile_columns;
    const int32_t sweep = one_step && s->sweep == WEFT_SWEEP_SAWTOOTH ? WEFT_SWEEP_FORWARD : s->sweep;
    const int64_t choices[] = {s->tile_m,    s->tile_n,    s->tile_k, sweep,    s->dispatch,   w->workers,
                               s->cluster_m, s->cluster_n, s->table,  s->split, w->order.count};
    uint64_t hash = 0;
#define MIX(number) hash = (hash ^ (uint64_t)(number)) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29
    for (const char *c = plan->backend->kernel(plan); *c; c++) {
        MIX(*c);
    }
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        MIX(choices[i]);
    }
    for (int64_t i = 0; i < w->order.count && i < PRINTED; i++) {
        const weft_tile t = weft_order_tile(&w->order, i);
        MIX((t.batch * w->order.grid.rows + t.row) * w->order.grid.cols + t.col);
    }
#undef MIX
    return hash;
}

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

static void refuse(builder *b, const weft_message *why) {
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
    if (weft_plan_lay_out(&plan, &b->draft, NULL, &why)) {
        refuse(b, &why);
        return;
    }
    const uint64_t print = fingerprint(plan);
    for (size_t i = 0; i < c->count; i++) {
        if (b->prints[i] == print) {
            c->same += !b->is_also;
            c->list[i].is_also |= b->is_also;
            weft_plan_destroy(plan);
            return;
        }
    }
    if (weft_plan_place(plan, &why)) {
        refuse(b, &why);
        weft_plan_destroy(plan);
        return;
    }
    b->prints[c->count] = print;
    c->list[c->count++] = (weft_candidate){
        .schedule = b->draft.schedule, .plan = plan, .racing = 1, .stays = b->stays, .is_also = b->is_also};
}

/* Each function fixes one choice in every way there is, or leaves the caller's, and goes on to the next. */
static void vary_dispatch(builder *b) {
    if (b->draft.schedule.dispatch != WEFT_DISPATCH_CHOOSE) {
        add(b);
        return;
    }
    for (int32_t i = 1; i <= WEFT_DISPATCHES; i++) {
        b->draft.schedule.dispatch = i;
        add(b);
    }
    b->draft.schedule.dispatch = WEFT_DISPATCH_CHOOSE;
}

static void vary_sweep(builder *b) {
    if (b->draft.schedule.sweep != WEFT_SWEEP_CHOOSE) {
        vary_dispatch(b);
        return;
    }
    for (int32_t i = 1; i <= WEFT_SWEEPS; i++) {
        b->draft.schedule.sweep = i;
        vary_dispatch(b);
    }
    b->draft.schedule.sweep = WEFT_SWEEP_CHOOSE;
}

/* Sections of heads follow the L2, whatever the length, so only a GEMM's groups vary; 0 is the plan's own. */
static void vary_group(builder *b) {
    static const int64_t groups[] = {0, 4, 8, 16, 32};
    weft_schedule *s = &b->draft.schedule;
    const int takes =
        b->draft.subject == WEFT_SUBJECT_GEMM && weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP;
    if (s->group != 0 || !takes) {
        vary_sweep(b);
        return;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        s->group = groups[i];
        vary_sweep(b);
    }
    s->group = 0;
}

static void vary_order(builder *b) {
    weft_schedule *s = &b->draft.schedule;
    if (s->order != WEFT_ORDER_CHOOSE) {
        vary_group(b);
        return;
    }
    for (int32_t order = 1; order <= WEFT_ORDER_KINDS; order++) {
        if (weft_order_subject(order) == b->draft.subject) {
            s->order = order;
            vary_group(b);
        }
    }
    s->order = WEFT_ORDER_CHOOSE;
}

void weft_candidates_fit(weft_plan *draft) {
    weft_schedule *s = &draft->schedule;
    const int gemm = draft->subject == WEFT_SUBJECT_GEMM;
    const int64_t m = gemm ? draft->gemm.m : draft->attention.seq, n = gemm ? draft->gemm.n : draft->attention.kv_seq;
    if (draft->device.kind == WEFT_DEVICE_CPU) {
        s->tile_m = s->tile_m < m ? s->tile_m : m;
        s->tile_n = s->tile_n < n ? s->tile_n : n;
        s->tile_k = gemm && s->tile_k > draft->gemm.k ? draft->gemm.k : s->tile_k;
    }
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
        weft_candidates_fit(&b.draft);
        add(&b);
    }
    b.is_also = b.stays = 0;
    b.draft.schedule = draft->schedule;
    if (c->count > 0) {
        const size_t count = draft->backend->candidates ? draft->backend->candidates(draft, shapes, MOST_SHAPES) : 0;
        for (size_t i = 0; i < count; i++) {
            b.draft.schedule = shapes[i];
            vary_order(&b);
        }
        if (count == 0) {
            vary_order(&b);
        }
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

/* Time by the backend's model, else by the simulator over two waves of tiles; 0 when neither can tell: the simulator takes
 * no split tiles and one product only. */
static double predict(const weft_plan *plan) {
    if (plan->backend->cost) {
        return plan->backend->cost(plan);
    }
    const weft_reach *r = &plan->walk.reach;
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_simulation simulation;
    options.limit = 2 * (uint64_t)plan->walk.workers * (uint64_t)weft_ceil_divide(r->columns, r->tile_columns);
    return weft_simulate(plan, &options, &simulation, NULL, NULL) == WEFT_OK ? simulation.seconds : 0;
}

static void predict_one(void *context, int64_t i) {
    weft_candidate *one = &((weft_candidates *)context)->list[i];
    one->model = predict(one->plan);
}

/* Those that nobody can price come after those with a price: they may be the best, but nothing says so. */
static int by_model(const void *a, const void *b) {
    const weft_candidate *x = a, *y = b;
    const double first = x->model > 0 ? x->model : INFINITY, second = y->model > 0 ? y->model : INFINITY;
    return x->stays != y->stays ? y->stays - x->stays : (first > second) - (first < second);
}

static int by_turn(const void *a, const void *b) {
    const weft_candidate *x = a, *y = b;
    return x->stays != y->stays ? y->stays - x->stays
           : x->turn != y->turn ? (x->turn > y->turn) - (x->turn < y->turn)
                                : by_model(a, b);
}

/* Schedules of one tile are much alike: the first of each tile comes before the second of any, in case there is no time for
 * all of them. */
static void take_turns(weft_candidates *c) {
    for (size_t i = 0; i < c->count; i++) {
        const weft_schedule *s = &c->list[i].schedule;
        c->list[i].turn = 0;
        for (size_t j = 0; j < i; j++) {
            const weft_schedule *t = &c->list[j].schedule;
            c->list[i].turn += s->tile_m == t->tile_m && s->tile_n == t->tile_n && s->cluster_m == t->cluster_m &&
                               s->cluster_n == t->cluster_n && s->split == t->split;
        }
    }
    qsort(c->list + 1, c->count - 1, sizeof *c->list, by_turn);
}

void weft_candidates_drop(weft_candidates *c, double behind) {
    double best = 0;
    weft_cpu_for((int64_t)c->count, predict_one, c);
    for (size_t i = 0; i < c->count; i++) {
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
    take_turns(c);
}

void weft_candidates_free(weft_candidates *c) {
    for (size_t i = 0; i < c->count; i++) {
        weft_plan_destroy(c->list[i].plan);
        free(c->list[i].times);
    }
    free(c->list);
    memset(c, 0, sizeof *c);
}
