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

#include "cli.h"
#include "plan/describe.h"
#include "tune_file.h"

/* Set when the user asks to stop; a second time, the process ends as it would have. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

/* One problem being tuned. */
typedef struct tuning {
    const settings *s;
    weft_subject subject;
    size_t number, count; /* of the problems of this command */
    json_t *all;          /* every candidate, or null */
    weft_tuned tuned;
    weft_tune_state state;
    weft_status status;
    weft_message message;
} tuning;

/* A schedule in a few words. What is open in it is left out; all open is the model's own choice. */
static void describe(const weft_schedule *s, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    if (s->tile_m > 0) {
        used += (size_t)snprintf(text, size, s->tile_k > 0 ? "%" PRId64 "x%" PRId64 "x%" PRId64 : "%" PRId64 "x%" PRId64,
                                 s->tile_m, s->tile_n, s->tile_k);
    }
    const char *const words[] = {s->order >= 0 ? weft_order_describe(s->order)->name : NULL,
                                 s->sweep >= 0 ? weft_sweep_describe(s->sweep)->name : NULL,
                                 s->dispatch >= 0 ? weft_dispatch_describe(s->dispatch)->name : NULL};
    for (size_t i = 0; i < 3; i++) {
        if (words[i] && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", words[i]);
        }
        if (words[i] && i == 0 && s->group > 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "-%" PRId64, s->group);
        }
    }
    if (s->cluster_m * s->cluster_n > 1 && used < size) {
        snprintf(text + used, size - used, " cluster %" PRId64 "x%" PRId64, s->cluster_m, s->cluster_n);
    }
    if (!text[0]) {
        snprintf(text, size, "as the model chooses");
    }
}

static int show_progress(void *user, const weft_tune_state *state) {
    const tuning *t = user;
    if (isatty(STDERR_FILENO)) {
        char best[128] = "";
        if (state->best) {
            describe(&state->best->schedule, best, sizeof best);
        }
        fprintf(stderr,
                "\r\033[K%zu of %zu: %" PRId64 " candidates in the race, %" PRId64
                " runs, best %.4g ms (%s), about %.0f s left",
                t->number, t->count, state->racing, state->runs, state->best ? 1e3 * state->best->seconds : 0.0, best,
                ceil(state->left));
    }
    return interrupted;
}

static json_t *schedule_words(const weft_schedule *s) {
    char text[128];
    describe(s, text, sizeof text);
    return json_string(text);
}

static void add_candidate(void *user, const weft_tuned *c, const char *kernel, double model) {
    tuning *t = user;
    if (t->all) {
        json_array_append_new(t->all,
                              json_pack("{s:o, s:s, s:f, s:f, s:I, s:f, s:b}", "schedule", schedule_words(&c->schedule),
                                        "kernel", kernel, "seconds", c->seconds, "spread", c->spread, "runs",
                                        (json_int_t)c->runs, "model", model, "estimate", c->whole));
    }
}

/* The plan that the tuned schedule makes, for what is shown of it; null when it makes none. */
static weft_plan *plan_of(const tuning *t, weft_mode mode) {
    weft_plan *plan = NULL;
    const weft_schedule schedule = mode == WEFT_ESTIMATE ? schedule_of(t->s) : t->tuned.schedule;
    const weft_device device = device_of(t->s);
    weft_attention attention;
    if (t->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm gemm = gemm_of(t->s);
        (void)weft_plan_gemm_on(&plan, &gemm, &schedule, NULL, &device, NULL);
    } else if (attention_of(t->s, &attention, NULL)) {
        (void)weft_plan_attention_on(&plan, &attention, &schedule, NULL, &device, NULL);
    }
    return plan;
}

