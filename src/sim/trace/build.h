/* SPDX-License-Identifier: Apache-2.0 */
/* Building a trace, record by record, whatever the records come from. */
#ifndef WEFT_SIM_TRACE_BUILD_H
#define WEFT_SIM_TRACE_BUILD_H

#include "sim/trace/blocks.h"

/* What a record may say. */
typedef enum weft_trace_column {
    WEFT_TRACE_WORKER,
    WEFT_TRACE_POSITION,
    WEFT_TRACE_TILE,
    WEFT_TRACE_STEP,
    WEFT_TRACE_TENSOR,
    WEFT_TRACE_BLOCK,
    WEFT_TRACE_BYTES,
    WEFT_TRACE_OP,
    WEFT_TRACE_TIME,
    WEFT_TRACE_SPREAD,
    WEFT_TRACE_LOAD,
    WEFT_TRACE_COLUMNS
} weft_trace_column;

/* One record: numbers by column; time, spread and load are real. */
typedef struct weft_trace_record {
    int64_t number[WEFT_TRACE_TIME];
    double real[WEFT_TRACE_COLUMNS - WEFT_TRACE_TIME];
} weft_trace_record;

/* What is handed out, a position or a tile; or a worker. */
typedef struct weft_trace_unit {
    int64_t key;  /* its position, or its tile; not used for workers */
    int64_t tile; /* of its last record */
    int32_t last_step;
    uint32_t runs; /* 0: it has no record yet */
} weft_trace_unit;

/* Begin with zeros, set `has` and call weft_trace_build_start(). */
typedef struct weft_trace_builder {
    unsigned has; /* bits: the columns that records have */
    weft_trace_options options;
    double room, fetched; /* that a file says */
    weft_trace_blocks blocks;
    uint32_t *records;
    size_t record_count, record_room;
    weft_trace_run *runs;
    size_t run_count, run_room;
    double *seconds; /* of runs; null where there is no column of times */
    size_t seconds_room;
    weft_trace_job *jobs; /* in the order of their beginning */
    size_t job_count, job_room;
    weft_trace_unit *units;
    size_t unit_count, unit_room;
    uint32_t *unit_table; /* (unit_slots) by key: a unit plus 1 */
    size_t unit_slots;
    uint32_t unit; /* of the record before */
    int scattered; /* records of a unit do not all lie together */
} weft_trace_builder;

static inline int weft_trace_has(const weft_trace_builder *b, int column) {
    return b->has >> column & 1;
}

/* Checks the columns. */
weft_status weft_trace_build_start(weft_trace_builder *b, weft_message *message);

/* Adds a record. WEFT_INVALID, with what is wrong with it. */
weft_status weft_trace_build_add(weft_trace_builder *b, const weft_trace_record *record, weft_message *message);

/* The trace, once all records are there: finish.c. */
weft_status weft_trace_build_end(weft_trace_builder *b, const char *name, weft_trace **trace, weft_message *message);

void weft_trace_build_release(weft_trace_builder *b);

/* Name of a column; null past the last. */
const char *weft_trace_column_name(int column);

#endif
