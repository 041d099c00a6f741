/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the values of options. */
#include "options/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/machine.h>

#include "base/names.h"
#include "base/nearest.h"

settings settings_none(void) {
    settings s;
    memset(&s, 0, sizeof s);
    for (const option *o = option_table; o->name; o++) {
        if (o->type == OPTION_CHOICE) {
            const int32_t none = o->number - 1;
            memcpy((char *)&s + o->offset, &none, sizeof none);
        }
    }
    s.seed = 1;
    s.drift = NAN;
    s.stages = -1;
    return s;
}

int options_read_integer(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE || isspace((unsigned char)*text)) {
        return 0;
    }
    int64_t unit = 1;
    switch (*end) {
    case 'k':
    case 'K':
        unit = INT64_C(1) << 10;
        break;
    case 'm':
    case 'M':
        unit = INT64_C(1) << 20;
        break;
    case 'g':
    case 'G':
        unit = INT64_C(1) << 30;
        break;
    default:
        break;
    }
    end += unit != 1;
    return *end == '\0' && !__builtin_mul_overflow((int64_t)number, unit, value);
}

int option_fail(weft_message *message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message->text, sizeof message->text, format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

static int read_number(const option *o, const char *text, int64_t *value, weft_message *message) {
    if (!options_read_integer(text, value)) {
        return option_fail(message, "--%s %.60s is not a whole number that fits (4096, 128K)", o->name, text);
    }
    if (o->type != OPTION_INTEGER && *value < 1) {
        return option_fail(message, "--%s %.60s is not at least 1", o->name, text);
    }
    return EXIT_OK;
}

static int read_shape(const option *o, const char *text, int64_t *sides, weft_message *message) {
    char copy[64];
    int64_t read[3] = {0, 0, 0};
    int count = 0;
    const size_t length = strlen(text);
    if (length < sizeof copy) {
        memcpy(copy, text, length + 1);
        char *rest = copy;
        while (rest && count < 3) {
            char *next = strchr(rest, 'x');
            if (next) {
                *next++ = '\0';
            }
            const int status = read_number(o, rest, &read[count++], message);
            if (status) {
                return status;
            }
            rest = next;
        }
        count += rest != NULL; /* too many */
    }
    if (count < 2 || count > o->number) {
        return option_fail(message, "--%s %.60s is not a shape like %s", o->name, text,
                           o->number == 3 ? "128x64 or 128x64x32" : "2x1");
    }
    memcpy(sides, read, (size_t)o->number * sizeof *sides);
    return EXIT_OK;
}

/* -1 stands for no limit. */
static int read_pair(const option *o, const char *text, int64_t *pair, weft_message *message) {
    char copy[64] = "";
    snprintf(copy, sizeof copy, "%s", text);
    char *comma = strchr(copy, ',');
    if (comma) {
        *comma++ = '\0';
    }
    if (strlen(text) >= sizeof copy || !comma || !options_read_integer(copy, &pair[0]) ||
        !options_read_integer(comma, &pair[1]) || pair[0] < -1 || pair[1] < -1) {
        return option_fail(message, "--%s %.60s is not two numbers of at least -1, like 4096,0", o->name, text);
    }
    return EXIT_OK;
}

const char *options_next_length(const char *text, int64_t *length) {
    char item[32] = "";
    const size_t letters = strcspn(text, ",");
    if (letters >= sizeof item) {
        return text;
    }
    memcpy(item, text, letters);
    if (!options_read_integer(item, length) || *length < 0 || *length > WEFT_MAX_DIMENSION) {
        return text;
    }
    return text[letters] ? text + letters + 1 : NULL;
}

/* A list of lengths that add up to a dimension. */
static int check_lengths(const option *o, const char *text, weft_message *message) {
    int64_t sum = 0;
    for (const char *rest = text; rest;) {
        int64_t length;
        const char *next = options_next_length(rest, &length);
        if (next == rest) {
            return option_fail(message, "--%s %.60s is not a list of lengths like 100,2K,0", o->name, text);
        }
        if ((sum += length) > WEFT_MAX_DIMENSION) {
            return option_fail(message, "--%s %.60s adds up to more than %lld", o->name, text,
                               (long long)WEFT_MAX_DIMENSION);
        }
        rest = next;
    }
    return EXIT_OK;
}

static int read_choice(const option *o, const char *text, int32_t *value, weft_message *message) {
    char list[176] = "";
    size_t used = 0;
    for (int32_t i = 0; o->choice(i); i++) {
        if (weft_names_agree(text, o->choice(i))) {
            *value = i + o->number;
            return EXIT_OK;
        }
        const char *before = i == 0 ? "" : o->choice(i + 1) ? ", " : " or ";
        const int wrote = snprintf(list + used, sizeof list - used, "%s%s", before, o->choice(i));
        used = wrote > 0 && used + (size_t)wrote < sizeof list ? used + (size_t)wrote : sizeof list - 1;
    }
    /* Next to fp4 is fp8, which is no better guess than the others. */
    const char *near = strncmp(text, "fp", 2) == 0 ? NULL : weft_nearest(text, o->choice);
    return near ? option_fail(message, "--%s %.60s is not known: did you mean %s?", o->name, text, near)
                : option_fail(message, "--%s %.40s is not supported: choose %s", o->name, text, list);
}

static int read_real(const option *o, const char *text, double *value, weft_message *message) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || isspace((unsigned char)*text)) {
        return option_fail(message, "--%s %.60s is not a finite number", o->name, text);
    }
    return EXIT_OK;
}

/* A built-in machine's name as the library spells it, in place of another case or an alias: H200 is h200. */
static const char *spell_machine(const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    const int known = !strchr(name, '/') && weft_machine_load(&machine, name, NULL) == WEFT_OK;
    for (size_t i = 0; known && weft_machine_name(i); i++) {
        if (strcmp(machine.name, weft_machine_name(i)) == 0) {
            return weft_machine_name(i);
        }
    }
    return known && strcmp(machine.name, "host") == 0 ? "host" : name;
}

int option_read(const option *o, settings *s, const char *text, weft_message *message) {
    const int number = option_number(o);
    void *place = number >= 0 ? (void *)&s->value[number] : (char *)s + o->offset;
    s->given |= number >= 0 ? UINT64_C(1) << number : 0;
    switch (o->type) {
    case OPTION_FLAG:
        *(int32_t *)place = 1;
        return EXIT_OK;
    case OPTION_INTEGER:
    case OPTION_COUNT:
        return read_number(o, text, place, message);
    case OPTION_REAL:
        return read_real(o, text, place, message);
    case OPTION_WORD:
        *(const char **)place = text;
        return EXIT_OK;
    case OPTION_MACHINE:
        *(const char **)place = spell_machine(text);
        return EXIT_OK;
    case OPTION_CHOICE:
        return read_choice(o, text, place, message);
    case OPTION_PAIR:
        return read_pair(o, text, place, message);
    case OPTION_LENGTHS:
        *(const char **)place = text;
        return check_lengths(o, text, message);
    case OPTION_SHAPE:
        return read_shape(o, text, place, message);
    }
    return EXIT_USAGE;
}
