/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a plan do, as a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "sim/sources.h"
#include "sim/trace/build.h"

enum { BUFFER = 1 << 16, LONGEST = 512, SECTIONS = WEFT_SECTIONS + 2 };

typedef struct writer {
    weft_file file;
    int binary, positions; /* 1: a column position, where a position is several tiles */
    int64_t sector;
    int tensors;
    char name[SECTIONS][WEFT_TRACE_NAME];
    uint32_t first[SECTIONS], blocks[SECTIONS];
    size_t used;
    char buffer[BUFFER];
} writer;

static void flush(writer *w) {
    weft_file_put(&w->file, w->buffer, w->used);
    w->used = 0;
}

/* The tensors of a plan: its sections, what is read once and what is written. */
static void name_tensors(writer *w, const weft_sim_walk *walk, const weft_sim_source *source) {
    const struct {
        const char *name;
        uint32_t first, end;
    } more[] = {{"read-once", walk->first_lead, walk->first_out}, {"out", walk->first_out, source->pieces}};
    for (int i = 0; i < source->map.sections; i++) {
        snprintf(w->name[i], sizeof w->name[i], "%s", source->map.section[i].name);
        for (char *c = strchr(w->name[i], ' '); c; c = strchr(c, ' ')) {
            *c = '-';
        }
        w->first[i] = source->map.section[i].first;
        w->blocks[i] = source->map.section[i].pieces;
    }
    w->tensors = source->map.sections;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++, w->tensors++) {
        snprintf(w->name[w->tensors], sizeof w->name[w->tensors], "%s", more[i].name);
        w->first[w->tensors] = more[i].first;
        w->blocks[w->tensors] = more[i].end - more[i].first;
    }
}

/* " profile=NAME" of a profile that others can find by that name. */
static void profile_word(const weft_profile *profile, char *text, size_t size) {
    text[0] = '\0';
    for (size_t i = 0; weft_profile_name(i); i++) {
        if (strcmp(weft_profile_name(i), profile->name) == 0) {
            snprintf(text, size, " profile=%s", profile->name);
        }
    }
}

static void put_head(writer *w, const weft_plan *plan, const weft_sim_source *source, const weft_profile *profile) {
    const weft_walk *walk = &plan->walk;
    char text[LONGEST * 4], word[64];
    profile_word(profile, word, sizeof word);
    size_t used = (size_t)snprintf(text, sizeof text, "#weft trace%s tensors=", w->binary ? " binary" : "");
    for (int i = 0; i < w->tensors; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%u", i ? "," : "", w->name[i], w->blocks[i]);
    }
    snprintf(text + used, sizeof text - used,
             " grid=%lldx%lld workers=%lld dispatch=%s cluster=%lld run=%lld flops=%.17g room=%.17g fetched=%.17g%s\n"
             "%stile,step,tensor,block,bytes,op,time,spread,load\n",
             (long long)(walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows), (long long)walk->cols,
             (long long)walk->workers, weft_dispatch_describe(walk->dispatch)->name,
             (long long)(walk->cluster_rows * walk->cluster_cols), (long long)source->run,
             plan->operation->flops(&plan->problem), source->room > 0 ? source->room : 1,
             source->fetched > 0 ? source->fetched : 1, word, walk->visits > 1 ? "position," : "");
    weft_file_put(&w->file, text, strlen(text));
}

static void put_bytes(writer *w, uint64_t bits, int count) {
    for (int i = 0; i < count; i++) {
        w->buffer[w->used++] = (char)(unsigned char)(bits >> (8 * i));
    }
}

static void put_real(writer *w, double real) {
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    put_bytes(w, bits, 8);
}

