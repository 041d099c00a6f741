/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a call of XLA's: its attributes, its buffers, where it runs. */
#ifndef WEFT_XLA_CALL_H
#define WEFT_XLA_CALL_H

#include <weft/weft.h>

#include "xla/ffi.h"

/* Answers XLA's question about the handler, where the frame asks it: 1 when there is nothing more to do. */
int weft_xla_answer(const xla_call_frame *frame);

/* Whether the frame is of a known version and stage, with room for everything that is read from it. */
weft_status weft_xla_check(const xla_call_frame *frame, weft_message *message);

/* Copies an attribute, an array of int64 that holds a structure of `size` bytes. */
weft_status weft_xla_attribute(const xla_call_frame *frame, const char *name, void *to, size_t size, weft_message *message);

/* A buffer that must be there, of a dtype and with that many elements. */
weft_status weft_xla_buffer(const xla_values *values, int64_t index, const char *name, weft_dtype dtype, size_t elements,
                            void **data, weft_message *message);

/* The GPU that a call runs on, and its stream. */
weft_status weft_xla_place(const xla_call_frame *frame, int32_t *index, void **stream, weft_message *message);

/* A status as XLA's error; null for WEFT_OK. */
void *weft_xla_error(const xla_call_frame *frame, weft_status status, const weft_message *message);

#endif
