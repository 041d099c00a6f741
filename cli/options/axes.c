/* SPDX-License-Identifier: Apache-2.0 */
#include "options/axes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/machine.h>

static int fail_memory(weft_message *message) {
    (void)option_fail(message, "out of memory");
    return EXIT_FAILED;
}

static int is_number(const option *o) {
    return o->type == OPTION_INTEGER || o->type == OPTION_COUNT;
}

int axes_is_list(const option *o, const char *text) {
    if (o->type == OPTION_MACHINE) { /* a file's name may hold a comma */
        return strcmp(text, "all") == 0 || (strchr(text, ',') && access(text, F_OK) != 0);
    }
    const int is_one = o->type == OPTION_WORD || o->type == OPTION_PAIR || o->type == OPTION_LENGTHS;
    return !is_one && (strchr(text, ',') || (is_number(o) && strchr(text, ':')));
}

/* ---- reading ---- */

/* An axis that grows; `scratch` takes the values, to see whether they are right. */
typedef struct reader {
    axis *axis;
    settings *scratch;
    const char *text; /* the whole list */
    weft_message *message;
} reader;

static int add(reader *r, const char *value) {
    axis *a = r->axis;
    if (a->count == AXES_POINTS) {
        return option_fail(r->message, "--%s %.60s has more than %d values", a->option->name, r->text, AXES_POINTS);
    }
    char **grown = a->count % 64 ? a->values : realloc(a->values, (a->count + 64) * sizeof *grown);
    a->values = grown ? grown : a->values;
    char *copy = grown ? malloc(strlen(value) + 1) : NULL;
    if (!copy) {
        return fail_memory(r->message);
    }
    memcpy(copy, value, strlen(value) + 1);
    a->values[a->count++] = copy;
    return option_read(a->option, r->scratch, copy, r->message);
}

static int add_number(reader *r, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return add(r, text);
}

