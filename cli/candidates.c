#include "candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan/json.h"
#include "plan/plan.h"
#include "progress.h"
#include "report/rate.h"
#include "report/simulation_json.h"
#include "simulated.h"

typedef struct list_builder {
    candidate *list;
    size_t count, room;
    int failed;
} list_builder;

static void add(list_builder *b, const settings *s) {
    if (b->count == b->room) {
        const size_t room = b->room ? 2 * b->room : 256;
        candidate *list = realloc(b->list, room * sizeof *list);
        if (!list) {
            b->failed = 1;
            return;
        }
        b->list = list;
        b->room = room;
    }
    memset(&b->list[b->count], 0, sizeof *b->list);
    b->list[b->count++].chosen = *s;
}

/* Each function fixes one choice in every way there is, or leaves the user's, and goes on to the next. */
static void vary_dispatch(list_builder *b, settings s, const candidate_space *space) {
    if (s.dispatch >= 0 || !space->dispatches) {
        add(b, &s);
        return;
    }
    for (s.dispatch = 0; s.dispatch < WEFT_DISPATCHES; s.dispatch++) {
        add(b, &s);
    }
}

static void vary_sweep(list_builder *b, settings s, const candidate_space *space) {
    if (s.sweep >= 0) {
        vary_dispatch(b, s, space);
        return;
    }
    for (s.sweep = 0; s.sweep < WEFT_SWEEPS; s.sweep++) {
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
    if (s.order >= 0) {
        vary_group(b, s, space, subject);
        return;
    }
    for (int32_t order = 0; order < WEFT_ORDER_KINDS; order++) {
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

/* What a step reads has to fit a worker's memory: one block each of Q, K and V; two slices of A and B. */
static int fits(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const int64_t bytes =
        (int64_t)weft_dtype_bytes(plan->subject == WEFT_SUBJECT_GEMM ? plan->gemm.dtype : plan->attention.dtype);
    const int64_t elements = plan->subject == WEFT_SUBJECT_GEMM ? 2 * s->tile_k * (s->tile_m + s->tile_n)
                                                                : plan->attention.head_dim * (s->tile_m + 2 * s->tile_n);
    return elements * bytes <= plan->machine.shared_bytes;
}

/* Steps of all schedules of a search together, so that it stays within seconds. */
static const uint64_t MOST_STEPS = 160000000;

/* Steps that all workers take for one tile each, the longest there is. */
static uint64_t steps_in_wave(const weft_plan *plan) {
    const weft_reach *r = &plan->walk.reach;
    return (uint64_t)plan->walk.workers * (uint64_t)weft_ceil_divide(r->columns, r->tile_columns);
}

/* A candidate that does not fit stays invalid. The status says whether there was memory to find out. */
static weft_status simulate(candidate *c, weft_subject subject, const candidate_space *space, uint64_t most_steps,
                            int must_fit, progress_part *part) {
    weft_plan *plan = NULL;
    weft_message message;
    weft_status status = try_plan(&c->chosen, subject, &plan, &message);
    if (status == WEFT_OK && (!must_fit || fits(plan))) {
        weft_simulate_options options = simulate_options(&c->chosen, part);
        if (options.limit == 0 && space->waves > 0) {
            const uint64_t steps = space->waves * steps_in_wave(plan);
            options.limit = steps < most_steps ? steps : most_steps;
        }
        c->schedule = weft_plan_schedule(plan);
        status = weft_simulate(plan, &options, &c->sim, NULL, &message);
        c->valid = status == WEFT_OK;
    }
    weft_plan_destroy(plan);
    return status;
}

/* Quantities within 2 % of each other are taken as equal, so that noise does not decide. */
static double rank(double quantity) {
    return floor(log(quantity + 1) / log(1.02));
}

static int compare(double x, double y) {
    return (x > y) - (x < y);
}

/* Those that are about as fast as the fastest come first, by what they read from DRAM, then by what they ask of the L2; the
 * others follow by their time. */
static int by_cost(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (!x->valid || !y->valid) {
        return y->valid - x->valid;
    }
    if (!x->fast || !y->fast) {
        return x->fast != y->fast ? y->fast - x->fast : compare(x->sim.seconds, y->sim.seconds);
    }
    const int dram = compare(rank((double)x->sim.total.dram_read_bytes), rank((double)y->sim.total.dram_read_bytes));
    const int l2 = compare(rank((double)x->sim.total.sectors), rank((double)y->sim.total.sectors));
    return dram ? dram : l2 ? l2 : compare(x->sim.seconds, y->sim.seconds);
}

static void sort_by_cost(candidate *list, size_t count) {
    double fastest = INFINITY;
    for (size_t i = 0; i < count; i++) {
        fastest = list[i].valid ? fmin(fastest, list[i].sim.seconds) : fastest;
    }
    for (size_t i = 0; i < count; i++) {
        list[i].fast = list[i].sim.seconds <= 1.03 * fastest;
    }
    qsort(list, count, sizeof *list, by_cost);
}

int candidates_make(const settings *s, weft_subject subject, const candidate_space *space, candidate **list,
                    size_t *count) {
    weft_plan *plan = NULL; /* the user's own options must make sense before they are varied */
    const int code = make_plan(s, subject, &plan);
    weft_plan_destroy(plan);
    if (code) {
        return code;
    }
    list_builder b = {NULL, 0, 0, 0};
    vary_tile(&b, *s, space, subject);
    if (b.failed) {
        free(b.list);
        return complain(EXIT_FAILED, "out of memory");
    }
    const int must_fit = space->tiles && s->tile[0] == 0;
    progress_begin("simulating schedules", (double)b.count);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < b.count; i++) {
        progress_part part = {1, 0};
        const weft_status status = simulate(&b.list[i], subject, space, MOST_STEPS / b.count, must_fit, &part);
        progress_part_end(&part);
#pragma omp critical
        b.failed |= status == WEFT_NO_MEMORY;
    }
    progress_end();
    if (b.failed) {
        free(b.list);
        return complain(EXIT_FAILED, "out of memory");
    }
    sort_by_cost(b.list, b.count);
    while (b.count > 0 && !b.list[b.count - 1].valid) {
        b.count--;
    }
    *list = b.list;
    *count = b.count;
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
    json_t *object = json_pack("{s:s, s:I, s:f, s:I, s:I, s:I, s:f, s:f}", "schedule", name, "sectors",
                               (json_int_t)t->sectors, "hit_rate", weft_hit_rate(t), "misses", (json_int_t)t->misses,
                               "fabric_sectors", (json_int_t)t->fabric_sectors, "dram_read_bytes",
                               (json_int_t)t->dram_read_bytes, "seconds", c->sim.seconds, "tflops", c->sim.tflops);
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
