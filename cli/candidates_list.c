/* Listing candidates: every choice that the options leave open, made in every way there is. */
#include <stdlib.h>
#include <string.h>

#include "candidates.h"
#include "cli.h"
#include "plan/plan.h"
#include "sim/sources.h"
#include "tune/words.h"

static int grow(candidate_list *all) {
    const size_t room = all->room ? 2 * all->room : 256;
    candidate *list = realloc(all->list, room * sizeof *list);
    if (list) {
        all->list = list;
        all->room = room;
    }
    return list != NULL;
}

/* What is being listed. */
typedef struct list_builder {
    candidate_list *all;
    weft_subject subject;
    int must_fit, is_usual, failed;
} list_builder;

/* What a step reads has to fit a worker's memory: one block each of Q, K and V; two slices of A and B. */
static int fits(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const int64_t bytes =
        (int64_t)weft_dtype_bytes(plan->subject == WEFT_SUBJECT_GEMM ? plan->gemm.dtype : plan->attention.dtype);
    const int64_t elements = plan->subject == WEFT_SUBJECT_GEMM ? 2 * s->tile_k * (s->tile_m + s->tile_n)
                                                                : plan->attention.head_dim * (s->tile_m + 2 * s->tile_n);
    return elements * bytes <= plan->machine.shared_bytes;
}

weft_status candidate_lay_out(candidate *c, const settings *s, weft_subject subject, int must_fit) {
    weft_plan *plan = NULL;
    weft_message message;
    weft_status status = try_plan(s, subject, &plan, &message);
    if (status == WEFT_OK && must_fit && !fits(plan)) {
        status = WEFT_UNSUPPORTED;
    }
    if (status == WEFT_OK) {
        const weft_reach *r = &plan->walk.reach;
        *c = (candidate){.chosen = *s, .schedule = plan->schedule, .steps = weft_sim_steps(plan)};
        c->wave = (uint64_t)plan->walk.workers * (uint64_t)weft_ceil_divide(r->columns, r->tile_columns);
    }
    weft_plan_destroy(plan);
    return status;
}

static int has(const candidate_list *all, const weft_schedule *s) {
    for (size_t i = 0; i < all->count; i++) {
        if (weft_schedule_same(&all->list[i].schedule, s)) {
            return 1;
        }
    }
    return 0;
}

static void add(list_builder *b, const settings *s) {
    candidate_list *all = b->all;
    candidate c;
    if (b->failed || (all->count == all->room && !grow(all))) {
        b->failed = 1;
        return;
    }
    const weft_status status = candidate_lay_out(&c, s, b->subject, b->must_fit);
    b->failed = status == WEFT_NO_MEMORY;
    if (status == WEFT_OK && !has(all, &c.schedule)) {
        c.number = all->count;
        c.is_usual = b->is_usual;
        all->list[all->count++] = c;
    }
}

/* Each function fixes one choice in every way there is, or leaves the user's, and goes on to the next. */
static void vary_dispatch(list_builder *b, settings s, const candidate_space *space) {
    if (s.dispatch > 0 || !space->dispatches) {
        add(b, &s);
        return;
    }
    for (s.dispatch = 1; s.dispatch <= WEFT_DISPATCHES; s.dispatch++) {
        add(b, &s);
    }
}

static void vary_sweep(list_builder *b, settings s, const candidate_space *space) {
    if (s.sweep > 0) {
        vary_dispatch(b, s, space);
        return;
    }
    for (s.sweep = 1; s.sweep <= WEFT_SWEEPS; s.sweep++) {
        vary_dispatch(b, s, space);
    }
}

static void vary_group(list_builder *b, settings s, const candidate_space *space, weft_subject subject) {
    static const int64_t groups[] = {4, 8, 12, 16, 24, 32};
    const int takes_group = weft_order_describe(s.order)->parameter & WEFT_PARAMETER_GROUP;
    if (!takes_group || s.group > 0 || !space->groups || subject == WEFT_SUBJECT_ATTENTION) {
        vary_sweep(b, s, space);
        return;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        s.group = groups[i];
        vary_sweep(b, s, space);
    }
}

static void vary_order(list_builder *b, settings s, const candidate_space *space, weft_subject subject) {
    if (s.order > 0) {
        vary_group(b, s, space, subject);
        return;
    }
    for (int32_t order = 1; order <= WEFT_ORDER_KINDS; order++) {
        if (weft_order_subject(order) == subject) {
            s.order = order;
            vary_group(b, s, space, subject);
        }
    }
}

static void vary_tile(list_builder *b, settings s, const candidate_space *space, weft_subject subject) {
    static const int64_t attention[][3] = {{32, 32, 0},   {64, 64, 0},  {128, 64, 0},
                                           {128, 128, 0}, {256, 64, 0}, {256, 128, 0}};
    static const int64_t gemm[][3] = {{128, 128, 64}, {128, 256, 64}, {256, 128, 64}};
    if (s.tile[0] > 0 || !space->tiles) {
        vary_order(b, s, space, subject);
        return;
    }
    const int is_gemm = subject == WEFT_SUBJECT_GEMM;
    for (size_t i = 0; i < (is_gemm ? sizeof gemm / sizeof *gemm : sizeof attention / sizeof *attention); i++) {
        memcpy(s.tile, is_gemm ? gemm[i] : attention[i], sizeof s.tile);
        vary_order(b, s, space, subject);
    }
}

int candidates_append(candidate_list *all, const settings *s, weft_subject subject, const candidate_space *space) {
    weft_plan *plan = NULL; /* the user's own options must make sense before they are varied */
    const int code = make_plan(s, subject, &plan);
    weft_plan_destroy(plan);
    if (code) {
        return code;
    }
    list_builder b = {all, subject, space->must_fit && s->tile[0] == 0, !space->tiles, 0};
    vary_tile(&b, *s, space, subject);
    return b.failed ? complain(EXIT_FAILED, "out of memory") : EXIT_OK;
}
