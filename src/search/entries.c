#include "search/entries.h"

#include <math.h>
#include <pthread.h>
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
    return weft_plan_make(plan, &draft, all->machine, message);
}

weft_status weft_search_lay_out(const weft_search_entries *all, const weft_schedule *schedule, int must_fit,
                                weft_search_entry *entry, weft_message *message) {
    const weft_ranked init = WEFT_RANKED_INIT;
    weft_plan *plan = NULL;
    weft_status status = make_plan(all, schedule, &plan, message);
    if (status == WEFT_OK && must_fit && !weft_space_fits(plan)) {
        status = WEFT_UNSUPPORTED;
    }
    if (status == WEFT_OK) {
        *entry = (weft_search_entry){.ranked = init, .steps = weft_simulate_steps(plan), .wave = weft_cost_wave(plan)};
        entry->ranked.schedule = plan->schedule;
        entry->ranked.schedule.order_table = schedule->order_table; /* the plan's own goes with it */
        entry->ranked.given = *schedule;
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

static int has(const weft_search_entries *all, const weft_schedule *schedule) {
    for (size_t i = 0; i < all->count; i++) {
        if (weft_schedule_same(&all->list[i].ranked.schedule, schedule)) {
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
    if (status == WEFT_OK && !has(all, &entry.ranked.schedule)) {
        entry.number = all->count;
        entry.is_usual = b->is_usual;
        all->list[all->count++] = entry;
    }
}

weft_status weft_search_append(weft_search_entries *all, const weft_space *space, int must_fit, weft_message *message) {
    builder b = {all, must_fit, space->count == 0, 0};
    weft_space_walk(space, &all->draft.schedule, all->draft.operation->info.grid, add, &b);
    return b.no_memory ? weft_fail(message, WEFT_NO_MEMORY, "out of memory") : WEFT_OK;
}

/* ---- simulating ---- */

/* Entries that are simulated over threads. */
typedef struct simulating {
    const weft_search_entries *all;
    weft_search_entry *list;
    size_t count;
    uint64_t steps, waves;
    int no_memory;
    pthread_mutex_t lock; /* of what follows */
    double done;          /* entries */
} simulating;

/* How far one of them is. */
typedef struct part {
    simulating *of;
    double told;
} part;

enum { PARTS = 1000 }; /* of an entry, in what the caller is told */

static void tell(void *user, int64_t done, int64_t total) {
    part *p = user;
    simulating *s = p->of;
    const double share = total > 0 ? (double)done / (double)total : 0;
    if (s->all->options.progress) {
        pthread_mutex_lock(&s->lock);
        s->done += share - p->told;
        p->told = share;
        s->all->options.progress(s->all->options.progress_user, (int64_t)(PARTS * s->done), (int64_t)(PARTS * s->count));
        pthread_mutex_unlock(&s->lock);
    }
}

static void simulate_one(void *context, int64_t i) {
    simulating *s = context;
    weft_search_entry *e = &s->list[i];
    weft_ranked *r = &e->ranked;
    part p = {s, 0};
    weft_simulate_options options = s->all->simulate;
    options.progress = tell;
    options.progress_user = &p;
    if (options.limit == 0) {
        options.limit = s->waves > 0 && s->waves * e->wave < s->steps ? s->waves * e->wave : s->steps;
    }
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
    tell(&p, 1, 1);
}

weft_status weft_search_simulate(const weft_search_entries *all, weft_search_entry *list, size_t count, uint64_t steps,
                                 uint64_t waves, weft_message *message) {
    simulating s = {all, list, count, steps, waves, 0, PTHREAD_MUTEX_INITIALIZER, 0};
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

/* ---- sorting ---- */

/* Times and bytes this near to the least are as good: less is noise of the simulator. */
#define AS_FAST   1.01
#define AS_FRUGAL 1.02

const char *weft_search_rule(void) {
    return "of the schedules within 1 % of the fastest, those within 2 % of the least DRAM reads; of these the one that "
           "asks the L2 for the fewest sectors";
}

static int compare(double x, double y) {
    return (x > y) - (x < y);
}

/* Within a grade, what the next one was chosen by decides: sectors, DRAM reads, time. */
static int by_rule(const void *a, const void *b) {
    const weft_search_entry *x = a, *y = b;
    const weft_simulation *first = &x->ranked.simulation, *second = &y->ranked.simulation;
    if (x->grade != y->grade) {
        return x->grade - y->grade;
    }
    const int sectors = compare((double)first->total.sectors, (double)second->total.sectors);
    const int dram = compare((double)first->total.dram_read_bytes, (double)second->total.dram_read_bytes);
    const int seconds = compare(first->seconds, second->seconds);
    const int order = x->grade == 0 ? sectors : x->grade == 1 ? dram : seconds;
    return order ? order : seconds ? seconds : dram ? dram : compare((double)x->number, (double)y->number);
}

size_t weft_search_sort(weft_search_entry *list, size_t count) {
    double fastest = INFINITY, least = INFINITY;
    size_t valid = 0;
    for (size_t i = 0; i < count; i++) {
        fastest = list[i].valid ? fmin(fastest, list[i].ranked.simulation.seconds) : fastest;
        valid += list[i].valid != 0;
    }
    for (size_t i = 0; i < count; i++) {
        const weft_simulation *sim = &list[i].ranked.simulation;
        list[i].grade = !list[i].valid ? 3 : sim->seconds > AS_FAST * fastest ? 2 : 1;
        least = list[i].grade == 1 ? fmin(least, (double)sim->total.dram_read_bytes) : least;
    }
    for (size_t i = 0; i < count; i++) {
        const double read = (double)list[i].ranked.simulation.total.dram_read_bytes;
        list[i].grade -= list[i].grade == 1 && read <= AS_FRUGAL * least;
    }
    qsort(list, count, sizeof *list, by_rule);
    return valid;
}
