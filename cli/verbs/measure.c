/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/json.h"
#include "cli.h"
#include "options/schedules.h"
#include "progress.h"

enum { MOST = 8, REPEATS = 64 };

/* The first run of each plan: it warms up, and is checked. */
static weft_status warm_up(weft_bench *bench, const weft_plan *plan, weft_check *check, weft_message *message) {
    const weft_check init = WEFT_CHECK_INIT;
    *check = init;
    weft_status status = weft_bench_reset(bench, message);
    status = status ? status : weft_bench_run(bench, plan, message);
    return status ? status : weft_bench_check(bench, check, message);
}

int measure_plans(weft_plan *const *plans, size_t count, size_t rounds, uint64_t seed, double *times, weft_check *checks) {
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_bench *bench = NULL;
    weft_message message = {""};
    if (count == 0) {
        return EXIT_OK;
    }
    options.seed = seed;
    options.check_seconds = fmax(0.25, 2.0 / (double)count);
    options.check_once = strcmp(weft_plan_backend(plans[0]), "cpu") != 0; /* problems are large there */
    progress_begin("measuring", (double)(count + rounds));
    weft_status status = weft_bench_open(&bench, plans[0], &options, &message);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        status = warm_up(bench, plans[i], &checks[i], &message);
        progress_add(1);
    }
    for (size_t round = 0; round < rounds && status == WEFT_OK; round++) {
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            status = weft_bench_time(bench, plans[i], 1, &times[i * rounds + round], &message);
        }
        progress_add(1);
    }
    weft_bench_close(bench);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

static json_t *schedule_json(const weft_plan *plan, const char *name, double *times, int repeats, const weft_check *c) {
    const double seconds = weft_median(times, (size_t)repeats); /* and sorts them */
    return json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "schedule", name, "choices",
                     plan_member(plan, "schedule"), "seconds", seconds, "least", times[0], "most", times[repeats - 1],
                     "tflops", weft_problem_flops(weft_plan_problem(plan)) / seconds / 1e12, "max_error",
                     isfinite(c->max_error) ? c->max_error : 1e300, "bound", c->bound, "passed", c->passed);
}

static int run_all(weft_plan *const *plans, size_t count, int repeats, json_t **result) {
    double times[MOST * REPEATS];
    weft_schedule schedules[MOST];
    weft_check checks[MOST];
    memset(checks, 0, sizeof checks);
    for (size_t i = 0; i < count; i++) {
        schedules[i] = weft_plan_schedule(plans[i]);
    }
    const int code = measure_plans(plans, count, (size_t)repeats, 1, times, checks);
    if (code) {
        return code;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char name[96];
        schedule_name(schedules, count, i, name, sizeof name);
        weft_json_append(&list, schedule_json(plans[i], name, times + i * (size_t)repeats, repeats, &checks[i]));
    }
    char title[192];
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    weft_plan_title(plans[0], title, sizeof title);
    *result = json_pack("{s:s, s:o, s:s, s:s, s:i, s:i, s:o}", "title", title, "problem", plan_member(plans[0], "problem"),
                        "backend", weft_plan_backend(plans[0]), "kernel", weft_plan_kernel(plans[0]), "threads", threads,
                        "repeats", repeats, "schedules", list);
    return *result ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
}

int measure_schedules(const settings *list, size_t count, int repeats, json_t **result) {
    weft_plan *plans[MOST] = {NULL};
    int code = count > 0 && count <= MOST && repeats > 0 && repeats <= REPEATS
                   ? EXIT_OK
                   : complain(EXIT_USAGE, "at most %d schedules, %d times each", MOST, REPEATS);
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = make_plan(&list[i], &plans[i]);
    }
    if (code == EXIT_OK) {
        code = run_all(plans, count, repeats, result);
    }
    for (size_t i = 0; i < count && i < MOST; i++) {
        weft_plan_destroy(plans[i]);
    }
    return code;
}
