#include "verbs/candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "cpu/thread/team.h"
#include "base/json.h"
#include "progress.h"
#include "report/rate.h"
#include "report/simulation_json.h"
#include "verbs/simulated.h"

/* Candidates that are simulated over threads. */
typedef struct simulating {
    candidate *list;
    weft_subject subject;
    uint64_t steps, waves;
    int no_memory;
} simulating;

static void simulate_one(void *context, int64_t i) {
    simulating *s = context;
    candidate *c = &s->list[i];
    progress_part part = {1, 0};
    weft_simulate_options options = simulate_options(&c->chosen, &part);
    if (options.limit == 0) {
        options.limit = s->waves > 0 && s->waves * c->wave < s->steps ? s->waves * c->wave : s->steps;
    }
    if (c->sim.simulated < 1 && (options.limit == 0 || options.limit > c->limit)) {
        weft_plan *plan = NULL;
        weft_message message;
        weft_status status = try_plan(&c->chosen, s->subject, &plan, &message);
        status = status ? status : weft_simulate(plan, &options, &c->sim, NULL, &message);
        c->valid = status == WEFT_OK;
        c->limit = options.limit;
        weft_plan_destroy(plan);
        if (status == WEFT_NO_MEMORY) {
            __atomic_store_n(&s->no_memory, 1, __ATOMIC_RELAXED);
        }
    }
    progress_part_end(&part);
}

int candidates_simulate(candidate *list, size_t count, weft_subject subject, uint64_t steps, uint64_t waves) {
    simulating s = {list, subject, steps, waves, 0};
    progress_begin("simulating schedules", (double)count);
    weft_cpu_for((int64_t)count, simulate_one, &s);
    progress_end();
    return s.no_memory ? complain(EXIT_FAILED, "out of memory") : EXIT_OK;
}

/* Times and bytes this near to the least are as good: less is noise of the simulator. */
#define AS_FAST   1.01
#define AS_FRUGAL 1.02
const char candidates_rule[] =
    "of the schedules within 1 % of the fastest, those within 2 % of the least DRAM reads; of these "
    "the one that asks the L2 for the fewest sectors";

static int compare(double x, double y) {
    return (x > y) - (x < y);
}

/* Within a grade, what the next one was chosen by decides: sectors, DRAM reads, time. */
static int by_rule(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->grade != y->grade) {
        return x->grade - y->grade;
    }
    const int sectors = compare((double)x->sim.total.sectors, (double)y->sim.total.sectors);
    const int dram = compare((double)x->sim.total.dram_read_bytes, (double)y->sim.total.dram_read_bytes);
    const int seconds = compare(x->sim.seconds, y->sim.seconds);
    const int order = x->grade == 0 ? sectors : x->grade == 1 ? dram : seconds;
    return order ? order : seconds ? seconds : dram ? dram : compare((double)x->number, (double)y->number);
}

size_t candidates_sort(candidate *list, size_t count) {
    double fastest = INFINITY, least = INFINITY;
    size_t valid = 0;
    for (size_t i = 0; i < count; i++) {
        fastest = list[i].valid ? fmin(fastest, list[i].sim.seconds) : fastest;
        valid += list[i].valid != 0;
    }
    for (size_t i = 0; i < count; i++) {
        list[i].grade = !list[i].valid ? 3 : list[i].sim.seconds > AS_FAST * fastest ? 2 : 1;
        least = list[i].grade == 1 ? fmin(least, (double)list[i].sim.total.dram_read_bytes) : least;
    }
    for (size_t i = 0; i < count; i++) {
        list[i].grade -= list[i].grade == 1 && (double)list[i].sim.total.dram_read_bytes <= AS_FRUGAL * least;
    }
    qsort(list, count, sizeof *list, by_rule);
    return valid;
}

int candidates_refuse(const settings *s, weft_subject subject) {
    weft_plan *plan = NULL;
    weft_simulation sim;
    weft_message message = {""};
    weft_simulate_options options = simulate_options(s, NULL);
    options.limit = 1; /* what is refused is refused at once */
    weft_status status = try_plan(s, subject, &plan, &message);
    status = status ? status : weft_simulate(plan, &options, &sim, NULL, &message);
    weft_plan_destroy(plan);
    return status ? complain_status(status, &message)
                  : complain(EXIT_FAILED, "no schedule fits this problem on this machine");
}

int candidates_make(const settings *s, weft_subject subject, candidate **list, size_t *count) {
    const candidate_space space = {0, 0, 0, 0};
    candidate_list all = {NULL, 0, 0};
    int code = candidates_append(&all, s, subject, &space);
    code = code ? code : candidates_simulate(all.list, all.count, subject, 0, 0);
    if (code == EXIT_OK) {
        *count = candidates_sort(all.list, all.count);
        code = *count > 0 ? EXIT_OK : candidates_refuse(s, subject);
    }
    if (code) {
        free(all.list);
        return code;
    }
    *list = all.list;
    return EXIT_OK;
}

void candidate_name(const candidate *c, char *text, size_t size) {
    const weft_schedule *s = &c->schedule;
    char group[32] = "";
    if (weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP) {
        snprintf(group, sizeof group, "-%lld", (long long)s->group);
    }
    snprintf(text, size, "%lldx%lld %s%s %s %s", (long long)s->tile_m, (long long)s->tile_n,
             weft_order_describe(s->order)->name, group, weft_sweep_describe(s->sweep)->name,
             weft_dispatch_describe(s->dispatch)->name);
}

/* The predicted rate and the predicted time give the operations, and so the measured rate. */
static double measured_tflops(const candidate *c) {
    return c->sim.tflops * c->sim.seconds / c->measured;
}

json_t *candidate_json(const candidate *c) {
    char name[128];
    const weft_traffic *t = &c->sim.total;
    candidate_name(c, name, sizeof name);
    json_t *object =
        json_pack("{s:s, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f}", "schedule", name, "sectors", (json_int_t)t->sectors,
                  "hit_rate", weft_hit_rate(t), "misses", (json_int_t)t->misses, "fabric_sectors",
                  (json_int_t)t->fabric_sectors, "dram_read_bytes", (json_int_t)t->dram_read_bytes, "seconds",
                  c->sim.seconds, "tflops", c->sim.tflops, "simulated", c->sim.simulated);
    if (c->measured > 0) {
        weft_json_set(&object, "measured", json_pack("{s:f, s:f}", "seconds", c->measured, "tflops", measured_tflops(c)));
    }
    return object;
}

void candidate_print_header(int measured) {
    printf("%-50s%9s%10s%10s%10s%10s%15s%s\n", "schedule", "hits %", "misses M", "fabric M", "DRAM GB", "ms", "rate",
           measured ? "   measured ms           rate" : "");
}

void candidate_print(const candidate *c) {
    char name[128];
    const weft_traffic *t = &c->sim.total;
    candidate_name(c, name, sizeof name);
    printf("%-50s%9.2f%10.2f%10.2f%10.3f%10.4f%15s", name, 100 * weft_hit_rate(t), (double)t->misses / 1e6,
           (double)t->fabric_sectors / 1e6, (double)t->dram_read_bytes / 1e9, 1e3 * c->sim.seconds,
           weft_rate_text(c->sim.tflops).text);
    if (c->measured > 0) {
        printf("%14.4f%15s", 1e3 * c->measured, weft_rate_text(measured_tflops(c)).text);
    }
    putchar('\n');
}
