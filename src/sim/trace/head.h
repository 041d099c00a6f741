/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a trace file: what a first line says of all records, and the line that names the columns. */
#ifndef WEFT_SIM_TRACE_HEAD_H
#define WEFT_SIM_TRACE_HEAD_H

#include "sim/trace/build.h"

/* Reads "#weft trace key=value ...", whose text ends at `length`; sets *binary. */
weft_status weft_trace_head(weft_trace_builder *b, const char *line, size_t length, int *binary, weft_message *message);

/* Reads "tile,step,tensor,...": fills columns (WEFT_TRACE_COLUMNS at most) and *count, and the builder's `has`. */
weft_status weft_trace_names(weft_trace_builder *b, const char *line, size_t length, int *columns, size_t *count,
                             weft_message *message);

/* A whole number, or a real one, that fills the text; returns 0 when it does not. */
int weft_trace_number(const char *text, size_t length, int64_t *number);
int weft_trace_real(const char *text, size_t length, double *real);

#endif
