/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/recording.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/tally.h"
#include "problem/problem.h"

enum { CELLS = 12288 }; /* of all domains together, at most */

/* A run that is being recorded. */
typedef struct recorder {
    weft_recording *recording;
    weft_memory *memory;
    weft_reuse *reuse; /* (domains) */
    const weft_sim_source *source;
    double frame_seconds; /* length of a frame */
    int64_t frame;        /* the one at hand */
    size_t *visit_of;     /* (workers) the visit in hand, plus 1; 0: none */
    int32_t *place;       /* (workers) */
    uint8_t *missed;      /* (workers) */
    uint32_t *count_of;   /* (rows x cols) pieces of a cell that are there */
    uint32_t *pieces_of;  /* (rows x cols) pieces of a cell */
    uint64_t hits, misses, in_flight;
    uint64_t profile[WEFT_PROFILE_BINS + 1];
    weft_recording_use use; /* of the domain that is being looked at */
    int failed;
} recorder;

/* ---- what the L2s hold ---- */

/* Chooses cells so that the maps of all domains are small enough, and lays out the sections. */
static void lay_out(weft_recording *t, const weft_sim_map *map) {
    t->sections = map->sections;
    t->steps = map->columns;
    t->step = map->column;
    t->read = map->read;
    t->tile_row = map->tile_row;
    t->tile_column = map->tile_column;
    for (int i = 0; i < map->sections; i++) {
        t->section[i].name = map->section[i].name;
        t->section[i].line = map->section[i].line;
        t->section[i].first = map->section[i].first;
        t->section[i].pieces = map->section[i].pieces;
        t->section[i].lines = weft_ceil_divide(map->section[i].pieces, map->columns);
    }
    t->lines_per_cell = t->steps_per_cell = 1;
    for (;;) {
        t->rows = 0;
        t->cols = weft_ceil_divide(t->steps, t->steps_per_cell);
        for (int i = 0; i < t->sections; i++) {
            t->section[i].first_row = t->rows;
            t->section[i].rows = weft_ceil_divide(t->section[i].lines, t->lines_per_cell);
            t->rows += t->section[i].rows;
        }
        if (t->rows * t->cols * t->domains <= CELLS || t->rows * t->cols <= t->sections) {
            return;
        }
        *(t->rows > t->cols && t->rows > t->sections ? &t->lines_per_cell : &t->steps_per_cell) *= 2;
    }
}

/* The cell of a piece; -1: pictures do not show it. */
static int64_t cell_of(const weft_recording *t, uint32_t piece) {
    for (int i = 0; i < t->sections; i++) {
        const weft_recording_section *section = &t->section[i];
        const uint32_t at = piece - section->first; /* of an earlier section's, a large number */
        if (at < section->pieces) {
            return (section->first_row + at / t->steps / t->lines_per_cell) * t->cols + at % t->steps / t->steps_per_cell;
        }
    }
    return -1;
}

/* Counts the pieces of each cell, fewer at the edges. */
static void count_pieces(const weft_recording *t, uint32_t pieces, uint32_t *pieces_of) {
    for (uint32_t piece = 0; piece < pieces; piece++) {
        const int64_t cell = cell_of(t, piece);
        if (cell >= 0) {
            pieces_of[cell]++;
        }
    }
}

static void tell_piece(void *context, uint32_t id, uint32_t weight) {
    recorder *r = context;
    const uint32_t piece = r->memory->split ? id / 2 : id;
    const int64_t cell = cell_of(r->recording, piece);
    if (cell >= 0) {
        r->count_of[cell]++;
        r->use.streams += weight;
    } else {
        r->use.others += weight;
    }
}

static void look_at(recorder *r, int64_t domain) {
    weft_recording *t = r->recording;
    const int64_t at = r->frame * t->domains + domain, cells = t->rows * t->cols;
    memset(r->count_of, 0, (size_t)cells * sizeof *r->count_of);
    memset(&r->use, 0, sizeof r->use);
    weft_cache_list(&r->memory->domain[domain].l2, tell_piece, r);
    for (int64_t i = 0; i < cells; i++) {
        const int64_t whole = r->pieces_of[i] * (r->memory->split ? INT64_C(2) : 1);
        if (whole > 0) {
            t->resident[at * cells + i] = (uint8_t)weft_ceil_divide(r->count_of[i] * (int64_t)WEFT_RECORDING_FULL, whole);
        }
    }
    t->use[at] = r->use;
    t->traffic[at] = weft_memory_traffic(r->memory, domain);
}

/* ---- what the observer is told ---- */

static void end_frame(recorder *r) {
    weft_recording *t = r->recording;
    for (int64_t d = 0; d < t->domains; d++) {
        look_at(r, d);
    }
    const size_t workers = (size_t)t->workers, at = (size_t)r->frame;
    memcpy(t->place + at * workers, r->place, workers * sizeof *r->place);
    memcpy(t->missed + at * workers, r->missed, workers);
    memcpy(t->distances + at * (WEFT_PROFILE_BINS + 1), r->profile, sizeof r->profile);
    memset(r->profile, 0, sizeof r->profile);
    memset(r->missed, 0, workers);
    r->frame++;
}

