/* SPDX-License-Identifier: Apache-2.0 */
/* Making plans: checking a schedule against a problem and choosing what it leaves open. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/machine.h"
#include "order/table.h"
#include "plan/custom.h"

static weft_status check_range(const char *name, int64_t value, int64_t low, int64_t high, weft_message *message) {
    if (value < low || value > high) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not between %" PRId64 " and %" PRId64, name, value, low,
                         high);
    }
    return WEFT_OK;
}

/* Fills a tile side that was left open with the usual one, or all of the problem when that is less. Where tiles are `fixed`
 * by the kernel, they may reach beyond the problem. */
static weft_status choose_tile(const weft_tile_side *side, int fixed, weft_message *message) {
    int64_t *tile = side->size;
    if (*tile == 0) {
        *tile = side->of > 0 ? weft_tile_dividing(side->of, side->usual) : weft_smaller(side->length, side->usual);
    }
    if (*tile < 1) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not at least 1", side->name, *tile);
    }
    if (*tile > side->length && !fixed) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is larger than %s %" PRId64, side->name, *tile,
                         side->dimension, side->length);
    }
    if (side->of > 0 && side->of % *tile != 0) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " does not divide the %" PRId64 " of a block of the mask",
                         side->name, *tile, side->of);
    }
    return WEFT_OK;
}

/* Sweeps that only a backward pass has. */
static weft_status check_sweep(const weft_plan *plan, weft_message *message) {
    const int32_t sweep = plan->schedule.sweep;
    const weft_operation_row *operation = plan->operation;
    if (sweep <= WEFT_COMMON_SWEEPS) {
        return WEFT_OK;
    }
    const char *name = weft_sweep_describe(sweep)->name;
    if (!operation->refused_sweep) {
        return weft_fail(message, WEFT_INVALID, "sweep %s is not for %s", name, operation->info.name);
    }
    const char *needs = operation->refused_sweep(&plan->problem, sweep);
    return needs ? weft_fail(message, WEFT_INVALID, "sweep %s needs %s", name, needs) : WEFT_OK;
}

static weft_status check_codes(const weft_plan *plan, weft_message *message) {
    const weft_schedule *s = &plan->schedule;
    const weft_operation_info *operation = &plan->operation->info;
    weft_status status;
    if ((status = check_range("order", s->order, 0, WEFT_ORDER_KINDS, message)) ||
        (status = check_range("sweep", s->sweep, 0, WEFT_SWEEPS, message)) ||
        (status = check_range("dispatch", s->dispatch, 0, WEFT_DISPATCHES, message))) {
        return status;
    }
    const weft_grid_kind grid = weft_order_grid(s->order);
    if (s->order != WEFT_ORDER_CHOOSE && grid != WEFT_GRID_ANY && grid != operation->grid) {
        return weft_fail(message, WEFT_INVALID, "order %s is not for %s", weft_order_describe(s->order)->name,
                         operation->name);
    }
    if (s->axis != WEFT_AXIS_CHOOSE && s->axis != WEFT_AXIS_M && s->axis != WEFT_AXIS_N) {
        return weft_fail(message, WEFT_INVALID, "axis %d is not WEFT_AXIS_M or WEFT_AXIS_N", (int)s->axis);
    }
    return check_sweep(plan, message);
}

/* Numbers that are small enough to be multiplied with each other; 0 leaves them open. Tiles are held to the problem later.
 */
static weft_status check_numbers(const weft_plan *plan, weft_message *message) {
    const weft_schedule *s = &plan->schedule;
    weft_status status;
    if ((status = check_range("workers", s->workers, 0, WEFT_MAX_DIMENSION, message)) ||
        (status = check_range("domains", s->domains, 0, WEFT_MAX_DIMENSION, message)) ||
        (status = check_range("group", s->group, 0, WEFT_MAX_DIMENSION, message)) ||
        (status = check_range("cluster_m", s->cluster_m, 0, 16, message)) ||
        (status = check_range("cluster_n", s->cluster_n, 0, 16, message)) ||
        (status = check_range("split", s->split, 0, 16, message))) {
        return status;
    }
    return WEFT_OK;
}

int64_t weft_plan_tile_ctas(const weft_plan *plan) {
    return weft_larger(plan->schedule.split, 1);
}

int64_t weft_plan_visit_rows(const weft_plan *plan) {
    return plan->walk.cluster_rows / (plan->operation->splits_into_tiles ? weft_plan_tile_ctas(plan) : 1);
}