static void run(tuning *t) {
    const weft_schedule schedule = schedule_of(t->s);
    const weft_device device = device_of(t->s);
    weft_tune_options options = WEFT_TUNE_INIT;
    weft_attention attention;
    options.seconds = t->s->budget;
    options.behind = t->s->behind;
    options.exhaustive = t->s->exhaustive;
    options.again = t->s->again;
    options.progress = show_progress;
    options.candidate = add_candidate;
    options.user = t;
    if (t->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm gemm = gemm_of(t->s);
        t->status = weft_tune_gemm(&gemm, &schedule, &device, &options, &t->tuned, &t->state, &t->message);
    } else if (attention_of(t->s, &attention, &t->message)) {
        t->status = weft_tune_attention(&attention, &schedule, &device, &options, &t->tuned, &t->state, &t->message);
    } else {
        t->status = WEFT_INVALID;
    }
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
    }
}

static double flops_of(const weft_plan *plan) {
    return plan->subject == WEFT_SUBJECT_GEMM ? weft_gemm_flops(&plan->gemm) : weft_attention_flops(&plan->attention);
}

static json_t *result_json(const tuning *t, const weft_plan *plan) {
    const weft_tune_state *s = &t->state;
    weft_plan *estimate = plan_of(t, WEFT_ESTIMATE);
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:f, s:f, s:f, s:I, s:I, s:b, s:b, s:b}", "device", plan->backend->name, "machine",
        plan->machine.name, "problem", weft_plan_problem_json(plan), "schedule", weft_plan_schedule_json(plan), "kernel",
        plan->backend->kernel(plan), "seconds", t->tuned.seconds, "spread", t->tuned.spread, "tflops",
        flops_of(plan) / t->tuned.seconds / 1e12, "runs", (json_int_t)t->tuned.runs, "date", (json_int_t)t->tuned.date,
        "whole", t->tuned.whole, "stored", t->status == WEFT_OK, "timed_now", s->runs > 0);
    if (s->runs > 0) {
        json_object_set_new(object, "search",
                            json_pack("{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:f}", "candidates", (json_int_t)s->candidates,
                                      "same", (json_int_t)s->same, "dropped", (json_int_t)s->dropped, "dropped_from",
                                      s->dropped_from, "refused", (json_int_t)s->refused, "untimed", (json_int_t)s->untimed,
                                      "runs", (json_int_t)s->runs, "elapsed", s->elapsed));
        json_object_set_new(object, "estimate",
                            json_pack("{s:f, s:o}", "seconds", s->estimate, "schedule",
                                      estimate ? weft_plan_schedule_json(estimate) : json_null()));
    }
    if (t->all) {
        json_object_set(object, "all", t->all);
    }
    weft_plan_destroy(estimate);
    return object;
}

static void print_result(const tuning *t, const weft_plan *plan) {
    const weft_tune_state *s = &t->state;
    const weft_schedule chosen = weft_plan_schedule(plan);
    char words[128], text[1024], *end;
    describe(&chosen, words, sizeof words);
    weft_plan_text(plan, text, sizeof text);
    end = strchr(text, '\n');
    if (end) {
        *end = '\0';
    }
    printf("%s\n  %s, %s: %.4g ms, spread %.1f %%, %" PRId64 " runs%s%s\n", text, words, plan->backend->kernel(plan),
           1e3 * t->tuned.seconds, 100 * t->tuned.spread, t->tuned.runs, s->runs > 0 ? "" : ", tuned before",
           t->tuned.whole ? "" : ", stopped early");
    if (s->runs > 0) {
        printf("  %" PRId64 " candidates (%" PRId64 " more are the same as one of these, %" PRId64
               " the device cannot run)",
               s->candidates, s->same, s->refused);
        if (s->dropped > 0) {
            printf(", %" PRId64 " dropped: the model puts them %.0f %% or more behind its best", s->dropped,
                   100 * (s->dropped_from - 1));
        }
        if (s->untimed > 0) {
            printf(", %" PRId64 " for which there was no time", s->untimed);
        }
        printf("\n  the model's own choice: %.4g ms, %+.1f %%; %.1f s in all\n", 1e3 * s->estimate,
               100 * (s->estimate / t->tuned.seconds - 1), s->elapsed);
    }
    for (size_t i = 0; i < json_array_size(t->all); i++) {
        json_t *c = json_array_get(t->all, i);
        printf("    %-44s %10.4g ms %5.1f %% %3" JSON_INTEGER_FORMAT " runs%s\n",
               json_string_value(json_object_get(c, "schedule")), 1e3 * json_real_value(json_object_get(c, "seconds")),
               100 * json_real_value(json_object_get(c, "spread")), json_integer_value(json_object_get(c, "runs")),
               json_is_true(json_object_get(c, "estimate")) ? "  the model's" : "");
    }
}

