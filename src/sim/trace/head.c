/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

int weft_trace_number(const char *text, size_t length, int64_t *number) {
    const int negative = length > 0 && text[0] == '-';
    uint64_t sum = 0;
    size_t i = (size_t)negative;
    if (i == length || length > 19) {
        return 0;
    }
    for (; i < length; i++) {
        const unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9) {
            return 0;
        }
        sum = 10 * sum + digit;
    }
    if (sum > INT64_MAX) {
        return 0;
    }
    *number = negative ? -(int64_t)sum : (int64_t)sum;
    return 1;
}

int weft_trace_real(const char *text, size_t length, double *real) {
    char copy[64], *end;
    if (length == 0 || length >= sizeof copy || text[0] <= ' ') {
        return 0;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    *real = strtod(copy, &end);
    return *end == '\0' && isfinite(*real);
}

static int is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* "A:64,B:128": tensors with their blocks; or "A,B" for those of a binary trace. */
static weft_status read_tensors(weft_trace_builder *b, const char *text, size_t length, weft_message *message) {
    const int declared = memchr(text, ':', length) != NULL;
    for (size_t at = 0; at <= length;) {
        const char *item = text + at, *comma = memchr(item, ',', length - at);
        const size_t size = comma ? (size_t)(comma - item) : length - at;
        const char *colon = memchr(item, ':', size);
        const size_t name = colon ? (size_t)(colon - item) : size, before = b->blocks.tensors;
        int64_t blocks = 0;
        if (declared && (!colon || !weft_trace_number(colon + 1, size - name - 1, &blocks) || blocks < 1)) {
            return weft_fail(message, WEFT_INVALID, "tensors: '%.*s' is not a name and its blocks, as A:64",
                             (int)(size < 60 ? size : 60), item);
        }
        b->blocks.declared = declared;
        const int64_t number = weft_trace_tensor(&b->blocks, item, name, blocks, message);
        if (number < 0) {
            return weft_trace_status(number);
        }
        if (b->blocks.tensors == before) {
            return weft_fail(message, WEFT_INVALID, "tensors: %.*s is there twice", (int)name, item);
        }
        at += size + 1;
    }
    return WEFT_OK;
}

static int read_grid(const char *text, size_t length, weft_trace_options *o) {
    const char *x = memchr(text, 'x', length);
    return x && weft_trace_number(text, (size_t)(x - text), &o->rows) &&
           weft_trace_number(x + 1, length - (size_t)(x - text) - 1, &o->cols) && o->rows > 0 && o->cols > 0;
}

static int read_dispatch(const char *text, size_t length, weft_trace_options *o) {
    for (int32_t i = 1; weft_dispatch_describe(i); i++) {
        if (is_word(text, length, weft_dispatch_describe(i)->name)) {
            o->dispatch = i;
            return 1;
        }
    }
    return 0;
}

/* A built-in one: a trace from elsewhere names no files here. */
static int read_profile(const char *text, size_t length, weft_trace_options *o) {
    for (size_t i = 0; weft_profile_name(i); i++) {
        if (is_word(text, length, weft_profile_name(i))) {
            o->profile = weft_profile_name(i);
            return 1;
        }
    }
    return 0;
}

/* One key=value. */
static weft_status read_key(weft_trace_builder *b, const char *key, size_t length, const char *value, size_t size,
                            weft_message *message) {
    weft_trace_options *o = &b->options;
    const struct {
        const char *name;
        int64_t *number;
    } numbers[] = {{"workers", &o->workers}, {"cluster", &o->cluster}, {"run", &o->run}};
    int fine = 0, known = 1;
    if (is_word(key, length, "tensors")) {
        return b->blocks.tensors > 0 ? weft_fail(message, WEFT_INVALID, "tensors is there twice")
                                     : read_tensors(b, value, size, message);
    }
    if (is_word(key, length, "profile")) {
        fine = read_profile(value, size, o);
    } else if (is_word(key, length, "grid")) {
        fine = read_grid(value, size, o);
    } else if (is_word(key, length, "dispatch")) {
        fine = read_dispatch(value, size, o);
    } else if (is_word(key, length, "flops")) {
        fine = weft_trace_real(value, size, &o->flops) && o->flops >= 0;
    } else if (is_word(key, length, "room") || is_word(key, length, "fetched")) {
        double *share = key[0] == 'r' ? &b->room : &b->fetched;
        fine = weft_trace_real(value, size, share) && *share > 0 && *share <= 1024;
    } else if (is_word(key, length, "step-seconds")) {
        fine = weft_trace_real(value, size, &o->step_seconds) && o->step_seconds >= 0;
    } else {
        known = 0;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !known; i++) {
            known = is_word(key, length, numbers[i].name);
            fine = known && weft_trace_number(value, size, numbers[i].number) && *numbers[i].number > 0 &&
                   *numbers[i].number <= WEFT_TRACE_WORKERS;
        }
    }
    return fine    ? WEFT_OK
           : known ? weft_fail(message, WEFT_INVALID, "%.*s=%.*s is no value for it", (int)length, key,
                               (int)(size < 60 ? size : 60), value)
                   : weft_fail(message, WEFT_INVALID,
                               "%.*s is not known: tensors, grid, workers, dispatch, cluster, run, flops, step-seconds, "
                               "profile, room "
                               "or fetched",
                               (int)(length < 60 ? length : 60), key);
}

weft_status weft_trace_head(weft_trace_builder *b, const char *line, size_t length, int *binary, weft_message *message) {
    static const char begin[] = "#weft trace";
    const size_t size = sizeof begin - 1;
    *binary = 0;
    if (length < size || memcmp(line, begin, size) != 0 || (length > size && line[size] != ' ')) {
        return WEFT_OK; /* a comment */
    }
    for (size_t at = size; at < length;) {
        if (line[at] == ' ') {
            at++;
            continue;
        }
        const char *word = line + at, *space = memchr(word, ' ', length - at);
        const size_t whole = space ? (size_t)(space - word) : length - at;
        const char *equals = memchr(word, '=', whole);
        if (is_word(word, whole, "binary")) {
            *binary = 1;
        } else if (!equals) {
            return weft_fail(message, WEFT_INVALID, "'%.*s' is not key=value", (int)(whole < 60 ? whole : 60), word);
        } else {
            const size_t key = (size_t)(equals - word);
            const weft_status status = read_key(b, word, key, equals + 1, whole - key - 1, message);
            if (status) {
                return status;
            }
        }
        at += whole;
    }
    return WEFT_OK;
}

weft_status weft_trace_names(weft_trace_builder *b, const char *line, size_t length, int *columns, size_t *count,
                             weft_message *message) {
    *count = 0;
    for (size_t at = 0; at <= length;) {
        const char *item = line + at, *comma = memchr(item, ',', length - at);
        const size_t size = comma ? (size_t)(comma - item) : length - at;
        int column = 0;
        while (weft_trace_column_name(column) && !is_word(item, size, weft_trace_column_name(column))) {
            column++;
        }
        if (column == WEFT_TRACE_COLUMNS) {
            return weft_fail(
                message, WEFT_INVALID,
                "'%.*s' is no column: worker, position, tile, step, tensor, block, bytes, op, time, spread, load",
                (int)(size < 40 ? size : 40), item);
        }
        if (b->has >> column & 1) {
            return weft_fail(message, WEFT_INVALID, "column %s is there twice", weft_trace_column_name(column));
        }
        b->has |= 1u << column;
        columns[(*count)++] = column;
        at += size + 1;
    }
    return weft_trace_build_start(b, message);
}
