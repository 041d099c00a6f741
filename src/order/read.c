/* SPDX-License-Identifier: Apache-2.0 */
/* Reading orders from text. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "order/table.h"

enum { NUMBERS = 3 };

/* A text, and how far it is read. */
typedef struct reader {
    const char *at, *end;
    int64_t line; /* of what was read last, from 1 */
} reader;

/* The numbers of a line. */
typedef struct entry {
    int64_t number[NUMBERS];
    int count;
} entry;

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && is_blank(*at)) {
        at++;
    }
    return at;
}

/* The next line that has something, without its comment and its outer blanks; 0 at the end. */
static int next_line(reader *r, const char **begin, const char **end) {
    while (r->at < r->end) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at)), *stop = newline ? newline : r->end;
        const char *comment = memchr(r->at, '#', (size_t)(stop - r->at));
        *begin = skip_blanks(r->at, stop);
        *end = comment ? comment : stop;
        while (*end > *begin && is_blank((*end)[-1])) {
            (*end)--;
        }
        r->at = newline ? newline + 1 : r->end;
        r->line++;
        if (*begin < *end) {
            return 1;
        }
    }
    return 0;
}

/* Reads digits; 0 when there are none. What is beyond any grid stays beyond it. */
static int read_number(const char **at, const char *end, int64_t *number) {
    const char *begin = *at;
    *number = 0;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++) {
        *number = *number > INT64_MAX / 100 ? INT64_MAX / 100 : *number * 10 + (**at - '0');
    }
    return *at > begin;
}

/* Reads a line: numbers with blanks or a comma between them. Returns 0 with *at where it is none. */
static int read_entry(const char **at, const char *end, entry *e) {
    for (e->count = 0; *at < end; e->count++) {
        if (e->count == NUMBERS || !read_number(at, end, &e->number[e->count])) {
            return 0;
        }
        const char *next = skip_blanks(*at, end);
        const int comma = next < end && *next == ',';
        if (next == *at && !comma && next < end) {
            return 0;
        }
        *at = comma ? skip_blanks(next + 1, end) : next;
        if (comma && *at == end) {
            return 0;
        }
    }
    return 1;
}

/* The first character that cannot be read, for a message. */
static weft_status fail_at(const char *at, const char *end, const char *name, int64_t line, weft_message *message) {
    char what[32];
    if (at == end) {
        snprintf(what, sizeof what, "a number is missing");
    } else if (isprint((unsigned char)*at)) {
        snprintf(what, sizeof what, "'%c' cannot be read", *at);
    } else {
        snprintf(what, sizeof what, "byte 0x%02x cannot be read", (unsigned char)*at);
    }
    return weft_fail(message, WEFT_INVALID,
                     "%.80s:%" PRId64 ": %s: a line is a tile's number, 'row,column' or 'batch,row,column'", name, line,
                     what);
}

/* The number of the tile that a line names. */
static weft_status tile_of(const entry *e, int count, weft_grid grid, const char *name, int64_t line, uint32_t *tile,
                           weft_message *message) {
    if (e->count != count) {
        return weft_fail(message, WEFT_INVALID, "%.80s:%" PRId64 ": %d numbers, and the lines before have %d", name, line,
                         e->count, count);
    }
    if (e->count == 2 && grid.batch > 1) {
        return weft_fail(message, WEFT_INVALID,
                         "%.80s:%" PRId64 ": row and column are not enough: the grid has %" PRId64
                         " batches, so a line is 'batch,row,column'",
                         name, line, grid.batch);
    }
    const int64_t batch = e->count == 3 ? e->number[0] : 0, row = e->count > 1 ? e->number[e->count - 2] : 0,
                  col = e->number[e->count - 1];
    const int64_t cols = e->count == 1 ? grid.batch * grid.rows * grid.cols : grid.cols;
    if (batch >= grid.batch || row >= grid.rows || col >= cols) {
        char where[40] = "", text[96];
        if (e->count == 3) {
            snprintf(where, sizeof where, "batch %" PRId64 ", ", batch);
        }
        if (e->count == 1) {
            snprintf(text, sizeof text, "tile %" PRId64, col);
        } else {
            snprintf(text, sizeof text, "%srow %" PRId64 ", column %" PRId64, where, row, col);
        }
        return weft_fail(message, WEFT_INVALID,
                         "%.80s:%" PRId64 ": %s is not in the grid of %" PRId64 " x %" PRId64 " x %" PRId64 " tiles", name,
                         line, text, grid.batch, grid.rows, grid.cols);
    }
    *tile = (uint32_t)((batch * grid.rows + row) * grid.cols + col);
    return WEFT_OK;
}

/* A text that was read, for the lines of its positions. */
typedef struct source {
    const char *text;
    size_t length;
} source;

static void name_line(const void *context, int64_t position, char *text, size_t size) {
    const source *s = context;
    reader r = {s->text, s->text + s->length, 0};
    const char *begin, *end;
    for (int64_t i = 0; i <= position; i++) {
        next_line(&r, &begin, &end);
    }
    snprintf(text, size, "line %" PRId64, r.line);
}

weft_status weft_order_read(const char *text, size_t length, const char *name, weft_grid grid, uint32_t *table,
                            weft_message *message) {
    int64_t tiles;
    weft_status status = weft_table_entries(grid, &tiles, message);
    if (status) {
        return status;
    }
    text = text ? text : ""; /* nothing to read */
    const source s = {text, length};
    reader r = {text, text + length, 0};
    const char *at, *end;
    entry e = {{0}, 0};
    weft_message why;
    int64_t count = 0;
    int numbers = 0, goes_on;
    while ((goes_on = next_line(&r, &at, &end)) && count < tiles) {
        if (!read_entry(&at, end, &e)) {
            return fail_at(at, end, name, r.line, message);
        }
        numbers = numbers ? numbers : e.count;
        if ((status = tile_of(&e, numbers, grid, name, r.line, &table[count++], message))) {
            return status;
        }
    }
    if ((status = weft_table_check(table, count, grid, name_line, &s, &why))) {
        return weft_fail(message, status, "%.80s: %.170s", name, why.text);
    }
    return goes_on ? weft_fail(message, WEFT_INVALID, "%.80s:%" PRId64 ": the order goes on after all %" PRId64 " tiles",
                               name, r.line, tiles)
                   : WEFT_OK;
}
