/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "cli.h"
#include "progress.h"
#include "sweep/rows.h"
#include "verbs/ranks.h"

/* The verbs that sweep. Those that use all threads for a point take one at a time. */
static const struct sweeper {
    const char *verb;
    size_t at_once;
    int by_schedule;
    int (*run)(const settings *points, size_t count, sweep *out);
} sweepers[] = {{"simulate", 256, 0, simulate_points}, {"compare", 1, 1, compare_points}, {"plan", 1, 0, plan_points}};

static const struct sweeper *find_sweeper(const char *verb) {
    size_t i = 0;
    while (strcmp(sweepers[i].verb, verb) != 0) {
        i++; /* SET_SWEEP and this table go together */
    }
    return &sweepers[i];
}

int sweep_is_asked(const settings *s) {
    return s->axes->count > 0 || s->csv || s->svg || s->plot >= 0 || s->output;
}

/* What a sweep does not do; null when all is well. */
static const char *refusal(const settings *s) {
    return s->device >= 0 || s->counters ? "a parameter sweep simulates: --device and --counters are for one point"
           : s->curve || s->per_domain   ? "--curve and --per-domain are for one point"
           : s->trace_out                ? "--trace-out is for one point"
           : s->plot == PLOT_EFFICIENCY && !ranks_asked(s) ? "--plot efficiency needs --ranks"
           : s->csv && s->json                             ? "--csv and --json exclude each other"
           : s->svg && s->axes->count == 0               ? "--svg plots a parameter sweep: give an option a list or a range"
           : s->plot >= 0 && !s->svg                     ? "--plot needs --svg"
           : s->output && !s->svg                        ? "--output is for --svg; the rest goes to standard output"
           : s->svg && !s->output && (s->csv || s->json) ? "--svg beside --csv or --json needs --output"
                                                         : NULL;
}

/* Makes the plan of every point, so that what is refused is refused before the work begins; fills in what each takes. */
static int weigh(const settings *s, size_t points, double *weights) {
    int code = EXIT_OK;
    for (size_t i = 0; i < points && code == EXIT_OK; i++) {
        char name[160];
        size_t used;
        const settings at = axes_settings(s->axes, s, i);
        weft_plan *plan = NULL;
        axes_name(s->axes, i, name, sizeof name - 2);
        used = strlen(name);
        snprintf(name + used, sizeof name - used, used ? ": " : "");
        complain_about(name);
        code = ranks_asked(&at) ? ranks_weigh(&at, &weights[i]) : make_plan(&at, &plan);
        complain_about("");
        weights[i] = code ? 0 : plan ? (double)weft_simulate_steps(plan) : weights[i];
        weft_plan_destroy(plan);
    }
    return code;
}

static double sum(const double *weights, size_t count) {
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        all += weights[i];
    }
    return all;
}

static int run_points(const struct sweeper *sweeper, size_t points, const double *weights, sweep *out) {
    const size_t room = points < sweeper->at_once ? points : sweeper->at_once;
    settings *list = malloc(room * sizeof *list);
    int code = list ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    progress_begin("sweeping", sum(weights, points));
    for (out->first = 0; out->first < points && code == EXIT_OK; out->first += room) {
        const size_t count = points - out->first < room ? points - out->first : room;
        for (size_t i = 0; i < count; i++) {
            list[i] = axes_settings(out->axes, out->settings, out->first + i);
        }
        progress_next(sum(weights + out->first, count));
        code = sweeper->run(list, count, out);
    }
    progress_end();
    free(list);
    return code;
}

int sweep_run(const char *verb, const settings *s, const char *const *words, size_t count) {
    const struct sweeper *sweeper = find_sweeper(verb);
    if (weft_names_agree(words[0], "trace")) {
        return complain(EXIT_USAGE, "a parameter sweep is of attention or gemm: a trace takes one value of each option");
    }
    if (check_plan_words(s, verb, words, count)) {
        return EXIT_USAGE;
    }
    if (refusal(s)) {
        return complain(EXIT_USAGE, "%s", refusal(s));
    }
    const size_t points = axes_points(s->axes);
    sweep out = {.settings = s, .axes = s->axes, .by_schedule = sweeper->by_schedule};
    out.objects = s->json ? json_array() : NULL;
    double *weights = calloc(points, sizeof *weights);
    int code = weights ? weigh(s, points, weights) : complain(EXIT_FAILED, "out of memory");
    code = code ? code : run_points(sweeper, points, weights, &out);
    if (code == EXIT_OK && s->svg) {
        code = sweep_plot(&out);
    }
    if (code == EXIT_OK && (!s->svg || s->output)) {
        code = sweep_print(&out);
    }
    json_decref(out.objects);
    free(weights);
    free(out.rows);
    return code;
}