/* Workers, domains, cluster and axis: the machine's, or the usual, where they are left open. */
static weft_status complete_workers(weft_plan *plan, weft_message *message) {
    const weft_machine *machine = &plan->machine;
    weft_schedule *s = &plan->schedule;
    const int64_t ctas = weft_plan_tile_ctas(plan);
    weft_status status;
    s->workers = s->workers == 0 ? machine->workers : s->workers;
    s->domains = s->domains == 0 ? machine->domains : s->domains;
    s->cluster_m = s->cluster_m == 0 ? 1 : s->cluster_m;
    s->cluster_n = s->cluster_n == 0 ? 1 : s->cluster_n;
    s->split = s->split == 0 ? 1 : s->split;
    s->axis = s->axis == WEFT_AXIS_CHOOSE ? WEFT_AXIS_N : s->axis;
    if ((status = check_range("workers", s->workers, 1, WEFT_MAX_DIMENSION, message)) ||
        (status = check_range("domains", s->domains, 1, WEFT_MAX_DIMENSION, message))) {
        return status;
    }
    if (s->workers < s->cluster_m * s->cluster_n * ctas) {
        return weft_fail(message, WEFT_INVALID, "workers %" PRId64 " cannot hold a cluster of %" PRId64 "x%" PRId64,
                         s->workers, s->cluster_m * ctas, s->cluster_n);
    }
    return WEFT_OK;
}

/* The plan's own table of its order: computed, or the caller's. */
static weft_status make_table(weft_plan *plan, weft_message *message) {
    const weft_order *order = &plan->walk.order;
    if (order->count > WEFT_MOST_IN_TABLE) {
        return weft_fail(message, WEFT_UNSUPPORTED, "a table of %" PRId64 " positions is more than %d", order->count,
                         WEFT_MOST_IN_TABLE);
    }
    const int is_custom = plan->schedule.order == WEFT_ORDER_CUSTOM && !plan->is_outline;
    const weft_status status = is_custom ? weft_custom_check(&plan->schedule, order->grid, message) : WEFT_OK;
    if (status) {
        return status;
    }
    plan->table = malloc((size_t)order->count * sizeof *plan->table);
    if (!plan->table) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a table of %" PRId64 " positions", order->count);
    }
    if (is_custom) {
        memcpy(plan->table, plan->schedule.order_table, (size_t)order->count * sizeof *plan->table);
        plan->schedule.order_table = plan->table;
        plan->schedule.order_hash = weft_table_hash(plan->table, order->count);
    } else {
        weft_order_fill_table(order, plan->table);
    }
    plan->walk.order.table = plan->table;
    return WEFT_OK;
}

/* Positions that are sorted, at most: where there are more, no single tile at the end matters. */
enum { MOST_SORTED = 1 << 20 };

/* Whether a block mask is known, and is the same for all heads. */
static int has_alike_lists(const weft_reach *reach) {
    return reach->kind == WEFT_REACH_BLOCKS && reach->blocks.pairs.block_starts && reach->blocks.head_stride == 0;
}

/* The steps of a tile, in one piece and of all its parts. */
static int64_t steps_of(const weft_walk *walk, int64_t batch, int64_t col) {
    weft_visit visit = {.tile = weft_tile_at(batch, 0, col), .direction = 1};
    weft_visit_range_of(walk, &visit, 0, walk->reach.kind);
    return visit.steps;
}

/* Whether longest-first has to look at the tiles: their steps do not grow from column to column, but are known. Neighbours
 * in a packed batch whose tiles are joined share keys, and had better stay neighbours. */
static int sorts_tiles(const weft_plan *plan) {
    const weft_walk *w = &plan->walk;
    if (plan->schedule.order != WEFT_ORDER_LONGEST_FIRST || w->visits > 1 || w->cluster_cols > 1 ||
        w->order.count > MOST_SORTED || w->reach.first_slice) {
        return 0;
    }
    if (weft_reach_has_band(&w->reach) && (weft_sequences_vary(&w->reach.sequences) || has_alike_lists(&w->reach))) {
        return !w->reach.joined;
    }
    return !w->reach.sequences.packed && w->order.count > 0 && steps_of(w, 0, 0) > steps_of(w, 0, w->cols - 1);
}

typedef struct sized_tile {
    int64_t steps, number; /* batch * columns + column */
} sized_tile;

