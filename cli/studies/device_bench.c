/* SPDX-License-Identifier: Apache-2.0 */
#include "studies/device_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

enum { MOST_REPEATS = 9 };

const char *device_bench_name(const device_bench *bench) {
    return weft_study_name(bench);
}

int device_bench_open(device_bench **bench, int32_t index) {
    weft_message message = {""};
    return weft_study_open(bench, index, &message) ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

void device_bench_close(device_bench *bench) {
    weft_study_close(bench);
}

/* A plan that is ready to run, and its buffers, which cases of one problem share. */
typedef struct ready {
    weft_plan *plan; /* null: the GPU refused it */
    weft_bench *bench;
    int owns_bench;
    progress_part part; /* of the first: what benches tell of */
} ready;

/* All in turns, so that what heat does to the clocks is done to each of them. Long ones are run less often. */
static weft_status time_all(const ready *plans, device_case *cases, size_t count, weft_message *message) {
    double total = 0;
    weft_status status = WEFT_OK;
    double(*times)[MOST_REPEATS] = calloc(count, sizeof *times);
    if (!times) {
        return WEFT_NO_MEMORY;
    }
    for (size_t i = 0; i < count && status == WEFT_OK; i++) { /* the first run of each is not counted */
        if (plans[i].plan) {
            status = weft_bench_time(plans[i].bench, plans[i].plan, 1, &times[i][0], message);
            total += times[i][0];
        }
    }
    const int repeats = total > 1.0 ? 3 : total > 0.3 ? 5 : MOST_REPEATS;
    progress_begin("timing", repeats);
    for (int turn = 0; turn < repeats; turn++) {
        progress_add(turn > 0);
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            status = plans[i].plan ? weft_bench_time(plans[i].bench, plans[i].plan, 1, &times[i][turn], message) : WEFT_OK;
        }
    }
    progress_end();
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        if (plans[i].plan) {
            cases[i].seconds = weft_median(times[i], (size_t)repeats);
            cases[i].tflops = weft_problem_flops(&cases[i].problem) / cases[i].seconds / 1e12;
        }
    }
    free(times);
    return status;
}

/* What studies look at. Rates and stalls would take further passes. */
static const weft_counter traffic[] = {
    WEFT_COUNTER_L2_SECTORS, WEFT_COUNTER_L2_SECTORS_FROM_SM, WEFT_COUNTER_FABRIC_SECTORS,   WEFT_COUNTER_L2_HITS,
    WEFT_COUNTER_L2_MISSES,  WEFT_COUNTER_SM_READ_SECTORS,    WEFT_COUNTER_SM_WRITE_SECTORS, WEFT_COUNTER_L1_SECTORS,
    WEFT_COUNTER_L1_HITS,    WEFT_COUNTER_DRAM_READ_BYTES,    WEFT_COUNTER_DRAM_WRITE_BYTES};
enum { TRAFFIC = sizeof traffic / sizeof *traffic };

static int count_all(device_bench *b, ready *plans, device_case *cases, size_t count, int all) {
    weft_message message = {""};
    weft_status status = WEFT_OK;
    progress_begin("counting", (double)count);
    for (size_t i = 0; i < count && !status; i++) {
        double values[WEFT_COUNTERS];
        plans->part = (progress_part){1, 0};
        status = plans[i].plan ? weft_study_count(b, plans[i].bench, plans[i].plan, all ? NULL : traffic, all ? 0 : TRAFFIC,
                                                  values, &message)
                               : WEFT_OK;
        for (int k = 0; k < (all ? WEFT_COUNTERS : TRAFFIC) && plans[i].plan && !status; k++) {
            cases[i].values[all ? k : (int)traffic[k]] = values[k];
        }
        progress_part_end(&plans->part);
    }
    progress_end();
    if (status == WEFT_NOT_FOUND || status == WEFT_UNSUPPORTED) { /* there is no CUPTI, or it refuses */
        char command[1024], ncu[3072];
        device_command(command, sizeof command);
        weft_counters_ncu(NULL, 0, "^(attention|gemm)", command, ncu, sizeof ncu);
        return complain(EXIT_FAILED, "%s; or run: %s", message.text, ncu);
    }
    return status ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

/* Buffers for case `i`: those of an earlier one of the same problem, where there is one. */
static weft_status take_bench(ready *plans, const device_case *cases, size_t i, weft_message *message) {
    for (size_t k = 0; k < i; k++) {
        if (plans[k].bench && memcmp(&cases[k].problem, &cases[i].problem, sizeof cases[i].problem) == 0) {
            plans[i].bench = plans[k].bench;
            return WEFT_OK;
        }
    }
    weft_bench_options options = WEFT_BENCH_INIT;
    options.required_only = 1; /* what is counted is the problem itself */
    options.progress = progress_seen() ? progress_told : NULL;
    options.progress_user = &plans->part;
    plans[i].owns_bench = 1;
    return weft_bench_open(&plans[i].bench, plans[i].plan, &options, message);
}

/* Nothing is known of a case. */
static void forget(device_case *c) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    const weft_energy no_energy = WEFT_ENERGY_INIT;
    c->seconds = c->tflops = NAN;
    c->sim = none;
    c->energy = no_energy;
    for (int k = 0; k < WEFT_COUNTERS; k++) {
        c->values[k] = NAN;
    }
}

