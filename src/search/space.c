/* SPDX-License-Identifier: Apache-2.0 */
#include "search/space.h"

#include "plan/custom.h"

/* A walk that is under way. */
typedef struct walk {
    const weft_space *space;
    const weft_operation_row *operation;
    weft_schedule s; /* in the making */
    void (*visit)(void *user, const weft_schedule *schedule);
    void *user;
} walk;

/* Each function fixes one choice in every way there is, or leaves the caller's, and goes on to the next. */
static void vary_dispatch(walk *w) {
    if (w->s.dispatch != WEFT_DISPATCH_CHOOSE || !w->space->dispatches) {
        w->visit(w->user, &w->s);
        return;
    }
    for (int32_t i = 1; i <= WEFT_DISPATCHES; i++) {
        w->s.dispatch = i;
        w->visit(w->user, &w->s);
    }
    w->s.dispatch = WEFT_DISPATCH_CHOOSE;
}

static void vary_sweep(walk *w) {
    if (w->s.sweep != WEFT_SWEEP_CHOOSE) {
        vary_dispatch(w);
        return;
    }
    for (int32_t i = 1; i <= (w->operation->refused_sweep ? WEFT_SWEEPS : WEFT_COMMON_SWEEPS); i++) {
        w->s.sweep = i;
        vary_dispatch(w);
    }
    w->s.sweep = WEFT_SWEEP_CHOOSE;
}

/* Sections of heads follow the L2, whatever the length, so only groups of a matrix vary; 0 is the plan's own. */
static void vary_group(walk *w) {
    static const int64_t groups[] = {0, 4, 8, 12, 16, 24, 32};
    const weft_order_info *order = weft_order_describe(w->s.order);
    const int takes = order && order->grid == WEFT_GRID_MATRIX && order->parameter & WEFT_PARAMETER_GROUP;
    if (w->s.group != 0 || !takes || !w->space->groups) {
        vary_sweep(w);
        return;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        w->s.group = groups[i];
        vary_sweep(w);
    }
    w->s.group = 0;
}

static void vary_order(walk *w) {
    if (w->s.order != WEFT_ORDER_CHOOSE) {
        vary_group(w);
        return;
    }
    if (w->s.order_table) { /* the caller's order is one of them */
        vary_group(w);
    }
    const uint32_t *table = w->s.order_table;
    w->s.order_table = NULL;
    for (int32_t order = 1; order <= WEFT_ORDER_KINDS; order++) {
        if (weft_order_grid(order) == w->operation->info.grid) {
            w->s.order = order;
            vary_group(w);
        }
    }
    w->s.order = WEFT_ORDER_CHOOSE;
    w->s.order_table = table;
}

void weft_space_walk(const weft_space *space, const weft_schedule *given, const weft_operation_row *operation,
                     void (*visit)(void *user, const weft_schedule *schedule), void *user) {
    walk w = {space, operation, *given, visit, user};
    for (size_t i = 0; i < space->count; i++) {
        w.s = space->shapes[i];
        vary_order(&w);
    }
    if (space->count == 0) {
        vary_order(&w);
    }
}

int weft_space_fits(const weft_plan *plan) {
    const weft_tiling tiling = weft_plan_tiling(plan);
    return plan->operation->step_bytes(&tiling) <= (double)plan->machine.shared_bytes;
}

size_t weft_space_shapes(const weft_plan *draft, int64_t cut, weft_schedule shapes[WEFT_SHAPES]) {
    /* Tiles with two sides, and with three. The last side is the step; of a backward attention, whose steps are queries, it
     * is the first. */
    static const int64_t two[][3] = {{32, 32, 0}, {64, 64, 0}, {128, 64, 0}, {128, 128, 0}, {256, 64, 0}, {256, 128, 0}};
    static const int64_t three[][3] = {{128, 128, 64}, {128, 256, 64}, {256, 128, 64}};
    weft_schedule schedule = draft->schedule;
    const weft_tiling tiling = {.problem = &draft->problem, .schedule = &schedule, .heads_in_tile = 1};
    weft_tile_side sides[WEFT_TILE_SIDES];
    const size_t used = draft->operation->sides(&tiling, &schedule, sides);
    const int turned = draft->operation->refused_sweep != NULL; /* who has sweeps of its own */
    const int64_t(*list)[3] = used < 3 ? two : three;
    const size_t count = used < 3 ? sizeof two / sizeof *two : sizeof three / sizeof *three;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < used; k++) {
            const size_t side = turned ? used - 1 - k : k;
            *sides[k].size = side + 1 < used ? list[i][side] : list[i][side] / cut;
            *sides[k].size = sides[k].of > 0 ? weft_tile_dividing(sides[k].of, *sides[k].size) : *sides[k].size;
        }
        shapes[i] = schedule;
    }
    return count;
}

/* Positions of an order that the fingerprint looks at, from its beginning and from all of it. */
enum { PRINTED = 4096 };

uint64_t weft_space_fingerprint(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_walk *w = &plan->walk;
    const int one_step = w->reach.columns <= w->reach.tile_columns;
    const int32_t sweep = one_step && s->sweep == WEFT_SWEEP_SAWTOOTH ? WEFT_SWEEP_FORWARD : s->sweep;
    /* An order with domains also decides which worker is on which of them. */
    const int by_domain = s->domains > 1 && weft_schedule_by_domain(s);
    const int64_t choices[] = {s->tile_m,    s->tile_n,    s->tile_k, sweep,    s->dispatch,    w->workers,
                               s->cluster_m, s->cluster_n, s->table,  s->split, w->order.count, by_domain ? s->domains : 1};
    const int64_t count = w->order.count, stride = count / PRINTED + 1;
    uint64_t hash = 0;
#define MIX(number) hash = (hash ^ (uint64_t)(number)) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29
    for (const char *c = weft_plan_kernel(plan); *c; c++) {
        MIX(*c);
    }
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        MIX(choices[i]);
    }
    for (int64_t i = 0; i < count; i += i < PRINTED ? 1 : stride) {
        const weft_tile t = weft_order_tile(&w->order, i);
        MIX((t.batch * w->order.grid.rows + t.row) * w->order.grid.cols + t.col);
    }
#undef MIX
    return hash;
}
