/* SPDX-License-Identifier: Apache-2.0 */
#include "studies/simulations.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"

/* ---- gathering ---- */

static int fail(simulations *s, weft_status status, const char *text) {
    if (s->status == WEFT_OK) {
        s->status = status;
        snprintf(s->message.text, sizeof s->message.text, "%s", text);
    }
    return 0;
}

/* Makes room for one more of `size` bytes; returns 0 when there is no memory. */
static int grow(void *list, size_t count, size_t *room, size_t size) {
    if (count == *room) {
        const size_t more = *room ? 2 * *room : 32;
        void *old = *(void **)list, *larger = realloc(old, more * size);
        if (!larger) {
            return 0;
        }
        *(void **)list = larger;
        *room = more;
    }
    return 1;
}

/* Everything that tells a simulation from another, as text that the caller frees; null: no memory. */
static char *key_of(const weft_plan *plan, const weft_machine *machine, const weft_stream *stream,
                    const weft_simulate_options *o, int in_part) {
    const size_t described = plan ? weft_plan_json(plan, NULL, 0) : 0, size = described + 512;
    char *text = plan && described == 0 ? NULL : malloc(size);
    if (!text) {
        return NULL;
    }
    const int used =
        snprintf(text, size, "%s %s drift %.17g stages %lld %s ", machine->name, o->profile ? o->profile->name : "",
                 o->drift, (long long)o->stages, in_part ? "in part" : "whole");
    if (plan) {
        if (weft_plan_json(plan, text + used, size - (size_t)used) == 0) {
            free(text);
            return NULL;
        }
    } else {
        snprintf(text + used, size - (size_t)used,
                 "stream %lld of %lld by %lld, passes %lld, sharing %d, sawtooth %d, %.17g", (long long)stream->buffers,
                 (long long)stream->buffer_bytes, (long long)stream->block_bytes, (long long)stream->passes,
                 (int)stream->sharing, (int)stream->sawtooth, stream->step_seconds);
    }
    return text;
}

/* Adds one that is not there yet. */
static int add(simulations *s, char *key, weft_plan *plan, const weft_machine *machine, const weft_stream *stream,
               const weft_simulate_options *options, int in_part) {
    weft_simulation *results = calloc(s->seeds, sizeof *results);
    if (!results || !grow(&s->list, s->count, &s->room, sizeof *s->list)) {
        free(results);
        return 0;
    }
    simulation *made = &s->list[s->count++];
    memset(made, 0, sizeof *made);
    made->key = key;
    made->plan = plan;
    made->machine = *machine;
    if (stream) {
        made->stream = *stream;
    }
    made->options = *options;
    if (options->profile) {
        made->profile = *options->profile;
    }
    made->steps = plan ? weft_simulate_steps(plan) : weft_stream_steps(machine, stream);
    made->in_part = in_part;
    made->results = results;
    return 1;
}

int simulations_ask(simulations *s, weft_plan *plan, const weft_machine *machine, const weft_stream *stream,
                    const weft_simulate_options *options, int in_part) {
    char *key = key_of(plan, machine, stream, options, in_part);
    size_t at = 0;
    while (key && at < s->count && strcmp(s->list[at].key, key) != 0) {
        at++;
    }
    const int known = at < s->count;
    if (!key || !grow(&s->asked, s->requests, &s->requests_room, sizeof *s->asked) ||
        (!known && !add(s, key, plan, machine, stream, options, in_part))) {
        free(key);
        weft_plan_destroy(plan);
        return fail(s, WEFT_NO_MEMORY, "out of memory");
    }
    if (known) {
        free(key);
        weft_plan_destroy(plan);
    }
    s->asked[s->requests++] = at;
    return 1;
}

/* ---- running ---- */

/* A launch in part takes about so many steps, on a machine with a few hundred workers. */
static const double steps_in_part = 4e7;

static double units_of(const simulation *job) {
    return job->in_part ? fmin((double)job->steps, steps_in_part) : (double)job->steps;
}

