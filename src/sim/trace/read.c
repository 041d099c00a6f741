/* SPDX-License-Identifier: Apache-2.0 */
/* Reading traces: CSV line by line, or binary record by record, from a file or from memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/struct.h"
#include "sim/trace/head.h"
#include "sim/trace/read.h"

enum { BUFFER = 1 << 18, LABEL = 120 };

/* Bytes to read, a buffer at a time. */
typedef struct input {
    FILE *file;       /* null: `data` is all there is */
    char *buffer;     /* (BUFFER) of a file */
    const char *data; /* what is left of the bytes at hand */
    size_t left;
    const char *label;
    uint64_t line; /* or record */
    int ended, failed;
    weft_progress progress; /* null, or told of bytes of the file */
    void *progress_user;
    int64_t got, size; /* bytes of the file so far, and in all; 0: nobody knows */
} input;

/* Brings more bytes behind those that are left. Returns 0 when there are none. */
static int refill(input *in) {
    if (in->ended || !in->file || in->left == BUFFER) {
        in->ended |= !in->file;
        return 0;
    }
    memmove(in->buffer, in->data, in->left);
    in->data = in->buffer;
    const size_t got = fread(in->buffer + in->left, 1, BUFFER - in->left, in->file);
    in->failed = ferror(in->file) != 0;
    in->ended = got == 0;
    in->left += got;
    in->got += (int64_t)got;
    if (in->progress && in->size > 0) {
        in->progress(in->progress_user, in->got < in->size ? in->got : in->size, in->size);
    }
    return got > 0;
}

/* The next line without its end. Returns 0 when there is none, -1 when it is too long. */
static int next_line(input *in, const char **line, size_t *length) {
    const char *end = in->left > 0 ? memchr(in->data, '\n', in->left) : NULL;
    while (!end && refill(in)) {
        end = memchr(in->data, '\n', in->left);
    }
    if (!end && in->file && in->left == BUFFER) {
        in->line++;
        return -1;
    }
    if (!end && in->left == 0) {
        return 0;
    }
    *line = in->data;
    *length = end ? (size_t)(end - in->data) : in->left;
    in->data += *length + (end != NULL);
    in->left -= *length + (end != NULL);
    *length -= *length > 0 && (*line)[*length - 1] == '\r';
    in->line++;
    return 1;
}

static weft_status say_where(const input *in, weft_status status, const weft_message *what, weft_message *message) {
    return weft_fail(message, status, "%.*s:%llu: %.120s", LABEL, in->label, (unsigned long long)in->line, what->text);
}

/* ---- CSV ---- */

static int read_op(const char *text, size_t length, int64_t *number) {
    static const char *const words[] = {"read", "write", "add"};
    for (int i = 0; i < 3; i++) {
        if ((length == 1 && text[0] == words[i][0]) ||
            (length == strlen(words[i]) && memcmp(text, words[i], length) == 0)) {
            *number = i;
            return 1;
        }
    }
    return 0;
}

/* One cell of a record. */
static weft_status read_cell(weft_trace_builder *b, int column, const char *text, size_t length, weft_trace_record *r,
                             weft_message *message) {
    int fine;
    while (length > 0 && text[0] == ' ') {
        text++;
        length--;
    }
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    if (column == WEFT_TRACE_TENSOR) {
        r->number[column] = weft_trace_tensor(&b->blocks, text, length, 0, message);
        return r->number[column] < 0 ? weft_trace_status(r->number[column]) : WEFT_OK;
    }
    if (column == WEFT_TRACE_OP) {
        fine = read_op(text, length, &r->number[column]);
    } else if (column >= WEFT_TRACE_TIME) {
        r->real[column - WEFT_TRACE_TIME] = 0; /* an empty cell is none */
        fine = length == 0 || weft_trace_real(text, length, &r->real[column - WEFT_TRACE_TIME]);
    } else {
        fine = weft_trace_number(text, length, &r->number[column]);
    }
    return fine ? WEFT_OK
                : weft_fail(message, WEFT_INVALID, "%s '%.*s' is not %s", weft_trace_column_name(column),
                            (int)(length < 40 ? length : 40), text,
                            column == WEFT_TRACE_OP     ? "read, write or add"
                            : column >= WEFT_TRACE_TIME ? "a finite number"
                                                        : "a whole number");
}