/* The longest first; of those that are alike, the first. */
static int by_steps(const void *a, const void *b) {
    const sized_tile *x = a, *y = b;
    return x->steps != y->steps ? (x->steps < y->steps) - (x->steps > y->steps)
                                : (x->number > y->number) - (x->number < y->number);
}

/* The plan's table for longest-first by what tiles really visit: sections of `group` heads, in each the longest tile of all
 * its heads, then the next. Where batches differ, a section has those heads of all of them. */
static weft_status sort_tiles(weft_plan *plan, weft_message *message) {
    weft_order *order = &plan->walk.order;
    const weft_grid g = order->grid;
    const int64_t alike = !weft_reach_has_band(&plan->walk.reach) ||
                          !weft_sequences_vary(&plan->walk.reach.sequences); /* one batch says it all */
    const int64_t lines = alike ? g.batch * g.rows : g.rows, tiles = (alike ? 1 : g.batch) * g.cols;
    const int64_t group = weft_smaller(order->group, lines);
    sized_tile *sized = malloc((size_t)tiles * sizeof *sized);
    plan->table = malloc((size_t)order->count * sizeof *plan->table);
    if (!sized || !plan->table) {
        free(sized);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a table of %" PRId64 " positions", order->count);
    }
    for (int64_t i = 0; i < tiles; i++) {
        sized[i] = (sized_tile){steps_of(&plan->walk, i / g.cols, i % g.cols), i};
    }
    qsort(sized, (size_t)tiles, sizeof *sized, by_steps);
    uint32_t *to = plan->table;
    for (int64_t first = 0; first < lines; first += group) {
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t batch = sized[i].number / g.cols, col = sized[i].number % g.cols;
            for (int64_t line = batch * g.rows + first; line < batch * g.rows + weft_smaller(first + group, lines);
                 line++) {
                *to++ = (uint32_t)(line * g.cols + col);
            }
        }
    }
    free(sized);
    order->table = plan->table;
    return WEFT_OK;
}

/* Lays the schedule over the grid of tiles. */
static weft_status make_walk(weft_plan *plan, weft_grid tiles, weft_reach reach, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    if (!plan->placed && s->split > 1) {
        return weft_fail(message, WEFT_INVALID, "split %" PRId64 " is only for GPUs", s->split);
    }
    const int over = plan->placed && plan->operation->clusters_reach_over;
    if (!over && (tiles.rows % s->cluster_m != 0 || tiles.cols % s->cluster_n != 0)) {
        return weft_fail(message, WEFT_INVALID,
                         "cluster %" PRId64 "x%" PRId64 " does not divide the grid of %" PRId64 "x%" PRId64 " tiles",
                         s->cluster_m, s->cluster_n, tiles.rows, tiles.cols);
    }
    if (reach.kind == WEFT_REACH_BLOCKS && s->cluster_m * s->cluster_n > 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "clusters do not go with a block mask");
    }
    /* CTAs that share a tile are one worker, or rows of a cluster. */
    const int64_t ctas = weft_plan_tile_ctas(plan), parts = plan->operation->splits_into_tiles ? ctas : 1;
    const int64_t rows = s->cluster_m * parts, workers = s->workers / (ctas / parts);
    const weft_grid positions = weft_walk_positions(tiles, (weft_sweep)s->sweep, rows, s->cluster_n);
    weft_order order;
    if (!weft_order_init(&order, (weft_order_kind)s->order, positions, s->group, s->axis, s->domains) ||
        !weft_walk_init(&plan->walk, &order, tiles, (weft_sweep)s->sweep, (weft_dispatch)s->dispatch, rows, s->cluster_n,
                        workers, reach)) {
        return weft_fail(message, WEFT_INVALID, "the grid of %" PRId64 " x %" PRId64 " x %" PRId64 " tiles is too large",
                         tiles.batch, tiles.rows, tiles.cols);
    }
    if (weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP) {
        s->group = order.group;
    }
    return sorts_tiles(plan) ? sort_tiles(plan, message) : s->table ? make_table(plan, message) : WEFT_OK;
}

weft_tiling weft_plan_tiling(const weft_plan *plan) {
    return (weft_tiling){.problem = plan->computed ? plan->computed : &plan->problem,
                         .schedule = &plan->schedule,
                         .heads_in_tile = plan->heads_in_tile,
                         .products = plan->products,
                         .lead = plan->lead,
                         .joined = plan->joined};
}

