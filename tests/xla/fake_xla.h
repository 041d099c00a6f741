/* SPDX-License-Identifier: Apache-2.0 */
/* An XLA that is none: a call frame to fill, and the few functions of its interface that a handler may call. */
#ifndef WEFT_TESTS_XLA_FAKE_XLA_H
#define WEFT_TESTS_XLA_FAKE_XLA_H

#include <string.h>

#include "../cmocka_all.h"
#include "xla/ffi.h"

enum { FAKE_BUFFERS = 9, FAKE_WORDS = 80 };

typedef struct fake_call {
    xla_call_frame frame;
    xla_api api;
    xla_buffer buffers[FAKE_BUFFERS]; /* the arguments, then the results */
    int64_t dims[FAKE_BUFFERS][4];
    int buffer_types[FAKE_BUFFERS], attribute_types[2];
    void *values[FAKE_BUFFERS], *attribute_values[2];
    xla_array arrays[2];
    int64_t words[2][FAKE_WORDS];
    xla_span names[2], *name_pointers[2];
    int32_t ordinal;
    int stream_fails, ordinal_fails, streams_asked, destroyed;
    int code; /* of the last error */
    char text[512];
} fake_call;

static fake_call *fake_current; /* XLA's functions get no pointer of the test's but the frame's context */

static void *fake_error_create(xla_error_create *arguments) {
    assert_true(arguments->struct_size >= XLA_SIZE(xla_error_create, code));
    fake_current->code = arguments->code;
    strncpy(fake_current->text, arguments->message, sizeof fake_current->text - 1);
    return fake_current;
}

static void fake_error_destroy(xla_error_destroy *arguments) {
    assert_non_null(arguments->error);
    fake_current->destroyed++;
}

static void *fake_stream_get(xla_stream_get *arguments) {
    fake_call *call = arguments->context;
    call->streams_asked++;
    arguments->stream = NULL;
    return call->stream_fails ? call : NULL;
}

static void *fake_ordinal_get(xla_ordinal_get *arguments) {
    fake_call *call = arguments->context;
    arguments->ordinal = call->ordinal;
    return call->ordinal_fails ? call : NULL;
}

static inline void fake_call_start(fake_call *call) {
    memset(call, 0, sizeof *call);
    fake_current = call;
    call->api.struct_size = sizeof call->api;
    call->api.version.minor_version = 1;
    call->api.error_create = fake_error_create;
    call->api.error_destroy = fake_error_destroy;
    call->api.stream_get = fake_stream_get;
    call->api.ordinal_get = fake_ordinal_get;
    call->frame.struct_size = sizeof call->frame;
    call->frame.api = &call->api;
    call->frame.context = call;
    call->frame.stage = XLA_EXECUTE;
    call->frame.arguments = (xla_values){sizeof(xla_values), NULL, 0, call->buffer_types, call->values};
    call->frame.results = call->frame.arguments;
    call->frame.attributes = (xla_attributes){sizeof(xla_attributes), NULL, 0, call->attribute_types, call->name_pointers,
                                              call->attribute_values};
}

static inline int fake_type(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? XLA_F32 : dtype == WEFT_FP16 ? XLA_F16 : dtype == WEFT_BF16 ? XLA_BF16 : XLA_S32;
}

static inline void fake_call_buffer(fake_call *call, int64_t at, int dtype, const void *data, const int64_t *dims,
                                    int64_t rank) {
    assert_true(at < FAKE_BUFFERS && rank <= 4);
    memcpy(call->dims[at], dims, (size_t)rank * sizeof *dims);
    call->buffers[at] = (xla_buffer){sizeof(xla_buffer), NULL, dtype, (void *)(uintptr_t)data, rank, call->dims[at]};
    call->values[at] = &call->buffers[at];
    call->buffer_types[at] = XLA_BUFFER;
}

/* All arguments come before the first result. */
static inline void fake_call_argument(fake_call *call, int dtype, const void *data, const int64_t *dims, int64_t rank) {
    fake_call_buffer(call, call->frame.arguments.size++, dtype, data, dims, rank);
    call->frame.results.types = call->buffer_types + call->frame.arguments.size;
    call->frame.results.values = call->values + call->frame.arguments.size;
}

static inline void fake_call_result(fake_call *call, int dtype, const void *data, const int64_t *dims, int64_t rank) {
    const int64_t at = call->frame.arguments.size + call->frame.results.size++;
    fake_call_buffer(call, at, dtype, data, dims, rank);
}

static inline void fake_call_attribute(fake_call *call, const char *name, const void *structure, size_t size) {
    const int64_t at = call->frame.attributes.size++;
    assert_true(at < 2 && size % 8 == 0 && size <= sizeof call->words[0]);
    memcpy(call->words[at], structure, size);
    call->arrays[at] = (xla_array){XLA_S64, size / 8, call->words[at]};
    call->names[at] = (xla_span){name, strlen(name)};
    call->name_pointers[at] = &call->names[at];
    call->attribute_types[at] = XLA_ARRAY;
    call->attribute_values[at] = &call->arrays[at];
}

static inline void fake_call_refused(void *(*handler)(void *), fake_call *call, int code, const char *text) {
    assert_ptr_equal(handler(&call->frame), call);
    if (call->code != code || !strstr(call->text, text)) {
        fail_msg("\"%s\" (%d) is not in \"%s\" (%d)", text, code, call->text, call->code);
    }
}

#endif
