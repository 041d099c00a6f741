/* SPDX-License-Identifier: Apache-2.0 */
#include "xla/call.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

int weft_xla_answer(const xla_call_frame *frame) {
    for (const xla_extension *e = frame->extensions; e; e = e->next) {
        if (e->type != XLA_METADATA) {
            continue;
        }
        xla_metadata *metadata = ((const xla_metadata_extension *)(const void *)e)->metadata;
        /* The newest version that both know. An old XLA passes no api here and takes 0.1 alone; within a major version
         * nothing that is used here moves. */
        const int same = frame->api && frame->api->version.major_version == 0;
        metadata->version.major_version = 0;
        metadata->version.minor_version = same ? frame->api->version.minor_version : 1;
        metadata->traits = 0;
        return 1;
    }
    return 0;
}

weft_status weft_xla_check(const xla_call_frame *frame, weft_message *message) {
    if (frame->struct_size < XLA_SIZE(xla_call_frame, attributes) || frame->arguments.struct_size < sizeof(xla_values) ||
        frame->results.struct_size < sizeof(xla_values) || frame->attributes.struct_size < sizeof(xla_attributes)) {
        return weft_fail(message, WEFT_UNSUPPORTED, "XLA's call frame of %zu bytes is older than weft knows",
                         frame->struct_size);
    }
    if (frame->stage != XLA_EXECUTE) {
        return weft_fail(message, WEFT_UNSUPPORTED, "XLA calls at stage %d, and weft runs at stage %d", frame->stage,
                         (int)XLA_EXECUTE);
    }
    return WEFT_OK;
}

weft_status weft_xla_attribute(const xla_call_frame *frame, const char *name, void *to, size_t size,
                               weft_message *message) {
    const xla_attributes *all = &frame->attributes;
    for (int64_t i = 0; i < all->size; i++) {
        if (all->names[i]->length != strlen(name) || memcmp(all->names[i]->text, name, all->names[i]->length) != 0) {
            continue;
        }
        const xla_array *array = all->values[i];
        if (all->types[i] != XLA_ARRAY || array->dtype != XLA_S64 || array->size != size / sizeof(int64_t)) {
            return weft_fail(message, WEFT_INVALID,
                             "the attribute %s is not an array of %zu int64: it is of another version of weft", name,
                             size / sizeof(int64_t));
        }
        memcpy(to, array->data, size);
        return WEFT_OK;
    }
    return weft_fail(message, WEFT_INVALID, "there is no attribute %s", name);
}

static int data_type_of(weft_dtype dtype) {
    switch ((int)dtype) {
    case WEFT_FP32:
        return XLA_F32;
    case WEFT_FP16:
        return XLA_F16;
    case WEFT_BF16:
        return XLA_BF16;
    case WEFT_INT32:
        return XLA_S32;
    case WEFT_INT64:
        return XLA_S64;
    default:
        return XLA_PRED;
    }
}

weft_status weft_xla_buffer(const xla_values *values, int64_t index, const char *name, weft_dtype dtype, size_t elements,
                            void **data, weft_message *message) {
    if (index >= values->size || values->types[index] != XLA_BUFFER) {
        return weft_fail(message, WEFT_INVALID, "the call has no buffer for %s", name);
    }
    const xla_buffer *buffer = values->values[index];
    if (buffer->struct_size < sizeof *buffer || buffer->dtype != data_type_of(dtype)) {
        return weft_fail(message, WEFT_INVALID, "%s is of XLA's data type %d, and the problem is %s", name, buffer->dtype,
                         weft_dtype_name(dtype));
    }
    int64_t count = 1;
    for (int64_t i = 0; i < buffer->rank; i++) {
        if (buffer->dims[i] < 0 || !weft_multiply(count, buffer->dims[i], &count)) {
            return weft_fail(message, WEFT_INVALID, "%s has a dimension of %" PRId64, name, buffer->dims[i]);
        }
    }
    if ((size_t)count != elements) {
        return weft_fail(message, WEFT_INVALID, "%s has %" PRId64 " elements, and the problem needs %zu", name, count,
                         elements);
    }
    *data = buffer->data;
    return WEFT_OK;
}

/* Frees an error of XLA's own, whose text stays unread. */
static weft_status fail_api(const xla_api *api, void *error, const char *what, weft_message *message) {
    xla_error_destroy destroy = {sizeof destroy, NULL, error};
    api->error_destroy(&destroy);
    return weft_fail(message, WEFT_FAILED, "XLA does not tell %s", what);
}

weft_status weft_xla_place(const xla_call_frame *frame, int32_t *index, void **stream, weft_message *message) {
    const xla_api *api = frame->api;
    xla_stream_get get_stream = {sizeof get_stream, NULL, frame->context, NULL};
    xla_ordinal_get get_ordinal = {XLA_SIZE(xla_ordinal_get, ordinal), NULL, frame->context, 0};
    if (api->struct_size < sizeof *api) {
        return weft_fail(message, WEFT_UNSUPPORTED, "this XLA does not say on which GPU a call runs: take a newer jaxlib");
    }
    void *error = api->stream_get(&get_stream);
    if (error) {
        return fail_api(api, error, "the stream of a call", message);
    }
    error = api->ordinal_get(&get_ordinal);
    if (error) {
        return fail_api(api, error, "the GPU of a call", message);
    }
    *stream = get_stream.stream;
    *index = get_ordinal.ordinal;
    return WEFT_OK;
}

void *weft_xla_error(const xla_call_frame *frame, weft_status status, const weft_message *message) {
    static const int codes[] = {[WEFT_INVALID] = XLA_INVALID_ARGUMENT,
                                [WEFT_UNSUPPORTED] = XLA_UNIMPLEMENTED,
                                [WEFT_NOT_FOUND] = XLA_NOT_FOUND,
                                [WEFT_NO_MEMORY] = XLA_RESOURCE_EXHAUSTED,
                                [WEFT_IO] = XLA_INTERNAL,
                                [WEFT_FAILED] = XLA_INTERNAL};
    if (status == WEFT_OK) {
        return NULL;
    }
    xla_error_create create = {XLA_SIZE(xla_error_create, code), NULL, message->text, codes[status]};
    /* cppcheck-suppress returnDanglingLifetime ; the error is XLA's own, and holds a copy of the text */
    return frame->api->error_create(&create);
}
