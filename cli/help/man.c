/* SPDX-License-Identifier: Apache-2.0 */
/* weft man FOLDER: manual pages, written from the tables; CMake calls it when it builds. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "help/help.h"

/* The page that is being written, and whether its options have begun. */
static weft_file page;
static int titled;

static void put(const char *text) {
    weft_file_put(&page, text, strlen(text));
}

/* Text in which nothing is a command of roff. */
static void put_text(const char *text) {
    if (*text == '.' || *text == '\'') {
        put("\\&");
    }
    for (; *text; text++) {
        const char letter[] = {*text, '\0'};
        put(*text == '\\' ? "\\e" : *text == '-' ? "\\-" : letter);
    }
}

static void put_line(const char *before, const char *text) {
    put(before);
    put_text(text);
    put("\n");
}

static void put_item(const char *name, const char *text) {
    put_line(".TP\n.B ", name);
    put_line("", text);
}

static void put_example(const char *line) {
    put_line(".nf\n", line);
    put(".fi\n");
}

static void put_title(const char *title) {
    put(titled++ ? "" : ".SH OPTIONS\n");
    put_line(".SS ", title);
}

static void put_option(const option *o, const char *text) {
    char usage[64];
    help_usage(o, usage, sizeof usage);
    put_item(usage, text);
}

static void put_paragraph(const char *text) {
    put_line(".PP\n", text);
}

static void put_head(const char *name, const char *text, const char *synopsis) {
    char line[256];
    snprintf(line, sizeof line, ".TH %s 1 \"\" \"weft %s\" \"weft manual\"\n.SH NAME\n%s \\- ", name, weft_version(), name);
    put(line);
    put_line("", text);
    put_line(".SH SYNOPSIS\n.B ", synopsis);
}

/* The first page names the others, and what all verbs have in common. */
static void put_first_page(void) {
    static const struct {
        const char *name, *text;
    } environment[] =
        {
            {"OMP_NUM_THREADS", "how many threads CPU kernels and the simulator take"},
#define WEFT_VARIABLE(variable, name, loads_code, text) {name, text},
#include "base/environment.def"
#undef WEFT_VARIABLE
        },
      codes[] = {{"0", "success"},
                 {"1", "a check failed: a wrong result, a row outside its tolerance"},
                 {"2", "bad usage; one line on standard error says what was wrong"}};
    put_head("weft", "tile orders for attention and matrix products: predicted, compared and run",
             "weft VERB [SUBJECT] [options]");
    put_paragraph("Decides in what order the tiles of an attention or a matrix product are visited, predicts what an order "
                  "costs, and runs it.");
    put(".SH VERBS\n");
    for (const verb *v = verb_table; v->name; v++) {
        char name[64];
        snprintf(name, sizeof name, "weft-%s(1)", v->name);
        if (v->text[0]) {
            put_item(name, help_expand(v->text).text);
        }
    }
    put(".SH OPTIONS\n");
    put_item("-h, --help", "the verbs; behind a verb and a subject: examples and the options that are used most");
    put_item("--help-all", "behind a verb: examples and every option");
    put_item("-V, --version", "the version");
    put(".SH ENVIRONMENT\n");
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        put_item(environment[i].name, environment[i].text);
    }
    put(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        put_item(codes[i].name, codes[i].text);
    }
}

static void put_verb(const verb *v) {
    static const help_writer writer = {put_example, put_title, put_option, put_paragraph};
    char name[64], synopsis[HELP_TEXT + 64];
    const help_text words = help_expand(v->words);
    snprintf(name, sizeof name, "weft-%s", v->name);
    snprintf(synopsis, sizeof synopsis, "weft %s %s%s[options]", v->name, words.text, words.text[0] ? " " : "");
    put_head(name, help_expand(v->text).text, synopsis);
    put(".SH EXAMPLES\n");
    titled = 0;
    help_walk(v, NULL, 1, &writer);
    put(".SH SEE ALSO\n.BR weft (1)\n");
}

static int write_page(const char *folder, const verb *v) {
    char path[4096];
    weft_message message = {""};
    snprintf(path, sizeof path, "%s/weft%s%s.1", folder, v ? "-" : "", v ? v->name : "");
    weft_status status = weft_file_begin(&page, path, &message);
    if (status == WEFT_OK) {
        v ? put_verb(v) : put_first_page();
        status = weft_file_end(&page, &message);
    }
    return status ? complain_status(status, &message) : EXIT_OK;
}

int cmd_man(const settings *s, const char *const *words, size_t count) {
    (void)s;
    (void)count;
    int code = write_page(words[0], NULL);
    for (const verb *v = verb_table; v->name && code == EXIT_OK; v++) {
        code = v->text[0] ? write_page(words[0], v) : EXIT_OK;
    }
    return code;
}
