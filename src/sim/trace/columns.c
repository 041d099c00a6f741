/* SPDX-License-Identifier: Apache-2.0 */
/* A trace from arrays. */
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "sim/trace/read.h"

static weft_status take_names(weft_trace_builder *b, const weft_trace_columns *c, weft_message *message) {
    for (size_t i = 0; i < c->name_count; i++) {
        const size_t before = b->blocks.tensors;
        if (!c->names[i]) {
            return weft_fail(message, WEFT_INVALID, "name %zu is null", i);
        }
        const int64_t number = weft_trace_tensor(&b->blocks, c->names[i], strlen(c->names[i]), 0, message);
        if (number < 0) {
            return weft_trace_status(number);
        }
        if (b->blocks.tensors == before) {
            return weft_fail(message, WEFT_INVALID, "tensor %s is there twice", c->names[i]);
        }
    }
    return WEFT_OK;
}

static weft_status take_records(weft_trace_builder *b, const weft_trace_columns *c, weft_message *message) {
    const int64_t *const numbers[WEFT_TRACE_TIME] = {c->worker, NULL,     c->tile,  c->step,
                                                     c->tensor, c->block, c->bytes, c->kind};
    weft_trace_record r;
    memset(&r, 0, sizeof r);
    for (size_t i = 0; i < c->count; i++) {
        for (int column = 0; column < WEFT_TRACE_TIME; column++) {
            r.number[column] = numbers[column] ? numbers[column][i] : 0;
        }
        r.real[0] = c->time ? c->time[i] : 0;
        weft_message what = {""};
        const int64_t tensor = r.number[WEFT_TRACE_TENSOR];
        const weft_status status =
            tensor >= 0 && (uint64_t)tensor < b->blocks.tensors
                ? weft_trace_build_add(b, &r, &what)
                : weft_fail(&what, WEFT_INVALID, "tensor %lld: there are %zu", (long long)tensor, b->blocks.tensors);
        if (status) {
            return weft_fail(message, status, "record %zu: %.200s", i, what.text);
        }
    }
    return WEFT_OK;
}

weft_status weft_trace_create(weft_trace **trace, const weft_trace_columns *columns, const weft_trace_options *options,
                              weft_message *message) {
    weft_trace_columns c = WEFT_TRACE_COLUMNS_INIT;
    weft_trace_builder b;
    memset(&b, 0, sizeof b);
    *trace = NULL;
    weft_status status = weft_struct_take(&c, sizeof c, sizeof(size_t), columns, "WEFT_TRACE_COLUMNS_INIT", message);
    status = status ? status : weft_trace_options_read(&b.options, options, message);
    if (status) {
        return status;
    }
    const void *const given[] = {c.worker, NULL, c.tile, c.step, c.tensor, c.block, c.bytes, c.kind, c.time};
    for (int i = 0; i <= WEFT_TRACE_TIME; i++) {
        b.has |= given[i] ? 1u << i : 0;
    }
    status = weft_trace_build_start(&b, message);
    status = status ? status : take_names(&b, &c, message);
    status = status ? status : take_records(&b, &c, message);
    status = status ? status : weft_trace_build_end(&b, "arrays", trace, message);
    weft_trace_build_release(&b);
    return status;
}
