/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers: a frame of XLA's becomes a plan and its data. */
#include <weft/xla.h>

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "xla/call.h"
#include "xla/kept.h"

/* What a call gives and takes, in the order of the operation's buffers: inputs are arguments, outputs are results. An
 * optional buffer may be missing at the end. */
static weft_status read_buffers(const xla_call_frame *frame, const weft_operation_row *row, const weft_problem *problem,
                                weft_data *data, weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = row->buffers(problem, list);
    int64_t arguments = 0, results = 0;
    weft_status status = WEFT_OK;
    memset(data, 0, sizeof *data);
    data->struct_size = row->info.data_size;
    data->operation = row->info.operation;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        const weft_buffer *b = &list[i];
        const xla_values *values = b->is_written ? &frame->results : &frame->arguments;
        int64_t *next = b->is_written ? &results : &arguments;
        void *at = NULL;
        if (b->is_written && b->is_read) {
            return weft_fail(message, WEFT_INVALID, "%s would be read, and a result holds nothing", b->name);
        }
        if (b->optional && *next >= values->size) {
            continue;
        }
        status = weft_xla_buffer(values, (*next)++, b->name, b->dtype, b->elements, &at, message);
        memcpy((char *)data + b->offset, &at, sizeof at);
    }
    return status;
}

static int is_attention(const weft_operation_row *row) {
    return row->info.grid == WEFT_GRID_HEADS;
}

/* The seed of dropout, which is no buffer. */
static weft_status read_seed(const xla_call_frame *frame, const weft_operation_row *row, const weft_problem *problem,
                             weft_data *data, weft_message *message) {
    if (!is_attention(row) || problem->attention.dropout == 0) {
        return WEFT_OK;
    }
    return weft_xla_attribute(frame, "seed", (char *)data + row->seed, sizeof(uint64_t), message);
}

/* Addresses in whichever process compiled the call would be read. */
static weft_status check_pointers(const weft_operation_row *row, const weft_problem *problem, weft_message *message) {
    const weft_lengths none = {0};
    const weft_pairs no_pairs = {0};
    const char *what = NULL;
    if (is_attention(row)) {
        const weft_attention *p = &problem->attention;
        what = memcmp(&p->pairs, &no_pairs, sizeof no_pairs) != 0                    ? "masks"
               : memcmp(&p->lengths, &none, sizeof none) != 0 || p->cache.new_starts ? "lengths"
                                                                                     : NULL;
    } else if (row->kept_bytes && row->kept_bytes(problem) > 0) {
        what = "bounds";
    }
    return what ? weft_fail(message, WEFT_INVALID, "%s are arguments of a call: the problem's own must be null", what)
                : WEFT_OK;
}

static weft_status run(const xla_call_frame *frame, const weft_operation_row *row, weft_xla_key *key, void *stream,
                       weft_message *message) {
    weft_status status = weft_xla_attribute(frame, "problem", &key->problem, row->info.problem_size, message);
    weft_problem resolved;
    weft_data data;
    const weft_operation_row *given;
    const weft_plan *plan;
    if (status || (status = check_pointers(row, &key->problem, message)) ||
        (status = weft_problem_resolve(&resolved, &given, &key->problem, message))) {
        return status;
    }
    if (given != row) {
        return weft_fail(message, WEFT_INVALID, "the handler is for %s, and the problem is %s", row->info.name,
                         given->info.name);
    }
    if ((status = read_buffers(frame, row, &resolved, &data, message)) ||
        (status = read_seed(frame, row, &resolved, &data, message)) || (status = weft_xla_keep(&plan, key, message))) {
        return status;
    }
    return weft_plan_enqueue(plan, &data, stream, message);
}

static void *handle(const xla_call_frame *frame, int32_t operation, weft_device_kind kind) {
    if (weft_xla_answer(frame)) {
        return NULL;
    }
    weft_message message = {""};
    weft_xla_key key;
    void *stream = NULL;
    memset(&key, 0, sizeof key);
    key.kind = kind;
    weft_status status;
    if ((status = weft_xla_check(frame, &message)) ||
        (status = weft_xla_attribute(frame, "schedule", &key.schedule, sizeof key.schedule, &message)) ||
        (kind == WEFT_DEVICE_CUDA && (status = weft_xla_place(frame, &key.index, &stream, &message)))) {
        return weft_xla_error(frame, status, &message);
    }
    if (key.schedule.order_table) { /* an address in whichever process compiled the call */
        snprintf(message.text, sizeof message.text, "order custom is not for XLA: a call cannot carry its table");
        return weft_xla_error(frame, WEFT_UNSUPPORTED, &message);
    }
    return weft_xla_error(frame, run(frame, weft_operation_at(operation), &key, stream, &message), &message);
}

void *weft_xla_attention_cpu(void *call_frame) {
    return handle(call_frame, WEFT_ATTENTION, WEFT_DEVICE_CPU);
}

void *weft_xla_attention_cuda(void *call_frame) {
    return handle(call_frame, WEFT_ATTENTION, WEFT_DEVICE_CUDA);
}

void *weft_xla_attention_backward_cpu(void *call_frame) {
    return handle(call_frame, WEFT_ATTENTION_BACKWARD, WEFT_DEVICE_CPU);
}

void *weft_xla_attention_backward_cuda(void *call_frame) {
    return handle(call_frame, WEFT_ATTENTION_BACKWARD, WEFT_DEVICE_CUDA);
}

void *weft_xla_gemm_cpu(void *call_frame) {
    return handle(call_frame, WEFT_GEMM, WEFT_DEVICE_CPU);
}

void *weft_xla_gemm_cuda(void *call_frame) {
    return handle(call_frame, WEFT_GEMM, WEFT_DEVICE_CUDA);
}

void *weft_xla_grouped_gemm_cpu(void *call_frame) {
    return handle(call_frame, WEFT_GROUPED_GEMM, WEFT_DEVICE_CPU);
}

void *weft_xla_grouped_gemm_cuda(void *call_frame) {
    return handle(call_frame, WEFT_GROUPED_GEMM, WEFT_DEVICE_CUDA);
}
