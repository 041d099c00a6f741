/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/tune_kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <weft/tune.h>

#include "base/json.h"
#include "cli.h"
#include "table.h"

void tune_describe(const weft_schedule *s, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    if (s->tile_m > 0) {
        used += (size_t)snprintf(text, size, s->tile_k > 0 ? "%" PRId64 "x%" PRId64 "x%" PRId64 : "%" PRId64 "x%" PRId64,
                                 s->tile_m, s->tile_n, s->tile_k);
    }
    const char *const words[] = {s->order > 0 ? weft_order_describe(s->order)->name : NULL,
                                 s->sweep > 0 ? weft_sweep_describe(s->sweep)->name : NULL,
                                 s->dispatch > 0 ? weft_dispatch_describe(s->dispatch)->name : NULL};
    for (size_t i = 0; i < 3; i++) {
        if (words[i] && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", words[i]);
        }
        if (words[i] && i == 0 && s->group > 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "-%" PRId64, s->group);
        }
    }
    if (s->cluster_m * s->cluster_n > 1 && used < size) {
        used += (size_t)snprintf(text + used, size - used, " cluster %" PRId64 "x%" PRId64, s->cluster_m, s->cluster_n);
    }
    if (s->split > 1 && used < size) {
        snprintf(text + used, size - used, " split %" PRId64, s->split);
    }
    if (!text[0]) {
        snprintf(text, size, "as the model chooses");
    }
}

json_t *tune_schedule_json(const weft_schedule *s) {
    char text[128];
    tune_describe(s, text, sizeof text);
    return json_string(text);
}

/* What there is to print of the rows so far: all of them, or nothing. */
typedef struct listing {
    char device[256]; /* of the row before, with driver and build */
    json_t *texts;    /* null when memory ran out */
} listing;

static int add_text(void *user, const weft_tuning *t) {
    listing *l = user;
    char here[sizeof l->device], date[32] = "", words[128], text[2048];
    const time_t when = (time_t)t->tuned.date;
    struct tm parts;
    size_t used = 0;
    snprintf(here, sizeof here, "%.120s, driver %d, weft %.60s", t->device, (int)t->driver, t->build);
    if (strcmp(l->device, here) != 0) {
        used = (size_t)snprintf(text, sizeof text, "%s%s\n", l->device[0] ? "\n" : "", here);
        memcpy(l->device, here, sizeof here);
    }
    if (gmtime_r(&when, &parts)) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &parts);
    }
    tune_describe(&t->tuned.schedule, words, sizeof words);
    snprintf(text + used, sizeof text - used, "  %s%s%s\n    %s: %.4g ms, spread %.1f %%, %" PRId64 " runs, %s%s",
             t->problem, t->given[0] ? "; given: " : "", t->given, words, 1e3 * t->tuned.seconds, 100 * t->tuned.spread,
             t->tuned.runs, date, t->tuned.whole ? "" : ", stopped early");
    weft_json_append(&l->texts, json_string_nocheck(text));
    return l->texts == NULL;
}

/* `user` is where the list is. */
static int add_row(void *user, const weft_tuning *t) {
    weft_json_append(user, json_pack("{s:s, s:i, s:s, s:s, s:s, s:o, s:f, s:f, s:I, s:I, s:b}", "device", t->device,
                                     "driver", t->driver, "build", t->build, "problem", t->problem, "given", t->given,
                                     "schedule", tune_schedule_json(&t->tuned.schedule), "seconds", t->tuned.seconds,
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

static int list_as_json(const char *path) {
    weft_message message = {""};
    json_t *rows = json_array();
    const int code = finish(weft_tunings_list(add_row, &rows, &message), &message);
    if (code) {
        json_decref(rows);
        return code;
    }
    return print_json(json_pack("{s:s, s:{s:s, s:s}, s:o}", "store", path, "build", "cpu", weft_build(WEFT_DEVICE_CPU),
                                "cuda", weft_build(WEFT_DEVICE_CUDA), "rows", rows));
}

static int list_as_text(const char *path) {
    weft_message message = {""};
    listing l = {"", json_array()};
    int code = finish(weft_tunings_list(add_text, &l, &message), &message);
    if (code == EXIT_OK && !l.texts) {
        code = complain_no_memory();
    } else if (code == EXIT_OK && json_array_size(l.texts) == 0) {
        print_wrapped("nothing was tuned yet (%s)\n", path);
    }
    for (size_t i = 0; i < json_array_size(l.texts) && code == EXIT_OK; i++) {
        print_wrapped("%s\n", json_string_value(json_array_get(l.texts, i)));
    }
    json_decref(l.texts);
    return code;
}

int tune_list(const settings *s) {
    char path[1024];
    weft_tunings_path(path, sizeof path);
    return s->json ? list_as_json(path) : list_as_text(path);
}

/* Says how many rows it was. */
static int count_rows(const settings *s, weft_status status, const weft_message *message, const char *did, int64_t count) {
    const int code = finish(status, message);
    if (code == EXIT_OK && s->json) {
        return print_json(json_pack("{s:I}", did, (json_int_t)count));
    }
    if (code == EXIT_OK) {
        print_wrapped("%s %" PRId64 " tuning%s\n", did, count, count == 1 ? "" : "s");
    }
    return code;
}

int tune_forget(const settings *s) {
    const weft_schedule schedule = schedule_of(s);
    const weft_device device = device_of(s);
    weft_message message = {""};
    problem p;
    int64_t rows = 0;
    const weft_status status = !s->operation                 ? weft_tunings_forget(&rows, &message)
                               : problem_of(s, &p, &message) ? weft_tuned_forget(&p, &schedule, &device, &rows, &message)
                                                             : WEFT_INVALID;
    return count_rows(s, status, &message, "forgot", rows);
}

int tune_exchange(const settings *s) {
    weft_message message = {""};
    int64_t rows = 0;
    if (s->import) {
        const weft_status status = weft_tunings_import(s->import, &rows, &message);
        return count_rows(s, status, &message, "took", rows);
    }
    const weft_status status = weft_tunings_export(s->output ? s->output : "-", &rows, &message);
    return s->output ? count_rows(s, status, &message, "wrote", rows) : finish(status, &message);
}
