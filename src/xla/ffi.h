/* SPDX-License-Identifier: Apache-2.0 */
/* XLA's foreign function interface, version 0.1 to 0.4, as far as weft uses it: the layout of its C structures.
 *
 * Each structure begins with its size, by which both sides tell what the other knows; fields are only ever added at the
 * end. tests/python/test_xla_abi.py holds this to the header that jaxlib carries. */
#ifndef WEFT_XLA_FFI_H
#define WEFT_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a structure up to the end of its last known field. */
#define XLA_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

enum xla_data_type { XLA_PRED = 1, XLA_S32 = 4, XLA_S64 = 5, XLA_F16 = 10, XLA_F32 = 11, XLA_BF16 = 16 };
enum xla_extension_type { XLA_METADATA = 1 };
enum xla_value_type { XLA_BUFFER = 1 };
enum xla_attribute_type { XLA_ARRAY = 1 };
enum xla_stage { XLA_EXECUTE = 3 };

/* absl's status codes. */
enum xla_code {
    XLA_INVALID_ARGUMENT = 3,
    XLA_NOT_FOUND = 5,
    XLA_RESOURCE_EXHAUSTED = 8,
    XLA_UNIMPLEMENTED = 12,
    XLA_INTERNAL = 13
};

typedef struct xla_extension {
    size_t struct_size;
    int type; /* an xla_extension_type */
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t struct_size;
    xla_extension *extensions;
    int major_version, minor_version;
} xla_version;

/* What XLA asks a handler once, when it is registered. */
typedef struct xla_metadata {
    size_t struct_size;
    xla_version version;
    uint32_t traits; /* bit 0: calls can be captured in a command buffer */
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
    size_t struct_size;
    xla_extension *extensions;
    int dtype; /* an xla_data_type */
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_buffer;

typedef struct xla_array {
    int dtype;
    size_t size; /* elements */
    void *data;
} xla_array;

typedef struct xla_span {
    const char *text; /* not terminated */
    size_t length;
} xla_span;

/* Arguments or results: `values` are buffers where `types` says so. */
typedef struct xla_values {
    size_t struct_size;
    xla_extension *extensions;
    int64_t size;
    int *types;
    void **values;
} xla_values;

typedef struct xla_attributes {
    size_t struct_size;
    xla_extension *extensions;
    int64_t size;
    int *types;
    xla_span **names;
    void **values;
} xla_attributes;

typedef struct xla_error_create {
    size_t struct_size;
    xla_extension *extensions;
    const char *message;
    int code; /* an xla_code */
} xla_error_create;

typedef struct xla_error_destroy {
    size_t struct_size;
    xla_extension *extensions;
    void *error;
} xla_error_destroy;

typedef struct xla_stream_get {
    size_t struct_size;
    xla_extension *extensions;
    void *context;
    void *stream; /* out: a CUstream */
} xla_stream_get;

typedef struct xla_ordinal_get {
    size_t struct_size;
    xla_extension *extensions;
    void *context;
    int32_t ordinal; /* out: the device, as its driver numbers it */
} xla_ordinal_get;

typedef struct xla_api {
    size_t struct_size;
    xla_extension *extensions;
    xla_version version;
    const void *internal;
    void *(*error_create)(xla_error_create *arguments);
    void *error_details;
    void (*error_destroy)(xla_error_destroy *arguments);
    void *handler_register;
    void *(*stream_get)(xla_stream_get *arguments);
    void *others[12]; /* types, state, memory, threads, futures, run */
    void *(*ordinal_get)(xla_ordinal_get *arguments);
} xla_api;

typedef struct xla_call_frame {
    size_t struct_size;
    xla_extension *extensions;
    const xla_api *api;
    void *context;
    int stage; /* an xla_stage */
    xla_values arguments;
    xla_values results;
    xla_attributes attributes;
} xla_call_frame;

#endif
