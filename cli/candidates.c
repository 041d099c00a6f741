#include "candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "cpu/threads.h"
#include "report/simulation_json.h"
#include "simulated.h"

/* Candidates that are simulated over threads. */
typedef struct simulating {
    candidate *list;
    size_t count, done;
    weft_subject subject;
    uint64_t steps, waves;
    int show;
} simulating;

static void simulate_one(void *context, int64_t i) {
    simulating *s = context;
    candidate *c = &s->list[i];
    weft_simulate_options options = simulate_options(&c->chosen);
    if (options.limit == 0) {
        options.limit = s->waves > 0 && s->waves * c->wave < s->steps ? s->waves * c->wave : s->steps;
    }
    if (c->sim.simulated < 1 && (options.limit == 0 || options.limit > c->limit)) {
        weft_plan *plan = NULL;
        weft_message message;
        c->valid = try_plan(&c->chosen, s->subject, &plan, &message) == EXIT_OK &&
                   weft_simulate(plan, &options, &c->sim, NULL, &message) == WEFT_OK;
        c->limit = options.limit;
        weft_plan_destroy(plan);
    }
    const size_t done = __atomic_add_fetch(&s->done, 1, __ATOMIC_RELAXED);
    if (s->show) {
        fprintf(stderr, "\r%zu of %zu schedules", done, s->count);
    }
}

void candidates_simulate(candidate *list, size_t count, weft_subject subject, uint64_t steps, uint64_t waves) {
    simulating s = {list, count, 0, subject, steps, waves, isatty(STDERR_FILENO)};
    weft_cpu_for((int64_t)count, simulate_one, &s);
    if (s.show) {
        fputs("\r\033[K", stderr);
    }
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
    weft_simulate_options options = simulate_options(s);
    options.limit = 1; /* what is refused is refused at once */
    int code = try_plan(s, subject, &plan, &message);
    code = code ? code : exit_code(weft_simulate(plan, &options, &sim, NULL, &message));
    weft_plan_destroy(plan);
    return code ? complain(code, "%s", message.text)
                : complain(EXIT_FAILED, "no schedule fits this problem on this machine");
}

int candidates_make(const settings *s, weft_subject subject, candidate **list, size_t *count) {
    const candidate_space space = {0, 0, 0, 0};
    candidate_list all = {NULL, 0, 0};
    int code = candidates_append(&all, s, subject, &space);
    if (code == EXIT_OK) {
        candidates_simulate(all.list, all.count, subject, 0, 0);
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
        json_object_set_new(object, "measured",
                            json_pack("{s:f, s:f}", "seconds", c->measured, "tflops", measured_tflops(c)));
    }
    return object;
}

void candidate_print_header(int measured) {
    printf("%-50s%9s%10s%10s%10s%10s%9s%s\n", "schedule", "hits %", "misses M", "fabric M", "DRAM GB", "ms", "TFLOP/s",
           measured ? "   measured ms  TFLOP/s" : "");
}

void candidate_print(const candidate *c) {
    char name[128];
    const weft_traffic *t = &c->sim.total;
    candidate_name(c, name, sizeof name);
    printf("%-50s%9.2f%10.2f%10.2f%10.3f%10.4f%9.*f", name, 100 * weft_hit_rate(t), (double)t->misses / 1e6,
           (double)t->fabric_sectors / 1e6, (double)t->dram_read_bytes / 1e9, 1e3 * c->sim.seconds,
           c->sim.tflops < 10 ? 3 : 1, c->sim.tflops);
    if (c->measured > 0) {
        printf("%14.4f%9.*f", 1e3 * c->measured, measured_tflops(c) < 10 ? 3 : 1, measured_tflops(c));
    }
    putchar('\n');
}
