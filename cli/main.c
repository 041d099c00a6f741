/* SPDX-License-Identifier: Apache-2.0 */
/* weft: the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/names.h"
#include "base/nearest.h"
#include "cli.h"
#include "help/help.h"
#include "options/axes.h"
#include "options/schedules.h"
#include "progress.h"
#include "sweep/sweep.h"
#include "table.h"

enum { MOST_WORDS = 9 }; /* before the options */

/* clang-format off */
const verb verb_table[] = {
    {"orders",     "",                     "list orders, sweeps and dispatches", SET_COMMON, 0, 0, cmd_orders, {"", "--json"}},
    {"machines",   "[NAME|FILE|probe]",    "list machines, show one with the source of each number, or measure this GPU", SET_COMMON | SET_DEVICE | SET_OUTPUT,
                   0, 1, cmd_machines, {"h200", "probe -o mine.ini"}},
    {"profiles",   "[NAME|FILE]",          "list the kernels that the simulator knows, or show one with the source of each number", SET_COMMON | SET_OUTPUT,
                   0, 1, cmd_profiles, {"hopper-attention", "--json"}},
    {"order",      "show OPERATION", "show the order on a small grid, numbered by position",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_SHOW, 2, 2, cmd_order, {"", "--workers 4 --show worker"}},
    {"run",        "OPERATION", "run a problem, check it against the reference, report time and TFLOP/s",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_RUN | SET_DEVICE | SET_SEED | SET_RANKS, 1, 1, cmd_run, {"", "--json"}},
    {"simulate",   "OPERATION|trace", "predict the cache traffic and the time of a problem, a schedule and a machine, or of a kernel's trace (trace FILE|-)",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_SIMULATE | SET_TRAFFIC | SET_SWEEP | SET_TRACE | SET_OUTPUT | SET_SEED | SET_RANKS, 1, 2, cmd_simulate, {"--machine h200", "--machine gb10"}},
    {"compare",    "OPERATION", "the same problem under every order and sweep that is left open, side by side",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_SIMULATE | SET_SWEEP | SET_OUTPUT | SET_DEVICE | SET_SEED, 1, 1, cmd_compare, {"--machine h200", "--machine gb10"}},
    {"plan",       "OPERATION", "search orders, sweeps, dispatches, groups and tiles, and recommend a schedule",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_SIMULATE | SET_SWEEP | SET_OUTPUT | SET_PLAN | SET_SEED | SET_RANKS, 1, 1, cmd_plan, {"--machine h200", "--machine gb10"}},
    {"tune",       "[OPERATION]", "time candidates on the device, keep the best for plans in mode measure or stored; look after what is kept",
                   SET_COMMON | SET_PROBLEM | SET_TUNE | SET_OUTPUT, 0, 1, cmd_tune, {"", "--seconds 2"}},
    {"reproduce",  "[STUDY]",              "published studies beside the simulator, or on a GPU: STUDIES",
                   SET_COMMON | SET_DEVICE | SET_OUTPUT | SET_SEED | SET_STUDY, 0, 1, cmd_reproduce, {"cutile", "--tolerances"}},
    {"view",       "OPERATION|trace", "a page that plays schedules, or traces (trace FILE...), side by side and shows the cache (-o FILE.html), --text or --svg",
                   SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_VIEW | SET_TRACE | SET_OUTPUT | SET_SEED | SET_RANKS, 1, MOST_WORDS, cmd_view, {"--machine gb10 -o view.html", "--machine h200 --text"}},
    {"report",     "[STUDY]",              "a page with every claim: studies reproduced, schedules compared, runs on this host measured (-o FILE.html)",
                   SET_COMMON | SET_OUTPUT, 0, 1, cmd_report, {"cutile -o report.html", "cutile --json"}},
    {"doctor",     "",                     "what this build, this CPU, this GPU and its driver can do, and why not", SET_COMMON, 0, 0, cmd_doctor, {"", "--json"}},
    {"completion", "bash|zsh|fish",        "print a completion script for the shell", SET_COMMON, 1, 1, cmd_completion, {"bash", "zsh"}},
    {"man",        "FOLDER",               "", SET_COMMON, 1, 1, cmd_man, {0, 0}},
    {0, 0, 0, 0, 0, 0, 0, {0, 0}},
};
/* clang-format on */

static const char *verb_name(int32_t i) {
    return verb_table[i].name;
}

/* The verb of that name; null, having complained, when there is none. */
static const verb *find_verb(const char *name) {
    for (const verb *v = verb_table; v->name; v++) {
        if (weft_names_agree(v->name, name)) {
            return v;
        }
    }
    const char *near = weft_nearest(name, verb_name);
    if (near) {
        complain(EXIT_USAGE, "unknown verb %s: did you mean %s?", name, near);
    } else {
        complain(EXIT_USAGE, "unknown verb %s: 'weft --help' lists them", name);
    }
    return NULL;
}

