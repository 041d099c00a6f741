/* SPDX-License-Identifier: Apache-2.0 */
#include "options/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* "group-12": the name of an order that takes a group, and the group. */
static int read_group(const char *word, settings *s) {
    const char *dash = strrchr(word, '-');
    char name[40];
    int64_t group;
    if (!dash || (size_t)(dash - word) >= sizeof name || !options_read_integer(dash + 1, &group) || group < 1) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(dash - word), word);
    const int32_t order = weft_order_find(name);
    if (order == 0 || !(weft_order_describe(order)->parameter & WEFT_PARAMETER_GROUP)) {
        return 0;
    }
    s->order = order;
    s->group = group;
    return 1;
}

static int read_word(const char *word, settings *s) {
    const int32_t order = weft_order_find(word), sweep = weft_sweep_find(word), dispatch = weft_dispatch_find(word);
    if (order == 0 && sweep == 0 && dispatch == 0) {
        return read_group(word, s);
    }
    s->order = order > 0 ? order : s->order;
    s->sweep = sweep > 0 ? sweep : s->sweep;
    s->dispatch = dispatch > 0 ? dispatch : s->dispatch;
    return 1;
}

/* Reads "a+b,c,..." in place. */
static int read_list(const settings *s, char *text, settings *list, size_t room, size_t *count) {
    char *rest = text;
    while (rest) {
        char *item = rest;
        rest = strchr(rest, ',');
        if (rest) {
            *rest++ = '\0';
        }
        if (*count == room) {
            return complain(EXIT_USAGE, "--schedules names more than %zu", room);
        }
        settings *one = &list[(*count)++];
        *one = *s;
        while (item) {
            char *word = item;
            item = strchr(item, '+');
            if (item) {
                *item++ = '\0';
            }
            if (!read_word(word, one)) {
                return complain(EXIT_USAGE, "--schedules: '%.40s' is no order, sweep or dispatch: 'weft orders' lists them",
                                word);
            }
        }
    }
    return EXIT_OK;
}

/* What tells most about a machine, where the user has left it open; null where nothing is open. */
static weft_status default_list(const settings *s, const char **names, weft_message *message) {
    weft_machine machine = WEFT_MACHINE_INIT;
    const int is_order_open = s->order == 0 && !s->order_file;
    if (weft_operation_describe(s->operation)->grid == WEFT_GRID_MATRIX) {
        *names = is_order_open ? "raster-n,group,hilbert" : NULL;
        return WEFT_OK;
    }
    const weft_status status = s->machine ? weft_machine_load(&machine, s->machine, message) : WEFT_OK;
    *names = is_order_open && machine.domains > 1 ? "block-first,head-first-swizzled"
             : s->sweep == 0                      ? "forward,sawtooth"
                                                  : NULL;
    return status;
}

int schedules_read(const settings *s, settings *list, size_t room, size_t *count) {
    const char *names = s->schedules;
    weft_message message = {""};
    const weft_status status = names ? WEFT_OK : default_list(s, &names, &message);
    *count = 0;
    if (status) {
        return complain_status(status, &message);
    }
    if (!names) {
        list[(*count)++] = *s;
        return EXIT_OK;
    }
    char *copy = malloc(strlen(names) + 1);
    if (!copy) {
        return complain(EXIT_FAILED, "out of memory");
    }
    memcpy(copy, names, strlen(names) + 1);
    const int code = read_list(s, copy, list, room, count);
    free(copy);
    return code;
}

/* Reads a file, or standard input for "-", to its end: null, having complained, when it cannot. The caller frees it. */
static char *read_all(const char *path, size_t *length) {
    enum { MOST = 1 << 22 };
    const int is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "rb");
    char *text = malloc(MOST + 1);
    const char *wrong = !text ? "out of memory" : !file ? "it cannot be opened" : NULL;
    if (!wrong) {
        *length = fread(text, 1, MOST + 1, file);
        wrong = ferror(file) ? "it cannot be read" : *length > MOST ? "it is too long for a schedule" : NULL;
    }
    if (file && !is_input) {
        fclose(file);
    }
    if (wrong) {
        complain(EXIT_FAILED, "--schedule %.120s: %s", path, wrong);
        free(text);
    }
    return wrong ? NULL : text;
}

static void fill(int64_t *open, int64_t value) {
    *open = *open == 0 ? value : *open;
}

static void fill_code(int32_t *open, int32_t value) {
    *open = *open == 0 ? value : *open;
}

int schedule_take(settings *s) {
    if (!s->schedule) {
        return EXIT_OK;
    }
    weft_schedule read = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    size_t length = 0;
    char *text = read_all(s->schedule, &length);
    if (!text) {
        return EXIT_FAILED;
    }
    const weft_status status = weft_schedule_from_json(
        &read, text, length, strcmp(s->schedule, "-") == 0 ? "standard input" : s->schedule, &message);
    free(text);
    if (status) {
        return complain_status(status, &message);
    }
    const int is_open = s->order == 0 && (!s->order_file || read.order == WEFT_ORDER_CUSTOM);
    if (is_open || s->order == read.order) { /* what belongs to its order */
        fill(&s->group, read.group);
        fill_code(&s->axis, (int32_t)read.axis);
        fill(&s->domains, read.domains);
        s->table |= read.table;
        s->order_table = read.order_table;
        s->order_count = read.order_count;
        s->order_hash = read.order_table ? 0 : read.order_hash; /* a file goes before a table */
        s->order = read.order;
    } else {
        free((void *)(uintptr_t)read.order_table);
    }
    if (s->tile[0] == 0) { /* and to its tile */
        s->tile[0] = read.tile_m;
        s->tile[1] = read.tile_n;
        s->tile[2] = read.tile_k;
    }
    fill_code(&s->sweep, read.sweep);
    fill_code(&s->dispatch, read.dispatch);
    fill(&s->workers, read.workers);
    fill(&s->cluster[0], read.cluster_m);
    fill(&s->cluster[1], read.cluster_n);
    fill(&s->split, read.split);
    return EXIT_OK;
}

void schedule_name(const weft_schedule *all, size_t count, size_t which, char *text, size_t size) {
    const weft_schedule *s = &all[which];
    int orders = count == 1, sweeps = count == 1, dispatches = 0;
    for (size_t i = 0; i < count; i++) {
        orders |= all[i].order != s->order || all[i].group != s->group;
        sweeps |= all[i].sweep != s->sweep;
        dispatches |= all[i].dispatch != s->dispatch;
    }
    char order[48] = "";
    if (orders || (!sweeps && !dispatches)) {
        const weft_order_info *info = weft_order_describe(s->order);
        snprintf(order, sizeof order, info->parameter & WEFT_PARAMETER_GROUP ? "%s-%lld" : "%s", info->name,
                 (long long)s->group);
    }
    snprintf(text, size, "%s%s%s%s%s", order, order[0] && sweeps ? " " : "",
             sweeps ? weft_sweep_describe(s->sweep)->name : "", (order[0] || sweeps) && dispatches ? " " : "",
             dispatches ? weft_dispatch_describe(s->dispatch)->name : "");
}
