/* SPDX-License-Identifier: Apache-2.0 */
/* A trace from the inside.
 *
 * Records are in the order in which they are simulated. A run of them is a step; runs of one tile or worker that go up in
 * steps are a job; the jobs that are handed out together, or that one worker does, are a unit. */
#ifndef WEFT_SIM_TRACE_TRACE_H
#define WEFT_SIM_TRACE_TRACE_H

#include <weft/trace.h>

enum { WEFT_TRACE_KIND_BITS = 2, WEFT_TRACE_NAME = 64, WEFT_TRACE_TENSORS = 1 << 16, WEFT_TRACE_WORKERS = 1 << 20 };
#define WEFT_TRACE_PIECES (UINT32_C(1) << 30)

/* A block of a tensor. */
typedef struct weft_trace_block {
    int64_t block;
    uint32_t tensor;
    uint32_t bytes;
} weft_trace_block;

/* One step of a job. */
typedef struct weft_trace_run {
    uint32_t first; /* record; the next run's first ends it */
    uint32_t unit;
    int32_t step; /* -1: before the first */
    uint32_t job; /* that begins here, plus 1; 0: none does */
} weft_trace_run;

typedef struct weft_trace_job {
    uint32_t first;    /* run; the next job's first ends it */
    uint32_t prologue; /* 1: the first run is step -1 */
    int64_t tile;
    double spread, load;
} weft_trace_job;

struct weft_trace {
    char name[96], profile[256];
    int by_worker; /* 1: units are workers; 0: tiles, which are handed out */
    int32_t dispatch;
    double step_seconds; /* of a step without a time */
    struct weft_trace_name *names;
    weft_source_tensor *tensors;
    size_t tensor_count;
    weft_trace_block *blocks; /* (pieces) each with its number in its tensor as a source has it */
    uint32_t *records;        /* (record_count) piece, kind in the highest bits */
    uint32_t record_count, run_count, job_count, unit_count;
    weft_trace_run *runs; /* (run_count + 1) */
    double *seconds;      /* (run_count) or null */
    weft_trace_job *jobs; /* (job_count + 1) */
    uint32_t *units;      /* (unit_count + 1) the first job of each */
    weft_source source;
    weft_access *accesses; /* (the longest run) */
    /* Of the simulation at hand. */
    struct weft_trace_hand *hands; /* (workers) */
    uint32_t *next_of_domain;      /* (domains) grid dispatch handed out in turn: each domain's next unit */
    uint32_t next;                 /* dynamic dispatch, and grid dispatch to whoever is free: the next unit */
    int64_t workers, lanes;        /* lanes: domains that have a worker */
    int round_robin;
};

#endif