static weft_status read_line(weft_trace_builder *b, const int *columns, size_t count, const char *line, size_t length,
                             weft_message *message) {
    weft_trace_record r;
    memset(&r, 0, sizeof r);
    size_t at = 0, cell = 0;
    for (; at <= length; cell++) {
        const char *comma = memchr(line + at, ',', length - at);
        const size_t size = comma ? (size_t)(comma - line) - at : length - at;
        if (cell < count) {
            const weft_status status = read_cell(b, columns[cell], line + at, size, &r, message);
            if (status) {
                return status;
            }
        }
        at += size + 1;
    }
    return cell == count ? weft_trace_build_add(b, &r, message)
                         : weft_fail(message, WEFT_INVALID, "%zu values for %zu columns", cell, count);
}

/* ---- binary ---- */

/* Bytes of a column in a record. */
static size_t width_of(int column) {
    static const size_t widths[] = {4, 4, 4, 4, 2, 8, 4, 1, 8, 8, 8};
    return widths[column];
}

static void read_binary(const unsigned char *bytes, const int *columns, size_t count, weft_trace_record *r) {
    for (size_t i = 0; i < count; i++) {
        const int column = columns[i];
        uint64_t bits = 0;
        for (size_t k = 0; k < width_of(column); k++) { /* the lowest byte first, on every host */
            bits |= (uint64_t)bytes[k] << (8 * k);
        }
        bytes += width_of(column);
        if (column >= WEFT_TRACE_TIME) {
            memcpy(&r->real[column - WEFT_TRACE_TIME], &bits, sizeof bits);
        } else {
            r->number[column] = column == WEFT_TRACE_STEP ? (int32_t)(uint32_t)bits : (int64_t)bits;
        }
    }
}

static weft_status read_records(weft_trace_builder *b, input *in, const int *columns, size_t count, weft_message *message) {
    size_t size = 0;
    weft_trace_record r;
    memset(&r, 0, sizeof r);
    for (size_t i = 0; i < count; i++) {
        size += width_of(columns[i]);
    }
    for (in->line = 1; in->left >= size || refill(in); in->line++) {
        if (in->left < size) {
            in->line--;
            continue;
        }
        weft_message what = {""};
        read_binary((const unsigned char *)in->data, columns, count, &r);
        in->data += size;
        in->left -= size;
        const int64_t tensor = r.number[WEFT_TRACE_TENSOR];
        const weft_status status =
            (size_t)tensor < b->blocks.tensors
                ? weft_trace_build_add(b, &r, &what)
                : weft_fail(&what, WEFT_INVALID, "tensor %lld: there are %zu", (long long)tensor, b->blocks.tensors);
        if (status) {
            return weft_fail(message, status, "%.*s: record %llu: %.110s", LABEL, in->label, (unsigned long long)in->line,
                             what.text);
        }
    }
    return in->left == 0 ? WEFT_OK
                         : weft_fail(message, WEFT_INVALID, "%.*s: record %llu: the file ends in the middle of it", LABEL,
                                     in->label, (unsigned long long)in->line);
}

/* ---- both ---- */

/* The lines up to the one that names the columns; comments among them. */
static weft_status read_head(weft_trace_builder *b, input *in, int *columns, size_t *count, int *binary,
                             weft_message *message) {
    const char *line;
    size_t length;
    int got, is_binary = 0;
    weft_message what = {""};
    weft_status status = WEFT_OK;
    *binary = 0;
    while ((got = next_line(in, &line, &length)) > 0 && status == WEFT_OK) {
        if (length > 0 && line[0] == '#') {
            status = weft_trace_head(b, line, length, &is_binary, &what);
            *binary |= is_binary;
        } else if (length > 0) {
            status = weft_trace_names(b, line, length, columns, count, &what);
            break;
        }
    }
    if (status == WEFT_OK && got <= 0) {
        status = weft_fail(&what, WEFT_INVALID, got < 0 ? "the line is too long" : "there is no line of column names");
    }
    if (status == WEFT_OK && *binary && b->blocks.tensors == 0) {
        status = weft_fail(&what, WEFT_INVALID, "a binary trace names its tensors in the first line: tensors=A,B");
    }
    return status ? say_where(in, status, &what, message) : WEFT_OK;
}

