/* SPDX-License-Identifier: Apache-2.0 */
/* weft view: schedules side by side, as a page, in the terminal or as a still. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/report.h>

#include "base/names.h"
#include "cli.h"
#include "options/schedules.h"
#include "verbs/ranks.h"
#include "verbs/simulated.h"
#include "verbs/traces.h"

/* A page where --output says; the same as JSON on standard output where --json does. */
static weft_status write_page(const settings *s, const weft_view *view, weft_message *message) {
    weft_status status = s->output ? weft_view_write(view, WEFT_VIEW_PAGE, s->output, s->command, message) : WEFT_OK;
    if (status == WEFT_OK && s->json) {
        status = weft_view_write(view, WEFT_VIEW_JSON, NULL, s->command, message);
    } else if (status == WEFT_OK) {
        printf("open %s\n", s->output);
    }
    return status;
}

static int show(const settings *s, const weft_view *view) {
    weft_message message = {""};
    const weft_status status = s->text && isatty(STDOUT_FILENO) && !s->output ? weft_view_play(view, &message)
                               : s->text ? weft_view_write(view, WEFT_VIEW_TEXT, s->output, s->command, &message)
                               : s->svg  ? weft_view_write(view, WEFT_VIEW_SVG, s->output, s->command, &message)
                                         : write_page(s, view, &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

/* Plans every schedule that the options name. */
static int make_plans(const settings *s, weft_plan **plans, size_t *count) {
    settings list[WEFT_VIEW_SCHEDULES];
    int code = schedules_read(s, list, WEFT_VIEW_SCHEDULES, count);
    for (size_t i = 0; i < *count && code == EXIT_OK; i++) {
        code = make_plan(&list[i], &plans[i]);
    }
    return code;
}

/* Records them. */
static int make_view(const settings *s, weft_plan *const *plans, size_t count, weft_view **view) {
    weft_schedule schedules[WEFT_VIEW_SCHEDULES];
    char texts[WEFT_VIEW_SCHEDULES][96];
    const char *names[WEFT_VIEW_SCHEDULES];
    const weft_plan *made[WEFT_VIEW_SCHEDULES];
    weft_message message = {""};
    for (size_t i = 0; i < count; i++) {
        made[i] = plans[i];
        schedules[i] = weft_plan_schedule(plans[i]);
    }
    for (size_t i = 0; i < count; i++) {
        schedule_name(schedules, count, i, texts[i], sizeof texts[i]);
        names[i] = texts[i];
    }
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    progress_begin("simulating schedules", 1);
    const weft_status status = weft_view_create(view, made, names, count, &options, !s->text && !s->svg, &message);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

int cmd_view(const settings *s, const char *const *words, size_t count) {
    const int traces = weft_names_agree(words[0], "trace");
    if (traces && count < 2) {
        return complain(EXIT_USAGE, "view trace needs a FILE, or - for standard input");
    }
    if (!traces && check_plan_words(s, "view", words, count)) {
        return EXIT_USAGE;
    }
    if (s->text + s->svg + s->json > 1) {
        return complain(EXIT_USAGE, "--text, --svg and --json exclude each other");
    }
    if (!s->output && !s->text && !s->svg && !s->json) {
        return complain(EXIT_USAGE, "view needs -o FILE.html, --text, --svg or --json");
    }
    if (ranks_asked(s)) {
        return traces ? complain(EXIT_USAGE, "traces are of one GPU, not of --ranks") : ranks_view(s);
    }
    if (traces) {
        return view_traces(s, words + 1, count - 1, show);
    }
    weft_plan *plans[WEFT_VIEW_SCHEDULES] = {NULL};
    weft_view *view = NULL;
    size_t made = 0;
    int code = make_plans(s, plans, &made);
    code = code ? code : make_view(s, plans, made, &view);
    code = code ? code : show(s, view);
    weft_view_destroy(view);
    for (size_t i = 0; i < WEFT_VIEW_SCHEDULES; i++) {
        weft_plan_destroy(plans[i]);
    }
    return code;
}
