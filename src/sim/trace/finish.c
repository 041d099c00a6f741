/* SPDX-License-Identifier: Apache-2.0 */
/* The end of building a trace: records of a unit together, jobs, blocks in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/status.h"
#include "sim/trace/build.h"
#include "sim/trace/play.h"

/* Where each unit's runs begin once they lie together: (units + 1). Null when memory ran out. */
static size_t *count_runs(const weft_trace_builder *b) {
    size_t *first = calloc(b->unit_count + 1, sizeof *first);
    for (size_t i = 0; first && i < b->run_count; i++) {
        first[b->runs[i].unit + 1]++;
    }
    for (size_t i = 0; first && i < b->unit_count; i++) {
        first[i + 1] += first[i];
    }
    return first;
}

/* Puts runs, and the records of each, in the order of their units; within a unit they stay as they are. */
static int gather(weft_trace_builder *b) {
    weft_trace_run *runs = malloc((b->run_count + 1) * sizeof *runs);
    uint32_t *records = malloc(b->record_count * sizeof *records), *was = malloc(b->run_count * sizeof *was);
    double *seconds = b->seconds ? malloc(b->run_count * sizeof *seconds) : NULL;
    size_t *next = count_runs(b);
    const int fine = runs && records && was && next && (seconds || !b->seconds);
    for (size_t i = 0; fine && i < b->run_count; i++) {
        was[next[b->runs[i].unit]++] = (uint32_t)i;
    }
    uint32_t count = 0;
    for (size_t i = 0; fine && i < b->run_count; i++) {
        const uint32_t from = b->runs[was[i]].first;
        const uint32_t to = was[i] + 1 < b->run_count ? b->runs[was[i] + 1].first : (uint32_t)b->record_count;
        runs[i] = b->runs[was[i]];
        runs[i].first = count;
        memcpy(records + count, b->records + from, (to - from) * sizeof *records);
        count += to - from;
        if (seconds) {
            seconds[i] = b->seconds[was[i]];
        }
    }
    if (fine) {
        free(b->runs);
        free(b->records);
        free(b->seconds);
        b->runs = runs;
        b->run_room = b->run_count + 1;
        b->records = records;
        b->seconds = seconds;
    } else {
        free(runs);
        free(records);
        free(seconds);
    }
    free(was);
    free(next);
    return fine;
}

/* Makes one run of those that are one step. */
static void merge(weft_trace_builder *b) {
    size_t count = 0;
    for (size_t i = 0; i < b->run_count; i++) {
        const weft_trace_run *run = &b->runs[i], *last = count > 0 ? &b->runs[count - 1] : NULL;
        const int same = last && last->unit == run->unit && last->step == run->step && run->job == 0;
        count += !same;
        if (b->seconds && (!same || b->seconds[i] > b->seconds[count - 1])) {
            b->seconds[count - 1] = b->seconds[i];
        }
        if (!same) {
            b->runs[count - 1] = *run;
        }
    }
    b->run_count = count;
}

/* The jobs of each unit, and where each begins. */
static int list_jobs(weft_trace_builder *b, weft_trace *t) {
    t->jobs = calloc(b->job_count + 1, sizeof *t->jobs);
    t->units = calloc(b->unit_count + 1, sizeof *t->units);
    if (!t->jobs || !t->units) {
        return 0;
    }
    uint32_t unit = 0;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const weft_trace_run *run = &b->runs[i];
        if (run->job != 0) {
            while (unit < run->unit) { /* workers may have nothing to do */
                t->units[++unit] = t->job_count;
            }
            t->jobs[t->job_count] = b->jobs[run->job - 1];
            t->jobs[t->job_count].first = i;
            t->jobs[t->job_count++].prologue = run->step == -1;
        }
    }
    while (unit < b->unit_count) {
        t->units[++unit] = t->job_count;
    }
    t->jobs[t->job_count].first = (uint32_t)b->run_count;
    return 1;
}

/* Gives the records the final numbers of their blocks. */
static int number_blocks(weft_trace_builder *b) {
    const uint32_t mask = UINT32_MAX >> WEFT_TRACE_KIND_BITS;
    uint32_t *number = malloc((b->blocks.pieces + 1) * sizeof *number);
    const int fine = number && weft_trace_sort_blocks(&b->blocks, number);
    for (size_t i = 0; fine && i < b->record_count; i++) {
        b->records[i] = (b->records[i] & ~mask) | number[b->records[i] & mask];
    }
    free(number);
    return fine;
}

/* Moves what was built into the trace. */
static int hand_over(weft_trace_builder *b, weft_trace *t) {
    weft_trace_run *end = b->run_count < b->run_room ? b->runs : realloc(b->runs, (b->run_count + 1) * sizeof *end);
    if (!end) {
        return 0;
    }
    b->runs = end;
    b->runs[b->run_count] = (weft_trace_run){(uint32_t)b->record_count, UINT32_MAX, 0, 0};
    t->tensors = weft_trace_tensors(&b->blocks);
    if (!t->tensors) {
        return 0;
    }
    t->tensor_count = b->blocks.tensors;
    t->names = b->blocks.names;
    t->blocks = b->blocks.blocks;
    t->records = b->records;
    t->runs = b->runs;
    t->seconds = b->seconds;
    b->blocks.names = NULL;
    b->blocks.blocks = NULL;
    b->records = NULL;
    b->runs = NULL;
    b->seconds = NULL;
    t->record_count = (uint32_t)b->record_count;
    t->run_count = (uint32_t)b->run_count;
    t->unit_count = (uint32_t)b->unit_count;
    t->by_worker = weft_trace_has(b, WEFT_TRACE_WORKER);
    return 1;
}

weft_status weft_trace_build_end(weft_trace_builder *b, const char *name, weft_trace **trace, weft_message *message) {
    *trace = NULL;
    if (b->record_count == 0) {
        return weft_fail(message, WEFT_INVALID, "there is no record");
    }
    weft_trace *t = calloc(1, sizeof *t);
    if (!t || (b->scattered && !gather(b)) || !number_blocks(b)) {
        free(t);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a trace of %zu records", b->record_count);
    }
    merge(b);
    weft_copy_text(t->name, sizeof t->name, b->options.name ? b->options.name : name);
    if (!list_jobs(b, t) || !hand_over(b, t)) {
        weft_trace_destroy(t);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a trace of %zu records", b->record_count);
    }
    const weft_status status = weft_trace_set_source(t, &b->options, message);
    t->source.room = b->room;
    t->source.fetched = b->fetched;
    if (status) {
        weft_trace_destroy(t);
        return status;
    }
    *trace = t;
    return WEFT_OK;
}
