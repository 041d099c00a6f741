/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune: times candidates on the device and keeps the best; looks after what is kept. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/tune.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "table.h"
#include "verbs/tune_file.h"
#include "verbs/tune_kept.h"

/* Set when the user asks to stop; a second time, the process ends as it would have. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

/* One problem being tuned. */
typedef struct tuning {
    const settings *s;
    size_t number, count; /* of the problems of this command */
    json_t *all;          /* every candidate; null when not asked for, or when memory ran out */
    weft_tuned tuned;
    weft_tune_state state;
    weft_status status;
    weft_message message;
} tuning;

static int show_progress(void *user, const weft_tune_state *state) {
    const tuning *t = user;
    char best[128] = "";
    if (state->best) {
        tune_describe(&state->best->schedule, best, sizeof best);
    }
    progress_say("%zu of %zu: %" PRId64 " candidates in the race, %" PRId64 " runs, best %.4g ms (%s), about %.0f s left",
                 t->number, t->count, state->racing, state->runs, state->best ? 1e3 * state->best->seconds : 0.0, best,
                 ceil(state->left));
    return interrupted;
}

static void add_candidate(void *user, const weft_tune_figures *f) {
    tuning *t = user;
    char words[WEFT_WORDS];
    weft_schedule_write(&f->tuned->schedule, words);
    if (t->all) {
        weft_json_append(&t->all, json_pack("{s:o, s:s, s:s, s:f, s:f, s:I, s:f, s:b, s:b, s:b}", "schedule",
                                            tune_schedule_json(f->chosen), "words", words, "kernel", f->kernel, "seconds",
                                            f->tuned->seconds, "spread", f->tuned->spread, "runs",
                                            (json_int_t)f->tuned->runs, "model", f->model, "estimate", f->is_estimate,
                                            "also", f->is_also, "final", f->is_final));
    }
}

/* The plan that a schedule makes, for what is shown of it; null, with a message, when it makes none. */
static weft_plan *plan_of(const tuning *t, const weft_schedule *schedule, weft_message *message) {
    const weft_device device = device_of(t->s);
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_plan *plan = NULL;
    problem p;
    options.schedule = schedule;
    options.device = &device;
    if (problem_of(t->s, &p, message)) {
        (void)weft_plan_create(&plan, &p, &options, message);
    }
    return plan;
}

enum { ALSO = 64 };

/* Reads "words;words;..." into a list; returns how many there are, -1 with a message when one is not right. */
static int read_also(const char *text, weft_schedule *list, weft_message *message) {
    int count = 0;
    while (text) {
        char words[WEFT_WORDS];
        const size_t length = strcspn(text, ";");
        if (count == ALSO || length >= sizeof words) {
            snprintf(message->text, sizeof message->text, "--also names more than %d schedules, or one that is too long",
                     ALSO);
            return -1;
        }
        snprintf(words, sizeof words, "%.*s", (int)length, text);
        if (weft_schedule_read(&list[count++], words, message)) {
            return -1;
        }
        text = text[length] ? text + length + 1 : NULL;
    }
    return count;
}

/* Whether what is measured could be stored: better asked before than after. What was tuned before needs no room. */
static weft_status check_store(const tuning *t, const problem *p, const weft_schedule *schedule, const weft_device *device,
                               weft_message *message) {
    char path[4096];
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_message unused;
    const size_t length = weft_tunings_path(path, sizeof path);
    const int is_made =
        length > 0 && length < sizeof path && (access(path, F_OK) == 0 || weft_environment(WEFT_VARIABLE_TUNING_DB));
    if (!is_made || (!t->s->again && weft_tuned_find(p, schedule, device, &tuned, &unused) == WEFT_OK)) {
        return WEFT_OK;
    }
    return weft_file_check(path, message);
}

