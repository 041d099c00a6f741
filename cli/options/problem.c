/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a problem, a schedule, a device and a plan. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "options/lengths.h"
#include "options/order_file.h"

/* A choice that was not made is its enumeration's first value. */
static int first_if_none(int32_t choice) {
    return choice < 0 ? 0 : choice;
}

/* The value of an option of the operation's problems, where it was given; null otherwise. */
static const option_value *value_of(const settings *s, const char *name) {
    const option *o = option_find(name, strlen(name));
    const int number = o ? option_number(o) : -1;
    const int applies = number >= 0 && option_operations(o) >> s->operation & 1;
    return applies && s->given >> number & 1 ? &s->value[number] : NULL;
}

/* Options that make no sense without each other, or together. Returns what is wrong, or null. */
static const char *contradiction(const settings *s) {
    static const struct {
        const char *option, *other, *another;
        int together; /* 1: they exclude each other; 0: the first needs one of the others */
        const char *wrong;
    } rules[] = {
        {"bottom-right", "causal", "window", 0, "--bottom-right needs --causal or --window"},
        {"offset", "causal", "window", 0, "--offset needs --causal or --window"},
        {"offset", "bottom-right", "bottom-right", 1, "--offset and --bottom-right exclude each other"},
        {"lengths", "seq", "kv-seq", 1, "--lengths says how many queries and keys there are: leave out --seq and --kv-seq"},
        {"kv-lengths", "batch", "kv-seq", 1,
         "--kv-lengths says how many sequences and keys there are: leave out --batch and --kv-seq"},
        {"group-rows", "groups", "group-counts", 1,
         "--group-rows says how many groups there are, which are not masked: leave out --groups and --group-counts"},
        {"group-counts", "groups", "groups", 1, "--group-counts says how many groups there are: leave out --groups"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const option_value *value = value_of(s, rules[i].option);
        const int has_other = value_of(s, rules[i].other) || value_of(s, rules[i].another);
        if (value && value->integer != 0 && has_other == rules[i].together) {
            return rules[i].wrong;
        }
    }
    const option_value *scale = value_of(s, "scale");
    return scale && scale->real == 0 ? "--scale 0 is not allowed: leave it out for 1 / sqrt(head dim)" : NULL;
}

/* The number that a field has for a choice of this name. Fields of one name share an option, whose numbers are those of one
 * of them. */
static int32_t number_of_choice(const weft_field *field, const char *name) {
    int32_t number = 0;
    while (field->choice(number) && strcmp(field->choice(number), name) != 0) {
        number++;
    }
    return number;
}

/* What a field is when nobody gives it. */
static option_value usual_of(const weft_field *field) {
    option_value value = {.integer = (int64_t)field->usual};
    if (field->type == WEFT_FIELD_REAL) {
        value.real = field->usual;
    } else if (field->type == WEFT_FIELD_CHOICE) {
        value.code = (int32_t)field->usual;
    } else if (field->type == WEFT_FIELD_PAIR) {
        value.pair[1] = value.pair[0];
    }
    return value;
}

/* Writes a field of a problem; flags are written only when they were given. */
static void put_field(problem *p, const weft_field *field, const option_value *given) {
    char *at = (char *)p + field->offset;
    const option_value value = given ? *given : usual_of(field);
    if (field->type == WEFT_FIELD_INTEGER) {
        memcpy(at, &value.integer, sizeof value.integer);
    } else if (field->type == WEFT_FIELD_REAL) {
        memcpy(at, &value.real, sizeof value.real);
    } else if (field->type == WEFT_FIELD_CHOICE) {
        memcpy(at, &value.code, sizeof value.code);
    } else if (field->type == WEFT_FIELD_PAIR) {
        memcpy(at, &value.pair, sizeof value.pair);
    } else if (field->type == WEFT_FIELD_BIT) {
        int32_t bits;
        memcpy(&bits, at, sizeof bits);
        bits |= given ? field->value : 0;
        memcpy(at, &bits, sizeof bits);
    } else if (given && field->type == WEFT_FIELD_FLAG) {
        memcpy(at, &field->value, sizeof field->value);
    }
}

/* The field of that name, as the problem has it by now. */
static option_value read_field(const problem *p, const weft_operation_info *info, const char *name) {
    option_value value = {0};
    for (size_t i = 0; i < info->field_count; i++) {
        const weft_field *field = &info->fields[i];
        if (strcmp(field->name, name) == 0) {
            memcpy(&value, (const char *)p + field->offset,
                   field->type == WEFT_FIELD_CHOICE ? sizeof value.code : sizeof value.integer);
        }
    }
    return value;
}

/* A window has the causal mask's offset, and with it nothing behind a query. */
static void put_window(const settings *s, weft_attention *p) {
    const int bottom_right = p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p->right = value_of(s, "causal") ? 0 : p->right;
    p->mask = bottom_right ? WEFT_MASK_WINDOW_BOTTOM_RIGHT : WEFT_MASK_WINDOW;
}

/* Keys that are not packed: so many of each sequence count. There is room for the most of them, in whole pages, and for
 * those that are appended to a batch. */
static const char *put_used(const settings *s, weft_attention *p, const char *text) {
    int64_t count, most = 1;
    const int32_t *used = lengths_counts(text, &count);
    if (!used) {
        return "out of memory";
    }
    for (int64_t i = 0; i < count; i++) {
        most = used[i] > most ? used[i] : most;
    }
    p->lengths.kv_used = used;
    p->lengths.kv_starts = NULL;
    p->kv_seq = most + (p->cache.append > 0 ? p->cache.append : 0);
    p->kv_seq = p->cache.page > 0 ? weft_ceil_divide(p->kv_seq, p->cache.page) * p->cache.page : p->kv_seq;
    if (value_of(s, "lengths")) {
        return count == p->sequences ? NULL : "--lengths and --kv-lengths are not lists of as many sequences";
    }
    p->batch = count;
    return NULL;
}

/* A packed batch has as many queries and keys as its sequences have together. Returns what is wrong, or null. */
static const char *put_lengths(const settings *s, weft_attention *p) {
    const option_value *lengths = value_of(s, "lengths"), *kv_lengths = value_of(s, "kv-lengths");
    int64_t kv_count;
    if (!lengths) {
        return kv_lengths ? put_used(s, p, kv_lengths->text) : NULL;
    }
    p->lengths.q_starts = lengths_starts(lengths->text, &p->sequences);
    const int32_t *kv_starts = lengths_starts(kv_lengths ? kv_lengths->text : lengths->text, &kv_count);
    if (!p->lengths.q_starts || !kv_starts) {
        return "out of memory";
    }
    p->lengths.kv_starts = kv_lengths ? kv_starts : NULL;
    p->seq = p->lengths.q_starts[p->sequences];
    p->kv_seq = kv_starts[kv_count];
    if (p->cache.page > 0) {
        return kv_lengths ? put_used(s, p, kv_lengths->text) : "--page with --lengths needs --kv-lengths";
    }
    return kv_count == p->sequences ? NULL : "--lengths and --kv-lengths are not lists of as many sequences";
}

/* As many groups as there are numbers, and as many rows as these need. Returns what is wrong, or null. */
static const char *put_groups(const settings *s, weft_grouped_gemm *p) {
    const option_value *rows = value_of(s, "group-rows"), *counts = value_of(s, "group-counts");
    const option_value *given = rows ? rows : counts;
    if (!given) {
        return NULL;
    }
    const int32_t *list = lengths_counts(given->text, &p->groups), *starts = lengths_starts(given->text, &p->groups);
    if (!list || !starts) {
        return "out of memory";
    }
    int64_t needed = rows ? starts[p->groups] : 0;
    for (int64_t i = 0; i < p->groups && counts; i++) {
        needed = list[i] > needed ? list[i] : needed;
    }
    p->starts = rows ? starts : NULL;
    p->counts = rows ? NULL : list;
    p->layout = rows ? WEFT_GROUPS_CONTIGUOUS : WEFT_GROUPS_MASKED;
    p->rows = value_of(s, "rows") ? p->rows : needed;
    return NULL;
}

int problem_of(const settings *s, problem *p, weft_message *message) {
    const weft_operation_info *info = weft_operation_describe(s->operation);
    const char *wrong = !info                            ? "the operation is not known"
                        : info->problem_size > sizeof *p ? "the problem is too large for the command"
                                                         : contradiction(s);
    if (wrong) {
        snprintf(message->text, sizeof message->text, "%s", wrong);
        return 0;
    }
    memset(p, 0, sizeof *p);
    weft_problem_init(p, s->operation);
    for (int follows = 0; follows < 2; follows++) { /* those that follow others come when these are known */
        for (size_t i = 0; i < info->field_count; i++) {
            const weft_field *field = &info->fields[i];
            char name[OPTION_NAME];
            option_spell(field->name, name);
            const option_value *given = value_of(s, name);
            option_value own;
            if (given && field->type == WEFT_FIELD_CHOICE) {
                own = *given;
                own.code = number_of_choice(field, option_find(name, strlen(name))->choice(given->code));
                given = &own;
            }
            if (follows && !given && field->follows) {
                const option_value followed = read_field(p, info, field->follows);
                put_field(p, field, &followed);
            } else if (!follows && (given || !field->follows)) {
                put_field(p, field, given);
            }
        }
    }
    if (value_of(s, "window")) {
        put_window(s, &p->attention);
    }
    wrong = info->grid == WEFT_GRID_HEADS ? put_lengths(s, &p->attention) : put_groups(s, &p->grouped);
    if (value_of(s, "rotary")) { /* angles for every position that a key can have */
        p->attention.cache.rotary_rows = p->attention.kv_seq;
    }
    snprintf(message->text, sizeof message->text, "%s", wrong ? wrong : "");
    return !wrong;
}

weft_schedule schedule_of(const settings *s) {
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = s->tile[0];
    schedule.tile_n = s->tile[1];
    schedule.tile_k = s->tile[2];
    schedule.order = s->order;
    schedule.sweep = s->sweep;
    schedule.dispatch = s->dispatch;
    schedule.table = s->table;
    schedule.workers = s->workers;
    schedule.group = s->group;
    schedule.axis = (weft_axis)s->axis;
    schedule.domains = s->domains;
    schedule.cluster_m = s->cluster[0];
    schedule.cluster_n = s->cluster[1];
    schedule.split = s->split;
    if (s->order == WEFT_ORDER_CUSTOM) {
        schedule.order_table = s->order_table;
        schedule.order_count = s->order_count;
        schedule.order_hash = s->order_hash;
    }
    return schedule;
}

int kernel_specification(char *text, size_t size, const char *kernel, const kernel_options *o) {
    const char *separator = strchr(kernel, ':') ? "," : ":";
    char ctas[32] = "";
    if (o->ctas > 0) {
        snprintf(ctas, sizeof ctas, "ctas=%lld", (long long)o->ctas);
    }
    const char *words[] = {o->precise ? "precise" : "", o->mask_every_block ? "mask-every-block" : "",
                           o->no_prefetch ? "no-prefetch" : "", ctas};
    int used = snprintf(text, size, "%s", kernel);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i][0] && used >= 0 && (size_t)used < size) {
            used += snprintf(text + used, size - (size_t)used, "%s%s", separator, words[i]);
            separator = ",";
        }
    }
    return used >= 0 && (size_t)used < size;
}

