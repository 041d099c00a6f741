/* SPDX-License-Identifier: Apache-2.0 */
/* The search: lists what is open, ranks it, and finds what to compare the best with. */
#include <math.h>
#include <stdlib.h>

#include <weft/tune.h>

#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "search/search.h"

/* Steps that a search simulates at most, so that it stays within seconds: of all rounds together, and of a schedule that is
 * simulated whole when the last round was not. A step takes 0.03 to 0.3 microseconds. */
static const uint64_t SEARCH_STEPS = 64000000, WHOLE_STEPS = 8000000;

/* The plain schedule with the tile of `like`: the first order of the grid, forward, static. */
static weft_status make_plain(weft_search *f, const weft_search_entry *like, weft_search_entry *plain,
                              weft_message *message) {
    weft_schedule s = like->ranked.given;
    s.order = f->all.draft.operation->info.grid == WEFT_GRID_MATRIX ? WEFT_ORDER_RASTER_N : WEFT_ORDER_HEAD_FIRST;
    s.order_table = NULL;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.group = 0;
    s.tile_m = like->ranked.schedule.tile_m;
    s.tile_n = like->ranked.schedule.tile_n;
    s.tile_k = like->ranked.schedule.tile_k;
    return weft_search_lay_out(&f->all, &s, 0, plain, message);
}

/* Finds the baseline and simulates it as the first was; or both whole, if that does not take too long. */
static weft_status find_baseline(weft_search *f, weft_message *message) {
    weft_search_summary *u = &f->summary;
    weft_search_entry pair[2] = {f->all.list[0]};
    const weft_status made = make_plain(f, &f->all.list[0], &pair[1], message);
    if (made == WEFT_NO_MEMORY) {
        return made;
    }
    u->is_plain = made == WEFT_OK && !weft_schedule_same(&pair[0].ranked.schedule, &pair[1].ranked.schedule);
    if (!u->is_plain && u->count > 1) {
        pair[1] = f->all.list[1];
    }
    u->has_baseline = u->is_plain || u->count > 1;
    const size_t count = u->has_baseline ? 2 : 1;
    const int ends = pair[0].steps <= WHOLE_STEPS && (count == 1 || pair[1].steps <= WHOLE_STEPS);
    const weft_status status = weft_search_simulate(&f->all, pair, count, ends ? 0 : f->limit, message);
    u->has_baseline &= pair[1].valid;
    f->all.list[0] = pair[0];
    f->baseline = pair[1];
    return status;
}

/* Lists every schedule there is. Where no tile fits a worker's memory, which is made for types of two bytes, steps are
 * halved until one does. */
static weft_status list_all(weft_search_entries *all, weft_message *message) {
    enum { MOST_CUTS = 8 };
    weft_schedule shapes[WEFT_SHAPES] = {{0}};
    const int open = all->draft.schedule.tile_m == 0;
    const weft_space usual = {NULL, 0, 0, 0};
    weft_status status = weft_search_append(all, &usual, open, message);
    for (int64_t cut = 1; status == WEFT_OK && (cut == 1 || (open && all->count == 0 && cut <= MOST_CUTS)); cut *= 2) {
        const weft_space every = {shapes, open ? weft_space_shapes(&all->draft, cut, shapes) : 0, 1, 1};
        status = weft_search_append(all, &every, open, message);
    }
    return status;
}

/* Every schedule there is, in rounds. */
static weft_status search_all(weft_search *f, weft_message *message) {
    weft_search_entries *all = &f->all;
    weft_search_summary *u = &f->summary;
    const uint64_t steps = all->options.steps > 0 ? all->options.steps : SEARCH_STEPS;
    size_t first, last;
    weft_status status = list_all(all, message);
    status = status ? status : weft_search_race(all, steps, &first, &last, &f->limit, message);
    if (status) {
        return status == WEFT_FAILED ? weft_search_refuse(all, message) : status;
    }
    u->schedules = (int64_t)all->count;
    u->searched = (int64_t)first;
    u->count = u->last = (int64_t)last;
    u->whole = 1;
    for (size_t i = 0; i < last; i++) {
        u->whole &= all->list[i].ranked.simulation.simulated >= 1;
    }
    return find_baseline(f, message);
}

/* What the kernels of the device or of the machine can take, by their model. WEFT_UNSUPPORTED, with the reason: the
 * simulator is to answer. The question stays as it was then. */
static weft_status search_priced(weft_search *f, weft_message *message) {
    weft_search_entries *all = &f->all;
    weft_search_summary *u = &f->summary;
    const weft_plan draft = all->draft;
    const uint64_t steps = all->options.steps > 0 ? all->options.steps : SEARCH_STEPS / 3;
    size_t simulated = 0;
    if (all->machine && (draft.device.kind != WEFT_DEVICE_CPU || !weft_plan_put_on_paper(&all->draft, all->machine))) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the kernels here were not measured on %s", all->machine->name);
    }
    const weft_status status = weft_search_price(all, steps, &simulated, message);
    if (status) {
        all->draft = draft;
        all->count = 0;
        return status;
    }
    u->schedules = u->searched = u->count = (int64_t)all->count;
    u->last = (int64_t)simulated;
    u->whole = 1;
    for (size_t i = 0; i < simulated; i++) {
        u->whole &= !all->list[i].valid || all->list[i].ranked.simulation.simulated >= 1;
    }
    f->limit = all->list[0].ranked.limit;
    u->cost = WEFT_SEARCH_BY_MODEL;
    u->rule = weft_search_rule_priced();
    return find_baseline(f, message);
}