/* Progress of a launch that may end long before its last step: so many of the steps it is expected to take. */
static void told_in_part(void *user, int64_t done, int64_t total) {
    const progress_part *part = user;
    (void)total;
    progress_told(user, (double)done < part->units ? done : (int64_t)part->units, (int64_t)part->units);
}

static weft_status run_job(const simulation *job, uint64_t seed, weft_simulation *result, weft_message *message) {
    weft_simulate_options options = job->options;
    progress_part part = {units_of(job), 0};
    weft_status status;
    options.seed = seed;
    options.profile = job->profile.struct_size ? &job->profile : NULL;
    options.progress = job->in_part ? told_in_part : progress_told;
    options.progress_user = &part;
    if (!job->plan) {
        status = weft_simulate_stream(&job->machine, &job->stream, &options, &result->total, &result->compulsory_misses,
                                      message);
    } else if (job->in_part) {
        status = weft_simulate_settled(job->plan, &options, result, message);
    } else {
        status = weft_simulate(job->plan, &options, result, NULL, message);
    }
    progress_part_end(&part);
    return status;
}

/* What the threads share: which simulation of which seed is next. */
typedef struct work {
    simulations *s;
    size_t *order; /* of the simulations, the longest first */
    size_t next;   /* all simulations of one seed before those of the next */
    pthread_mutex_t lock;
} work;

static void run_one(work *w, simulation *job, size_t n) {
    simulations *s = w->s;
    weft_message message = {""};
    weft_simulation result = WEFT_SIMULATION_INIT;
    const weft_status status = run_job(job, s->seed + n, &result, &message);
    job->results[n] = result;
    if (status) {
        pthread_mutex_lock(&w->lock);
        fail(s, status, message.text);
        pthread_mutex_unlock(&w->lock);
    }
}

static void *run_next(void *context) {
    work *w = context;
    const size_t count = w->s->count, all = w->s->seeds * count;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        const size_t item = w->s->status == WEFT_OK ? w->next++ : all;
        pthread_mutex_unlock(&w->lock);
        if (item >= all) {
            return NULL;
        }
        run_one(w, &w->s->list[w->order[item % count]], item / count);
    }
}

/* Runs all seeds on all cores. A thread that cannot be made is one less. */
static void run_seeds(simulations *s, size_t *order) {
    enum { THREADS = 64 };
    work w = {s, order, 0, PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[THREADS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int others = 0;
    while (others < THREADS && others < cores - 1 && pthread_create(&threads[others], NULL, run_next, &w) == 0) {
        others++;
    }
    run_next(&w);
    while (others > 0) {
        pthread_join(threads[--others], NULL);
    }
}

int simulations_run(simulations *s) {
    size_t *order = s->count ? calloc(s->count, sizeof *order) : NULL;
    if (s->count && !order) {
        return fail(s, WEFT_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < s->count; i++) { /* the longest first: no core waits for the last */
        size_t at = i;
        for (; at > 0 && units_of(&s->list[order[at - 1]]) < units_of(&s->list[i]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    if (s->status == WEFT_OK) {
        run_seeds(s, order);
    }
    free(order);
    return s->status == WEFT_OK;
}

double simulations_units(const simulations *s) {
    double units = 0;
    for (size_t i = 0; i < s->count; i++) {
        units += units_of(&s->list[i]) * (double)s->seeds;
    }
    return units;
}

/* ---- answering ---- */

const weft_simulation *simulations_answer(const simulations *s, size_t request, size_t n) {
    return &s->list[s->asked[request]].results[n];
}

void simulations_release(simulations *s) {
    for (size_t i = 0; i < s->count; i++) {
        weft_plan_destroy(s->list[i].plan);
        free(s->list[i].key);
        free(s->list[i].results);
    }
    free(s->list);
    free(s->asked);
    memset(s, 0, sizeof *s);
}