weft_device device_of(const settings *s) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = (weft_device_kind)first_if_none(s->device);
    device.index = s->gpu >= INT32_MIN && s->gpu <= INT32_MAX ? (int32_t)s->gpu : -1;
    device.kernel = s->kernel;
    device.mode = (weft_mode)first_if_none(s->mode);
    if (s->ours) {
        device.kind = WEFT_DEVICE_CUDA;
        device.mode = WEFT_PAPER;
    }
    return device;
}

int device_exit_code(const weft_device *device, weft_status status) {
    const int missing = device->kind == WEFT_DEVICE_CUDA && (status == WEFT_NOT_FOUND || status == WEFT_UNSUPPORTED);
    return missing ? EXIT_FAILED : exit_code(status);
}

weft_status question_of(const settings *s, question *q, weft_message *message) {
    const weft_plan_options init = WEFT_PLAN_OPTIONS_INIT;
    const weft_machine none = WEFT_MACHINE_INIT;
    q->options = init;
    q->machine = none;
    weft_status status = WEFT_OK;
    if (s->machine && (status = weft_machine_load(&q->machine, s->machine, message))) {
        return status == WEFT_NOT_FOUND ? WEFT_INVALID : status; /* an option is wrong; no device is missing */
    }
    q->schedule = schedule_of(s);
    q->device = device_of(s);
    q->options.schedule = &q->schedule;
    q->options.device = &q->device;
    q->options.machine = s->machine ? &q->machine : NULL;
    return problem_of(s, &q->problem, message) ? order_file_take(s, &q->problem, &q->options, &q->schedule, message)
                                               : WEFT_INVALID;
}

int make_plan(const settings *s, weft_plan **plan) {
    weft_message message = {""};
    question q;
    *plan = NULL;
    weft_status status = question_of(s, &q, &message);
    status = status ? status : weft_plan_create(plan, &q.problem, &q.options, &message);
    const weft_device device = device_of(s);
    return status ? complain(device_exit_code(&device, status), "%s", message.text) : EXIT_OK;
}
