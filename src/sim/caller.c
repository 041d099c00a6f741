/* SPDX-License-Identifier: Apache-2.0 */
/* A caller's source through the engine: its blocks become pieces, and all that it says is checked. */
#include "sim/caller.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/sources.h"

enum { AHEAD = 2 * WEFT_SIM_STAGES, MAX_STEPS = INT32_MAX };
#define WRITTEN (UINT32_C(1) << 31)

/* What is remembered of a step from its request to its end. */
typedef struct requested {
    double seconds;
    int64_t column; /* of the map: the first block that it reads; -1: it reads nothing */
    int writes;
} requested;

typedef struct caller_worker {
    weft_job job;
    double gpc_load;        /* see weft_sim_gpc_load() */
    requested ahead[AHEAD]; /* by step */
} caller_worker;

/* A run of a source. */
typedef struct caller {
    const weft_source *source;
    const weft_machine *machine;
    uint32_t *first;                    /* (tensors) the piece of a tensor's first block */
    uint32_t *weight;                   /* (pieces) sectors, and WRITTEN; 0: nobody has asked for it yet */
    caller_worker *workers;             /* (workers) */
    double sharers, cluster;            /* workers that share the L2's bandwidth, and SMs of one of ours */
    double spread_load;                 /* of the profile */
    uint64_t distinct, written, visits; /* sectors read before they are written; sectors written; pieces read */
    weft_status status;                 /* of the first thing that was wrong, and what it was */
    weft_message message;
} caller;

static void refuse(caller *c, int64_t worker, int64_t step, const weft_access *a, const char *why) {
    const weft_source *s = c->source;
    const long long tile = (long long)c->workers[worker].job.tile;
    if (c->status != WEFT_OK) {
        return;
    }
    if (!a) {
        c->status = weft_fail(&c->message, WEFT_INVALID, "tile %lld, step %lld: %s", tile, (long long)step, why);
        return;
    }
    const int known = a->tensor >= 0 && (size_t)a->tensor < s->tensor_count;
    c->status = weft_fail(&c->message, WEFT_INVALID, "tile %lld, step %lld: %lld bytes of block %lld of %.40s: %s", tile,
                          (long long)step, (long long)a->bytes, (long long)a->block,
                          known ? s->tensors[a->tensor].name : "no tensor", why);
}

static weft_step step_of(caller *c, int64_t worker, int64_t step) {
    const weft_job *job = &c->workers[worker].job;
    weft_step out = {NULL, 0, 0};
    if (c->status == WEFT_OK && step < job->steps) {
        c->source->step(c->source->user, worker, job, step, &out);
    }
    if (!(out.seconds >= 0 && isfinite(out.seconds)) || (out.count > 0 && !out.accesses)) {
        refuse(c, worker, step, NULL, out.count > 0 && !out.accesses ? "accesses is null" : "seconds is not a time");
        out = (weft_step){NULL, 0, 0};
    }
    return out;
}

/* Why an access cannot be; null: it can. */
static const char *wrong_with(const weft_source *s, const weft_access *a) {
    return a->tensor < 0 || (size_t)a->tensor >= s->tensor_count          ? "there is no such tensor"
           : a->block < 0 || a->block >= s->tensors[a->tensor].blocks     ? "there is no such block"
           : a->bytes < 1 || a->bytes > s->tensors[a->tensor].block_bytes ? "the tensor has no block of that size"
           : a->kind < WEFT_READ || a->kind > WEFT_ADD                    ? "neither read, written nor added to"
                                                                          : NULL;
}

/* The piece of an access and its sectors. Returns 0 when there is something wrong with it. */
static int piece_of(caller *c, int64_t worker, int64_t step, const weft_access *a, uint32_t *piece, uint32_t *weight) {
    const char *why = wrong_with(c->source, a);
    if (!why) {
        *piece = c->first[a->tensor] + (uint32_t)a->block;
        *weight = (uint32_t)weft_ceil_divide(a->bytes, c->machine->l2_sector);
        uint32_t *known = &c->weight[*piece];
        c->distinct += *known == 0 && a->kind != WEFT_WRITE ? *weight : 0;
        *known = *known == 0 ? *weight : *known;
        if (a->kind == WEFT_WRITE && !(*known & WRITTEN)) {
            c->written += *weight;
            *known |= WRITTEN;
        }
        if ((*known & ~WRITTEN) == *weight) {
            return 1;
        }
        why = "the block had another size before";
    }
    refuse(c, worker, step, a, why);
    return 0;
}

