/* SPDX-License-Identifier: Apache-2.0 */
/* A plan, in words and as JSON. */
#include "plan/describe.h"
#include "base/json.h"
#include "plan/custom.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The lengths of the sequences that begin there. */
static json_t *lengths_json(const int32_t *starts, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count && list; i++) {
        weft_json_append(&list, json_integer(starts[i + 1] - starts[i]));
    }
    return list;
}

/* Keys that are not packed have lengths and no starts. */
static int tells_used(const weft_field *field) {
    return field->offset == offsetof(weft_attention, lengths.kv_starts);
}

static json_t *counts_json(const int32_t *counts, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count && list; i++) {
        weft_json_append(&list, json_integer(counts[i]));
    }
    return list;
}

/* The number that a field of that name is. */
static int64_t integer_of(const weft_operation_info *info, const char *name, const weft_problem *problem) {
    int64_t integer = 0;
    for (size_t i = 0; i < info->field_count; i++) {
        if (strcmp(info->fields[i].name, name) == 0) {
            memcpy(&integer, (const char *)problem + info->fields[i].offset, sizeof integer);
        }
    }
    return integer;
}

/* Starts as lengths: as many as the field that they follow says, or as an attention has sequences. */
static json_t *starts_json(const weft_operation_info *info, const weft_field *field, const int32_t *starts,
                           const weft_problem *problem) {
    if (field->follows) {
        return lengths_json(starts, integer_of(info, field->follows, problem));
    }
    const weft_attention *p = &problem->attention;
    return starts ? lengths_json(starts, p->sequences)
                  : counts_json(p->lengths.kv_used, p->sequences > 0 ? p->sequences : p->batch);
}

/* A field of the problem as JSON. */
static json_t *field_json(const weft_operation_info *info, const weft_field *field, const weft_problem *problem) {
    const char *at = (const char *)problem + field->offset;
    const int32_t *starts;
    int64_t integer, pair[2];
    double real;
    int32_t code;
    memcpy(&code, at, sizeof code);
    switch (field->type) {
    case WEFT_FIELD_INTEGER:
        memcpy(&integer, at, sizeof integer);
        return json_integer(integer);
    case WEFT_FIELD_REAL:
        memcpy(&real, at, sizeof real);
        return json_real(real);
    case WEFT_FIELD_CHOICE:
        return json_string(field->choice(code));
    case WEFT_FIELD_FLAG:
        return json_boolean(code == field->value);
    case WEFT_FIELD_PAIR:
        memcpy(pair, at, sizeof pair);
        return json_pack("[I, I]", (json_int_t)pair[0], (json_int_t)pair[1]);
    case WEFT_FIELD_BIT:
        return json_boolean(code & field->value);
    case WEFT_FIELD_STARTS:
        memcpy(&starts, at, sizeof starts);
        return starts_json(info, field, starts, problem);
    case WEFT_FIELD_COUNTS:
        memcpy(&starts, at, sizeof starts);
        return counts_json(starts, integer_of(info, field->follows, problem));
    }
    return NULL;
}

/* Whether an earlier field tells of the same: a resolved mask is causal or none, whichever flag it came from. */
static int is_told(const weft_operation_info *info, size_t field) {
    for (size_t i = 0; i < field; i++) {
        if (info->fields[i].offset == info->fields[field].offset && info->fields[field].type != WEFT_FIELD_BIT) {
            return 1;
        }
    }
    return 0;
}

/* The number that a field is. */
static double number_at(const weft_field *field, const weft_problem *problem) {
    const char *at = (const char *)problem + field->offset;
    int64_t integer;
    double real;
    int32_t code;
    memcpy(&integer, at, sizeof integer);
    memcpy(&real, at, sizeof real);
    memcpy(&code, at, sizeof code);
    return field->type == WEFT_FIELD_REAL ? real : field->type == WEFT_FIELD_CHOICE ? (double)code : (double)integer;
}

/* Whether a field is one of those that are told only where they are not as usual, and is as usual. */
static int is_usual(const weft_operation_info *info, const weft_field *field, const weft_problem *problem) {
    const char *at = (const char *)problem + field->offset;
    int32_t bits;
    const int32_t *starts;
    memcpy(&bits, at, sizeof bits);
    memcpy(&starts, at, sizeof starts);
    if (field->type == WEFT_FIELD_BIT) {
        return !(bits & field->value);
    }
    if (field->type == WEFT_FIELD_STARTS || field->type == WEFT_FIELD_COUNTS) {
        return !starts && (field->follows || !(tells_used(field) && problem->attention.lengths.kv_used));
    }
    if (field->value != 1 ||
        (field->type != WEFT_FIELD_INTEGER && field->type != WEFT_FIELD_REAL && field->type != WEFT_FIELD_CHOICE)) {
        return 0;
    }
    double usual = field->usual;
    for (size_t i = 0; i < info->field_count && field->follows; i++) {
        usual = strcmp(info->fields[i].name, field->follows) == 0 ? number_at(&info->fields[i], problem) : usual;
    }
    return number_at(field, problem) == usual;
}

json_t *weft_problem_json(const weft_operation_info *info, const weft_problem *problem) {
    json_t *object = json_pack("{s:s}", "kind", info->name);
    for (size_t i = 0; i < info->field_count; i++) {
        if (!is_told(info, i) && !is_usual(info, &info->fields[i], problem)) {
            weft_json_set(&object, info->fields[i].name, field_json(info, &info->fields[i], problem));
        }
    }
    return object;
}

