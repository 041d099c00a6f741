/* SPDX-License-Identifier: Apache-2.0 */
/* What help has to say of a verb and a subject. */
#include <stdio.h>
#include <string.h>

#include "help/help.h"
#include "studies/study.h"

/* ---- subjects ---- */

/* Whether a verb takes a trace in place of an operation. */
static int takes_traces(const verb *v) {
    return (v->sets & SET_TRACE) != 0;
}

/* The i-th subject of a verb: operations that no flag makes of others, then traces. Null past the last. */
static const char *subject_at(const verb *v, size_t number) {
    for (int32_t i = 1; v->sets & SET_PROBLEM && weft_operation_describe(i); i++) {
        if (!operation_base(i) && number-- == 0) {
            return weft_operation_describe(i)->name;
        }
    }
    return takes_traces(v) && number == 0 ? "trace" : NULL;
}

void help_subjects(const verb *v, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; subject_at(v, i) && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", subject_at(v, i));
    }
}

/* ---- names in place of words ---- */

/* Adds `name` and what separates it from the names before. */
static void add_name(help_text *to, const char *separator, const char *name) {
    const size_t used = strlen(to->text);
    snprintf(to->text + used, sizeof to->text - used, "%s%s", separator, name);
}

static void add_operations(help_text *to) {
    int some = 0;
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        if (!operation_base(i)) {
            add_name(to, some++ ? "|" : "", weft_operation_describe(i)->name);
        }
    }
}

static void add_studies(help_text *to) {
    for (const study_info *info = study_table; info->name; info++) {
        add_name(to, "", info->name);
        add_name(to, "", ", ");
    }
    add_name(to, "", "all");
}

help_text help_expand(const char *text) {
    static const struct {
        const char *word;
        void (*add)(help_text *to);
    } words[] = {{"OPERATION", add_operations}, {"STUDIES", add_studies}};
    help_text expanded = {""};
    while (*text) {
        size_t i = 0, count = sizeof words / sizeof *words;
        while (i < count && strncmp(text, words[i].word, strlen(words[i].word)) != 0) {
            i++;
        }
        if (i < count) {
            words[i].add(&expanded);
            text += strlen(words[i].word);
        } else {
            add_name(&expanded, "", (char[]){*text++, '\0'});
        }
    }
    return expanded;
}

/* ---- examples ---- */

/* A small problem of each subject, twice. One that has no row is shown with the sizes it has by itself. */
static const struct {
    const char *subject, *problems[HELP_EXAMPLES];
} problems[] = {
    {"attention", {" --seq 1K --dtype bf16", " --lengths 100,2K,37 --causal"}},
    {"gemm", {" --m 512 --n 512 --k 256 --dtype bf16", " --m 512 --n 512 --k 256 --bias"}},
    {"combine", {" --seq 1K --parts 3", " --seq 1K --dtype bf16 --sum"}},
    {"grouped-gemm", {" --group-rows 100,0,37,512 --n 512 --k 512", " --group-rows 64,64 --n 1K --k 512"}},
    {"trace", {" kernel.trace", " kernel.csv"}},
};

static const char *problem_of_example(const char *subject, size_t number) {
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        if (strcmp(problems[i].subject, subject) == 0) {
            return problems[i].problems[number];
        }
    }
    return "";
}

int help_example(const verb *v, const char *subject, size_t number, char line[HELP_LINE]) {
    if (number >= HELP_EXAMPLES || !v->examples[number]) {
        return 0;
    }
    const char *of = subject ? subject : subject_at(v, number);
    snprintf(line, HELP_LINE, "weft %s%s%s%s%s", v->name, v->run == cmd_order ? " show" : "", of ? " " : "", of ? of : "",
             of ? problem_of_example(of, number) : "");
    const size_t used = strlen(line);
    snprintf(line + used, HELP_LINE - used, "%s%s", v->examples[number][0] ? " " : "", v->examples[number]);
    return 1;
}

/* ---- options ---- */

static const struct {
    int set;
    const char *title;
} sections[] = {{SET_SCHEDULE, "schedule"}, {SET_RANKS, "ranks"},
                {SET_DEVICE, "device"},     {SET_RUN, "run"},
                {SET_SHOW, "show"},         {SET_SIMULATE, "simulate"},
                {SET_TRAFFIC, "traffic"},   {SET_TRACE, "traces"},
                {SET_VIEW, "view"},         {SET_SWEEP, "parameter sweep"},
                {SET_SEED, "random"},       {SET_STUDY, "studies"},
                {SET_TUNE, "tune"},         {SET_PLAN, "plan"},
                {SET_OUTPUT, "output"},     {SET_COMMON, "all verbs"}};

/* The set under which a verb's help lists an option: the first that both have. An option is listed once. */
static int section_of(const verb *v, const option *o) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (v->sets & o->sets & sections[i].set) {
            return sections[i].set;
        }
    }
    return 0;
}

/* Whether a subject takes one of the command's own options. Traces have no part in parameter sweeps and their files; ranks
 * share keys. */
static int is_taken(const verb *v, const option *o, const char *subject) {
    if (subject && strcmp(subject, "trace") == 0) {
        return o->sets & OF_TRACES && !(v->sets & SET_SWEEP && o->sets & (SET_SWEEP | SET_OUTPUT));
    }
    if (subject && o->sets & SET_RANKS) {
        return option_field(option_find("kv-heads", strlen("kv-heads")), weft_operation_find(subject)) != NULL;
    }
    return !subject || !(o->sets & SET_TRACE);
}

/* The options of an operation's problems, in the operation's words. */
static void walk_problem(int32_t operation, const help_writer *w) {
    const option *o;
    char title[96];
    const weft_operation_info *info = weft_operation_describe(operation);
    snprintf(title, sizeof title, "%s (%s)", info->name, info->text);
    w->title(title);
    for (size_t i = 0; (o = option_at(i)); i++) {
        const weft_field *field = option_field(o, operation);
        if (option_operations(o) >> operation & 1) {
            w->option(o, field ? field->text : o->text);
        }
    }
}

void help_walk(const verb *v, const char *subject, int all, const help_writer *w) {
    char line[HELP_LINE];
    for (size_t i = 0; help_example(v, subject, i, line); i++) {
        w->example(line);
    }
    const int32_t only = weft_operation_find(subject);
    for (int32_t i = 1; v->sets & SET_PROBLEM && weft_operation_describe(i); i++) {
        if (subject ? i == only : all && !operation_base(i)) {
            walk_problem(i, w);
        }
    }
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        int titled = 0;
        for (const option *o = option_table; o->name; o++) {
            if (section_of(v, o) == sections[i].set && (all || !(o->sets & RARE)) && is_taken(v, o, subject)) {
                if (!titled++) {
                    w->title(sections[i].title);
                }
                w->option(o, o->text);
            }
        }
    }
    const int is_trace = subject && strcmp(subject, "trace") == 0;
    if (v->sets & SET_PROBLEM && !is_trace) {
        w->paragraph(
            "Sizes take the suffixes K, M and G (1024, 1024^2, 1024^3): --seq 128K is 131072. Names are taken in any "
            "case.");
    }
    if (v->sets & SET_SWEEP && !is_trace) {
        w->paragraph(
            "Parameter sweeps: an option that takes a value takes a list, --order hilbert,group, and one that takes "
            "a whole number takes ranges: --seq 4K:64K:x2 doubles, --seq 1K:8K:1K adds. --machine all lists all. "
            "Every combination is a point.");
    }
}
