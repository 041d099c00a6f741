/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Traces: what a kernel of your own reads and writes, block by block, from a file or from arrays. docs/own-kernel.md has
 * the formats and examples.
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A trace, read and checked. It holds 4 bytes a record and 16 to 24 a step. */
typedef struct weft_trace weft_trace;

/** What a trace does not say record by record. What is set here takes the place of what a file says. */
typedef struct weft_trace_options {
    size_t struct_size; /**< set by WEFT_TRACE_INIT */
    const char *name;   /**< for people; null: the file's */
    int64_t workers;    /**< 0: the machine's, or as many as the trace names */
    int32_t dispatch;   /**< a weft_dispatch: how tiles reach workers; 0: WEFT_DISPATCH_GRID */
    int64_t cluster;    /**< see weft_source, like the next four */
    int64_t run;
    int64_t rows, cols;
    double flops;
    double step_seconds;    /**< of a step without a time */
    const char *profile;    /**< see weft_source; null: "generic" */
    weft_progress progress; /**< null, or told how many bytes of a file of how many are read; not of standard input */
    void *progress_user;    /**< its first argument */
} weft_trace_options;

#define WEFT_TRACE_INIT                                                                                                    \
    { sizeof(weft_trace_options), NULL, 0, 0, 0, 0, 0, 0, 0.0, 0.0, NULL, NULL, NULL }

/** A trace as arrays, one element a record. */
typedef struct weft_trace_columns {
    size_t struct_size;    /**< set by WEFT_TRACE_COLUMNS_INIT */
    size_t count;          /**< records */
    const int64_t *worker; /**< who does it; null: tiles are handed out */
    const int64_t *tile;   /**< null: `worker` says it all */
    const int64_t *step;   /**< null: every record is a step of its own */
    const int64_t *tensor; /**< numbers of `names` */
    const int64_t *block, *bytes;
    const int64_t *kind; /**< a weft_access_kind each; null: all are reads */
    const double *time;  /**< seconds of computing, of a step; null: options.step_seconds */
    const char *const *names;
    size_t name_count;
} weft_trace_columns;

#define WEFT_TRACE_COLUMNS_INIT                                                                                            \
    { sizeof(weft_trace_columns), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0 }

/** Reads a trace from a file, CSV or binary; "-" is standard input. WEFT_INVALID with a message that names the file, the
 * line and what is wrong; WEFT_IO when it cannot be read. On failure *trace is null. */
WEFT_API weft_status weft_trace_read(weft_trace **trace, const char *path, const weft_trace_options *options,
                                     weft_message *message);

/** The same from memory; `label` stands for the file's name in messages. */
WEFT_API weft_status weft_trace_parse(weft_trace **trace, const void *data, size_t size, const char *label,
                                      const weft_trace_options *options, weft_message *message);

/** The same from arrays, which are copied. */
WEFT_API weft_status weft_trace_create(weft_trace **trace, const weft_trace_columns *columns,
                                       const weft_trace_options *options, weft_message *message);

/** Releases it; null is fine. */
WEFT_API void weft_trace_destroy(weft_trace *trace);

/** The trace as a source, which lives as long as the trace. Simulate it with weft_simulate_source(). */
WEFT_API const weft_source *weft_trace_source(const weft_trace *trace);

/** Records in all. */
WEFT_API uint64_t weft_trace_records(const weft_trace *trace);

/** How to write a trace. */
typedef enum weft_trace_format { WEFT_TRACE_CSV = 0, WEFT_TRACE_BINARY = 1 } weft_trace_format;

/** Writes what the workers of a plan do as a trace; a null path is standard output. Simulated on the plan's machine with
 * the same options, the trace gives the counts and the time of the plan. WEFT_UNSUPPORTED where tiles are handed out by
 * side of the L2.
 * @param plan     from weft_plan_create()
 * @param options  null: the defaults; of them, the profile matters, and progress is told of tiles
 * @param format   which form
 * @param path     the file; null: standard output
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_trace_write_plan(const weft_plan *plan, const weft_simulate_options *options,
                                           weft_trace_format format, const char *path, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
