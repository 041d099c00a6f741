/* The search of WEFT_SEARCH_ALL: a short race of all schedules, then a final of the best, simulated whole. */
#include <math.h>
#include <stdlib.h>

#include <weft/tune.h>

#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "search/entries.h"

struct weft_search {
    weft_search_entries all; /* of which the first summary.count are ranked */
    weft_machine machine;    /* that the caller has given */
    weft_search_summary summary;
    uint64_t limit; /* of steps of each in the last round of the final; 0: none */
    weft_search_entry baseline;
};

/* Steps to simulate at most, so that a search stays within seconds: of the race and of a round of the final, all schedules
 * together, and of a schedule that is simulated whole when the final was not. A step takes 0.04 to 0.2 microseconds. */
static const uint64_t RACE_STEPS = 32000000, ROUND_STEPS = 24000000, WHOLE_STEPS = 16000000;

/* A round of the final leaves a quarter for the next, but not fewer than LEAST. */
enum { LEFT = 4, LEAST = 3 };

/* In a short race the first wave, which finds the caches empty, weighs more than it should. Schedules this near to the
 * fastest may be as fast as that when simulated whole. */
static const double NEAR = 1.1;

/* Where a wave of each would take too long, leaves all the usual ones, and of the others every so many. */
static size_t thin(weft_search_entry *list, size_t count) {
    double usual = 0, others = 0;
    for (size_t i = 0; i < count; i++) {
        *(list[i].is_usual ? &usual : &others) += (double)list[i].wave;
    }
    const double share = others > 0 ? fmax(0, fmin(1, ((double)RACE_STEPS - usual) / others)) : 1;
    double taken = 0.5;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        taken += list[i].is_usual ? 0 : share;
        if (list[i].is_usual || taken >= 1) {
            taken -= list[i].is_usual ? 0 : 1;
            list[kept++] = list[i];
        }
    }
    return kept;
}

static int by_seconds(const void *a, const void *b) {
    const weft_search_entry *x = *(weft_search_entry *const *)a, *y = *(weft_search_entry *const *)b;
    return x->ranked.simulation.seconds != y->ranked.simulation.seconds
               ? (x->ranked.simulation.seconds > y->ranked.simulation.seconds) -
                     (x->ranked.simulation.seconds < y->ranked.simulation.seconds)
               : (x->number > y->number) - (x->number < y->number);
}

static int by_dram(const void *a, const void *b) {
    const weft_search_entry *x = *(weft_search_entry *const *)a, *y = *(weft_search_entry *const *)b;
    const uint64_t first = x->ranked.simulation.total.dram_read_bytes, second = y->ranked.simulation.total.dram_read_bytes;
    return first != second ? (first > second) - (first < second) : by_seconds(a, b);
}

/* Makes finalists of the first WEFT_SEARCH_PICKED of `sorted`, taking the first of each order and tile before the second of
 * any: those are much alike, in what the race sees wrong, too. */
static void pick(weft_search_entry **sorted, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const weft_schedule *s = &sorted[i]->ranked.schedule;
        sorted[i]->rank = 0;
        for (size_t j = 0; j < i; j++) {
            const weft_schedule *t = &sorted[j]->ranked.schedule;
            sorted[i]->rank += s->order == t->order && s->tile_m == t->tile_m && s->tile_n == t->tile_n;
        }
    }
    size_t picked = 0;
    for (size_t rank = 0; rank < count && picked < WEFT_SEARCH_PICKED; rank++) {
        for (size_t i = 0; i < count && picked < WEFT_SEARCH_PICKED; i++) {
            picked += sorted[i]->rank == rank;
            sorted[i]->is_finalist |= sorted[i]->rank == rank;
        }
    }
}

static int finalists_first(const void *a, const void *b) {
    const weft_search_entry *x = a, *y = b;
    return x->is_finalist != y->is_finalist ? y->is_finalist - x->is_finalist
                                            : (x->number > y->number) - (x->number < y->number);
}

/* Moves the usual ones, the fastest, and those that read least of the ones that may be as fast, to the front. Returns how
 * many they are, or 0 when memory ran out. `list` is what the race left. */
static size_t choose_finalists(weft_search_entry *list, size_t count) {
    weft_search_entry **sorted = malloc(count * sizeof *sorted);
    if (!sorted) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &list[i];
        list[i].is_finalist = list[i].is_usual;
    }
    qsort(sorted, count, sizeof *sorted, by_seconds);
    pick(sorted, count);
    size_t near = 0;
    while (near < count && sorted[near]->ranked.simulation.seconds <= NEAR * sorted[0]->ranked.simulation.seconds) {
        near++;
    }
    qsort(sorted, near, sizeof *sorted, by_dram);
    pick(sorted, near);
    free(sorted);
    qsort(list, count, sizeof *list, finalists_first);
    size_t finalists = 0;
    while (finalists < count && list[finalists].is_finalist) {
        finalists++;
    }
    return finalists;
}