static void run(tuning *t) {
    weft_schedule also[ALSO];
    const int also_count = read_also(t->s->also, also, &t->message);
    if (also_count < 0) {
        t->status = WEFT_INVALID;
        return;
    }
    const weft_schedule schedule = schedule_of(t->s);
    const weft_device device = device_of(t->s);
    weft_tune_options options = WEFT_TUNE_INIT;
    problem p;
    options.seconds = t->s->budget;
    options.behind = t->s->behind;
    options.patience = t->s->patience;
    options.exhaustive = t->s->exhaustive;
    options.again = t->s->again;
    options.also = also;
    options.also_count = (size_t)also_count;
    options.progress = show_progress;
    options.candidate = add_candidate;
    options.user = t;
    t->status = problem_of(t->s, &p, &t->message) ? check_store(t, &p, &schedule, &device, &t->message) : WEFT_INVALID;
    t->status = t->status ? t->status : weft_tune(&p, &schedule, &device, &options, &t->tuned, &t->state, &t->message);
    progress_wipe();
}

static json_t *result_json(const tuning *t, const weft_plan *plan) {
    const weft_tune_state *s = &t->state;
    const weft_schedule open = schedule_of(t->s);
    weft_message unused;
    weft_plan *estimate = plan_of(t, &open, &unused);
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:f, s:f, s:f, s:I, s:I, s:b, s:b, s:b}", "device", weft_plan_backend(plan), "machine",
        weft_plan_machine(plan)->name, "problem", plan_member(plan, "problem"), "schedule", plan_member(plan, "schedule"),
        "kernel", weft_plan_kernel(plan), "seconds", t->tuned.seconds, "spread", t->tuned.spread, "tflops",
        weft_problem_flops(weft_plan_problem(plan)) / t->tuned.seconds / 1e12, "runs", (json_int_t)t->tuned.runs, "date",
        (json_int_t)t->tuned.date, "whole", t->tuned.whole, "stored", t->status == WEFT_OK, "timed_now", s->runs > 0);
    if (s->runs > 0) {
        weft_json_set(&object, "search",
                      json_pack("{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:f}", "candidates", (json_int_t)s->candidates,
                                "same", (json_int_t)s->same, "dropped", (json_int_t)s->dropped, "dropped_from",
                                s->dropped_from, "refused", (json_int_t)s->refused, "untimed", (json_int_t)s->untimed,
                                "runs", (json_int_t)s->runs, "disturbed", (json_int_t)s->disturbed, "elapsed", s->elapsed));
        weft_json_set(&object, "estimate",
                      json_pack("{s:f, s:o}", "seconds", s->estimate, "schedule",
                                estimate ? plan_member(estimate, "schedule") : NULL));
    }
    if (t->s->all) {
        weft_json_set(&object, "all", json_incref(t->all));
    }
    weft_plan_destroy(estimate);
    return object;
}

static void print_result(const tuning *t, const weft_plan *plan) {
    const weft_tune_state *s = &t->state;
    const weft_schedule chosen = weft_plan_schedule(plan);
    char words[128], text[1024], *end;
    tune_describe(&chosen, words, sizeof words);
    weft_plan_text(plan, text, sizeof text);
    end = strchr(text, '\n');
    if (end) {
        *end = '\0';
    }
    print_wrapped("%s\n  %s, %s: %.4g ms, spread %.1f %%, %" PRId64 " runs%s%s\n", text, words, weft_plan_kernel(plan),
                  1e3 * t->tuned.seconds, 100 * t->tuned.spread, t->tuned.runs, s->runs > 0 ? "" : ", tuned before",
                  t->tuned.whole ? "" : ", stopped early");
    if (s->runs > 0) {
        print_wrapped("  %" PRId64 " candidates (%" PRId64 " more are the same as one of these, %" PRId64
                      " the device cannot run)",
                      s->candidates, s->same, s->refused);
        if (s->dropped > 0) {
            print_wrapped(", %" PRId64 " dropped: the model puts them %.0f %% or more behind its best", s->dropped,
                          100 * (s->dropped_from - 1));
        }
        if (s->untimed > 0) {
            print_wrapped(", %" PRId64 " for which there was no time", s->untimed);
        }
        print_wrapped("\n  the model's own choice: %.4g ms, %+.1f %%; %.1f s in all\n", 1e3 * s->estimate,
                      100 * (s->estimate / t->tuned.seconds - 1), s->elapsed);
    }
    for (size_t i = 0; i < json_array_size(t->all); i++) {
        json_t *c = json_array_get(t->all, i);
        print_wrapped("    %-44s %10.4g ms %5.1f %% %3" JSON_INTEGER_FORMAT " runs%s%s\n",
                      json_string_value(json_object_get(c, "schedule")),
                      1e3 * json_real_value(json_object_get(c, "seconds")),
                      100 * json_real_value(json_object_get(c, "spread")), json_integer_value(json_object_get(c, "runs")),
                      json_is_true(json_object_get(c, "estimate")) ? "  the model's" : "",
                      json_is_true(json_object_get(c, "final")) ? "  in the final" : "");
    }
}