static void put(writer *w, int64_t step, uint32_t piece, uint32_t weight, int32_t kind, const weft_sim_job *job) {
    static const char *const ops[] = {[WEFT_READ] = "read", [WEFT_WRITE] = "write", [WEFT_ADD] = "add"};
    int tensor = w->tensors - 1;
    while (piece < w->first[tensor]) {
        tensor--;
    }
    const uint32_t block = piece - w->first[tensor];
    const int64_t bytes = weight * w->sector;
    const double seconds = step < 0 ? 0 : job->step_seconds, load = job->load > 0 ? job->load : -1;
    if (w->used > BUFFER - LONGEST) {
        flush(w);
    }
    if (w->binary) {
        if (w->positions) {
            put_bytes(w, (uint64_t)job->position, 4);
        }
        put_bytes(w, (uint64_t)job->tile, 4);
        put_bytes(w, (uint64_t)step, 4);
        put_bytes(w, (uint64_t)tensor, 2);
        put_bytes(w, block, 8);
        put_bytes(w, (uint64_t)bytes, 4);
        put_bytes(w, (uint64_t)kind, 1);
        put_real(w, seconds);
        put_real(w, job->spread);
        put_real(w, load);
        return;
    }
    if (w->positions) {
        w->used += (size_t)snprintf(w->buffer + w->used, LONGEST / 2, "%lld,", (long long)job->position);
    }
    w->used += (size_t)snprintf(w->buffer + w->used, LONGEST / 2, "%lld,%lld,%s,%u,%lld,%s,%.17g,%.17g,%.17g\n",
                                (long long)job->tile, (long long)step, w->name[tensor], block, (long long)bytes, ops[kind],
                                seconds, job->spread, load);
}

static void put_job(writer *w, const weft_sim_job *job) {
    if (job->lead_weight > 0) {
        put(w, -1, job->lead, job->lead_weight, WEFT_READ, job);
    }
    for (int64_t i = 0; i < job->steps; i++) {
        const int64_t step = weft_sim_step(job, i);
        for (int s = 0; s < job->streams; s++) {
            const weft_sim_stream *stream = &job->stream[s];
            put(w, i, weft_sim_piece(stream, step), weft_sim_weight(job, stream, step), WEFT_READ, job);
        }
        if (job->sums.weight > 0) {
            put(w, i, weft_sim_piece(&job->sums, step), weft_sim_weight(job, &job->sums, step), WEFT_ADD, job);
        }
    }
    if (job->out_weight > 0) {
        put(w, job->steps - 1, job->out, job->out_weight, WEFT_WRITE, job);
    }
}

static void put_walk(writer *w, const weft_sim_walk *walk, const weft_sim_settings *settings) {
    const weft_walk *plan = &walk->plan->walk;
    for (int64_t position = 0; position < plan->order.count; position++) {
        if (settings->progress) {
            settings->progress(settings->progress_user, position, plan->order.count);
        }
        for (int32_t which = 0; which < plan->visits; which++) {
            weft_visit visit;
            weft_sim_job job;
            memset(&job, 0, sizeof job);
            if (weft_walk_visit(plan, position, weft_divide(position, &plan->by_workers), which, &visit)) {
                for (int64_t pass = 0; pass < walk->pieces.passes; pass++) {
                    weft_sim_walk_job(walk, -1, &visit, pass, &job);
                    put_job(w, &job);
                }
            }
        }
    }
}

weft_status weft_trace_write_plan(const weft_plan *plan, const weft_simulate_options *options, weft_trace_format format,
                                  const char *path, weft_message *message) {
    weft_sim_source source;
    weft_sim_walk walk;
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    weft_sim_settings settings;
    weft_status status = weft_sim_settings_read(&settings, options, weft_plan_profile(plan), message);
    if (status) {
        return status;
    }
    status = weft_sim_walk_make(&source, &walk, plan, &settings, message);
    if (status == WEFT_OK && walk.by_side) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "tiles that are handed out by side of the L2 make no trace");
    }
    if (status == WEFT_OK && walk.runs.count > 0) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "runs make no trace: take a profile without runs");
    }
    if (status == WEFT_OK && source.turn) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "adds that take turns make no trace: take a profile without in_turn");
    }
    writer *w = status == WEFT_OK ? malloc(sizeof *w) : NULL;
    if (status == WEFT_OK && !w) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory to write a trace");
    }
    if (status == WEFT_OK && (status = weft_file_begin(&w->file, path, message)) == WEFT_OK) {
        w->binary = format == WEFT_TRACE_BINARY;
        w->positions = plan->walk.visits > 1;
        w->sector = plan->machine.l2_sector;
        w->used = 0;
        name_tensors(w, &walk, &source);
        put_head(w, plan, &source, &settings.profile);
        put_walk(w, &walk, &settings);
        flush(w);
        status = weft_file_end(&w->file, message);
    }
    free(w);
    weft_sim_walk_release(&walk);
    return status;
}
