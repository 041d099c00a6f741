/* SPDX-License-Identifier: Apache-2.0 */
#include "search/entries.h"

#include <math.h>
#include <stdlib.h>

#include <weft/tune.h>

#include "base/status.h"
#include "cost/cost.h"
#include "cpu/thread/team.h"
#include "sim/sources.h"

/* ---- listing ---- */

static weft_status make_plan(const weft_search_entries *all, const weft_schedule *schedule, weft_plan **plan,
                             weft_message *message) {
    weft_plan draft = all->draft;
    draft.schedule = *schedule;
    return weft_plan_lay_out(plan, &draft, all->machine, message);
}

weft_status weft_search_lay_out(weft_search_entries *all, const weft_schedule *schedule, int must_fit,
                                weft_search_entry *entry, weft_message *message) {
    const weft_ranked init = WEFT_RANKED_INIT;
    weft_plan *plan = NULL;
    weft_status status = make_plan(all, schedule, &plan, message);
    if (status == WEFT_OK && must_fit && !weft_space_fits(plan)) {
        status = WEFT_UNSUPPORTED;
    }
    if (status == WEFT_OK) {
        *entry = (weft_search_entry){.ranked = init,
                                     .print = weft_space_fingerprint(plan),
                                     .steps = weft_simulate_steps(plan),
                                     .wave = weft_cost_wave(plan) * (uint64_t)plan->walk.visits};
        entry->ranked.schedule = plan->schedule;
        entry->ranked.schedule.order_table = schedule->order_table; /* the plan's own goes with it */
        entry->ranked.given = *schedule;
        entry->ranked.model = weft_cost_model(plan);
        all->shown = plan->machine;
        /* What is refused here is refused when it is simulated. */
        if (weft_bound_of(plan, &all->simulate, &entry->bound, NULL) == WEFT_NO_MEMORY) {
            status = weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        }
    }
    weft_plan_destroy(plan);
    return status;
}

/* What is being listed. */
typedef struct builder {
    weft_search_entries *all;
    int must_fit, is_usual, no_memory;
} builder;

static int make_room(weft_search_entries *all) {
    if (all->count < all->room) {
        return 1;
    }
    const size_t room = all->room ? 2 * all->room : 256;
    weft_search_entry *list = realloc(all->list, room * sizeof *list);
    if (list) {
        all->list = list;
        all->room = room;
    }
    return list != NULL;
}

/* Whether the list has a schedule, or one that does the same under another name. The usual ones are all listed: people look
 * for their names. */
static int has(const weft_search_entries *all, const weft_search_entry *entry, int is_usual) {
    for (size_t i = 0; i < all->count; i++) {
        const weft_search_entry *other = &all->list[i];
        if (weft_schedule_same(&other->ranked.schedule, &entry->ranked.schedule) ||
            (!is_usual && other->print == entry->print)) {
            return 1;
        }
    }
    return 0;
}

static void add(void *user, const weft_schedule *schedule) {
    builder *b = user;
    weft_search_entries *all = b->all;
    weft_search_entry entry;
    if (b->no_memory || !make_room(all)) {
        b->no_memory = 1;
        return;
    }
    const weft_status status = weft_search_lay_out(all, schedule, b->must_fit, &entry, NULL);
    b->no_memory = status == WEFT_NO_MEMORY;
    if (status == WEFT_OK && !has(all, &entry, b->is_usual)) {
        entry.number = all->count;
        entry.is_usual = b->is_usual;
        all->list[all->count++] = entry;
    }
}

weft_status weft_search_append_one(weft_search_entries *all, const weft_search_entry *entry, weft_message *message) {
    if (!make_room(all)) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    all->list[all->count] = *entry;
    all->list[all->count].number = all->count;
    all->count++;
    return WEFT_OK;
}

weft_status weft_search_append(weft_search_entries *all, const weft_space *space, int must_fit, weft_message *message) {
    builder b = {all, must_fit, space->count == 0, 0};
    weft_space_walk(space, &all->draft.schedule, all->draft.operation, add, &b);
    return b.no_memory ? weft_fail(message, WEFT_NO_MEMORY, "out of memory") : WEFT_OK;
}

/* ---- simulating ---- */

/* Entries that are simulated over threads. */
typedef struct simulating {
    weft_search_entries *all;
    weft_search_entry *list;
    uint64_t steps;
    int no_memory;
} simulating;

/* About `steps` as whole waves: a part that ends in the middle of one has some workers idle, and looks slow. No tile starts
 * after the limit, and those of a wave start together, so it lies between two waves. */
static uint64_t whole_waves(const weft_search_entry *e, uint64_t steps) {
    const uint64_t waves = steps > e->wave ? steps / e->wave : 1;
    return steps == 0 || waves > e->steps / e->wave ? 0 : waves * e->wave - e->wave / 2;
}

static void simulate_one(void *context, int64_t i) {
    simulating *s = context;
    weft_search_entry *e = &s->list[i];
    weft_ranked *r = &e->ranked;
    weft_simulate_options options = s->all->simulate;
    options.limit = options.limit == 0 ? whole_waves(e, s->steps) : options.limit;
    weft_tally_part part = {&s->all->tally,
                            (double)(options.limit > 0 && options.limit < e->steps ? options.limit : e->steps), 0};
    options.progress = weft_tally_told;
    options.progress_user = &part;
    if (r->simulation.simulated < 1 && (options.limit == 0 || options.limit > r->limit)) {
        weft_plan *plan = NULL;
        weft_status status = make_plan(s->all, &r->given, &plan, NULL);
        status = status ? status : weft_simulate(plan, &options, &r->simulation, NULL, NULL);
        e->valid = status == WEFT_OK;
        r->limit = options.limit;
        weft_plan_destroy(plan);
        if (status == WEFT_NO_MEMORY) {
            __atomic_store_n(&s->no_memory, 1, __ATOMIC_RELAXED);
        }
    }
    weft_tally_told(&part, 1, 1);
}

weft_status weft_search_simulate(weft_search_entries *all, weft_search_entry *list, size_t count, uint64_t steps,
                                 weft_message *message) {
    simulating s = {all, list, steps, 0};
    weft_cpu_for((int64_t)count, simulate_one, &s);
    return s.no_memory ? weft_fail(message, WEFT_NO_MEMORY, "out of memory") : WEFT_OK;
}

weft_status weft_search_refuse(const weft_search_entries *all, weft_message *message) {
    weft_plan *plan = NULL;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_simulate_options options = all->simulate;
    options.limit = 1; /* what is refused is refused at once */
    weft_status status = make_plan(all, &all->draft.schedule, &plan, message);
    status = status ? status : weft_simulate(plan, &options, &sim, NULL, message);
    weft_plan_destroy(plan);
    return status ? status : weft_fail(message, WEFT_FAILED, "no schedule fits this problem on this machine");
}
