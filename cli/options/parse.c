/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a command line. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "options/axes.h"

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
                return option_fail(message, "%.60s: nothing more is expected here", argument);
            }
            words[(*count)++] = argument;
            continue;
        }
        const char *name = argument + 2 - is_letter, *equals = is_letter ? NULL : strchr(name, '=');
        const size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const option *o = is_letter ? find_letter(name) : option_find(name, length);
        if (!o && is_letter) {
            return option_fail(message, "unknown option %.40s: --help lists them", argument);
        }
        if (!o) {
            char copy[40];
            snprintf(copy, sizeof copy, "%.*s", (int)(length < 39 ? length : 39), name);
            const char *near = weft_nearest(copy, option_name);
            return near ? option_fail(message, "unknown option --%s: did you mean --%s?", copy, near)
                        : option_fail(message, "unknown option --%s: --help lists them", copy);
        }
        if ((o->sets & sets) == 0 || (option_number(o) >= 0 && (option_operations(o) & operations) == 0)) {
            return option_fail(message, "--%s does not apply here: --help lists what does", o->name);
        }
        if (o->type == OPTION_FLAG && equals) {
            return option_fail(message, "--%s takes no value", o->name);
        }
        const char *value = equals ? equals + 1 : NULL;
        if (o->type != OPTION_FLAG && !equals) {
            if (i + 1 == count_in) {
                return option_fail(message, "--%s needs a value: %s", o->name, o->argument);
            }
            value = arguments[++i];
        }
        axes_drop(s->axes, o);
        const int several = o->type != OPTION_FLAG && axes_is_list(o, value);
        if (several && !s->axes) {
            return option_fail(
                message, "--%s %.60s: one value is expected here; lists and ranges are for simulate, compare and plan",
                o->name, value);
        }
        const int status = several ? axes_read(s, o, value, message) : option_read(o, s, value, message);
        if (status) {
            return status;
        }
    }
    return axes_check(s->axes, message);
}
