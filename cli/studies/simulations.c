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
                    const weft_simulate_options *o) {
    const size_t described = plan ? weft_plan_json(plan, NULL, 0) : 0, size = described + 512;
    char *text = plan && described == 0 ? NULL : malloc(size);
    if (!text) {
        return NULL;
    }
    const int used =
        snprintf(text, size, "%s %s drift %.17g stages %lld limit %llu ", machine->name, o->profile ? o->profile->name : "",
                 o->drift, (long long)o->stages, (unsigned long long)o->limit);
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
               const weft_simulate_options *options) {
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
    made->limit = options->limit;
    made->results = results;
    return 1;
}

int simulations_ask(simulations *s, weft_plan *plan, const weft_machine *machine, const weft_stream *stream,
                    const weft_simulate_options *options) {
    char *key = key_of(plan, machine, stream, options);
    size_t at = 0;
    while (key && at < s->count && strcmp(s->list[at].key, key) != 0) {
        at++;
    }
    const int known = at < s->count;
    if (!key || !grow(&s->asked, s->requests, &s->requests_room, sizeof *s->asked) ||
        (!known && !add(s, key, plan, machine, stream, options))) {
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

/* Changes that end the doubling: of the hit rate, and of the time, as a share. */
static const double settled_hits = 0.005, settled_time = 0.01;

/* The first `limit` steps, or with 0 all of them. */
static weft_status run_once(const simulation *job, uint64_t seed, uint64_t limit, weft_simulation *result,
                            weft_message *message) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    weft_simulate_options options = job->options;
    progress_part part = {(double)(limit > 0 && limit < job->steps ? limit : job->steps), 0};
    options.seed = seed;
    options.profile = job->profile.struct_size ? &job->profile : NULL;
    options.limit = limit;
    options.progress = progress_told;
    options.progress_user = &part;
    *result = none;
    const weft_status status = job->plan ? weft_simulate(job->plan, &options, result, NULL, message)
                                         : weft_simulate_stream(&job->machine, &job->stream, &options, &result->total,
                                                                &result->compulsory_misses, message);
    progress_part_end(&part);
    return status;
}

/* Both counts are of the whole, scaled from the shares that were simulated. */
static double forecast(double half, double part, double half_share, double share) {
    const double rate = (part * share - half * half_share) / (share - half_share);
    return fmax(part * share + rate * (1 - share), 0);
}

weft_simulation simulations_forecast(const weft_simulation *half, const weft_simulation *part) {
    weft_simulation whole = *part;
    if (part->simulated >= 1 || part->simulated <= half->simulated) {
        return whole;
    }
    const uint64_t *const from[2][7] = {
        {&half->total.sectors_from_sm, &half->total.hits, &half->total.misses, &half->total.fabric_sectors,
         &half->total.llc_hits, &half->total.dram_read_bytes, &half->total.dram_write_bytes},
        {&part->total.sectors_from_sm, &part->total.hits, &part->total.misses, &part->total.fabric_sectors,
         &part->total.llc_hits, &part->total.dram_read_bytes, &part->total.dram_write_bytes}};
    uint64_t *const to[] = {&whole.total.sectors_from_sm, &whole.total.hits,     &whole.total.misses,
                            &whole.total.fabric_sectors,  &whole.total.llc_hits, &whole.total.dram_read_bytes,
                            &whole.total.dram_write_bytes};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        *to[i] = (uint64_t)llround(forecast((double)*from[0][i], (double)*from[1][i], half->simulated, part->simulated));
    }
    whole.total.sectors = whole.total.hits + whole.total.misses;
    whole.seconds = forecast(half->seconds, part->seconds, half->simulated, part->simulated);
    whole.tflops = whole.seconds > 0 ? part->tflops * part->seconds / whole.seconds : 0;
    return whole;
}

static int is_settled(const weft_simulation *last, const weft_simulation *now) {
    return fabs(weft_hit_rate(&now->total) - weft_hit_rate(&last->total)) < settled_hits &&
           fabs(now->seconds - last->seconds) < settled_time * last->seconds;
}

/* The first seed finds how many steps are enough; the others take as many. */
static weft_status run_in_part(simulation *job, uint64_t seed, int first, weft_simulation *result, weft_message *message) {
    weft_simulation half, more, last = WEFT_SIMULATION_INIT;
    uint64_t limit = first ? job->limit : job->limit / 2;
    weft_status status = run_once(job, seed, limit, &half, message);
    for (int settled = 0; status == WEFT_OK && !settled; half = more) {
        limit *= 2;
        status = run_once(job, seed, limit, &more, message);
        *result = simulations_forecast(&half, &more);
        settled = !first || more.simulated >= 1 || (last.simulated > 0 && is_settled(&last, result));
        last = *result;
    }
    if (first) {
        job->limit = limit;
    }
    return status;
}

/* What the threads share: which simulation of which seed is next. */
typedef struct work {
    simulations *s;
    size_t *order;           /* of the simulations, the longest first */
    size_t begin, end, next; /* seeds begin .. end, all simulations of one before those of the next */
    pthread_mutex_t lock;
} work;

static double units_of(const simulation *job) {
    const double parts = 7.0 * (double)job->options.limit; /* a first part, twice, and four times as much */
    return job->options.limit > 0 && parts < (double)job->steps ? parts : (double)job->steps;
}

static void run_one(work *w, simulation *job, size_t n) {
    simulations *s = w->s;
    weft_message message = {""};
    weft_simulation result = WEFT_SIMULATION_INIT;
    const uint64_t seed = s->seed + n;
    const weft_status status = job->limit > 0 && job->limit < job->steps ? run_in_part(job, seed, n == 0, &result, &message)
                                                                         : run_once(job, seed, 0, &result, &message);
    job->results[n] = result;
    if (status) {
        pthread_mutex_lock(&w->lock);
        fail(s, status, message.text);
        pthread_mutex_unlock(&w->lock);
    }
}

static void *run_next(void *context) {
    work *w = context;
    const size_t count = w->s->count, all = (w->end - w->begin) * count;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        const size_t item = w->s->status == WEFT_OK ? w->next++ : all;
        pthread_mutex_unlock(&w->lock);
        if (item >= all) {
            return NULL;
        }
        run_one(w, &w->s->list[w->order[item % count]], w->begin + item / count);
    }
}

/* Runs the seeds begin .. end on all cores. A thread that cannot be made is one less. */
static void run_seeds(simulations *s, size_t *order, size_t begin, size_t end) {
    enum { THREADS = 64 };
    work w = {s, order, begin, end, 0, PTHREAD_MUTEX_INITIALIZER};
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
        for (; at > 0 && s->list[order[at - 1]].steps < s->list[i].steps; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    if (s->status == WEFT_OK) {
        run_seeds(s, order, 0, 1);
        run_seeds(s, order, 1, s->seeds);
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
