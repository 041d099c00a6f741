/* SPDX-License-Identifier: Apache-2.0 */
/* weft report: every claim on one page: reproduced, compared, and measured on this host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/json.h"
#include "base/names.h"
#include "cli.h"
#include "options/schedules.h"
#include "progress.h"
#include "studies/study.h"
#include "verbs/measure.h"
#include "verbs/ranking.h"

enum { STUDIES = 16, REPEATS = 7, PAGE_SEEDS = 1 };

/* ---- the studies ---- */

static json_t *study_json(const study *s) {
    const study_info *info = s->info;
    json_t *rows = json_array();
    for (size_t i = 0; i < s->count; i++) {
        weft_json_append(&rows, study_row_json(&s->rows[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", info->name, "title", info->title, "beside", info->beside,
                     "source", info->source, "rows", rows);
}

/* With no word, all but those that take minutes; of those that are simulated. */
static int is_asked(const study_info *info, const char *which) {
    return !info->run ? 0 : !which ? !info->is_long : weft_names_agree(which, "all") || weft_names_agree(which, info->name);
}

/* Studies and how many there are. */
typedef struct reproduced {
    study list[STUDIES];
    int count;
    double units;
} reproduced;

static int gather_studies(const char *which, reproduced *all) {
    for (const study_info *info = study_table; info->name && all->count < STUDIES; info++) {
        if (is_asked(info, which)) {
            study *s = &all->list[all->count++];
            if (!study_gather(s, info, 1, PAGE_SEEDS)) {
                return EXIT_FAILED;
            }
            all->units += simulations_units(&s->simulations);
        }
    }
    return all->count ? EXIT_OK : complain(EXIT_USAGE, "study %s is not known: %s are", which, study_names(1));
}

static int run_studies(reproduced *all, json_t **list) {
    int code = EXIT_OK;
    for (int i = 0; i < all->count && code == EXIT_OK; i++) {
        code = study_run(&all->list[i]) ? EXIT_OK : EXIT_FAILED;
        weft_json_append(list, study_json(&all->list[i]));
    }
    return code;
}

static void release_studies(reproduced *all) {
    for (int i = 0; i < all->count; i++) {
        study_release(&all->list[i]);
    }
}

/* ---- one problem on several machines ---- */

/* The problems that are compared: a field of the problem and its value each. */
typedef struct subject {
    int32_t operation;
    int64_t tile[3];
    int32_t sweep; /* WEFT_SWEEP_CHOOSE: all of them */
    struct {
        const char *option;
        int64_t integer;
        int32_t code; /* of a choice */
    } given[8];
} subject;

static const subject subjects[] = {
    {WEFT_ATTENTION,
     {128, 128, 0},
     WEFT_SWEEP_CHOOSE,
     {{"heads", 8, 0}, {"seq", 32768, 0}, {"head-dim", 128, 0}, {"dtype", 0, WEFT_BF16}}},
    {WEFT_GEMM,
     {128, 128, 64},
     WEFT_SWEEP_FORWARD,
     {{"m", 8192, 0}, {"n", 8192, 0}, {"k", 8192, 0}, {"dtype", 0, WEFT_BF16}, {"b-major", 0, WEFT_COL_MAJOR}}}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static settings settings_of(const subject *subject) {
    settings s = settings_none();
    s.operation = subject->operation;
    s.sweep = subject->sweep;
    memcpy(s.tile, subject->tile, sizeof s.tile);
    for (size_t i = 0; i < sizeof subject->given / sizeof *subject->given && subject->given[i].option; i++) {
        option_value value = {.integer = subject->given[i].integer};
        if (subject->given[i].integer == 0) {
            value.code = subject->given[i].code;
        }
        settings_give(&s, subject->given[i].option, value);
    }
    return s;
}

static json_t *ranked_row(const weft_ranked *r) {
    const weft_traffic *t = &r->simulation.total;
    return json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:f, s:f}", "order", weft_order_describe(r->schedule.order)->name,
                     "sweep", weft_sweep_describe(r->schedule.sweep)->name, "dispatch",
                     weft_dispatch_describe(r->schedule.dispatch)->name, "hit_rate", weft_hit_rate(t), "misses",
                     (json_int_t)t->misses, "fabric_sectors", (json_int_t)t->fabric_sectors, "dram_read_bytes",
                     (json_int_t)t->dram_read_bytes, "seconds", r->simulation.seconds, "tflops", r->simulation.tflops);
}

static int compare_on(const char *machine, const subject *subject, json_t **list) {
    settings s = settings_of(subject);
    ranking r = {0};
    weft_plan *plan = NULL;
    s.machine = machine;
    int code = make_plan(&s, &plan);
    if (code == EXIT_OK) {
        code = ranking_make(&s, WEFT_SEARCH_ORDERS, &r);
    }
    if (code == EXIT_OK) {
        char title[192];
        json_t *rows = json_array();
        for (int64_t i = 0; i < r.summary.count; i++) {
            weft_json_append(&rows, ranked_row(&r.rows[i]));
        }
        weft_plan_title(plan, title, sizeof title);
        weft_json_append(list, json_pack("{s:s, s:s, s:s, s:s, s:[I, I], s:o}", "machine", machine, "machine_title",
                                         weft_plan_machine(plan)->title, "subject",
                                         weft_operation_describe(subject->operation)->name, "title", title, "tile",
                                         (json_int_t)s.tile[0], (json_int_t)s.tile[1], "schedules", rows));
    }
    ranking_release(&r);
    weft_plan_destroy(plan);
    return code;
}

/* One machine of each generation and each kind of L2; `weft compare --machine all` takes the others, too. */
static const char *const compared[] = {"b200", "gb10", "h100", "h200", "mi300x"};
enum { COMPARED = sizeof compared / sizeof *compared };

/* Steps of the simulator, about, for all schedules of a problem on one machine. */
static double units_of_comparison(const subject *subject) {
    const settings s = settings_of(subject);
    weft_plan *plan = NULL;
    int orders = 0;
    if (make_plan(&s, &plan)) {
        return 0;
    }
    const double steps = (double)weft_simulate_steps(plan);
    weft_plan_destroy(plan);
    for (int32_t order = 1; weft_order_describe(order); order++) {
        orders += weft_order_describe(order)->grid == weft_operation_describe(subject->operation)->grid;
    }
    return steps * orders * (s.sweep == 0 ? WEFT_COMMON_SWEEPS : 1);
}

static double units_of_comparisons(void) {
    double units = 0;
    for (size_t k = 0; k < SUBJECTS; k++) {
        units += COMPARED * units_of_comparison(&subjects[k]);
    }
    return units;
}

static int compare_all(json_t **list) {
    int code = EXIT_OK;
    for (size_t k = 0; k < SUBJECTS; k++) {
        const double units = progress_seen() ? units_of_comparison(&subjects[k]) : 0;
        for (size_t i = 0; i < COMPARED && code == EXIT_OK; i++) {
            progress_next(units);
            code = compare_on(compared[i], &subjects[k], list);
        }
    }
    return code;
}

/* ---- this host ---- */

static const struct {
    int32_t operation;
    const char *schedules;
} runs[] = {{WEFT_ATTENTION, "head-first+forward,head-first+sawtooth,block-first+forward,longest-first+sawtooth"},
            {WEFT_GEMM, "raster-n,raster-m,group,hilbert"}};
enum { RUNS = sizeof runs / sizeof *runs };

/* Steps that the simulator takes while one of these is checked and measured, about: two seconds on two cores. */
static const double RUN_UNITS = 4e7;

static int measure_host(json_t **list) {
    static const char *const lengths[] = {"seq", "m", "n", "k"};
    int code = EXIT_OK;
    for (size_t i = 0; i < RUNS && code == EXIT_OK; i++) {
        settings s = settings_none(), each[WEFT_VIEW_SCHEDULES];
        size_t count;
        json_t *result = NULL;
        s.operation = runs[i].operation;
        settings_give(&s, "heads", (option_value){.integer = 2});
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            settings_give(&s, lengths[k], (option_value){.integer = 512}); /* the check costs more than the run */
        }
        s.schedules = runs[i].schedules;
        code = schedules_read(&s, each, WEFT_VIEW_SCHEDULES, &count);
        if (code == EXIT_OK) {
            progress_next(RUN_UNITS);
            code = measure_schedules(each, count, REPEATS, &result);
        }
        if (code == EXIT_OK) {
            weft_json_append(list, result);
        }
    }
    return code;
}

static json_t *host_json(void) {
    weft_machine host = WEFT_MACHINE_INIT;
    weft_message message = {""};
    const weft_status status = weft_machine_host(&host, &message);
    if (status) {
        complain_status(status, &message);
        return NULL;
    }
    return json_pack("{s:s, s:I}", "title", host.title, "workers", (json_int_t)host.workers);
}

/* A run on this host whose result is wrong fails the command, after the page has been written. */
static int all_passed(const json_t *runs) {
    size_t i, j;
    json_t *run, *schedule;
    int passed = 1;
    json_array_foreach(runs, i, run) {
        json_array_foreach(json_object_get(run, "schedules"), j, schedule) {
            passed &= json_is_true(json_object_get(schedule, "passed"));
        }
    }
    return passed;
}

static json_t *colours_json(void) {
    json_t *ramp = json_array();
    for (int i = 0; i < 64; i++) {
        weft_json_append(&ramp, json_integer(weft_colour_ramp(i / 63.0)));
    }
    return ramp;
}

static const char *const streams_file = "h200-streams.csv"; /* has a chart of its own */

/* Raw numbers that were measured elsewhere and kept: {file: text}, and the text of the streams. */
static json_t *recorded_json(const char **streams) {
    json_t *files = json_object();
    const char *name, *text;
    for (size_t i = 0; (text = weft_recorded(i, &name)); i++) {
        if (strcmp(name, streams_file) == 0) {
            *streams = text;
        } else {
            weft_json_set(&files, name, json_string(text));
        }
    }
    return files;
}

int cmd_report(const settings *s, const char *const *words, size_t count) {
    if (!s->output && !s->json) {
        return complain(EXIT_USAGE, "report needs -o FILE.html or --json");
    }
    json_t *studies = json_array(), *machines = json_array(), *host = json_array();
    const char *which = count ? words[0] : NULL;
    reproduced all;
    memset(&all, 0, sizeof all);
    int code = gather_studies(which, &all);
    progress_begin("reproducing studies", progress_seen() ? all.units + units_of_comparisons() + RUNS * RUN_UNITS : 0);
    code = code ? code : run_studies(&all, &studies);
    code = code ? code : compare_all(&machines);
    code = code ? code : measure_host(&host);
    progress_end();
    release_studies(&all);
    if (code) {
        json_decref(studies);
        json_decref(machines);
        json_decref(host);
        return code;
    }
    const char *streams = "";
    const int passed = all_passed(host);
    json_t *recorded = recorded_json(&streams);
    json_t *data = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "kind", "report", "weft", weft_version(),
                             "command", s->command, "host", host_json(), "ramp", colours_json(), "studies", studies,
                             "machines", machines, "runs", host, "streams", streams, "recorded", recorded);
    char *text = s->output && data ? weft_json_text(data, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    weft_message message = {"no memory for the page"};
    const weft_status status = !s->output || !data ? WEFT_OK
                               : text              ? weft_page_write(text, s->output, &message)
                                                   : WEFT_NO_MEMORY;
    free(text);
    if (status) {
        code = complain_status(status, &message);
    } else if (s->json) {
        code = print_json(json_incref(data));
    } else if (data) {
        printf("open %s\n", s->output);
    }
    code = data ? code : complain(EXIT_FAILED, "out of memory");
    json_decref(data);
    return code || passed ? code : complain(EXIT_FAILED, "a result on this host is outside its bound: see the page");
}