/* Tunes one problem and shows what came out; a result that could not be stored is shown, and is a failure. */
static int tune_one(tuning *t, json_t *results) {
    t->all = t->s->all ? json_array() : NULL;
    run(t);
    weft_message notice;
    if (weft_tunings_notice(&notice)) {
        complain(EXIT_OK, "%s", notice.text);
    }
    const weft_device device = device_of(t->s);
    int code = t->status ? device_exit_code(&device, t->status) : EXIT_OK;
    if (t->status == WEFT_OK || (t->status == WEFT_IO && t->tuned.seconds > 0)) {
        weft_plan *plan = plan_of(t, WEFT_STORED);
        if (plan && results) {
            json_array_append_new(results, result_json(t, plan));
        } else if (plan) {
            print_result(t, plan);
        }
        weft_plan_destroy(plan);
    }
    if (code) {
        complain(code, t->tuned.seconds > 0 ? "not stored: %s" : "%s", t->message.text);
    }
    json_decref(t->all);
    return code;
}

static int tune_all(const settings *s, const tune_problem *list, size_t count) {
    json_t *results = s->json ? json_array() : NULL;
    int code = EXIT_OK;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    for (size_t i = 0; i < count && !interrupted && (code == EXIT_OK || code == EXIT_FAILED); i++) {
        tuning t = {.s = &list[i].chosen, .subject = list[i].subject, .number = i + 1, .count = count};
        const int this = tune_one(&t, results);
        code = this ? this : code;
    }
    if (s->json && json_array_size(results) > 0) {
        const int printed =
            print_json(s->file ? json_pack("{s:O}", "tuned", results) : json_incref(json_array_get(results, 0)));
        code = code ? code : printed;
    }
    json_decref(results);
    return interrupted
               ? complain(EXIT_FAILED, "stopped: what was measured is kept, and the same command goes on from there")
               : code;
}

static int print_row(void *user, const weft_tuning *t) {
    char date[32], words[128];
    const time_t when = (time_t)t->tuned.date;
    struct tm parts;
    const char **device = user;
    char here[256];
    snprintf(here, sizeof here, "%.120s, driver %d, weft %.60s", t->device, (int)t->driver, t->build);
    if (strcmp(*device, here) != 0) {
        printf("%s%s\n", (*device)[0] ? "\n" : "", here);
        snprintf((char *)(uintptr_t)*device, sizeof here, "%s", here);
    }
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", gmtime_r(&when, &parts) ? &parts : &(struct tm){.tm_mday = 1});
    describe(&t->tuned.schedule, words, sizeof words);
    printf("  %s%s%s\n    %s: %.4g ms, spread %.1f %%, %" PRId64 " runs, %s%s\n", t->problem,
           t->given[0] ? "; given: " : "", t->given, words, 1e3 * t->tuned.seconds, 100 * t->tuned.spread, t->tuned.runs,
           date, t->tuned.whole ? "" : ", stopped early");
    return 0;
}

static int add_row(void *user, const weft_tuning *t) {
    json_array_append_new(user, json_pack("{s:s, s:i, s:s, s:s, s:s, s:o, s:f, s:f, s:I, s:I, s:b}", "device", t->device,
                                          "driver", t->driver, "build", t->build, "problem", t->problem, "given", t->given,
                                          "schedule", schedule_words(&t->tuned.schedule), "seconds", t->tuned.seconds,
                                          "spread", t->tuned.spread, "runs", (json_int_t)t->tuned.runs, "date",
                                          (json_int_t)t->tuned.date, "whole", t->tuned.whole));
    return 0;
}