/* The subject that one of a verb's words names: an operation or "trace"; null: none does. */
static const char *find_subject(const verb *v, int count, const char *const *words) {
    for (int i = 0; i < count && i < (int)v->most; i++) {
        const int32_t operation = v->sets & SET_PROBLEM ? weft_operation_find(words[i]) : 0;
        if (operation) {
            return weft_operation_describe(operation)->name;
        }
        if (v->sets & SET_TRACE && weft_names_agree(words[i], "trace")) {
            return "trace";
        }
    }
    return NULL;
}

/* The command line as it would be typed, cut where it is too long; the program by its name alone. */
static void join(int argc, char **argv, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "weft");
    for (int i = 1; i < argc && used < size; i++) {
        const int wrote = snprintf(text + used, size - used, " %s", argv[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* Reads the options and runs the verb; lists and ranges go to `swept`. */
static int read_and_run(const verb *v, int argc, char **argv, axes *swept) {
    settings s = settings_none();
    const char *words[MOST_WORDS];
    size_t count;
    weft_message message = {""};
    const int32_t operation = weft_operation_find(find_subject(v, argc - 2, (const char *const *)argv + 2));
    s.axes = v->sets & SET_SWEEP ? swept : NULL;
    const int status =
        options_parse(&s, v->sets, operation_bits(operation), argc - 2, argv + 2, words, v->most, &count, &message);
    for (size_t i = 0; i < count && v->sets & SET_PROBLEM && !s.operation; i++) {
        s.operation = operation_made(&s, weft_operation_find(words[i]));
    }
    if (s.help || s.help_all) {
        help_print_verb(v, find_subject(v, (int)count, words), s.help_all);
        return EXIT_OK;
    }
    if (status) {
        return complain(status, "%s", message.text);
    }
    if (count < v->least) {
        return complain(EXIT_USAGE, "%s needs %s: 'weft %s --help' shows how", v->name, help_expand(v->words).text,
                        v->name);
    }
    if (s.order_file && s.order > 0 && s.order != WEFT_ORDER_CUSTOM) {
        return complain(EXIT_USAGE, "--order %s and --order-file exclude each other", weft_order_describe(s.order)->name);
    }
    if ((s.output && weft_file_check(s.output, &message)) ||
        (s.trace_out && strcmp(s.trace_out, "-") != 0 && weft_file_check(s.trace_out, &message))) {
        return complain(EXIT_FAILED, "%s", message.text);
    }
    table_set_width(s.width);
    char command[512];
    join(argc, argv, command, sizeof command);
    s.command = command;
    weft_profile profile = WEFT_PROFILE_INIT;
    const weft_status found = s.profile_name ? weft_profile_load(&profile, s.profile_name, &message) : WEFT_OK;
    if (found) {
        return complain_status(found, &message);
    }
    s.profile = s.profile_name ? &profile : NULL;
    char kernel[160];
    const kernel_options options = {s.precise, s.mask_every_block, s.no_prefetch, s.ctas};
    if (!kernel_specification(kernel, sizeof kernel, s.kernel ? s.kernel : "", &options)) {
        return complain(EXIT_USAGE, "--kernel %.40s... is no family of kernels: it is too long", s.kernel);
    }
    s.kernel = kernel[0] ? kernel : s.kernel;
    const int taken = schedule_take(&s);
    if (taken) {
        return taken;
    }
    return v->sets & SET_SWEEP && sweep_is_asked(&s) ? sweep_run(v->name, &s, words, count) : v->run(&s, words, count);
}

static int run_verb(const verb *v, int argc, char **argv) {
    axes swept = {.count = 0};
    const int code = read_and_run(v, argc, argv, &swept);
    axes_release(&swept);
    return code;
}

static int is_either(const char *word, const char *a, const char *b) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static int run(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : NULL;
    const int asks_help = first && strcmp(first, "help") == 0;
    if (!first || is_either(first, "--help", "-h") || (asks_help && argc == 2)) {
        help_print();
        return first ? EXIT_OK : EXIT_USAGE;
    }
    if (is_either(first, "--version", "-V")) {
        printf("weft %s\n", weft_version());
        return EXIT_OK;
    }
    const verb *v = find_verb(asks_help ? argv[2] : first);
    if (v && asks_help) {
        help_print_verb(v, find_subject(v, argc - 3, (const char *const *)argv + 3), 0);
    }
    return !v ? EXIT_USAGE : asks_help ? EXIT_OK : run_verb(v, argc, argv);
}

int main(int argc, char **argv) {
    static char room[1 << 16];
    if (!isatty(STDOUT_FILENO)) { /* an answer that fits is written at once: whole, or not at all */
        (void)!setvbuf(stdout, room, _IOFBF, sizeof room);
    }
    const int code = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return has_complained() ? EXIT_FAILED : complain(EXIT_FAILED, "could not write to standard output");
    }
    return code;
}