/* Settles the tile, chooses what is still open and lays the schedule over the grid of tiles. */
static weft_status finish(weft_plan *plan, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    const weft_tiling tiling = weft_plan_tiling(plan);
    weft_tile_side sides[WEFT_TILE_SIDES];
    const size_t count = plan->operation->sides(&tiling, s, sides);
    for (size_t i = 0; i < count; i++) {
        const weft_status status = choose_tile(&sides[i], plan->placed != NULL, message);
        if (status) {
            return status;
        }
    }
    if (count < WEFT_TILE_SIDES && s->tile_k != 0) {
        return weft_fail(message, WEFT_INVALID, "tile_k %" PRId64 " is not for %s", s->tile_k, plan->operation->info.name);
    }
    plan->operation->choose(&plan->problem, &plan->machine, s);
    weft_grid tiles;
    weft_reach reach;
    plan->operation->lay_out(&tiling, &tiles, &reach);
    return make_walk(plan, tiles, reach, message);
}

weft_status weft_plan_lay_out(weft_plan **result, const weft_plan *draft, const weft_machine *machine,
                              weft_message *message) {
    weft_status status;
    weft_plan *plan = malloc(sizeof *plan);
    if (!plan) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a plan");
    }
    *plan = *draft;
    plan->given_machine = machine != NULL;
    plan->heads_in_tile = plan->products = 1;
    plan->lead = plan->joined = 0;
    plan->kept = NULL;
    if (machine) {
        plan->machine = *machine;
    } else {
        const weft_machine *host;
        if ((status = weft_machine_this_host(&host, message))) {
            free(plan);
            return status;
        }
        plan->machine = *host;
    }
    const weft_backend *backend = plan->backend;
    weft_custom_complete(&plan->schedule);
    if ((plan->operation->keep && (status = plan->operation->keep(&plan->problem, &plan->kept, message))) ||
        (status = check_codes(plan, message)) || (status = check_numbers(plan, message)) ||
        (!machine && (status = weft_problem_check_dtypes(&plan->problem, plan->operation, backend->name, message))) ||
        (backend->open && (status = backend->open(plan, machine != NULL, message))) ||
        (status = complete_workers(plan, message)) || (status = finish(plan, message))) {
        weft_plan_destroy(plan);
        return status;
    }
    *result = plan;
    return WEFT_OK;
}

weft_status weft_plan_place(weft_plan *plan, weft_message *message) {
    return plan->backend->place ? plan->backend->place(plan, message) : WEFT_OK;
}

weft_status weft_plan_make(weft_plan **result, const weft_plan *draft, const weft_machine *machine, weft_message *message) {
    weft_plan *plan;
    weft_status status = weft_plan_lay_out(&plan, draft, machine, message);
    if (status == WEFT_OK && (status = weft_plan_place(plan, message)) != WEFT_OK) {
        weft_plan_destroy(plan);
    }
    if (status == WEFT_OK) {
        *result = plan;
    }
    return status;
}

void weft_plan_destroy(weft_plan *plan) {
    if (plan) {
        if (plan->backend->close) {
            plan->backend->close(plan);
        }
        free(plan->table);
        free(plan->kept);
        free(plan);
    }
}

weft_schedule weft_plan_schedule(const weft_plan *plan) {
    return plan->schedule;
}

const weft_walk *weft_plan_walk(const weft_plan *plan, size_t size) {
    return size == sizeof plan->walk ? &plan->walk : NULL;
}

const void *weft_plan_problem(const weft_plan *plan) {
    return &plan->problem;
}

const weft_machine *weft_plan_machine(const weft_plan *plan) {
    return &plan->machine;
}

const char *weft_plan_kernel(const weft_plan *plan) {
    return plan->backend->kernel ? plan->backend->kernel(plan) : plan->backend->name;
}

size_t weft_plan_workspace(const weft_plan *plan) {
    return plan->backend->workspace ? plan->backend->workspace(plan) : 0;
}

const char *weft_plan_profile(const weft_plan *plan) {
    const char *kernel = plan->backend->profile ? plan->backend->profile(plan) : NULL;
    const char *usual = plan->operation->profile ? (const char *)&plan->machine + plan->operation->profile : "";
    return kernel ? kernel : usual[0] ? usual : "generic";
}

const char *weft_plan_backend(const weft_plan *plan) {
    return plan->backend->name;
}
