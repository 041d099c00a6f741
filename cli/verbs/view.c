/* weft view: schedules side by side, as a page, in the terminal or as a still. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "options/schedules.h"
#include "report/page.h"
#include "report/svg.h"
#include "report/text.h"
#include "report/view.h"
#include "verbs/simulated.h"

static int write_page(const settings *s, const weft_view *view) {
    weft_message message = {""};
    json_t *data = weft_view_json(view, s->command);
    if (!data) {
        return complain(EXIT_FAILED, "out of memory");
    }
    if (s->json && !s->output) {
        return print_json(data);
    }
    const weft_status status = weft_page_write(data, s->output, &message);
    if (status == WEFT_OK && s->json) {
        return print_json(data);
    }
    json_decref(data);
    if (status) {
        return complain_status(status, &message);
    }
    printf("open %s\n", s->output);
    return EXIT_OK;
}

static int show(const settings *s, const weft_view *view) {
    weft_message message = {""};
    weft_status status = WEFT_OK;
    if (s->text) {
        status = isatty(STDOUT_FILENO) && !s->output ? weft_text_play(view) : weft_text_write(view, s->output, &message);
    } else if (s->svg) {
        status = weft_svg_write(view, s->output, &message);
    } else {
        return write_page(s, view);
    }
    return status ? complain_status(status, &message) : EXIT_OK;
}

/* Plans every schedule and records it. */
static int make_view(const settings *s, weft_subject subject, weft_view *view) {
    settings list[WEFT_VIEW_SCHEDULES];
    weft_schedule schedules[WEFT_VIEW_SCHEDULES];
    size_t count = 0;
    int code = schedules_read(s, subject, list, WEFT_VIEW_SCHEDULES, &count);
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = make_plan(&list[i], subject, &view->schedule[i].plan);
        view->count += code == EXIT_OK;
        if (code == EXIT_OK) {
            schedules[i] = weft_plan_schedule(view->schedule[i].plan);
        }
    }
    if (code) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        schedule_name(schedules, count, i, view->schedule[i].name, sizeof view->schedule[i].name);
    }
    weft_message message = {""};
    const weft_simulate_options options = simulate_options(s, NULL);
    progress_begin("simulating schedules", 0);
    const weft_status status = weft_view_make(view, &options, !s->text && !s->svg, &message);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

int cmd_view(const settings *s, const char *const *words, size_t count) {
    (void)count;
    const int subject = subject_or_complain("view", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    if (s->text + s->svg + s->json > 1) {
        return complain(EXIT_USAGE, "--text, --svg and --json exclude each other");
    }
    if (!s->output && !s->text && !s->svg && !s->json) {
        return complain(EXIT_USAGE, "view needs -o FILE.html, --text, --svg or --json");
    }
    weft_view *view = calloc(1, sizeof *view);
    if (!view) {
        return complain(EXIT_FAILED, "out of memory");
    }
    int code = make_view(s, (weft_subject)subject, view);
    if (code == EXIT_OK) {
        code = show(s, view);
    }
    for (size_t i = 0; i < view->count; i++) {
        weft_plan_destroy(view->schedule[i].plan);
    }
    weft_view_release(view);
    free(view);
    return code;
}