json_t *weft_plan_problem_json(const weft_plan *plan) {
    return weft_problem_json(&plan->operation->info, &plan->problem);
}

json_t *weft_plan_schedule_json(const weft_plan *plan) {
    json_t *object = weft_schedule_object(&plan->schedule);
    if (plan->heads_in_tile > 1) {
        weft_json_set(&object, "heads_in_tile", json_integer(plan->heads_in_tile));
    }
    return object;
}

/* The kernels of a run, where there are several. */
static json_t *launches_json(const weft_plan *plan) {
    json_t *list = json_array();
    for (size_t i = 0; plan->backend->launch && plan->backend->launch(plan, i); i++) {
        weft_json_append(&list, json_string(plan->backend->launch(plan, i)));
    }
    return list;
}

size_t weft_plan_json(const weft_plan *plan, char *text, size_t size) {
    json_t *object = json_pack("{s:o, s:o, s:s, s:s, s:I}", "problem", weft_plan_problem_json(plan), "schedule",
                               weft_plan_schedule_json(plan), "machine", plan->machine.name, "kernel",
                               weft_plan_kernel(plan), "positions", (json_int_t)plan->walk.order.count);
    json_t *launches = launches_json(plan);
    if (json_array_size(launches) > 1) {
        weft_json_set(&object, "launches", json_incref(launches));
    }
    json_decref(launches);
    if (weft_plan_workspace(plan) > 0) {
        weft_json_set(&object, "workspace", json_integer((json_int_t)weft_plan_workspace(plan)));
    }
    return weft_json_print(object, text, size);
}

static void order_parameter_text(const weft_plan *plan, char *text, size_t size) {
    const weft_schedule *s = &plan->schedule;
    const weft_parameter parameter = weft_order_describe(s->order)->parameter;
    text[0] = '\0';
    if (parameter == WEFT_PARAMETER_BOTH) {
        snprintf(text, size, " (group %" PRId64 " across %s in each of %" PRId64 " domains)", s->group,
                 s->axis == WEFT_AXIS_N ? "n" : "m", s->domains);
    } else if (parameter == WEFT_PARAMETER_GROUP && plan->operation->info.grid == WEFT_GRID_MATRIX) {
        snprintf(text, size, " (group %" PRId64 " across %s)", s->group, s->axis == WEFT_AXIS_N ? "n" : "m");
    } else if (parameter == WEFT_PARAMETER_GROUP) {
        snprintf(text, size, " (sections of %" PRId64 " heads)", s->group);
    } else if (weft_schedule_by_domain(s)) {
        snprintf(text, size, " (%" PRId64 " domains)", s->domains);
    }
}

size_t weft_plan_outline(const weft_plan *plan, char *text, size_t size) {
    const weft_schedule *s = &plan->schedule;
    char problem[512], parameter[64], step[32] = "", split[32] = "";
    plan->operation->text(&plan->problem, problem, sizeof problem);
    order_parameter_text(plan, parameter, sizeof parameter);
    if (s->tile_k > 0) {
        snprintf(step, sizeof step, "x%" PRId64, s->tile_k);
    } else if (plan->heads_in_tile > 1) {
        snprintf(step, sizeof step, " of %" PRId64 " heads", plan->heads_in_tile);
    }
    if (s->split > 1) {
        snprintf(split, sizeof split, ", split %" PRId64, s->split);
    }
    const int length =
        snprintf(text, size,
                 "%sschedule   tile %" PRId64 "x%" PRId64 "%s, order %s%s%s, sweep %s, dispatch %s, cluster %" PRId64
                 "x%" PRId64 "%s\nwalk       %" PRId64 " positions over %" PRId64 " workers\nmachine    %s (%s)\n",
                 problem, s->tile_m, s->tile_n, step, weft_order_describe(s->order)->name, parameter,
                 s->table ? " from a table" : "", weft_sweep_describe(s->sweep)->name,
                 weft_dispatch_describe(s->dispatch)->name, s->cluster_m, s->cluster_n, split, plan->walk.order.count,
                 plan->walk.workers, plan->machine.name, plan->machine.title);
    return length > 0 ? (size_t)length : 0;
}

size_t weft_plan_text(const weft_plan *plan, char *text, size_t size) {
    const weft_backend *backend = plan->backend;
    const size_t outline = weft_plan_outline(plan, text, size), used = outline < size ? outline : size;
    char kernels[512] = "";
    if (backend->kernel && !backend->launch) {
        snprintf(kernels, sizeof kernels, ", %s", weft_plan_kernel(plan));
    }
    for (size_t i = 0; backend->launch && backend->launch(plan, i); i++) {
        const size_t length = strlen(kernels);
        snprintf(kernels + length, sizeof kernels - length, ", %s", backend->launch(plan, i));
    }
    const int length = snprintf(text ? text + used : NULL, size - used, "kernel     %s%s\n", plan->backend->name, kernels);
    return outline + (length > 0 ? (size_t)length : 0);
}

size_t weft_plan_title(const weft_plan *plan, char *text, size_t size) {
    const int length = plan->operation->title(&plan->problem, text, size);
    return length > 0 ? (size_t)length : 0;
}
