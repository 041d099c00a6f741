/* SPDX-License-Identifier: Apache-2.0 */
/* Help in the terminal, in 80 columns. */
#include <stdio.h>
#include <string.h>

#include "help/help.h"
#include "table.h"

enum { WIDTH = 80, VERBS = 14, OPTIONS = 26 };

void help_usage(const option *o, char *text, size_t size) {
    char letter[8] = "";
    if (options_letter(o)) {
        snprintf(letter, sizeof letter, "-%c, ", options_letter(o));
    }
    snprintf(text, size, "%s--%s%s%s", letter, o->name, o->argument[0] ? " " : "", o->argument);
}

static void print_example(const char *line) {
    printf("  %s\n", line);
}

static void print_title(const char *title) {
    char line[128];
    snprintf(line, sizeof line, "%s:", title);
    putchar('\n');
    table_words(line, 0, 0, WIDTH);
}

static void print_option(const option *o, const char *text) {
    char usage[64];
    help_usage(o, usage, sizeof usage);
    table_item(usage, text, OPTIONS, WIDTH);
}

static void print_paragraph(const char *text) {
    putchar('\n');
    table_words(text, 0, 0, WIDTH);
}

void help_print(void) {
    puts("usage: weft VERB [SUBJECT] [options]\n\nDecides in what order the tiles of an attention or a matrix product are\n"
         "visited, and runs it.\n\nverbs:");
    for (const verb *v = verb_table; v->name; v++) {
        if (v->text[0]) {
            table_item(v->name, help_expand(v->text).text, VERBS, WIDTH);
        }
    }
    print_paragraph(
        "'weft help VERB [SUBJECT]' and 'weft VERB [SUBJECT] --help' (-h) show examples and options, --help-all "
        "every option; 'weft --version' (-V) prints the version.");
}

void help_print_verb(const verb *v, const char *subject, int all) {
    static const help_writer writer = {print_example, print_title, print_option, print_paragraph};
    char subjects[128], usage[HELP_TEXT + 64], line[HELP_LINE];
    const help_text words = help_expand(v->words);
    help_subjects(v, subjects, sizeof subjects);
    snprintf(usage, sizeof usage, "usage: weft %s %s%s[options]", v->name, words.text, words.text[0] ? " " : "");
    table_words(usage, 0, 7, WIDTH);
    table_words(help_expand(v->text).text, 0, 0, WIDTH);
    if (help_example(v, subject, 0, line)) {
        puts("\nexamples:");
    }
    help_walk(v, subject, all, &writer);
    putchar('\n');
    if (!subject && subjects[0] && !all) {
        char text[256];
        snprintf(text, sizeof text, "Each subject has options of its own, as 'weft help %s SUBJECT' shows: %s.", v->name,
                 subjects);
        table_words(text, 0, 0, WIDTH);
    }
    puts(all ? "This is every option; --help shows those that are used most." : "--help-all shows every option.");
}