/* FIRST:LAST:STEP, cut at its colons. STEP is added, or with an x before it multiplied by. */
static int add_range(reader *r, const char *item, const char *first_text, const char *last_text, const char *step_text) {
    const char *name = r->axis->option->name;
    const int times = step_text[0] == 'x';
    int64_t first, last, step;
    if (!options_read_integer(first_text, &first) || !options_read_integer(last_text, &last) ||
        !options_read_integer(step_text + times, &step)) {
        return option_fail(r->message, "--%s %.60s is not a range like 1K:8K:1K or 4K:64K:x2", name, item);
    }
    if (first > last) {
        return option_fail(r->message, "--%s %.60s is empty: its first value is above its last", name, item);
    }
    if (step < 1 + times) {
        return option_fail(r->message, "--%s %.60s never ends: its step is not at least %s", name, item,
                           times ? "x2" : "1");
    }
    if (times && first < 1) {
        return option_fail(r->message, "--%s %.60s never ends: what is multiplied is not at least 1", name, item);
    }
    const uint64_t more = times ? 0 : ((uint64_t)last - (uint64_t)first) / (uint64_t)step; /* than the first */
    if (more >= AXES_POINTS) {
        return option_fail(r->message, "--%s %.60s has %.0f values: at most %d", name, item, (double)more + 1, AXES_POINTS);
    }
    int64_t value = first;
    do {
        const int status = add_number(r, value);
        if (status) {
            return status;
        }
    } while (!(times ? __builtin_mul_overflow(value, step, &value) : __builtin_add_overflow(value, step, &value)) &&
             value <= last);
    return EXIT_OK;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Refuses a value that is there twice. */
static int check_values(const reader *r) {
    const axis *a = r->axis;
    char **sorted = malloc(a->count * sizeof *sorted);
    if (!sorted) {
        return fail_memory(r->message);
    }
    memcpy(sorted, a->values, a->count * sizeof *sorted);
    qsort(sorted, a->count, sizeof *sorted, compare_texts);
    const char *twice = NULL;
    for (size_t i = 1; i < a->count; i++) {
        twice = strcmp(sorted[i - 1], sorted[i]) == 0 ? sorted[i] : twice;
    }
    free(sorted);
    return twice ? option_fail(r->message, "--%s %.60s has %.60s twice", a->option->name, r->text, twice) : EXIT_OK;
}

/* One item of a list; `item` is cut in place. */
static int add_item(reader *r, char *item) {
    const option *o = r->axis->option;
    int64_t number;
    if (!*item) {
        return option_fail(r->message, "--%s %.60s has an empty value", o->name, r->text);
    }
    if (o->type == OPTION_MACHINE) {
        const int status = option_read(o, r->scratch, item, r->message);
        return status ? status : add(r, r->scratch->machine);
    }
    if (!is_number(o)) {
        return add(r, item);
    }
    char whole[64];
    snprintf(whole, sizeof whole, "%.63s", item);
    char *last = strchr(item, ':'), *step = last ? strchr(last + 1, ':') : NULL;
    if (step) {
        *last++ = *step++ = '\0';
        return add_range(r, whole, item, last, step);
    }
    if (last) {
        return option_fail(r->message, "--%s %.60s has no step: write %.40s:1K or %.40s:x2", o->name, whole, whole, whole);
    }
    return options_read_integer(item, &number) ? add_number(r, number) : option_read(o, r->scratch, item, r->message);
}

static int add_all_machines(reader *r) {
    int status = EXIT_OK;
    for (size_t i = 0; weft_machine_name(i) && status == EXIT_OK; i++) {
        status = add(r, weft_machine_name(i));
    }
    return status;
}

static void release(axis *a) {
    for (size_t i = 0; i < a->count; i++) {
        free(a->values[i]);
    }
    free(a->values);
}

int axes_read(settings *s, const option *o, const char *text, weft_message *message) {
    axes *all = s->axes;
    settings scratch = *s;
    if (all->count == AXES) {
        return option_fail(message, "--%s: more than %d options have several values", o->name, AXES);
    }
    axis *a = &all->list[all->count++];
    *a = (axis){o, NULL, 0};
    reader r = {a, &scratch, text, message};
    if (o->type == OPTION_MACHINE && strcmp(text, "all") == 0) {
        const int status = add_all_machines(&r);
        return status ? status : option_read(o, s, a->values[0], message);
    }
    char *copy = malloc(strlen(text) + 1);
    if (!copy) {
        return fail_memory(message);
    }
    memcpy(copy, text, strlen(text) + 1);
    int status = EXIT_OK;
    for (char *rest = copy; rest && status == EXIT_OK;) {
        char *item = rest;
        rest = strchr(rest, ',');
        if (rest) {
            *rest++ = '\0';
        }
        status = add_item(&r, item);
    }
    free(copy);
    status = status ? status : check_values(&r);
    return status ? status : option_read(o, s, a->values[0], message);
}

void axes_drop(axes *all, const option *o) {
    for (size_t i = 0; all && i < all->count; i++) {
        if (all->list[i].option == o) {
            release(&all->list[i]);
            all->count--;
            memmove(&all->list[i], &all->list[i + 1], (all->count - i) * sizeof *all->list);
            return;
        }
    }
}

int axes_check(const axes *all, weft_message *message) {
    double points = 1;
    for (size_t i = 0; all && i < all->count; i++) {
        points *= (double)all->list[i].count;
    }
    return points > AXES_POINTS
               ? option_fail(message, "the parameter sweep has %.0f points: at most %d", points, AXES_POINTS)
               : EXIT_OK;
}

/* ---- points ---- */

size_t axes_points(const axes *all) {
    size_t points = 1;
    for (size_t i = 0; i < all->count; i++) {
        points *= all->list[i].count;
    }
    return points;
}

const char *axes_value(const axes *all, size_t axis, size_t point) {
    for (size_t i = all->count - 1; i > axis; i--) {
        point /= all->list[i].count;
    }
    return all->list[axis].values[point % all->list[axis].count];
}

settings axes_settings(const axes *all, const settings *s, size_t point) {
    settings at = *s;
    for (size_t i = 0; i < all->count; i++) {
        weft_message unused;
        (void)option_read(all->list[i].option, &at, axes_value(all, i, point), &unused); /* it was right before */
    }
    return at;
}

void axes_name(const axes *all, size_t point, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s %s", i ? ", " : "", all->list[i].option->name,
                                 axes_value(all, i, point));
    }
}

void axes_release(axes *all) {
    for (size_t i = 0; i < all->count; i++) {
        release(&all->list[i]);
    }
    all->count = 0;
}
