/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as JSON objects, written and read: what weft plan and weft simulate print, and what --schedule takes. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "base/struct.h"
#include "order/table.h"
#include "plan/custom.h"
#include "plan/describe.h"

/* Entries of an order of the caller's that JSON has; a longer one is named by its hash alone. */
enum { LONGEST_TABLE = 1 << 16 };

/* An order of the caller's: what tells it from others, and the order itself, so that it can be taken back. */
static void write_table(const weft_schedule *s, json_t **object) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, weft_table_hash(s->order_table, s->order_count));
    weft_json_set(object, "order_hash", json_string(hash));
    if (s->order_count > LONGEST_TABLE) {
        return;
    }
    json_t *list = json_array();
    for (int64_t i = 0; i < s->order_count; i++) {
        weft_json_append(&list, json_integer(s->order_table[i]));
    }
    weft_json_set(object, "order_table", list);
}

json_t *weft_schedule_object(const weft_schedule *s) {
    const weft_order_info *order = weft_order_describe(s->order);
    json_t *tile = json_pack("[I, I]", (json_int_t)s->tile_m, (json_int_t)s->tile_n);
    if (s->tile_k > 0) {
        weft_json_append(&tile, json_integer(s->tile_k));
    }
    json_t *object = json_pack("{s:o, s:s, s:s, s:s, s:I, s:[I, I], s:b}", "tile", tile, "order", order->name, "sweep",
                               weft_sweep_describe(s->sweep)->name, "dispatch", weft_dispatch_describe(s->dispatch)->name,
                               "workers", (json_int_t)s->workers, "cluster", (json_int_t)s->cluster_m,
                               (json_int_t)s->cluster_n, "table", s->table != 0);
    if (s->split > 1) {
        weft_json_set(&object, "split", json_integer(s->split));
    }
    if (order->parameter & WEFT_PARAMETER_GROUP) {
        weft_json_set(&object, "group", json_integer(s->group));
        if (order->grid == WEFT_GRID_MATRIX) {
            weft_json_set(&object, "axis", json_string(s->axis == WEFT_AXIS_N ? "n" : "m"));
        }
    }
    if (weft_schedule_by_domain(s)) {
        weft_json_set(&object, "domains", json_integer(s->domains));
    }
    if (s->order == WEFT_ORDER_CUSTOM && s->order_table) {
        write_table(s, &object);
    }
    return object;
}

size_t weft_schedule_json(const weft_schedule *schedule, char *text, size_t size) {
    weft_schedule s;
    const int is_whole = weft_schedule_copy(&s, schedule, NULL) == WEFT_OK && weft_order_describe(s.order) &&
                         weft_sweep_describe(s.sweep) && weft_dispatch_describe(s.dispatch);
    if (!is_whole && size > 0) {
        text[0] = '\0';
    }
    return is_whole ? weft_json_print(weft_schedule_object(&s), text, size) : 0;
}

/* ---- reading ---- */

/* What is read, and how to call it in messages. */
typedef struct reader {
    weft_schedule *schedule;
    const char *label, *key;
    weft_message *message;
} reader;

static weft_status wrong(const reader *r, const char *expected) {
    return weft_fail(r->message, WEFT_INVALID, "%.120s: schedule: \"%.40s\" is not %s", r->label, r->key, expected);
}

static weft_status read_number(const reader *r, const json_t *value, int64_t *to) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > WEFT_MAX_DIMENSION) {
        return wrong(r, "a whole number from 1 on");
    }
    *to = json_integer_value(value);
    return WEFT_OK;
}

static weft_status read_shape(const reader *r, const json_t *value, int64_t *const *to, size_t least, size_t most) {
    const size_t count = json_array_size(value);
    if (count < least || count > most) {
        return wrong(r, most > least ? "a list of two or three numbers" : "a list of two numbers");
    }
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        status = read_number(r, json_array_get(value, i), to[i]);
    }
    return status;
}

static weft_status read_name(const reader *r, const json_t *value, int32_t (*find)(const char *name), int32_t *to,
                             const char *expected) {
    *to = json_is_string(value) ? find(json_string_value(value)) : 0;
    return *to > 0 ? WEFT_OK : wrong(r, expected);
}

static int32_t find_axis(const char *name) {
    return strcmp(name, "n") == 0 ? WEFT_AXIS_N : strcmp(name, "m") == 0 ? WEFT_AXIS_M : 0;
}

static weft_status read_hash(const reader *r, const json_t *value) {
    const char *text = json_string_value(value);
    char *end = NULL;
    r->schedule->order_hash = text ? strtoull(text, &end, 16) : 0;
    return text && strlen(text) == 16 && isxdigit((unsigned char)*text) && *end == '\0' ? WEFT_OK
                                                                                        : wrong(r, "16 hexadecimal digits");
}

