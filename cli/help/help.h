/* SPDX-License-Identifier: Apache-2.0 */
/* Help as text and as manual pages. Both walk the tables of verbs and options, and have no list of their own. */
#ifndef WEFT_CLI_HELP_H
#define WEFT_CLI_HELP_H

#include "cli.h"

/* What help is written with. */
typedef struct help_writer {
    void (*example)(const char *line);
    void (*title)(const char *title);
    void (*option)(const option *o, const char *text);
    void (*paragraph)(const char *text);
} help_writer;

enum { HELP_EXAMPLES = 2, HELP_LINE = 160, HELP_TEXT = 320 };

/* A text or the words of a verb's row. In them OPERATION stands for the names of the operations that no flag makes of
 * others, "attention|gemm|...", and STUDIES for those of the studies, "sawtooth, cutile, ..., all". */
typedef struct help_text {
    char text[HELP_TEXT];
} help_text;

help_text help_expand(const char *text);

/* The examples of a verb. A null subject stands for two of its subjects. Returns 0 past the last. */
int help_example(const verb *v, const char *subject, size_t number, char line[HELP_LINE]);

/* Writes the examples, and in sections the options that the subject takes; with `all` also those that are rarely used. A
 * null subject has the options of every subject with `all`, else none. */
void help_walk(const verb *v, const char *subject, int all, const help_writer *w);

/* The subjects of a verb, "attention, gemm, ..."; empty when it has none. */
void help_subjects(const verb *v, char *text, size_t size);

/* "-o, --output FILE". */
void help_usage(const option *o, char *text, size_t size);

/* `weft --help`, and `weft VERB [SUBJECT] --help`. */
void help_print(void);
void help_print_verb(const verb *v, const char *subject, int all);

#endif