static requested *at_step(caller *c, int64_t worker, int64_t step) {
    return &c->workers[worker].ahead[(step + 1) % AHEAD];
}

/* A step takes as long as it computes, or as its reads need at the worker's share of the L2's bandwidth. */
static double seconds_of(const caller *c, int64_t worker, double compute, double sectors) {
    const double mean = sectors * (double)c->machine->l2_sector * c->sharers / c->cluster / c->machine->l2_bandwidth;
    return fmax(compute, mean * c->workers[worker].gpc_load);
}

static double read_step(void *context, weft_memory *memory, int64_t worker, int64_t domain, int64_t step, double now) {
    caller *c = context;
    const weft_step s = step_of(c, worker, step);
    requested *r = at_step(c, worker, step);
    double ready = now, sectors = 0;
    *r = (requested){0, -1, 0};
    for (size_t i = 0; i < s.count; i++) {
        const weft_access *a = &s.accesses[i];
        uint32_t piece, weight;
        if (a->kind != WEFT_READ) {
            r->writes = 1;
        } else if (piece_of(c, worker, step, a, &piece, &weight)) {
            const double there = weft_memory_read(memory, domain, piece, weight, now);
            ready = there > ready ? there : ready;
            sectors += weight;
            r->column = r->column < 0 ? a->block : r->column;
            c->visits++;
        }
    }
    r->seconds = seconds_of(c, worker, s.seconds, sectors);
    return ready;
}

/* Nobody waits for what is written. */
static void write_step(void *context, weft_memory *memory, int64_t worker, int64_t domain, int64_t step, double now) {
    caller *c = context;
    if (!at_step(c, worker, step)->writes) {
        return;
    }
    const weft_step s = step_of(c, worker, step);
    for (size_t i = 0; i < s.count; i++) {
        const weft_access *a = &s.accesses[i];
        uint32_t piece, weight;
        if (a->kind != WEFT_READ && piece_of(c, worker, step, a, &piece, &weight)) {
            (a->kind == WEFT_ADD ? weft_memory_add : weft_memory_write)(memory, domain, piece, weight, now);
        }
    }
}

static double step_seconds(void *context, int64_t worker, int64_t step) {
    return at_step(context, worker, step)->seconds;
}

static int64_t step_place(void *context, int64_t worker, int64_t step) {
    const caller *c = context;
    return step < c->workers[worker].job.steps ? at_step(context, worker, step)->column : -1;
}

/* How long a job's first step takes, and how busy that keeps the L2: 1 is as busy as can be. */
static void first_step(caller *c, int64_t worker, double *seconds, double *load) {
    const weft_step s = step_of(c, worker, 0);
    double sectors = 0;
    for (size_t i = 0; i < s.count; i++) {
        if (s.accesses[i].kind == WEFT_READ && !wrong_with(c->source, &s.accesses[i])) {
            sectors += (double)weft_ceil_divide(s.accesses[i].bytes, c->machine->l2_sector);
        }
    }
    *seconds = seconds_of(c, worker, s.seconds, sectors);
    *load = *seconds > 0 ? seconds_of(c, worker, 0, sectors) / *seconds : 0;
}

static int next_job(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    caller *c = context;
    weft_job *own = &c->workers[worker].job;
    const weft_job none = {0};
    *own = none;
    if (c->status != WEFT_OK || !c->source->next(c->source->user, worker, domain, own)) {
        return 0;
    }
    if (own->steps < 0 || own->steps > MAX_STEPS || own->tile < 0 || !(own->spread >= 0 && own->spread <= 1e6) ||
        !(own->load <= 1)) {
        refuse(c, worker, -1, NULL, "its steps, tile, spread or load is negative or too large");
        return 0;
    }
    double load;
    memset(job, 0, sizeof *job);
    job->steps = own->steps;
    job->last_step = own->steps - 1;
    job->direction = 1;
    job->position = own->number;
    job->tile = own->tile;
    first_step(c, worker, &job->step_seconds, &load);
    load = own->load > 0 ? fmin(1, own->load * c->workers[worker].gpc_load) : own->load < 0 ? 0 : load;
    job->spread = own->spread > 0 ? own->spread : 1;
    job->jitter = c->spread_load * load * load * load * load * job->spread;
    return 1;
}

