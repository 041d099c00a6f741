/* From options to a plan. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* A choice that was not made is its enumeration's first value. */
static int first_if_none(int32_t choice) {
    return choice < 0 ? 0 : choice;
}

int attention_of(const settings *s, weft_attention *p, weft_message *message) {
    const weft_attention init = WEFT_ATTENTION_INIT;
    const char *wrong = (s->bottom_right && !s->causal)       ? "--bottom-right needs --causal"
                        : (s->offset != 0 && !s->causal)      ? "--offset needs --causal"
                        : (s->offset != 0 && s->bottom_right) ? "--offset and --bottom-right exclude each other"
                        : s->scale == 0.0 ? "--scale 0 is not allowed: leave it out for 1 / sqrt(head dim)"
                                          : NULL;
    if (wrong) {
        snprintf(message->text, sizeof message->text, "%s", wrong);
        return 0;
    }
    *p = init;
    p->batch = s->batch;
    p->heads = s->heads;
    p->kv_heads = s->kv_heads == NOT_GIVEN ? s->heads : s->kv_heads;
    p->seq = s->seq;
    p->kv_seq = s->kv_seq == NOT_GIVEN ? s->seq : s->kv_seq;
    p->head_dim = s->head_dim;
    p->dtype = (weft_dtype)first_if_none(s->dtype);
    p->mask = s->bottom_right ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : s->causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    p->offset = s->offset;
    p->scale = isnan(s->scale) ? 0.0 : s->scale;
    p->layout = (weft_layout)first_if_none(s->layout);
    return 1;
}

weft_gemm gemm_of(const settings *s) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = s->m;
    p.n = s->n;
    p.k = s->k;
    p.dtype = (weft_dtype)first_if_none(s->dtype);
    p.c_dtype = s->c_dtype < 0 ? p.dtype : (weft_dtype)s->c_dtype;
    p.a_major = (weft_major)first_if_none(s->a_major);
    p.b_major = (weft_major)first_if_none(s->b_major);
    p.c_major = (weft_major)first_if_none(s->c_major);
    p.alpha = s->alpha;
    p.beta = s->beta;
    p.batch = s->batch;
    return p;
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
    schedule.axis = (weft_axis)first_if_none(s->axis);
    schedule.domains = s->domains;
    schedule.cluster_m = s->cluster[0];
    schedule.cluster_n = s->cluster[1];
    schedule.split = s->split;
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
    return device;
}

int device_exit_code(const weft_device *device, weft_status status) {
    const int missing = device->kind == WEFT_DEVICE_CUDA && (status == WEFT_NOT_FOUND || status == WEFT_UNSUPPORTED);
    return missing ? EXIT_FAILED : exit_code(status);
}

weft_status try_plan(const settings *s, weft_subject subject, weft_plan **plan, weft_message *message) {
    weft_machine machine;
    weft_status status = WEFT_OK;
    *plan = NULL;
    if (s->machine && (status = weft_machine_load(&machine, s->machine, message))) {
        return status == WEFT_NOT_FOUND ? WEFT_INVALID : status; /* an option is wrong; no device is missing */
    }
    const weft_schedule schedule = schedule_of(s);
    const weft_device device = device_of(s);
    const weft_machine *given = s->machine ? &machine : NULL;
    if (subject == WEFT_SUBJECT_ATTENTION) {
        weft_attention problem;
        if (!attention_of(s, &problem, message)) {
            return WEFT_INVALID;
        }
        status = weft_plan_attention_on(plan, &problem, &schedule, given, &device, message);
    } else {
        const weft_gemm problem = gemm_of(s);
        status = weft_plan_gemm_on(plan, &problem, &schedule, given, &device, message);
    }
    return status;
}

int make_plan(const settings *s, weft_subject subject, weft_plan **plan) {
    weft_message message = {""};
    const weft_status status = try_plan(s, subject, plan, &message);
    const weft_device device = device_of(s);
    return status ? complain(device_exit_code(&device, status), "%s", message.text) : EXIT_OK;
}
