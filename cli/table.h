/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and texts as wide as the terminal. A pipe gets every column, and lines of any length. */
#ifndef WEFT_CLI_TABLE_H
#define WEFT_CLI_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* The width that --width gives; 0: the terminal's. */
void table_set_width(int64_t width);

/* Letters to a line of standard output; 0: as many as there are. */
int table_width(void);

typedef struct table_column {
    const char *head;
    int spare; /* 0: always there; of the others, the column with the largest is left out first */
    int words; /* 1: to the left, as the first column is; numbers are to the right */
} table_column;

/* `words` of a last column whose long texts go to lines of their own where they do not fit. */
enum { TABLE_SPILLS = 2, TABLE_COLUMNS = 32 };

/* Cells are added row by row. */
typedef struct table {
    const table_column *columns;
    size_t count, used, room;
    char **cells; /* (used) */
    int failed;
} table;

void table_begin(table *t, const table_column *columns, size_t count);
void table_add(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line across the columns: the heading of the rows that follow. */
void table_heading(table *t, const char *text);

/* Prints the table, names the columns that did not fit, and releases it. Returns an exit code, with the message printed. */
int table_end(table *t);

/* Writes words from column `at` on. Lines end before `width`, 0: never, and those that follow begin at `indent`. */
void table_words(const char *text, int at, int indent, int width);

/* As printf(), for people to read: a line that is wider than the terminal goes on below its last column of text, which two
 * blanks begin. A line is printed once it has ended. */
void print_wrapped(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What is explained, and in a column of its own the explanation. */
void table_item(const char *name, const char *text, int indent, int width);

#endif