/* Makes the plan of a case, and buffers for it. A refused plan is left null when it may be skipped. */
static int make_ready(device_bench *b, device_case *cases, size_t i, ready *plans, int skip) {
    device_case *c = &cases[i];
    weft_message message = {""};
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    c->kernel[0] = '\0';
    c->device.struct_size = sizeof c->device;
    c->device.kind = WEFT_DEVICE_CUDA;
    c->device.index = weft_study_index(b);
    options.schedule = &c->schedule;
    options.device = &c->device;
    weft_status status = weft_plan_create(&plans[i].plan, &c->problem, &options, &message);
    if (status) {
        return skip && status == WEFT_UNSUPPORTED ? EXIT_OK : complain(exit_code(status), "%s", message.text);
    }
    c->schedule = weft_plan_schedule(plans[i].plan);
    snprintf(c->kernel, sizeof c->kernel, "%s", weft_plan_kernel(plans[i].plan));
    status = take_bench(plans, cases, i, &message);
    if (status == WEFT_OK && c->by_side) {
        status = weft_study_place_by_side(b, plans[i].bench, plans[i].plan, &message);
    }
    return status ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

static int simulate_all(const ready *plans, device_case *cases, size_t count) {
    const weft_plan **list = calloc(count, sizeof *list);
    weft_simulation *sims = calloc(count, sizeof *sims);
    weft_message message = {"out of memory"};
    weft_status status = list && sims ? WEFT_OK : WEFT_NO_MEMORY;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        sims[i] = cases[i].sim;
        list[i] = cases[i].no_simulation ? NULL : plans[i].plan;
    }
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    progress_part part = {1, 0};
    options.progress = progress_seen() ? progress_told : NULL;
    options.progress_user = &part;
    progress_begin("simulating", 1);
    status = status ? status : weft_simulate_all(list, count, &options, sims, NULL, &message);
    progress_end();
    const int is_unknown = status == WEFT_UNSUPPORTED && count == 1 && cases[0].may_be_unknown;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        cases[i].sim = sims[i];
    }
    free(list);
    free(sims);
    return status && !is_unknown ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

/* Plans of all cases; null, with an exit code, when there is no memory for them. */
static ready *make_all(device_bench *b, device_case *cases, size_t count, int skip, int *code) {
    ready *plans = calloc(count, sizeof *plans);
    *code = plans ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && *code == EXIT_OK; i++) {
        *code = make_ready(b, cases, i, plans, skip);
    }
    return plans;
}

static void release_all(ready *plans, size_t count) {
    for (size_t i = count; plans && i-- > 0;) { /* the last one first, as they were opened one inside the other */
        if (plans[i].owns_bench) {
            weft_bench_close(plans[i].bench);
        }
    }
    for (size_t i = 0; plans && i < count; i++) {
        weft_plan_destroy(plans[i].plan);
    }
    free(plans);
}

int device_bench_run(device_bench *bench, device_case *cases, size_t count, int tasks, int skip) {
    weft_message message = {"out of memory"};
    int code;
    for (size_t i = 0; i < count; i++) {
        forget(&cases[i]);
    }
    progress_begin("running", !!(tasks & DEVICE_TIME) + !!(tasks & (DEVICE_COUNT | DEVICE_COUNT_TRAFFIC)) +
                                  !!(tasks & DEVICE_SIMULATE));
    ready *plans = make_all(bench, cases, count, skip, &code);
    progress_next(1);
    if (code == EXIT_OK && (tasks & DEVICE_TIME)) {
        const weft_status status = time_all(plans, cases, count, &message);
        code = status ? complain_status(status, &message) : EXIT_OK;
    }
    progress_next(1);
    if (code == EXIT_OK && (tasks & (DEVICE_COUNT | DEVICE_COUNT_TRAFFIC))) {
        code = count_all(bench, plans, cases, count, tasks & DEVICE_COUNT);
    }
    progress_next(1);
    if (code == EXIT_OK && (tasks & DEVICE_SIMULATE)) {
        code = simulate_all(plans, cases, count);
    }
    release_all(plans, count);
    progress_end();
    return code;
}

int device_bench_check_energy(device_bench *bench) {
    weft_message message = {""};
    return weft_study_check_energy(bench, &message) ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

static int by_joules(const void *a, const void *b) {
    const double x = ((const weft_energy *)a)->joules, y = ((const weft_energy *)b)->joules;
    return (x > y) - (x < y);
}

/* In turns, as times are; each measurement waits for its own clocks. */
static weft_status energy_all(device_bench *b, ready *plans, device_case *cases, size_t count, size_t rounds,
                              weft_message *message) {
    const weft_energy none = WEFT_ENERGY_INIT;
    weft_energy *found = calloc(count * rounds, sizeof *found);
    weft_status status = found ? WEFT_OK : WEFT_NO_MEMORY;
    progress_begin("measuring energy", (double)(count * rounds));
    for (size_t i = 0; i < count * rounds && status == WEFT_OK; i++) {
        plans->part = (progress_part){1, 0};
        const size_t which = i % count;
        weft_energy *to = &found[which * rounds + i / count];
        *to = none;
        status = weft_study_energy(b, plans[which].bench, plans[which].plan, 0, to, message);
        progress_part_end(&plans->part);
    }
    progress_end();
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        qsort(found + i * rounds, rounds, sizeof *found, by_joules);
        cases[i].energy = found[i * rounds + rounds / 2];
        cases[i].seconds = cases[i].energy.seconds;
        cases[i].tflops = weft_problem_flops(&cases[i].problem) / cases[i].seconds / 1e12;
    }
    free(found);
    return status;
}

int device_bench_energy(device_bench *bench, device_case *cases, size_t count, size_t rounds) {
    weft_message message = {"out of memory"};
    ready *plans = NULL;
    int code = device_bench_check_energy(bench);
    if (code == EXIT_OK) {
        plans = make_all(bench, cases, count, 0, &code);
    }
    if (code == EXIT_OK) {
        const weft_status status = energy_all(bench, plans, cases, count, rounds, &message);
        code = status ? complain_status(status, &message) : EXIT_OK;
    }
    release_all(plans, count);
    return code;
}