/* All there is: by the model where there is one, unless the caller says otherwise. */
static weft_status search_any(weft_search *f, weft_message *message) {
    const weft_search_cost cost = f->all.options.cost;
    const weft_status status = cost == WEFT_SEARCH_BY_SIMULATOR
                                   ? WEFT_UNSUPPORTED
                                   : search_priced(f, cost == WEFT_SEARCH_BY_MODEL ? message : NULL);
    return status == WEFT_UNSUPPORTED && cost != WEFT_SEARCH_BY_MODEL ? search_all(f, message) : status;
}

/* Orders and sweeps, each simulated whole. */
static weft_status search_orders(weft_search *f, weft_message *message) {
    weft_search_entries *all = &f->all;
    const weft_space usual = {NULL, 0, 0, 0};
    weft_status status = weft_search_append(all, &usual, 0, message);
    for (size_t i = 0; i < all->count; i++) {
        all->tally.planned += (double)all->list[i].steps;
    }
    status = status ? status : weft_search_simulate(all, all->list, all->count, 0, message);
    if (status) {
        return status;
    }
    f->summary.schedules = (int64_t)all->count;
    f->summary.count = f->summary.searched = f->summary.last = (int64_t)weft_search_sort(all->list, all->count);
    f->summary.whole = 1;
    return f->summary.count > 0 ? WEFT_OK : weft_search_refuse(all, message);
}

/* Takes the question. The caller's own schedule must make sense before it is varied. */
static weft_status ask(weft_search *f, const void *problem, const weft_plan_options *options, weft_message *message) {
    weft_search_entry own;
    weft_schedule *s = &f->all.draft.schedule;
    weft_status status = weft_plan_draft_with(&f->all.draft, &f->machine, &f->all.machine, problem, options, message);
    status = status ? status : weft_search_lay_out(&f->all, s, 0, &own, message);
    if (status == WEFT_OK && s->order_table) { /* the caller's order fits this tile */
        s->tile_m = own.ranked.schedule.tile_m;
        s->tile_n = own.ranked.schedule.tile_n;
        s->tile_k = own.ranked.schedule.tile_k;
    }
    return status;
}

static weft_status answer(weft_search *f, weft_message *message) {
    const weft_search_options *o = &f->all.options;
    f->all.tally = (weft_tally)WEFT_TALLY(o->progress, o->progress_user, 0);
    return o->space == WEFT_SEARCH_ALL ? search_any(f, message) : search_orders(f, message);
}

weft_status weft_search_run(weft_search **search, const void *problem, const weft_plan_options *plan,
                            const weft_search_options *options, weft_message *message) {
    const weft_search_options init = WEFT_SEARCH_INIT;
    const weft_simulate_options defaults = WEFT_SIMULATE_INIT;
    const weft_search_summary none = WEFT_SEARCH_SUMMARY_INIT;
    if (!search) {
        return weft_fail(message, WEFT_INVALID, "search is null");
    }
    weft_search *f = *search = calloc(1, sizeof *f);
    if (!f) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    f->all.options = init;
    f->all.simulate = defaults;
    f->summary = none;
    f->summary.cost = WEFT_SEARCH_BY_SIMULATOR;
    f->summary.rule = weft_search_rule();
    weft_status status =
        weft_struct_take_options(&f->all.options, sizeof f->all.options, options, "WEFT_SEARCH_INIT", message);
    if (status ||
        (status = weft_struct_take_options(&f->all.simulate, sizeof f->all.simulate, f->all.options.simulate,
                                           "WEFT_SIMULATE_INIT", message)) ||
        (status = ask(f, problem, plan, message)) || (status = answer(f, message))) {
        weft_search_destroy(f);
        *search = NULL;
    }
    return status;
}

void weft_search_destroy(weft_search *search) {
    if (search) {
        free(search->all.list);
        free(search);
    }
}

weft_status weft_search_summarize(const weft_search *search, weft_search_summary *summary, weft_message *message) {
    return weft_struct_give(summary, &search->summary, sizeof search->summary, sizeof(size_t), "WEFT_SEARCH_SUMMARY_INIT",
                            message);
}

static weft_status give(const weft_search_entry *entry, weft_ranked *row, weft_message *message) {
    return weft_struct_give(row, &entry->ranked, sizeof entry->ranked, sizeof(size_t), "WEFT_RANKED_INIT", message);
}

weft_status weft_search_row(const weft_search *search, size_t index, weft_ranked *row, weft_message *message) {
    return index < (size_t)search->summary.count
               ? give(&search->all.list[index], row, message)
               : weft_fail(message, WEFT_NOT_FOUND, "%lld schedules are ranked", (long long)search->summary.count);
}

weft_status weft_search_baseline(const weft_search *search, weft_ranked *row, weft_message *message) {
    return search->summary.has_baseline ? give(&search->baseline, row, message)
                                        : weft_fail(message, WEFT_NOT_FOUND, "there is no other schedule");
}
