/* SPDX-License-Identifier: Apache-2.0 */
/* The options of problems, made of the fields that the library describes. */
#include <stdio.h>
#include <string.h>

#include "options/options.h"

/* The list, made when it is first asked for; the command has one thread then. */
static option list[PROBLEM_OPTIONS];
static struct {
    char name[OPTION_NAME];
    uint32_t operations;
    int32_t selects;
} of[PROBLEM_OPTIONS];
static size_t count;

int option_number(const option *o) {
    for (size_t i = 0; i < count; i++) {
        if (o == &list[i]) {
            return (int)i;
        }
    }
    return -1;
}

uint32_t option_operations(const option *o) {
    const int number = option_number(o);
    return number >= 0 ? of[number].operations : 0;
}

void option_spell(const char *field, char name[OPTION_NAME]) {
    snprintf(name, OPTION_NAME, "%s", field);
    for (char *c = strchr(name, '_'); c; c = strchr(c, '_')) {
        *c = '-';
    }
}

int32_t operation_base(int32_t operation) {
    const weft_operation_info *info = weft_operation_describe(operation);
    const char *dash = info ? strrchr(info->name, '-') : NULL;
    char name[OPTION_NAME];
    if (!dash || (size_t)(dash - info->name) >= sizeof name) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(dash - info->name), info->name);
    return weft_operation_find(name);
}

uint32_t operation_bits(int32_t operation) {
    uint32_t bits = 0;
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        bits |= !operation || i == operation || operation_base(i) == operation ? UINT32_C(1) << i : 0;
    }
    return bits;
}

/* The number of the option of that name, of an operation; made where there is none yet. -1 when there are too many. */
static int take(const char *name, int32_t operation) {
    size_t i = 0;
    while (i < count && strcmp(list[i].name, name) != 0) {
        i++;
    }
    if (i == PROBLEM_OPTIONS) {
        return -1;
    }
    if (i == count) {
        snprintf(of[i].name, OPTION_NAME, "%s", name);
        list[i] = (option){.name = of[i].name, .sets = SET_PROBLEM, .argument = ""};
        count++;
    }
    of[i].operations |= UINT32_C(1) << operation;
    return (int)i;
}

static void add_field(const weft_field *field, int32_t operation) {
    static const option_type types[] = {
        [WEFT_FIELD_INTEGER] = OPTION_INTEGER, [WEFT_FIELD_REAL] = OPTION_REAL,     [WEFT_FIELD_CHOICE] = OPTION_CHOICE,
        [WEFT_FIELD_FLAG] = OPTION_FLAG,       [WEFT_FIELD_PAIR] = OPTION_PAIR,     [WEFT_FIELD_BIT] = OPTION_FLAG,
        [WEFT_FIELD_STARTS] = OPTION_LENGTHS,  [WEFT_FIELD_COUNTS] = OPTION_LENGTHS};
    static const char *const arguments[] = {
        [WEFT_FIELD_INTEGER] = "N",      [WEFT_FIELD_REAL] = "X",        [WEFT_FIELD_CHOICE] = "NAME",
        [WEFT_FIELD_FLAG] = "",          [WEFT_FIELD_PAIR] = "N,N",      [WEFT_FIELD_BIT] = "",
        [WEFT_FIELD_STARTS] = "N,N,...", [WEFT_FIELD_COUNTS] = "N,N,..."};
    char name[OPTION_NAME];
    option_spell(field->name, name);
    const int number = take(name, operation);
    if (number >= 0) {
        list[number].type = types[field->type];
        list[number].argument = arguments[field->type];
        list[number].text = field->text;
        list[number].choice = field->choice;
    }
}

/* An operation "x-y" is what --y makes of x. */
static void add_variant(int32_t operation, int32_t base) {
    const weft_operation_info *info = weft_operation_describe(operation);
    const int number = take(strrchr(info->name, '-') + 1, base);
    if (number >= 0) {
        list[number].type = OPTION_FLAG;
        list[number].text = info->text;
        of[number].selects = operation;
    }
}

static void make_list(void) {
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        const weft_operation_info *info = weft_operation_describe(i);
        for (size_t k = 0; k < info->field_count; k++) {
            add_field(&info->fields[k], i);
        }
    }
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        if (operation_base(i)) {
            add_variant(i, operation_base(i));
        }
    }
}

const option *option_at(size_t number) {
    if (count == 0) {
        make_list();
    }
    if (number < count) {
        return &list[number];
    }
    const option *own = &option_table[0];
    for (size_t i = count; own->name && i < number; i++) {
        own++;
    }
    return own->name ? own : NULL;
}

const weft_field *option_field(const option *o, int32_t operation) {
    const weft_operation_info *info = weft_operation_describe(operation);
    for (size_t i = 0; info && i < info->field_count; i++) {
        char name[OPTION_NAME];
        option_spell(info->fields[i].name, name);
        if (strcmp(name, o->name) == 0) {
            return &info->fields[i];
        }
    }
    return NULL;
}

const option *option_find(const char *name, size_t length) {
    const option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) {
            return o;
        }
    }
    return NULL;
}

void settings_give(settings *s, const char *name, option_value value) {
    const option *o = option_find(name, strlen(name));
    const int number = o ? option_number(o) : -1;
    if (number >= 0) {
        s->value[number] = value;
        s->given |= UINT64_C(1) << number;
    }
}

int32_t operation_made(const settings *s, int32_t operation) {
    for (size_t i = 0; i < count; i++) {
        if (s->given >> i & 1 && of[i].selects && operation_base(of[i].selects) == operation) {
            return of[i].selects;
        }
    }
    return operation;
}