static weft_status read_lines(weft_trace_builder *b, input *in, const int *columns, size_t count, weft_message *message) {
    const char *line;
    size_t length;
    int got;
    weft_message what = {""};
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (got = next_line(in, &line, &length)) != 0) {
        if (got < 0) {
            status = weft_fail(&what, WEFT_INVALID, "the line is too long");
        } else if (length > 0 && line[0] != '#') {
            status = read_line(b, columns, count, line, length, &what);
        }
    }
    return status ? say_where(in, status, &what, message) : WEFT_OK;
}

/* The caller's options take the place of the file's. */
static void override(weft_trace_options *file, const weft_trace_options *given) {
    file->name = given->name;
    file->profile = given->profile ? given->profile : file->profile;
    file->workers = given->workers > 0 ? given->workers : file->workers;
    file->dispatch = given->dispatch != 0 ? given->dispatch : file->dispatch;
    file->cluster = given->cluster > 0 ? given->cluster : file->cluster;
    file->run = given->run > 0 ? given->run : file->run;
    if (given->rows > 0 || given->cols > 0) {
        file->rows = given->rows;
        file->cols = given->cols;
    }
    file->flops = given->flops > 0 ? given->flops : file->flops;
    file->step_seconds = given->step_seconds > 0 ? given->step_seconds : file->step_seconds;
}

static weft_status read_all(weft_trace **trace, input *in, const weft_trace_options *given, weft_message *message) {
    weft_trace_builder b;
    int columns[WEFT_TRACE_COLUMNS], binary;
    size_t count = 0;
    weft_message what = {""};
    memset(&b, 0, sizeof b);
    weft_status status = read_head(&b, in, columns, &count, &binary, message);
    if (status == WEFT_OK) {
        status = binary ? read_records(&b, in, columns, count, message) : read_lines(&b, in, columns, count, message);
    }
    if (in->failed) {
        status = weft_fail(message, WEFT_IO, "%.*s: %s", LABEL, in->label, strerror(errno));
    }
    if (status == WEFT_OK) {
        override(&b.options, given);
        status = given->dispatch != 0 ? weft_trace_build_start(&b, &what) : WEFT_OK;
        status = status ? status : weft_trace_build_end(&b, in->label, trace, &what);
        if (status) {
            weft_fail(message, status, "%.*s: %.120s", LABEL, in->label, what.text);
        }
    }
    weft_trace_build_release(&b);
    return status;
}

weft_status weft_trace_options_read(weft_trace_options *o, const weft_trace_options *given, weft_message *message) {
    const weft_trace_options init = WEFT_TRACE_INIT;
    *o = init;
    const weft_status status = weft_struct_take_options(o, sizeof *o, given, "WEFT_TRACE_INIT", message);
    if (status) {
        return status;
    }
    if (o->dispatch < 0 || o->dispatch > WEFT_DISPATCHES || !(o->step_seconds >= 0 && o->step_seconds <= 1e6)) {
        return weft_fail(message, WEFT_INVALID, "dispatch %d is not known, or step_seconds %g is not between 0 and 1e6",
                         o->dispatch, o->step_seconds);
    }
    return WEFT_OK;
}

weft_status weft_trace_parse(weft_trace **trace, const void *data, size_t size, const char *label,
                             const weft_trace_options *options, weft_message *message) {
    weft_trace_options o;
    *trace = NULL;
    const weft_status status = weft_trace_options_read(&o, options, message);
    input in = {.data = data, .left = size, .label = label};
    return status ? status : read_all(trace, &in, &o, message);
}

weft_status weft_trace_read(weft_trace **trace, const char *path, const weft_trace_options *options,
                            weft_message *message) {
    weft_trace_options o;
    *trace = NULL;
    weft_status status = weft_trace_options_read(&o, options, message);
    if (status) {
        return status;
    }
    const int standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char *buffer = malloc(BUFFER);
    if (!file) {
        status = weft_fail(message, WEFT_IO, "%.180s: %s", path, strerror(errno));
    } else if (!buffer) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory to read a trace");
    } else {
        struct stat about;
        input in = {.file = file, .buffer = buffer, .data = buffer, .label = standard ? "standard input" : path};
        in.progress = o.progress;
        in.progress_user = o.progress_user;
        in.size = fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode) ? (int64_t)about.st_size : 0;
        status = read_all(trace, &in, &o, message);
    }
    free(buffer);
    if (file && !standard) {
        fclose(file);
    }
    return status;
}
