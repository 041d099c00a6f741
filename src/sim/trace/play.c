/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace/play.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* What a worker has in hand: jobs of a unit. */
typedef struct weft_trace_hand {
    uint32_t next, end; /* jobs */
    uint32_t unit;      /* static dispatch: the next one */
    int began;
} weft_trace_hand;

static int begin(void *user, const weft_machine *machine, int64_t workers) {
    weft_trace *t = user;
    free(t->hands);
    free(t->next_of_domain);
    t->hands = calloc((size_t)workers, sizeof *t->hands);
    t->next_of_domain = calloc((size_t)machine->domains, sizeof *t->next_of_domain);
    if (!t->hands || !t->next_of_domain) {
        return 0;
    }
    t->workers = workers;
    t->next = 0;
    t->round_robin = t->dispatch == WEFT_DISPATCH_GRID && machine->handout == WEFT_HANDOUT_ROUND_ROBIN;
    const int64_t busy = workers < t->unit_count ? workers : t->unit_count;
    t->lanes = machine->domains < busy ? machine->domains : busy;
    for (int64_t d = 0; d < machine->domains; d++) {
        t->next_of_domain[d] = (uint32_t)d;
    }
    return 1;
}

/* The next unit of a worker; unit_count or more when there is none. */
static int64_t take_unit(weft_trace *t, int64_t worker, int64_t domain) {
    weft_trace_hand *hand = &t->hands[worker];
    int64_t unit;
    if (t->by_worker) {
        unit = hand->began ? t->unit_count : worker;
    } else if (t->dispatch == WEFT_DISPATCH_STATIC) {
        unit = hand->began ? hand->unit + t->workers : worker;
        hand->unit = (uint32_t)(unit < t->unit_count ? unit : t->unit_count);
    } else if (t->round_robin) {
        unit = t->next_of_domain[domain];
        t->next_of_domain[domain] += unit < t->unit_count ? (uint32_t)t->lanes : 0;
    } else {
        unit = t->next;
        t->next += unit < t->unit_count;
    }
    hand->began = 1;
    return unit;
}

static int next(void *user, int64_t worker, int64_t domain, weft_job *job) {
    weft_trace *t = user;
    weft_trace_hand *hand = &t->hands[worker];
    if (hand->next == hand->end) {
        const int64_t unit = take_unit(t, worker, domain);
        if (unit >= t->unit_count || t->units[unit] == t->units[unit + 1]) {
            return 0;
        }
        hand->next = t->units[unit];
        hand->end = t->units[unit + 1];
    }
    const weft_trace_job *j = &t->jobs[hand->next];
    job->number = hand->next++;
    job->tile = j->tile;
    job->steps = (j + 1)->first - j->first - j->prologue;
    job->spread = j->spread;
    job->load = j->load;
    return 1;
}

static void step_of(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) {
    weft_trace *t = user;
    const weft_trace_job *j = &t->jobs[job->number];
    (void)worker;
    if (step < 0 && !j->prologue) {
        return;
    }
    const uint32_t run = (uint32_t)(j->first + j->prologue + step), from = t->runs[run].first;
    out->accesses = t->accesses;
    out->count = t->runs[run + 1].first - from;
    for (size_t i = 0; i < out->count; i++) {
        const uint32_t record = t->records[from + i];
        const weft_trace_block *block = &t->blocks[record & UINT32_MAX >> WEFT_TRACE_KIND_BITS];
        t->accesses[i] = (weft_access){(int32_t)block->tensor, (int32_t)(record >> (32 - WEFT_TRACE_KIND_BITS)),
                                       block->block, block->bytes};
    }
    const double seconds = t->seconds ? t->seconds[run] : 0;
    out->seconds = step < 0 ? 0 : seconds > 0 ? seconds : t->step_seconds;
}

/* Numbers the tiles for views: as they are in a grid that was given, or where nearly all are there; else in the order of
 * the jobs. */
static weft_status number_tiles(weft_trace *t, int64_t *rows, int64_t *cols, weft_message *message) {
    const int given = *rows > 0 || *cols > 0;
    int64_t most = -1, product;
    for (uint32_t i = 0; i < t->job_count; i++) {
        most = t->jobs[i].tile > most ? t->jobs[i].tile : most;
    }
    if (most < 0 || (!given && most >= 2 * (int64_t)t->job_count)) {
        for (uint32_t i = 0; i < t->job_count; i++) {
            t->jobs[i].tile = i;
        }
        most = (int64_t)t->job_count - 1;
    }
    if (!given) {
        *rows = 1;
        *cols = most + 1;
    } else if (*rows < 1 || *cols < 1 || !weft_multiply(*rows, *cols, &product) || most >= product) {
        return weft_fail(message, WEFT_INVALID, "tile %lld is not in a grid of %lld x %lld", (long long)most,
                         (long long)*rows, (long long)*cols);
    }
    return WEFT_OK;
}

/* Steps of all jobs, and the longest list of what a step does. */
static uint64_t measure(const weft_trace *t, size_t *longest) {
    uint64_t steps = 0;
    for (uint32_t i = 0; i < t->job_count; i++) {
        steps += t->jobs[i + 1].first - t->jobs[i].first - t->jobs[i].prologue;
    }
    for (uint32_t i = 0; i < t->run_count; i++) {
        const size_t length = t->runs[i + 1].first - t->runs[i].first;
        *longest = length > *longest ? length : *longest;
    }
    return steps;
}

weft_status weft_trace_set_source(weft_trace *t, const weft_trace_options *o, weft_message *message) {
    const weft_source init = WEFT_SOURCE_INIT;
    weft_source *s = &t->source;
    size_t longest = 1;
    *s = init;
    s->rows = o->rows;
    s->cols = o->cols;
    const weft_status status = number_tiles(t, &s->rows, &s->cols, message);
    if (status) {
        return status;
    }
    if (t->by_worker && o->workers > 0 && o->workers < t->unit_count) {
        return weft_fail(message, WEFT_INVALID, "the trace has %u workers, not %lld", t->unit_count, (long long)o->workers);
    }
    t->dispatch = o->dispatch ? o->dispatch : WEFT_DISPATCH_GRID;
    t->step_seconds = o->step_seconds;
    s->name = t->name;
    s->tensors = t->tensors;
    s->tensor_count = t->tensor_count;
    s->workers = o->workers > 0 ? o->workers : t->by_worker ? t->unit_count : 0;
    s->cluster = o->cluster;
    s->run = o->run;
    s->jobs = t->job_count;
    s->steps = measure(t, &longest);
    s->flops = o->flops;
    s->grid = !t->by_worker && t->dispatch == WEFT_DISPATCH_GRID;
    if (o->profile) {
        snprintf(t->profile, sizeof t->profile, "%s", o->profile);
        s->profile = t->profile;
    }
    s->user = t;
    s->begin = begin;
    s->next = next;
    s->step = step_of;
    t->accesses = malloc(longest * sizeof *t->accesses);
    return t->accesses ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for a step of %zu records", longest);
}

const weft_source *weft_trace_source(const weft_trace *trace) {
    return &trace->source;
}

uint64_t weft_trace_records(const weft_trace *trace) {
    return trace->record_count;
}

void weft_trace_destroy(weft_trace *t) {
    if (t) {
        free(t->names);
        free(t->tensors);
        free(t->blocks);
        free(t->records);
        free(t->runs);
        free(t->seconds);
        free(t->jobs);
        free(t->units);
        free(t->accesses);
        free(t->hands);
        free(t->next_of_domain);
        free(t);
    }
}
