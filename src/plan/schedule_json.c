/* Schedules as JSON objects, written and read: what weft plan and weft simulate print, and what --schedule takes. */
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "base/struct.h"
#include "plan/custom.h"
#include "plan/describe.h"

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
    json_t *whole = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    const json_t *object = find_schedule(whole);
    reader r = {&read, label, "", message};
    weft_status status = WEFT_OK;
    if (!whole) {
        status = json_error_code(&error) == json_error_out_of_memory
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
    return status ? status : given;
}
