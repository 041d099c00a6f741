/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/environment.h"
#include "cli.h"

static int64_t given_width;

void table_set_width(int64_t width) {
    given_width = width;
}

int table_width(void) {
    struct winsize size = {0};
    if (given_width > 0 || !isatty(STDOUT_FILENO)) {
        return given_width < 4096 ? (int)given_width : 4096;
    }
    const char *columns = weft_environment(WEFT_VARIABLE_COLUMNS);
    const int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const long width = known ? size.ws_col : columns ? strtol(columns, NULL, 10) : 80;
    return width > 0 && width < 4096 ? (int)width : 80;
}

/* ---- texts ---- */

void table_words(const char *text, int at, int indent, int width) {
    int column = at, first = 1;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (!first && width > 0 && column + 1 + length >= width) {
            printf("\n%*s", indent, "");
            column = indent;
            first = 1;
        }
        printf("%s%.*s", first ? "" : " ", length, text);
        column += length + !first;
        first = 0;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

void table_item(const char *name, const char *text, int indent, int width) {
    const int fits = (int)strlen(name) + 4 <= indent;
    printf("  %-*s", fits ? indent - 2 : 0, name);
    if (!fits) {
        printf("\n%*s", indent, "");
    }
    table_words(text, indent, indent, width);
}

/* How many letters a text in UTF-8 has. */
static int letters(const char *text) {
    int count = 0;
    for (; *text; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static void print_line(const char *line, int width) {
    const int lead = (int)strspn(line, " ");
    int at = lead, end = lead; /* where the last column begins, and where the one before it ends */
    if (width == 0 || letters(line) < width) {
        puts(line);
        return;
    }
    for (const char *gap = strstr(line + lead, "  "); gap && gap[strspn(gap, " ")]; gap = strstr(line + at, "  ")) {
        end = (int)(gap - line);
        at = end + (int)strspn(gap, " ");
    }
    if (at <= width / 2) {
        printf("%.*s", at, line);
        table_words(line + at, at, at > lead ? at : lead + 2, width);
    } else { /* too little is left beside the others */
        printf("%.*s\n%*s", end, line, lead + 4, "");
        table_words(line + at, lead + 4, lead + 4, width);
    }
}

void print_wrapped(const char *format, ...) {
    static char text[4096];
    static size_t used;
    const size_t room = sizeof text - used;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(text + used, room, format, arguments);
    if (length >= 0 && (size_t)length >= room) { /* longer than any line that is to be wrapped: as it is, and whole */
        fwrite(text, 1, used, stdout);
        used = 0;
        vprintf(format, again);
        text[0] = '\0';
    } else {
        used += length < 0 ? 0 : (size_t)length;
    }
    va_end(again);
    va_end(arguments);
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        print_line(line, table_width());
    }
    used -= (size_t)(line - text);
    memmove(text, line, used + 1);
}

/* ---- tables ---- */

static const char ACROSS = '\1'; /* what the first cell of a line across begins with */

void table_begin(table *t, const table_column *columns, size_t count) {
    *t = (table){.columns = columns, .count = count};
}

static void put(table *t, const char *text) {
    if (t->used == t->room && !t->failed) {
        const size_t room = t->room ? 2 * t->room : 16 * t->count;
        char **longer = realloc(t->cells, room * sizeof *longer);
        if (!longer) {
            t->failed = 1;
            return;
        }
        t->cells = longer;
        t->room = room;
    }
    char *copy = t->failed ? NULL : malloc(strlen(text) + 1);
    if (!copy) {
        t->failed = 1;
        return;
    }
    memcpy(copy, text, strlen(text) + 1);
    t->cells[t->used++] = copy;
}

void table_add(table *t, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(t, text);
}

void table_heading(table *t, const char *text) {
    table_add(t, "%c%s", ACROSS, text);
    for (size_t i = 1; i < t->count; i++) {
        put(t, "");
    }
}

/* Letters of a first column that is made narrower, and of a text that does not spill. */
enum { LEAST_FIRST = 24, SHORT = 8 };

/* Leaves out columns until the others fit, and makes the first narrower where that is not enough. Returns the width of all.
 */
static int fit(const table *t, int width, int widths[TABLE_COLUMNS], int out[TABLE_COLUMNS]) {
    int all = -2;
    for (size_t c = 0; c < t->count; c++) {
        all += widths[c] + 2;
        out[c] = 0;
    }
    for (int left = all; width > 0 && left >= width;) {
        size_t spare = 0;
        for (size_t c = 1; c < t->count; c++) {
            spare = !out[c] && t->columns[c].spare > (spare ? t->columns[spare].spare : 0) ? c : spare;
        }
        if (spare == 0) {
            const int narrow = widths[0] - (left - width + 1);
            widths[0] = narrow >= LEAST_FIRST ? narrow : widths[0] > LEAST_FIRST ? LEAST_FIRST : widths[0];
            break;
        }
        out[spare] = 1;
        left -= widths[spare] + 2;
    }
    return all;
}

/* Prints lines of a first cell that is wider than its column. Returns what is left for the line of the other cells, which
 * begins at *indent. */
static const char *print_first(const char *text, int width, int *indent) {
    const int lead = (int)strspn(text, " ");
    *indent = 0;
    for (text += lead;; *indent = lead + 2) {
        int column = *indent ? *indent : lead;
        const char *cut = NULL;
        for (const char *c = text; *c && column <= width; c++) {
            cut = *c == ' ' ? c : cut;
            column += ((unsigned char)*c & 0xc0) != 0x80;
        }
        if (column <= width || !cut) {
            *indent = *indent ? *indent : lead;
            return text;
        }
        printf("%*s%.*s\n", *indent ? *indent : lead, "", (int)(cut - text), text);
        text = cut + 1;
    }
}

static void print_row(const table *t, char *const *cells, const int widths[TABLE_COLUMNS], const int out[TABLE_COLUMNS],
                      int width) {
    int blanks = 0, at = 0; /* blanks that are due before the next cell: no line ends in any */
    for (size_t c = 0; c < t->count; c++) {
        if (out[c]) {
            continue;
        }
        const char *text = cells ? cells[c] : t->columns[c].head;
        int indent = 0;
        if (c == 0 && letters(text) > widths[c]) {
            text = print_first(text, widths[c], &indent);
            blanks = indent;
        }
        const int missing = widths[c] - indent - letters(text), is_left = c == 0 || t->columns[c].words;
        blanks += (at ? 2 : 0) + (is_left ? 0 : missing);
        at += (at ? 2 : 0) + widths[c];
        if (missing < 0 && width > 0 && at - missing >= width) {
            fputs("\n    ", stdout);
            table_words(text, 4, 4, width);
            return;
        }
        if (*text) {
            printf("%*s%s", blanks, "", text);
            blanks = 0;
        }
        blanks += is_left ? missing : 0;
    }
    putchar('\n');
}

static void name_left_out(const table *t, const int out[TABLE_COLUMNS], int all, int width) {
    char text[1024];
    size_t said = 0, used = 0;
    for (size_t c = 0; c < t->count && used < sizeof text; c++) {
        if (out[c]) {
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", said++ ? ", " : "left out: ", t->columns[c].head);
        }
    }
    if (said && used < sizeof text) {
        snprintf(text + used, sizeof text - used, " (--width %d shows %s)", all + 1, said > 1 ? "them" : "it");
        table_words(text, 0, 2, width);
    }
}

int table_end(table *t) {
    const int width = table_width(), failed = t->failed;
    int widths[TABLE_COLUMNS], out[TABLE_COLUMNS];
    for (size_t c = 0; c < t->count; c++) {
        widths[c] = letters(t->columns[c].head);
    }
    for (size_t i = 0; i < t->used; i++) {
        const size_t c = i % t->count;
        const int length = letters(t->cells[i]), most = t->columns[c].words == TABLE_SPILLS ? SHORT : length;
        widths[c] = t->cells[i - c][0] != ACROSS && length > widths[c] && length <= most ? length : widths[c];
    }
    const int all = fit(t, width, widths, out);
    if (!failed) {
        print_row(t, NULL, widths, out, width);
    }
    for (size_t i = 0; i + t->count <= t->used && !failed; i += t->count) {
        t->cells[i][0] == ACROSS ? table_words(t->cells[i] + 1, 0, 2, width)
                                 : print_row(t, t->cells + i, widths, out, width);
    }
    if (!failed) {
        name_left_out(t, out, all, width);
    }
    for (size_t i = 0; i < t->used; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    return failed ? complain_no_memory() : EXIT_OK;
}