/* A status of the store's: its message, its notice, its exit code. */
static int finish(weft_status status, const weft_message *message) {
    weft_message notice;
    if (weft_tunings_notice(&notice)) {
        complain(EXIT_OK, "%s", notice.text);
    }
    return status ? complain_status(status, message) : EXIT_OK;
}

static int list_rows(const settings *s) {
    weft_message message = {""};
    char device[256] = "";
    const char *last = device;
    json_t *rows = json_array();
    const weft_status status =
        s->json ? weft_tunings_list(add_row, rows, &message) : weft_tunings_list(print_row, &last, &message);
    const int code = finish(status, &message);
    char path[1024];
    weft_tunings_path(path, sizeof path);
    if (code == EXIT_OK && s->json) {
        return print_json(json_pack("{s:s, s:s, s:o}", "store", path, "build", weft_build(), "rows", rows));
    }
    if (code == EXIT_OK && !device[0]) {
        printf("nothing was tuned yet (%s)\n", path);
    }
    json_decref(rows);
    return code;
}

/* Says how many rows it was. */
static int count_rows(const settings *s, weft_status status, const weft_message *message, const char *did, int64_t count) {
    const int code = finish(status, message);
    if (code == EXIT_OK && s->json) {
        return print_json(json_pack("{s:I}", did, (json_int_t)count));
    }
    if (code == EXIT_OK) {
        printf("%s %" PRId64 " tuning%s\n", did, count, count == 1 ? "" : "s");
    }
    return code;
}

static int forget(const settings *s, int subject) {
    const weft_schedule schedule = schedule_of(s);
    const weft_device device = device_of(s);
    weft_message message = {""};
    weft_status status;
    int64_t rows = 0;
    if (subject < 0) {
        status = weft_tunings_forget(&rows, &message);
    } else if (subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm gemm = gemm_of(s);
        status = weft_tuned_forget_gemm(&gemm, &schedule, &device, &rows, &message);
    } else {
        weft_attention attention;
        status = attention_of(s, &attention, &message)
                     ? weft_tuned_forget_attention(&attention, &schedule, &device, &rows, &message)
                     : WEFT_INVALID;
    }
    return count_rows(s, status, &message, "forgot", rows);
}

static int exchange(const settings *s) {
    weft_message message = {""};
    int64_t rows = 0;
    if (s->import) {
        const weft_status status = weft_tunings_import(s->import, &rows, &message);
        return count_rows(s, status, &message, "took", rows);
    }
    const weft_status status = weft_tunings_export(s->output ? s->output : "-", &rows, &message);
    return s->output ? count_rows(s, status, &message, "wrote", rows) : finish(status, &message);
}

int cmd_tune(const settings *s, const char *const *words, size_t count) {
    const int subject = count > 0 ? subject_or_complain("tune", words[0]) : -1;
    const int verbs = s->list + s->export + (s->import != NULL) + s->forget + (s->file != NULL);
    if (count > 0 && subject < 0) {
        return EXIT_USAGE;
    }
    if (verbs > 1) {
        return complain(EXIT_USAGE, "--file, --list, --export, --import and --forget exclude each other");
    }
    if (s->output && !s->export) {
        return complain(EXIT_USAGE, "--output is for --export");
    }
    if (s->list) {
        return list_rows(s);
    }
    if (s->forget) {
        return forget(s, subject);
    }
    if (s->export || s->import) {
        return exchange(s);
    }
    if (s->file) {
        tune_problem *list = NULL;
        size_t problems = 0;
        const int code = tune_file_read(s, s->file, subject, &list, &problems);
        const int tuned = code ? code : tune_all(s, list, problems);
        free(list);
        return tuned;
    }
    if (subject < 0) {
        return complain(EXIT_USAGE, "tune needs attention or gemm, --file, --list, --export, --import or --forget");
    }
    const tune_problem one = {(weft_subject)subject, *s};
    return tune_all(s, &one, 1);
}
