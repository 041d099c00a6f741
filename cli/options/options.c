/* Reading options. */
#include "options/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int fail(weft_message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(weft_message *message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message->text, sizeof message->text, format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

static int read_number(const option *o, const char *text, int64_t *value, weft_message *message) {
    if (!options_read_integer(text, value)) {
        return fail(message, "--%s %.60s is not a whole number that fits (4096, 128K)", o->name, text);
    }
    if (o->type != OPTION_INTEGER && *value < 1) {
        return fail(message, "--%s %.60s is not at least 1", o->name, text);
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
        return fail(message, "--%s %.60s is not a shape like %s", o->name, text,
                    o->number == 3 ? "128x64 or 128x64x32" : "2x1");
    }
    memcpy(sides, read, (size_t)o->number * sizeof *sides);
    return EXIT_OK;
}

static int read_choice(const option *o, const char *text, int32_t *value, weft_message *message) {
    char list[176] = "";
    size_t used = 0;
    for (int32_t i = 0; o->choice(i); i++) {
        if (strcmp(text, o->choice(i)) == 0) {
            *value = i + o->number;
            return EXIT_OK;
        }
        const char *before = i == 0 ? "" : o->choice(i + 1) ? ", " : " or ";
        const int wrote = snprintf(list + used, sizeof list - used, "%s%s", before, o->choice(i));
        used = wrote > 0 && used + (size_t)wrote < sizeof list ? used + (size_t)wrote : sizeof list - 1;
    }
    const char *near = options_nearest(text, o->choice);
    return near ? fail(message, "--%s %.60s is not known: did you mean %s?", o->name, text, near)
                : fail(message, "--%s %.40s is not supported: choose %s", o->name, text, list);
}

static int read_real(const option *o, const char *text, double *value, weft_message *message) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || isspace((unsigned char)*text)) {
        return fail(message, "--%s %.60s is not a finite number", o->name, text);
    }
    return EXIT_OK;
}

static int read_value(const option *o, settings *s, const char *text, weft_message *message) {
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
    case OPTION_CHOICE:
        return read_choice(o, text, place, message);
    case OPTION_SHAPE:
        return read_shape(o, text, place, message);
    }
    return EXIT_USAGE;
}

/* Letters to change, add or drop to get from a to b, for short words. */
static size_t distance(const char *a, const char *b) {
    size_t row[40];
    const size_t length = strlen(b);
    if (length >= sizeof row / sizeof *row || strlen(a) >= sizeof row / sizeof *row) {
        return sizeof row;
    }
    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            const size_t replace = diagonal + (a[i] != b[j]);
            const size_t shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replace < shorter ? replace : shorter;
        }
    }
    return row[length];
}

const char *options_nearest(const char *name, const char *(*next)(int32_t i)) {
    const char *best = NULL;
    size_t least = 3; /* two letters off at most, and fewer than half: fp8 is no mistyped fp32 */
    for (int32_t i = 0; next(i); i++) {
        const size_t d = distance(name, next(i));
        if (d < least && 2 * d < strlen(name)) {
            least = d;
            best = next(i);
        }
    }
    return best;
}

static const char *option_name(int32_t i) {
    const option *o = option_at((size_t)i);
    return o ? o->name : NULL;
}

/* Options that a letter stands for. */
static const struct {
    char letter;
    const char *name;
} letters[] = {{'h', "help"}, {'o', "output"}};

char options_letter(const option *o) {
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (strcmp(letters[i].name, o->name) == 0) {
            return letters[i].letter;
        }
    }
    return 0;
}

static const option *find_letter(const char *word) {
    const option *o;
    for (size_t i = 0; (o = option_at(i)) && strlen(word) == 1; i++) {
        if (options_letter(o) == *word) {
            return o;
        }
    }
    return NULL;
}

int options_parse(settings *s, int sets, uint32_t operations, int count_in, char *const *arguments, const char **words,
                  size_t room, size_t *count, weft_message *message) {
    *count = 0;
    for (int i = 0; i < count_in; i++) {
        const char *argument = arguments[i];
        const int is_letter = argument[0] == '-' && argument[1] != '-' && argument[1] != '\0';
        if (!is_letter && strncmp(argument, "--", 2) != 0) {
            if (*count == room) {
                return fail(message, "%.60s: nothing more is expected here", argument);
            }
            words[(*count)++] = argument;
            continue;
        }
        const char *name = argument + 2 - is_letter, *equals = is_letter ? NULL : strchr(name, '=');
        const size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const option *o = is_letter ? find_letter(name) : option_find(name, length);
        if (!o && is_letter) {
            return fail(message, "unknown option %.40s: --help lists them", argument);
        }
        if (!o) {
            char copy[40];
            snprintf(copy, sizeof copy, "%.*s", (int)(length < 39 ? length : 39), name);
            const char *near = options_nearest(copy, option_name);
            return near ? fail(message, "unknown option --%s: did you mean --%s?", copy, near)
                        : fail(message, "unknown option --%s: --help lists them", copy);
        }
        if ((o->sets & sets) == 0 || (option_number(o) >= 0 && (option_operations(o) & operations) == 0)) {
            return fail(message, "--%s does not apply here: --help lists what does", o->name);
        }
        if (o->type == OPTION_FLAG && equals) {
            return fail(message, "--%s takes no value", o->name);
        }
        const char *value = equals ? equals + 1 : NULL;
        if (o->type != OPTION_FLAG && !equals) {
            if (i + 1 == count_in) {
                return fail(message, "--%s needs a value: %s", o->name, o->argument);
            }
            value = arguments[++i];
        }
        const int status = read_value(o, s, value, message);
        if (status) {
            return status;
        }
    }
    return EXIT_OK;
}
