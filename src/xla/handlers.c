/* The handlers: a frame of XLA's becomes a plan and its data. */
#include <weft/xla.h>

#include <string.h>

#include "base/status.h"
#include "xla/call.h"
#include "xla/kept.h"

static weft_status run_attention(const xla_call_frame *frame, weft_xla_key *key, void *stream, weft_message *message) {
    weft_attention *p = &key->problem.attention;
    weft_status status = weft_xla_attribute(frame, "problem", p, sizeof *p, message);
    if (status || (status = weft_attention_check(p, message))) {
        return status;
    }
    const weft_attention_extents sizes = weft_attention_sizes(p);
    const xla_values *in = &frame->arguments, *out = &frame->results;
    const weft_plan *plan;
    void *q, *k, *v, *o, *lse = NULL;
    if ((status = weft_xla_buffer(in, 0, "q", p->dtype, sizes.q, &q, message)) ||
        (status = weft_xla_buffer(in, 1, "k", p->dtype, sizes.k, &k, message)) ||
        (status = weft_xla_buffer(in, 2, "v", p->dtype, sizes.v, &v, message)) ||
        (status = weft_xla_buffer(out, 0, "o", p->dtype, sizes.o, &o, message)) ||
        (out->size > 1 && (status = weft_xla_buffer(out, 1, "lse", WEFT_FP32, sizes.lse, &lse, message))) ||
        (status = weft_xla_keep(&plan, key, message))) {
        return status;
    }
    const weft_attention_data data = {q, k, v, o, lse};
    return weft_plan_enqueue_attention(plan, &data, stream, message);
}

static weft_status run_gemm(const xla_call_frame *frame, weft_xla_key *key, void *stream, weft_message *message) {
    weft_gemm *p = &key->problem.gemm;
    weft_status status = weft_xla_attribute(frame, "problem", p, sizeof *p, message);
    if (status || (status = weft_gemm_check(p, message))) {
        return status;
    }
    if (p->beta != 0.0) {
        return weft_fail(message, WEFT_INVALID, "beta %g is not 0: c is a result, with nothing in it", p->beta);
    }
    const weft_gemm_extents sizes = weft_gemm_sizes(p);
    const weft_plan *plan;
    void *a, *b, *c;
    if ((status = weft_xla_buffer(&frame->arguments, 0, "a", p->dtype, sizes.a, &a, message)) ||
        (status = weft_xla_buffer(&frame->arguments, 1, "b", p->dtype, sizes.b, &b, message)) ||
        (status = weft_xla_buffer(&frame->results, 0, "c", p->c_dtype, sizes.c, &c, message)) ||
        (status = weft_xla_keep(&plan, key, message))) {
        return status;
    }
    const weft_gemm_data data = {a, b, c};
    return weft_plan_enqueue_gemm(plan, &data, stream, message);
}

static void *handle(const xla_call_frame *frame, weft_subject subject, weft_device_kind kind) {
    if (weft_xla_answer(frame)) {
        return NULL;
    }
    weft_message message = {""};
    weft_xla_key key;
    void *stream = NULL;
    memset(&key, 0, sizeof key);
    key.subject = subject;
    key.kind = kind;
    weft_status status;
    if ((status = weft_xla_check(frame, &message)) ||
        (status = weft_xla_attribute(frame, "schedule", &key.schedule, sizeof key.schedule, &message)) ||
        (kind == WEFT_DEVICE_CUDA && (status = weft_xla_place(frame, &key.index, &stream, &message)))) {
        return weft_xla_error(frame, status, &message);
    }
    status = subject == WEFT_SUBJECT_ATTENTION ? run_attention(frame, &key, stream, &message)
                                               : run_gemm(frame, &key, stream, &message);
    return weft_xla_error(frame, status, &message);
}

void *weft_xla_attention_cpu(void *call_frame) {
    return handle(call_frame, WEFT_SUBJECT_ATTENTION, WEFT_DEVICE_CPU);
}

void *weft_xla_attention_cuda(void *call_frame) {
    return handle(call_frame, WEFT_SUBJECT_ATTENTION, WEFT_DEVICE_CUDA);
}

void *weft_xla_gemm_cpu(void *call_frame) {
    return handle(call_frame, WEFT_SUBJECT_GEMM, WEFT_DEVICE_CPU);
}

void *weft_xla_gemm_cuda(void *call_frame) {
    return handle(call_frame, WEFT_SUBJECT_GEMM, WEFT_DEVICE_CUDA);
}
