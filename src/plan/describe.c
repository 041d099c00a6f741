/* A plan, in words and as JSON. */
#include "plan/describe.h"
#include "plan/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *major_name(weft_major major) {
    return major == WEFT_ROW_MAJOR ? "row" : "col";
}

json_t *weft_plan_problem_json(const weft_plan *plan) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm *p = &plan->gemm;
        return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:I}", "kind", "gemm", "m",
                         (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k, "dtype", weft_dtype_name(p->dtype),
                         "c_dtype", weft_dtype_name(p->c_dtype), "a_major", major_name(p->a_major), "b_major",
                         major_name(p->b_major), "c_major", major_name(p->c_major), "alpha", p->alpha, "beta", p->beta,
                         "batch", (json_int_t)p->batch);
    }
    const weft_attention *p = &plan->attention;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:f, s:s}", "kind", "attention", "batch",
                     (json_int_t)p->batch, "heads", (json_int_t)p->heads, "kv_heads", (json_int_t)p->kv_heads, "seq",
                     (json_int_t)p->seq, "kv_seq", (json_int_t)p->kv_seq, "head_dim", (json_int_t)p->head_dim, "dtype",
                     weft_dtype_name(p->dtype), "causal", p->mask != WEFT_MASK_NONE, "offset", (json_int_t)p->offset,
                     "scale", p->scale, "layout", p->layout == WEFT_BSHD ? "bshd" : "bhsd");
}

json_t *weft_plan_schedule_json(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_order_info *order = weft_order_describe(s->order);
    json_t *tile = json_pack("[I, I]", (json_int_t)s->tile_m, (json_int_t)s->tile_n);
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        weft_json_append(&tile, json_integer(s->tile_k));
    }
    json_t *object = json_pack("{s:o, s:s, s:s, s:s, s:I, s:[I, I], s:b}", "tile", tile, "order", order->name, "sweep",
                               weft_sweep_describe(s->sweep)->name, "dispatch", weft_dispatch_describe(s->dispatch)->name,
                               "workers", (json_int_t)s->workers, "cluster", (json_int_t)s->cluster_m,
                               (json_int_t)s->cluster_n, "table", s->table != 0);
    if (s->split > 1) {
        weft_json_set(&object, "split", json_integer(s->split));
    }
    if (plan->pack > 1) {
        weft_json_set(&object, "heads_in_tile", json_integer(plan->pack));
    }
    if (order->parameter & WEFT_PARAMETER_GROUP) {
        weft_json_set(&object, "group", json_integer(s->group));
        if (plan->subject == WEFT_SUBJECT_GEMM) {
            weft_json_set(&object, "axis", json_string(s->axis == WEFT_AXIS_N ? "n" : "m"));
        }
    }
    if (order->parameter & WEFT_PARAMETER_DOMAINS) {
        weft_json_set(&object, "domains", json_integer(s->domains));
    }
    return object;
}

const char *weft_plan_kernel(const weft_plan *plan) {
    return plan->backend->kernel ? plan->backend->kernel(plan) : plan->backend->name;
}

size_t weft_plan_json(const weft_plan *plan, char *text, size_t size) {
    json_t *object = json_pack("{s:o, s:o, s:s, s:s, s:I}", "problem", weft_plan_problem_json(plan), "schedule",
                               weft_plan_schedule_json(plan), "machine", plan->machine.name, "kernel",
                               weft_plan_kernel(plan), "positions", (json_int_t)plan->walk.order.count);
    char *whole = weft_json_text(object, JSON_SORT_KEYS);
    json_decref(object);
    const size_t length = whole ? strlen(whole) : 0;
    if (size > 0) {
        snprintf(text, size, "%s", whole ? whole : "");
    }
    free(whole);
    return length;
}

static int problem_text(const weft_plan *plan, char *text, size_t size) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm *p = &plan->gemm;
        char batch[48] = "";
        if (p->batch > 1) {
            snprintf(batch, sizeof batch, "batch %" PRId64 ", ", p->batch);
        }
        return snprintf(text, size, "gemm       %sm %" PRId64 ", n %" PRId64 ", k %" PRId64 ", %s in, %s out\n", batch,
                        p->m, p->n, p->k, weft_dtype_name(p->dtype), weft_dtype_name(p->c_dtype));
    }
    const weft_attention *p = &plan->attention;
    char mask[64] = "no mask";
    if (p->mask != WEFT_MASK_NONE) {
        snprintf(mask, sizeof mask, "causal, offset %" PRId64, p->offset);
    }
    return snprintf(text, size,
                    "attention  batch %" PRId64 ", heads %" PRId64 " over %" PRId64 " kv heads, %" PRId64
                    " queries x %" PRId64 " keys, head dim %" PRId64 ", %s, %s\n",
                    p->batch, p->heads, p->kv_heads, p->seq, p->kv_seq, p->head_dim, weft_dtype_name(p->dtype), mask);
}

static void order_parameter_text(const weft_plan *plan, char *text, size_t size) {
    const weft_schedule *s = &plan->schedule;
    const weft_parameter parameter = weft_order_describe(s->order)->parameter;
    text[0] = '\0';
    if (parameter == WEFT_PARAMETER_BOTH) {
        snprintf(text, size, " (group %" PRId64 " across %s in each of %" PRId64 " domains)", s->group,
                 s->axis == WEFT_AXIS_N ? "n" : "m", s->domains);
    } else if (parameter == WEFT_PARAMETER_GROUP && plan->subject == WEFT_SUBJECT_GEMM) {
        snprintf(text, size, " (group %" PRId64 " across %s)", s->group, s->axis == WEFT_AXIS_N ? "n" : "m");
    } else if (parameter == WEFT_PARAMETER_GROUP) {
        snprintf(text, size, " (sections of %" PRId64 " heads)", s->group);
    } else if (parameter == WEFT_PARAMETER_DOMAINS) {
        snprintf(text, size, " (%" PRId64 " domains)", s->domains);
    }
}

size_t weft_plan_outline(const weft_plan *plan, char *text, size_t size) {
    const weft_schedule *s = &plan->schedule;
    char problem[256], parameter[64], step[32] = "", split[32] = "";
    problem_text(plan, problem, sizeof problem);
    order_parameter_text(plan, parameter, sizeof parameter);
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        snprintf(step, sizeof step, "x%" PRId64, s->tile_k);
    } else if (plan->pack > 1) {
        snprintf(step, sizeof step, " of %" PRId64 " heads", plan->pack);
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
    const size_t outline = weft_plan_outline(plan, text, size), used = outline < size ? outline : size;
    const int length = snprintf(text ? text + used : NULL, size - used, "kernel     %s%s%s\n", plan->backend->name,
                                plan->backend->kernel ? ", " : "", plan->backend->kernel ? weft_plan_kernel(plan) : "");
    return outline + (length > 0 ? (size_t)length : 0);
}