/* Simulates the finalists whole, and sorts them. Where that would take too long, all get as many steps as a round affords,
 * and the best go on to a round of their own, until they are simulated whole or hardly any are left. */
static weft_status run_final(weft_search *f, weft_message *message) {
    weft_search_entry *list = f->all.list;
    size_t last = 0;
    for (size_t count = (size_t)f->summary.count; count > 0; count = count / LEFT > LEAST ? count / LEFT : LEAST) {
        uint64_t steps = 0;
        for (size_t i = 0; i < count; i++) {
            steps += list[i].steps;
        }
        f->limit = steps <= ROUND_STEPS ? 0 : ROUND_STEPS / count;
        const weft_status status = weft_search_simulate(&f->all, list, count, f->limit, 0, message);
        if (status) {
            return status;
        }
        weft_search_sort(list, count);
        last = count;
        if (f->limit == 0 || count <= LEAST) {
            break;
        }
    }
    f->summary.last = (int64_t)last;
    f->summary.whole = 1;
    for (size_t i = 0; i < last; i++) {
        f->summary.whole &= list[i].ranked.simulation.simulated >= 1;
    }
    return WEFT_OK;
}

/* The plain schedule with the tile of `like`: the first order of the grid, forward, static. */
static weft_status make_plain(const weft_search *f, const weft_search_entry *like, weft_search_entry *plain,
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
    const weft_status status = weft_search_simulate(&f->all, pair, count, ends ? 0 : f->limit, 0, message);
    u->has_baseline &= pair[1].valid;
    f->all.list[0] = pair[0];
    f->baseline = pair[1];
    return status;
}

/* Every schedule there is, in a short race, and the best of them in a final. */
static weft_status search_all(weft_search *f, weft_message *message) {
    weft_search_entries *all = &f->all;
    weft_schedule shapes[WEFT_SHAPES];
    const int open = all->draft.schedule.tile_m == 0;
    const weft_space usual = {NULL, 0, 0, 0}, every = {shapes, open ? weft_space_shapes(&all->draft, shapes) : 0, 1, 1};
    weft_status status = weft_search_append(all, &usual, open, message);
    status = status ? status : weft_search_append(all, &every, open, message);
    if (status) {
        return status;
    }
    const size_t raced = thin(all->list, all->count);
    f->summary.schedules = (int64_t)all->count;
    status = weft_search_simulate(all, all->list, raced, RACE_STEPS / (raced + 1), WEFT_SEARCH_WAVES, message);
    if (status) {
        return status;
    }
    const size_t searched = weft_search_sort(all->list, raced);
    f->summary.searched = (int64_t)searched;
    if (searched == 0) {
        return weft_search_refuse(all, message);
    }
    f->summary.count = (int64_t)choose_finalists(all->list, searched);
    if (f->summary.count == 0) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    status = run_final(f, message);
    return status ? status : find_baseline(f, message);
}

/* Orders and sweeps, each simulated whole. */
static weft_status search_orders(weft_search *f, weft_message *message) {
    weft_search_entries *all = &f->all;
    const weft_space usual = {NULL, 0, 0, 0};
    weft_status status = weft_search_append(all, &usual, 0, message);
    status = status ? status : weft_search_simulate(all, all->list, all->count, 0, 0, message);
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
    weft_plan_options o = WEFT_PLAN_OPTIONS_INIT;
    weft_search_entry unused;
    weft_status status = WEFT_OK;
    if ((options &&
         (status = weft_struct_take(&o, sizeof o, sizeof(size_t), options, "WEFT_PLAN_OPTIONS_INIT", message))) ||
        (status = weft_plan_draft(&f->all.draft, problem, o.schedule, o.device, message)) ||
        (o.machine && (status = weft_machine_copy(&f->machine, o.machine, message)))) {
        return status;
    }
    f->all.machine = o.machine ? &f->machine : NULL;
    return weft_search_lay_out(&f->all, &f->all.draft.schedule, 0, &unused, message);
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
    weft_status status = WEFT_OK;
    if ((options && (status = weft_struct_take(&f->all.options, sizeof f->all.options, sizeof(size_t), options,
                                               "WEFT_SEARCH_INIT", message))) ||
        (f->all.options.simulate && (status = weft_struct_take(&f->all.simulate, sizeof f->all.simulate, sizeof(size_t),
                                                               f->all.options.simulate, "WEFT_SIMULATE_INIT", message))) ||
        (status = ask(f, problem, plan, message)) ||
        (status = f->all.options.space == WEFT_SEARCH_ALL ? search_all(f, message) : search_orders(f, message))) {
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