/* Ends the frames that lie before `now`; the last one ends with the run. */
static void reach(recorder *r, double now) {
    while (r->frame + 1 < r->recording->frames && now >= r->frame_seconds * (double)(r->frame + 1)) {
        end_frame(r);
    }
}

/* Whatever was counted since the last call is this worker's. */
static void settle(recorder *r, int64_t worker) {
    uint64_t hits = 0, misses = 0, in_flight = 0;
    for (int64_t d = 0; d < r->recording->domains; d++) {
        const weft_memory_domain *domain = &r->memory->domain[d];
        hits += domain->traffic.hits;
        misses += domain->traffic.misses;
        in_flight += domain->in_flight;
    }
    if (r->visit_of[worker] != 0) {
        weft_recording_visit *v = &r->recording->visits[r->visit_of[worker] - 1];
        v->hits += hits - r->hits;
        v->misses += misses - r->misses;
        v->in_flight += in_flight - r->in_flight;
    }
    r->missed[worker] |= misses != r->misses;
    r->hits = hits;
    r->misses = misses;
    r->in_flight = in_flight;
}

/* Where in the map a worker is: the column that its step reads. */
static int32_t place_of(const recorder *r, int64_t worker, int64_t step) {
    const weft_sim_listed *listed = r->source->listed;
    return (int32_t)(listed ? listed->place(r->source->context, worker, step) : step);
}

/* Which line of each of the first sections a job reads: of several CTAs', the first one's. */
static void find_lines(const weft_recording *t, const weft_sim_job *job, int64_t line[WEFT_RECORDING_LINES]) {
    for (int s = 0; s < WEFT_RECORDING_LINES; s++) {
        line[s] = -1;
        for (int i = 0; s < t->sections && i <= job->streams && line[s] < 0; i++) {
            const weft_sim_stream *stream = i < job->streams ? &job->stream[i] : &job->sums;
            const uint32_t at = stream->base - t->section[s].first; /* of an earlier section's, a large number */
            line[s] = at < t->section[s].pieces && (i < job->streams || stream->weight > 0) ? at / t->steps : -1;
        }
    }
}

static void began(void *context, int64_t worker, int64_t domain, const weft_sim_job *job, double now) {
    recorder *r = context;
    weft_recording *t = r->recording;
    t->domain_of[worker] = domain;
    if (t->count == t->room) {
        const size_t room = t->room ? 2 * t->room : 1024;
        weft_recording_visit *visits = realloc(t->visits, room * sizeof *visits);
        if (!visits) {
            r->failed = 1;
            return;
        }
        t->visits = visits;
        t->room = room;
    }
    weft_recording_visit *v = &t->visits[t->count++];
    *v = (weft_recording_visit){.worker = worker,
                                .position = job->position,
                                .tile = job->tile,
                                .first = weft_sim_step(job, 0),
                                .last = weft_sim_step(job, job->steps > 0 ? job->steps - 1 : 0),
                                .steps = job->steps,
                                .direction = job->direction,
                                .begin = now,
                                .end = now};
    find_lines(t, job, v->line);
    r->visit_of[worker] = t->count;
    r->place[worker] = place_of(r, worker, job->first);
    settle(r, worker);
    reach(r, now);
}

static void stepped(void *context, int64_t worker, int64_t step, double now) {
    recorder *r = context;
    settle(r, worker);
    r->place[worker] = place_of(r, worker, step);
    reach(r, now);
}

static void ended(void *context, int64_t worker, double now) {
    recorder *r = context;
    settle(r, worker);
    if (r->visit_of[worker] != 0) {
        r->recording->visits[r->visit_of[worker] - 1].end = now;
    }
    r->visit_of[worker] = 0;
    r->place[worker] = -1;
    reach(r, now);
}

/* ---- the run ---- */