/* Tunes one problem and shows what came out; a result that could not be stored is shown, and is a failure. *held becomes a
 * plan of the problem, so that a GPU stays in use from one problem to the next. */
static int tune_one(tuning *t, json_t **results, weft_plan **held) {
    t->all = t->s->all ? json_array() : NULL;
    run(t);
    weft_message notice;
    if (weft_tunings_notice(&notice)) {
        complain(EXIT_OK, "%s", notice.text);
    }
    const weft_device device = device_of(t->s);
    int code = t->status ? device_exit_code(&device, t->status) : EXIT_OK, told = 0;
    if (t->status == WEFT_OK || (t->status == WEFT_IO && t->tuned.seconds > 0)) {
        weft_message unplanned = {"no memory"};
        weft_plan *plan = plan_of(t, &t->tuned.schedule, &unplanned);
        if (plan && results) {
            weft_json_append(results, result_json(t, plan));
        } else if (plan) {
            print_result(t, plan);
        } else {
            code = complain(EXIT_FAILED, "the result cannot be shown: %s", unplanned.text);
            told = 1;
        }
        weft_plan_destroy(*held);
        *held = plan;
    }
    if (code && !told) {
        complain(code, t->tuned.seconds > 0 ? "not stored: %s" : "%s", t->message.text);
    }
    if (code == EXIT_OK && t->s->all && !t->all) {
        code = complain(EXIT_FAILED, "no memory for the list of candidates");
    }
    json_decref(t->all);
    return code;
}

static int tune_all(const settings *s, const settings *list, size_t count) {
    json_t *results = json_array();
    weft_plan *held = NULL;
    int code = EXIT_OK;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    for (size_t i = 0; i < count && !interrupted && (code == EXIT_OK || code == EXIT_FAILED); i++) {
        tuning t = {
            .s = &list[i], .number = i + 1, .count = count, .tuned = WEFT_TUNED_INIT, .state = WEFT_TUNE_STATE_INIT};
        const int this = tune_one(&t, s->json ? &results : NULL, &held);
        code = this ? this : code;
    }
    if (s->json && (results ? json_array_size(results) > 0 : code == EXIT_OK)) {
        const int printed =
            print_json(s->file ? json_pack("{s:O}", "tuned", results) : json_incref(json_array_get(results, 0)));
        code = code ? code : printed;
    }
    weft_plan_destroy(held);
    json_decref(results);
    return interrupted
               ? complain(EXIT_FAILED, "stopped: what was measured is kept, and the same command goes on from there")
               : code;
}

int cmd_tune(const settings *s, const char *const *words, size_t count) {
    const int verbs = s->list + s->export + (s->import != NULL) + s->forget + (s->file != NULL);
    if (count > 0 && check_operation(s, "tune", words[0])) {
        return EXIT_USAGE;
    }
    if (verbs > 1) {
        return complain(EXIT_USAGE, "--file, --list, --export, --import and --forget exclude each other");
    }
    if (s->output && !s->export) {
        return complain(EXIT_USAGE, "--output is for --export");
    }
    if (s->list) {
        return tune_list(s);
    }
    if (s->forget) {
        return tune_forget(s);
    }
    if (s->export || s->import) {
        return tune_exchange(s);
    }
    if (s->file) {
        settings *list = NULL;
        size_t problems = 0;
        const int code = tune_file_read(s, s->file, &list, &problems);
        const int tuned = code ? code : tune_all(s, list, problems);
        free(list);
        return tuned;
    }
    if (!s->operation) {
        return complain(EXIT_USAGE, "tune needs attention or gemm, --file, --list, --export, --import or --forget");
    }
    return tune_all(s, s, 1);
}
