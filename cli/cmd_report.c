/* weft report: every claim on one page: reproduced, compared, and measured on this host. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "candidates.h"
#include "cli.h"
#include "cpu/threads.h"
#include "measure_host.h"
#include "plan/json.h"
#include "plan/plan.h"
#include "progress.h"
#include "report/colour.h"
#include "report/page.h"
#include "report/simulation_json.h"
#include "report/view.h"
#include "schedules.h"
#include "study.h"

enum { STUDIES = 16, REPEATS = 7 };

/* ---- the studies ---- */

static json_t *study_json(const study_info *info, const study *s) {
    json_t *rows = json_array();
    for (size_t i = 0; i < s->count; i++) {
        weft_json_append(&rows, study_row_json(&s->rows[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", info->name, "title", info->title, "beside", info->beside,
                     "source", info->source, "rows", rows);
}

static int is_asked(const study_info *info, const char *which) {
    return strcmp(which, "all") == 0 || strcmp(which, info->name) == 0;
}

static double units_of_studies(const char *which) {
    study counter = {.counting = 1, .brief = 1};
    for (const study_info *info = study_table; info->name; info++) {
        if (is_asked(info, which)) {
            info->run(&counter);
        }
    }
    return counter.units;
}

/* Studies that are run over threads. */
typedef struct studies {
    const study_info **infos;
    study *done;
    int count;
} studies;

static void run_study(void *context, int64_t i) {
    const studies *s = context;
    const int64_t last = s->count - 1 - i; /* the longest are near the end */
    s->infos[last]->run(&s->done[last]);
}

/* One study, or all of them, each in a thread of its own. */
static int run_studies(const char *which, json_t **list) {
    study done[STUDIES];
    const study_info *infos[STUDIES];
    int count = 0;
    memset(done, 0, sizeof done);
    for (const study_info *info = study_table; info->name && count < STUDIES; info++) {
        if (is_asked(info, which)) {
            done[count].brief = 1;
            infos[count++] = info;
        }
    }
    if (count == 0) {
        return complain(EXIT_USAGE, "study %s is not known: sawtooth, cutile, tile-scheduling, numa, h200 and all are",
                        which);
    }
    weft_cpu_for(count, run_study, &(studies){infos, done, count});
    int code = EXIT_OK;
    for (int i = 0; i < count; i++) {
        code = done[i].failed ? EXIT_FAILED : code;
        weft_json_append(list, study_json(infos[i], &done[i]));
        free(done[i].rows);
    }
    return code;
}

/* ---- one problem on every machine ---- */

static settings attention_settings(void) {
    settings s = settings_none();
    s.heads = 8;
    s.seq = 32768;
    s.head_dim = 128;
    s.dtype = WEFT_BF16;
    s.tile[0] = s.tile[1] = 128;
    return s;
}

static settings gemm_settings(void) {
    settings s = settings_none();
    s.m = s.n = s.k = 8192;
    s.dtype = WEFT_BF16;
    s.tile[0] = s.tile[1] = 128;
    s.tile[2] = 64;
    s.b_major = WEFT_COL_MAJOR;
    s.sweep = WEFT_SWEEP_FORWARD;
    return s;
}

static json_t *candidate_row(const candidate *c) {
    const weft_traffic *t = &c->sim.total;
    return json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:f, s:f}", "order", weft_order_describe(c->schedule.order)->name,
                     "sweep", weft_sweep_describe(c->schedule.sweep)->name, "dispatch",
                     weft_dispatch_describe(c->schedule.dispatch)->name, "hit_rate", weft_hit_rate(t), "misses",
                     (json_int_t)t->misses, "fabric_sectors", (json_int_t)t->fabric_sectors, "dram_read_bytes",
                     (json_int_t)t->dram_read_bytes, "seconds", c->sim.seconds, "tflops", c->sim.tflops);
}

static int compare_on(const char *machine, weft_subject subject, json_t **list) {
    settings s = subject == WEFT_SUBJECT_ATTENTION ? attention_settings() : gemm_settings();
    candidate *candidates = NULL;
    size_t count = 0;
    weft_plan *plan = NULL;
    s.machine = machine;
    int code = make_plan(&s, subject, &plan);
    if (code == EXIT_OK) {
        code = candidates_make(&s, subject, &candidates, &count);
    }
    if (code == EXIT_OK) {
        char title[192];
        json_t *rows = json_array();
        for (size_t i = 0; i < count; i++) {
            weft_json_append(&rows, candidate_row(&candidates[i]));
        }
        weft_view_title(plan, title, sizeof title);
        weft_json_append(list, json_pack("{s:s, s:s, s:s, s:s, s:[I, I], s:o}", "machine", machine, "machine_title",
                                         plan->machine.title, "subject",
                                         subject == WEFT_SUBJECT_ATTENTION ? "attention" : "gemm", "title", title, "tile",
                                         (json_int_t)s.tile[0], (json_int_t)s.tile[1], "schedules", rows));
    }
    free(candidates);
    weft_plan_destroy(plan);
    return code;
}

/* Steps of the simulator, about, for all schedules of a subject on one machine. */
static double units_of_comparison(weft_subject subject) {
    const settings s = subject == WEFT_SUBJECT_ATTENTION ? attention_settings() : gemm_settings();
    const double rows = (double)s.heads * (double)s.seq / (double)s.tile[0],
                 tiles = (double)(s.m / s.tile[0]) * (double)(s.n / s.tile[1]);
    const double steps = subject == WEFT_SUBJECT_ATTENTION ? rows * (double)s.seq / (double)s.tile[1]
                                                           : tiles * (double)s.k / (double)s.tile[2];
    int orders = 0;
    for (int32_t order = 1; order <= WEFT_ORDER_KINDS; order++) {
        orders += weft_order_subject(order) == subject;
    }
    return steps * orders * (s.sweep == 0 ? WEFT_SWEEPS : 1);
}

static double units_of_comparisons(void) {
    double units = 0;
    for (size_t i = 0; weft_machine_name(i); i++) {
        units += units_of_comparison(WEFT_SUBJECT_ATTENTION) + units_of_comparison(WEFT_SUBJECT_GEMM);
    }
    return units;
}

static int compare_all(json_t **list) {
    int code = EXIT_OK;
    for (int subject = WEFT_SUBJECT_ATTENTION; subject >= WEFT_SUBJECT_GEMM; subject--) {
        for (size_t i = 0; weft_machine_name(i) && code == EXIT_OK; i++) {
            progress_next(units_of_comparison((weft_subject)subject));
            code = compare_on(weft_machine_name(i), (weft_subject)subject, list);
        }
    }
    return code;
}

/* ---- this host ---- */

static int measure_host(json_t **list) {
    static const struct {
        weft_subject subject;
        const char *schedules;
    } runs[] = {
        {WEFT_SUBJECT_ATTENTION, "head-first+forward,head-first+sawtooth,block-first+forward,longest-first+sawtooth"},
        {WEFT_SUBJECT_GEMM, "raster-n,raster-m,group,hilbert"}};
    int code = EXIT_OK;
    for (size_t i = 0; i < sizeof runs / sizeof *runs && code == EXIT_OK; i++) {
        settings s = settings_none(), each[WEFT_VIEW_SCHEDULES];
        size_t count;
        json_t *result = NULL;
        s.heads = 2;
        s.seq = s.m = s.n = s.k = 512; /* the check costs more than the run */
        s.schedules = runs[i].schedules;
        code = schedules_read(&s, runs[i].subject, each, WEFT_VIEW_SCHEDULES, &count);
        if (code == EXIT_OK) {
            code = measure_schedules(each, count, runs[i].subject, REPEATS, &result);
        }
        if (code == EXIT_OK) {
            weft_json_append(list, result);
        }
    }
    return code;
}

static json_t *host_json(void) {
    weft_machine host;
    weft_machine_host(&host);
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

/* Raw numbers that were measured elsewhere and kept: {file: text}. */
static json_t *recorded_json(void) {
    json_t *files = json_object();
    const char *name;
    for (size_t i = 0; (name = weft_page_file_name(i)); i++) {
        const char *ending = strrchr(name, '.');
        size_t length;
        if (ending && strcmp(ending, ".csv") == 0 && strcmp(name, streams_file) != 0) {
            weft_json_set(&files, name, json_string(weft_page_file(name, &length)));
        }
    }
    return files;
}

int cmd_report(const settings *s, const char *const *words, size_t count) {
    if (!s->output && !s->json) {
        return complain(EXIT_USAGE, "report needs -o FILE.html or --json");
    }
    json_t *studies = json_array(), *machines = json_array(), *host = json_array();
    const char *which = count ? words[0] : "all";
    progress_begin("reproducing studies", progress_seen() ? units_of_studies(which) + units_of_comparisons() : 0);
    int code = run_studies(which, &studies);
    code = code ? code : compare_all(&machines);
    code = code ? code : measure_host(&host);
    progress_end();
    if (code) {
        json_decref(studies);
        json_decref(machines);
        json_decref(host);
        return code;
    }
    size_t length;
    const char *streams = weft_page_file(streams_file, &length);
    const int passed = all_passed(host);
    json_t *data =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "kind", "report", "weft", weft_version(), "command",
                  s->command, "host", host_json(), "ramp", colours_json(), "studies", studies, "machines", machines, "runs",
                  host, "streams", streams ? streams : "", "recorded", recorded_json());
    weft_message message = {""};
    const weft_status status = s->output && data ? weft_page_write(data, s->output, &message) : WEFT_OK;
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