/* An order of the caller's, into memory that the schedule then has. */
static weft_status read_table(const reader *r, const json_t *value) {
    const size_t count = json_array_size(value);
    if (count < 1 || count > LONGEST_TABLE || r->schedule->order_table) {
        return wrong(r, "a list of tile numbers");
    }
    uint32_t *table = malloc(count * sizeof *table);
    if (!table) {
        return weft_fail(r->message, WEFT_NO_MEMORY, "out of memory");
    }
    r->schedule->order_table = table;
    r->schedule->order_count = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *tile = json_array_get(value, i);
        if (!json_is_integer(tile) || json_integer_value(tile) < 0 || json_integer_value(tile) > UINT32_MAX) {
            return wrong(r, "a list of tile numbers");
        }
        table[i] = (uint32_t)json_integer_value(tile);
    }
    return WEFT_OK;
}

/* Sets what the key names. */
static weft_status read_member(const reader *r, const json_t *value) {
    weft_schedule *s = r->schedule;
    int64_t *const tile[] = {&s->tile_m, &s->tile_n, &s->tile_k}, *const cluster[] = {&s->cluster_m, &s->cluster_n};
    int64_t unused;
    int32_t axis = 0;
    weft_status status;
    const char *key = r->key;
    if (strcmp(key, "tile") == 0) {
        return read_shape(r, value, tile, 2, 3);
    }
    if (strcmp(key, "cluster") == 0) {
        return read_shape(r, value, cluster, 2, 2);
    }
    if (strcmp(key, "order") == 0) {
        return read_name(r, value, weft_order_find, &s->order, "an order: 'weft orders' lists them");
    }
    if (strcmp(key, "sweep") == 0) {
        return read_name(r, value, weft_sweep_find, &s->sweep, "a sweep: 'weft orders' lists them");
    }
    if (strcmp(key, "dispatch") == 0) {
        return read_name(r, value, weft_dispatch_find, &s->dispatch, "a dispatch: 'weft orders' lists them");
    }
    if (strcmp(key, "axis") == 0) {
        status = read_name(r, value, find_axis, &axis, "\"n\" or \"m\"");
        s->axis = (weft_axis)axis;
        return status;
    }
    if (strcmp(key, "table") == 0) {
        s->table = json_is_true(value);
        return json_is_boolean(value) ? WEFT_OK : wrong(r, "true or false");
    }
    if (strcmp(key, "order_table") == 0) {
        return read_table(r, value);
    }
    if (strcmp(key, "order_hash") == 0) {
        return read_hash(r, value);
    }
    int64_t *const number = strcmp(key, "workers") == 0         ? &s->workers
                            : strcmp(key, "group") == 0         ? &s->group
                            : strcmp(key, "domains") == 0       ? &s->domains
                            : strcmp(key, "split") == 0         ? &s->split
                            : strcmp(key, "heads_in_tile") == 0 ? &unused /* follows from the tile and the kernel */
                                                                : NULL;
    return number ? read_number(r, value, number) : wrong(r, "a choice of a schedule");
}

/* The schedule in what a command printed: that of the recommendation, that of a simulation or a run, or the object itself.
 */
static const json_t *find_schedule(const json_t *whole) {
    const json_t *recommended = json_object_get(whole, "recommended");
    const json_t *member = json_object_get(recommended ? recommended : whole, "schedule");
    return recommended || member ? member : whole;
}

weft_status weft_schedule_from_json(weft_schedule *schedule, const char *text, size_t length, const char *label,
                                    weft_message *message) {
    weft_schedule read = WEFT_SCHEDULE_INIT;
    json_error_t error;
    json_t *whole = weft_json_read(text, length, JSON_REJECT_DUPLICATES, &error);
    const json_t *object = find_schedule(whole);
    reader r = {&read, label, "", message};
    weft_status status = WEFT_OK;
    if (!whole) {
        status = weft_json_lacked_memory(&error)
                     ? weft_fail(message, WEFT_NO_MEMORY, "out of memory")
                     : weft_fail(message, WEFT_INVALID, "%.120s: line %d: no JSON: %.100s", label, error.line, error.text);
    } else if (!json_is_object(object)) {
        status = weft_fail(message, WEFT_INVALID,
                           "%.120s: there is no schedule: an object like the one that weft plan --json has "
                           "at recommended.schedule",
                           label);
    }
    for (void *i = status ? NULL : json_object_iter((json_t *)object); i && status == WEFT_OK;
         i = json_object_iter_next((json_t *)object, i)) {
        r.key = json_object_iter_key(i);
        status = read_member(&r, json_object_iter_value(i));
    }
    json_decref(whole);
    const weft_schedule none = WEFT_SCHEDULE_INIT;
    const weft_status given = weft_struct_give(schedule, status ? &none : &read, sizeof read, sizeof(size_t),
                                               "WEFT_SCHEDULE_INIT", status ? NULL : message);
    if (status || given) {
        free((void *)(uintptr_t)read.order_table);
    }
    return status ? status : given;
}