static int make_room(weft_recording *t, recorder *r, uint32_t pieces, uint64_t sectors) {
    const size_t frames = (size_t)t->frames, domains = (size_t)t->domains, workers = (size_t)t->workers;
    const size_t cells = (size_t)(t->rows * t->cols);
    t->domain_of = calloc(workers, sizeof *t->domain_of);
    t->resident = calloc(frames * domains * cells, sizeof *t->resident);
    t->use = calloc(frames * domains, sizeof *t->use);
    t->traffic = calloc(frames * domains, sizeof *t->traffic);
    t->place = calloc(frames * workers, sizeof *t->place);
    t->missed = calloc(frames * workers, sizeof *t->missed);
    t->distances = calloc(frames * (WEFT_PROFILE_BINS + 1), sizeof *t->distances);
    r->visit_of = calloc(workers, sizeof *r->visit_of);
    r->place = calloc(workers, sizeof *r->place);
    r->missed = calloc(workers, sizeof *r->missed);
    r->count_of = calloc(cells, sizeof *r->count_of);
    r->pieces_of = calloc(cells, sizeof *r->pieces_of);
    r->reuse = calloc(domains, sizeof *r->reuse);
    int fine = t->domain_of && t->resident && t->use && t->traffic && t->place && t->missed && t->distances &&
               r->visit_of && r->place && r->missed && r->count_of && r->pieces_of && r->reuse;
    for (size_t d = 0; fine && d < domains; d++) {
        fine = weft_reuse_init(&r->reuse[d], pieces, sectors);
        r->reuse[d].profile = r->profile;
    }
    for (size_t w = 0; fine && w < workers; w++) {
        r->place[w] = -1;
    }
    return fine;
}

static void release_recorder(recorder *r) {
    for (int64_t d = 0; r->reuse && d < r->recording->domains; d++) {
        weft_reuse_release(&r->reuse[d]);
    }
    free(r->reuse);
    free(r->visit_of);
    free(r->place);
    free(r->missed);
    free(r->count_of);
    free(r->pieces_of);
}

static int by_begin(const void *a, const void *b) {
    const weft_recording_visit *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->worker > y->worker) - (x->worker < y->worker);
}

/* Runs it a second time, now that it is known how long it takes. */
static weft_status record(weft_recording *t, const weft_sim_subject *subject, const weft_sim_settings *o,
                          weft_message *message) {
    weft_sim_source source;
    weft_memory memory;
    weft_sim_outcome outcome;
    recorder r;
    memset(&memory, 0, sizeof memory);
    memset(&r, 0, sizeof r);
    r.recording = t;
    r.memory = &memory;
    r.source = &source;
    r.frame_seconds = t->sim.seconds / (double)t->frames;
    weft_status status = subject->open(subject, o, &source, message);
    if (status == WEFT_OK) {
        t->workers = source.workers;
        lay_out(t, &source.map);
        if (!make_room(t, &r, source.pieces, source.sectors) ||
            !weft_memory_init(&memory, subject->machine, &o->profile, source.pieces, o->seed)) {
            status = weft_fail(message, WEFT_NO_MEMORY, "no memory for a recording of %u pieces", source.pieces);
        }
    }
    if (status == WEFT_OK) {
        const weft_sim_observer observer = {began, stepped, ended, &r};
        count_pieces(t, source.pieces, r.pieces_of);
        source.observer = &observer;
        source.steps = o->progress ? subject->steps(subject->of) : 0;
        memory.reuse = r.reuse;
        status = weft_sim_run(&memory, &source, o, &outcome, message);
    }
    if (status == WEFT_OK && r.failed) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for a recording of %zu visits", t->count);
    }
    if (t->count > 0) {
        qsort(t->visits, t->count, sizeof *t->visits, by_begin);
    }
    while (status == WEFT_OK && r.frame < t->frames) {
        end_frame(&r);
    }
    release_recorder(&r);
    weft_memory_release(&memory);
    weft_sim_close(&source);
    return status;
}

weft_status weft_recording_make(weft_recording *recording, const weft_sim_subject *subject,
                                const weft_simulate_options *options, int64_t frames, weft_message *message) {
    memset(recording, 0, sizeof *recording);
    if (!subject || frames < 1) {
        return weft_fail(message, WEFT_INVALID, !subject ? "subject is null" : "a recording has at least one frame");
    }
    weft_sim_settings o;
    weft_status status = weft_sim_settings_read(&o, options, subject->profile, message);
    if (status) {
        return status;
    }
    o.limit = 0; /* a recording is of the whole run */
    recording->frames = frames;
    recording->domains = subject->machine->domains;
    recording->totals = calloc((size_t)recording->domains, sizeof *recording->totals);
    if (!recording->totals) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld domains", (long long)recording->domains);
    }
    const double steps = o.progress ? (double)subject->steps(subject->of) : 0;
    weft_tally tally = WEFT_TALLY(o.progress, o.progress_user, 2 * steps);
    weft_tally_part simulated = {&tally, steps, 0}, recorded = simulated;
    o.progress = o.progress ? weft_tally_told : NULL;
    o.progress_user = &simulated;
    status = weft_sim_simulate(subject, &o, &recording->sim, recording->totals, message);
    o.progress_user = &recorded;
    return status ? status : record(recording, subject, &o, message);
}

void weft_recording_release(weft_recording *recording) {
    free(recording->totals);
    free(recording->domain_of);
    free(recording->visits);
    free(recording->resident);
    free(recording->use);
    free(recording->traffic);
    free(recording->place);
    free(recording->missed);
    free(recording->distances);
    memset(recording, 0, sizeof *recording);
}