static weft_status end(weft_sim_source *source, weft_message *message) {
    const caller *c = source->context;
    source->distinct = c->distinct;
    source->written = c->written;
    source->visits = c->visits;
    return c->status == WEFT_OK ? WEFT_OK : weft_fail(message, c->status, "%s", c->message.text);
}

static void release(void *context) {
    caller *c = context;
    free(c->first);
    free(c->weight);
    free(c->workers);
    free(c);
}

/* Numbers the blocks of all tensors; pictures show the first ones. */
static void number_blocks(weft_sim_source *out, const weft_source *s, uint32_t *first) {
    weft_sim_map *map = &out->map;
    map->columns = 1;
    map->column = "block";
    map->read = "blocks";
    for (size_t i = 0; i < s->tensor_count; i++) {
        const weft_source_tensor *t = &s->tensors[i];
        first[i] = out->pieces;
        if (i < WEFT_SIM_SECTIONS) {
            map->section[i].name = t->name;
            map->section[i].line = "tensor";
            map->section[i].first = out->pieces;
            map->section[i].pieces = (uint32_t)t->blocks;
            map->sections = (int)i + 1;
            map->columns = t->blocks > map->columns ? t->blocks : map->columns;
        }
        out->pieces += (uint32_t)t->blocks;
    }
}

/* Sectors of all blocks, at most. */
static uint64_t sectors_of(const weft_source *s, int64_t sector) {
    uint64_t sum = 0;
    for (size_t i = 0; i < s->tensor_count; i++) {
        const weft_source_tensor *t = &s->tensors[i];
        const int64_t most = t->blocks * weft_ceil_divide(t->block_bytes, sector), known = t->bytes / sector + t->blocks;
        sum += (uint64_t)(t->bytes > 0 && known < most ? known : most);
    }
    return sum;
}

static weft_status open_source(const weft_sim_subject *subject, const weft_sim_settings *settings, weft_sim_source *out,
                               weft_message *message) {
    const weft_profile *profile = &settings->profile;
    static const weft_sim_listed listed = {read_step, write_step, step_seconds, step_place};
    const weft_source *s = subject->of;
    const weft_machine *m = subject->machine;
    const int64_t workers = s->workers > 0 ? s->workers : m->workers;
    memset(out, 0, sizeof *out);
    out->workers = workers;
    out->seats = m->workers;
    out->run = s->run > 0 ? s->run : m->handout_run;
    out->listed = &listed;
    out->next = next_job;
    out->end = end;
    out->sectors = sectors_of(s, m->l2_sector);
    out->room = s->room;
    out->fetched = s->fetched;
    weft_sim_set_edges(out, m, profile, s->grid, workers);
    caller *c = calloc(1, sizeof *c);
    if (c) {
        out->context = c;
        out->release = release;
        c->source = s;
        c->machine = m;
        c->spread_load = profile->spread_load;
        c->cluster = s->cluster > 0 ? (double)s->cluster : 1;
        c->sharers = fmax((double)m->workers, (double)workers * c->cluster);
        c->workers = calloc((size_t)out->workers, sizeof *c->workers);
        c->first = calloc(s->tensor_count, sizeof *c->first);
    }
    if (c && c->first) {
        number_blocks(out, s, c->first);
        c->weight = calloc(out->pieces, sizeof *c->weight);
    }
    if (!c || !c->workers || !c->weight) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers and %u blocks", (long long)out->workers,
                         out->pieces);
    }
    for (int64_t i = 0; i < workers; i++) {
        c->workers[i].gpc_load = weft_sim_gpc_load(m, profile, i);
    }
    return !s->begin || s->begin(s->user, m, out->workers) ? WEFT_OK
                                                           : weft_fail(message, WEFT_NO_MEMORY, "no memory for the source");
}

static uint64_t count_steps(const void *of) {
    return ((const weft_source *)of)->steps;
}

weft_sim_subject weft_sim_subject_of_source(const weft_source *source, const weft_machine *machine) {
    return (weft_sim_subject){source,        machine,     source->profile ? source->profile : "generic",
                              source->flops, count_steps, open_source};
}
