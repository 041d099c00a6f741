/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/tune.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/custom.h"

static const char *order_name(int32_t code) {
    const weft_order_info *info = weft_order_describe(code);
    return info ? info->name : NULL;
}
static const char *sweep_name(int32_t code) {
    const weft_name *info = weft_sweep_describe(code);
    return info ? info->name : NULL;
}
static const char *dispatch_name(int32_t code) {
    const weft_name *info = weft_dispatch_describe(code);
    return info ? info->name : NULL;
}

static const char *axis_name(int32_t code) {
    return code == WEFT_AXIS_N ? "n" : code == WEFT_AXIS_M ? "m" : NULL;
}
static weft_axis axis_find(const char *name) {
    return strcmp(name, "n") == 0 ? WEFT_AXIS_N : strcmp(name, "m") == 0 ? WEFT_AXIS_M : WEFT_AXIS_CHOOSE;
}

/* Adds a word to the text; what has no room is cut, which WEFT_WORDS rules out. */
static void add(char *text, const char *field, const char *value) {
    const size_t used = strlen(text);
    snprintf(text + used, WEFT_WORDS - used, "%s%s=%s", used ? " " : "", field, value);
}

void weft_schedule_write(const weft_schedule *schedule, char text[WEFT_WORDS]) {
    char number[24];
    text[0] = '\0';
#define WEFT_SCHEDULE_NUMBER(field)                                                                                        \
    if (schedule->field != 0) {                                                                                            \
        snprintf(number, sizeof number, "%" PRId64, (int64_t)schedule->field);                                             \
        add(text, #field, number);                                                                                         \
    }
#define WEFT_SCHEDULE_CODE(field, find, name)                                                                              \
    if (name((int32_t)schedule->field)) {                                                                                  \
        add(text, #field, name((int32_t)schedule->field));                                                                 \
    }
#include "plan/schedule_fields.def"
}

/* Reads a whole number between 0 and the largest dimension. */
static int read_number(const char *text, int64_t *value) {
    char *end;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    return end != text && *end == '\0' && number >= 0 && number <= WEFT_MAX_DIMENSION;
}

/* Sets one field; returns 0 when there is no such field or value. */
static int set(weft_schedule *s, const char *field, const char *value) {
    int64_t number;
#define WEFT_SCHEDULE_NUMBER(name)                                                                                         \
    if (strcmp(field, #name) == 0) {                                                                                       \
        if (!read_number(value, &number)) {                                                                                \
            return 0;                                                                                                      \
        }                                                                                                                  \
        s->name = (__typeof__(s->name))number;                                                                             \
        return 1;                                                                                                          \
    }
#define WEFT_SCHEDULE_CODE(name, find, describe)                                                                           \
    if (strcmp(field, #name) == 0) {                                                                                       \
        s->name = find(value);                                                                                             \
        return s->name != 0;                                                                                               \
    }
#include "plan/schedule_fields.def"
    return 0;
}

weft_status weft_schedule_read(weft_schedule *schedule, const char *text, weft_message *message) {
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    weft_schedule read = open;
    char copy[WEFT_WORDS], *rest = copy;
    *schedule = open; /* what is refused leaves nothing set */
    if (strlen(text) >= sizeof copy) {
        return weft_fail(message, WEFT_INVALID, "a schedule of %zu letters is too long", strlen(text));
    }
    memcpy(copy, text, strlen(text) + 1);
    while (*rest) {
        char *word = rest, *end = strchr(rest, ' ');
        rest = end ? end + 1 : rest + strlen(rest);
        if (end) {
            *end = '\0';
        }
        char *value = strchr(word, '=');
        if (value) {
            *value++ = '\0';
        }
        if (!value || !set(&read, word, value)) {
            return weft_fail(message, WEFT_INVALID, "a schedule has no %.40s=%.40s", word, value ? value : "");
        }
    }
    *schedule = read;
    return WEFT_OK;
}

int weft_schedule_same(const weft_schedule *a, const weft_schedule *b) {
    int same = 1;
#define WEFT_SCHEDULE_NUMBER(field)           same &= a->field == b->field;
#define WEFT_SCHEDULE_CODE(field, find, name) same &= a->field == b->field;
#include "plan/schedule_fields.def"
    return same && weft_custom_same(a, b);
}
