#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"

typedef struct sim_worker {
    weft_sim_job job;
    int64_t done;   /* steps begun */
    double seconds; /* a step, what this tile is slower or faster included */
    double ready[WEFT_SIM_STAGES];
    double time; /* of the worker's next event */
    int64_t domain;
    int32_t next; /* in the wheel's bucket; -1: last */
    int busy;     /* has a job */
} sim_worker;

/* Events in the order of time, to within a bucket: a wheel of buckets, each a list of workers. Later rounds of the wheel
 * share the buckets, so a worker found too early stays where it is. */
enum { BUCKETS = 4096 };
typedef struct wheel {
    int32_t first[BUCKETS], last[BUCKETS];
    uint64_t tick;     /* the bucket at hand, rounds included */
    int again;         /* something was scheduled for the bucket at hand */
    double per_second; /* buckets; 0 until the first job shows how long a step is, when all workers stand at time 0 */
} wheel;

typedef struct engine {
    weft_memory *memory;
    const weft_sim_source *source;
    sim_worker *workers;
    wheel wheel;
    int64_t stages;
    double spread_step, spread_tile;
    uint64_t limit, random;
    weft_sim_outcome *outcome;
    const weft_sim_observer *observer; /* or null */
    const weft_sim_settings *settings;
    uint64_t next_told; /* the number of steps to tell of progress at */
} engine;

enum { STEPS_BETWEEN = 1 << 16 }; /* two tellings of progress: about a millisecond */

static void tell_progress(engine *e) {
    const uint64_t all = e->limit != 0 && e->limit < e->source->steps ? e->limit : e->source->steps;
    e->next_told = e->outcome->steps + STEPS_BETWEEN;
    e->settings->progress(e->settings->progress_user, (int64_t)(e->outcome->steps < all ? e->outcome->steps : all),
                          (int64_t)all);
}

/* About normal, of standard deviation 1: the sum of four uniform numbers. */
static double next_spread(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += weft_random_real(state) - 0.5;
    }
    return sum * 1.7320508075688772;
}

static void schedule(engine *e, int32_t worker, double time) {
    wheel *wh = &e->wheel;
    const uint64_t tick = (uint64_t)(time * wh->per_second), bucket = tick % BUCKETS;
    wh->again |= tick <= wh->tick;
    e->workers[worker].time = time;
    e->workers[worker].next = -1;
    if (wh->first[bucket] < 0) {
        wh->first[bucket] = worker;
    } else {
        e->workers[wh->last[bucket]].next = worker;
    }
    wh->last[bucket] = worker;
}

/* Asks for the pieces of the job's i-th step. */
static inline double request(engine *e, sim_worker *w, int64_t i, double now) {
    const weft_sim_job *job = &w->job;
    const int64_t step = job->first + i * job->direction;
    double ready = now;
    for (int s = 0; s < job->streams; s++) {
        const weft_sim_stream *stream = &job->stream[s];
        const uint32_t weight = step == job->last_step ? stream->last_weight : stream->weight;
        const double there = weft_memory_read(e->memory, w->domain, stream->base + (uint32_t)step, weight, now);
        ready = there > ready ? there : ready;
    }
    return ready;
}

/* The same from one draw, for what is drawn at every step: the sum of four numbers of 16 bits. */
static double next_step_spread(uint64_t *state) {
    const uint64_t bits = weft_random(state);
    const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return ((double)sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}

static double at_least_a_tenth(double factor) {
    return factor > 0.1 ? factor : 0.1;
}

/* Adds what the step that ended has computed to the sums. Nobody waits for that. */
static inline void add_sums(engine *e, const sim_worker *w, double now) {
    const weft_sim_job *job = &w->job;
    if (job->sums.weight > 0 && w->done > 0) {
        const int64_t step = job->first + (w->done - 1) * job->direction;
        const uint32_t weight = step == job->last_step ? job->sums.last_weight : job->sums.weight;
        weft_memory_add(e->memory, w->domain, job->sums.base + (uint32_t)step, weight, now);
    }
}

/* Relative spread of the steps of a job. */
static double spread_of_step(const engine *e, const weft_sim_job *job) {
    return e->spread_step * job->spread + job->jitter;
}

/* How much longer than usual the steps of a tile take. They vary independently, so over n steps their mean varies by
 * spread_step / sqrt(n); what the tile varies by as a whole, spread_tile, does not average out.
 *
 * With nothing requested ahead each step draws for itself: who comes first waits for the miss, and the others, who come
 * later, find the piece. One draw for all steps would have the same worker wait at every step. */
static double spread_of_tile(engine *e, const weft_sim_job *job) {
    const double mean = e->stages > 0 && job->steps > 0 ? spread_of_step(e, job) / sqrt((double)job->steps) : 0.0;
    double factor = 1.0 + mean * next_spread(&e->random);
    if (e->spread_tile > 0) {
        factor += e->spread_tile * next_spread(&e->random);
    }
    return at_least_a_tenth(factor);
}

/* How long the step in hand computes. */
static double seconds_of_step(engine *e, const sim_worker *w) {
    const double spread = spread_of_step(e, &w->job);
    return spread > 0 ? w->seconds * at_least_a_tenth(1.0 + spread * next_step_spread(&e->random)) : w->seconds;
}

/* Takes the next job: asks for its lead piece and for the first steps. Returns 0 when there is none. */
static int begin_job(engine *e, int32_t number, double now) {
    sim_worker *w = &e->workers[number];
    if ((e->limit != 0 && e->outcome->steps >= e->limit) ||
        !e->source->next(e->source->context, number, w->domain, &w->job)) {
        return 0;
    }
    if (e->wheel.per_second == 0.0) { /* fine enough for an L2 hit, but no finer than a step needs */
        e->wheel.per_second = fmin(16.0 / e->memory->near, 256.0 / w->job.step_seconds);
    }
    w->busy = 1;
    w->done = 0;
    w->seconds = w->job.step_seconds * spread_of_tile(e, &w->job);
    double start = now;
    if (w->job.lead_weight > 0) {
        start = weft_memory_read(e->memory, w->domain, w->job.lead, w->job.lead_weight, now);
    }
    for (int64_t i = 0; i < e->stages && i < w->job.steps; i++) {
        w->ready[i] = request(e, w, i, now);
    }
    if (e->observer) {
        e->observer->began(e->observer->context, number, w->domain, &w->job, now);
    }
    schedule(e, number, e->stages > 0 && w->job.steps > 0 && w->ready[0] > start ? w->ready[0] : start);
    return 1;
}

static void tell_step(const engine *e, int32_t number, double now) {
    const sim_worker *w = &e->workers[number];
    e->observer->stepped(e->observer->context, number, w->job.first + w->done * w->job.direction, now);
}

/* Begins a step, or ends the job. Returns 0 when the worker has nothing left to do.
 *
 * `watched` is a constant in each of the two loops below, so that a run that nobody watches pays nothing. */
static inline __attribute__((always_inline)) int advance(engine *e, int32_t number, int watched) {
    sim_worker *w = &e->workers[number];
    const double now = w->time;
    if (!w->busy) {
        return begin_job(e, number, now);
    }
    add_sums(e, w, now);
    if (w->done == w->job.steps) {
        if (w->job.out_weight > 0) {
            weft_memory_write(e->memory, w->domain, w->job.out, w->job.out_weight, now);
        }
        e->outcome->seconds = now > e->outcome->seconds ? now : e->outcome->seconds;
        e->outcome->pieces += (uint64_t)w->job.steps * (uint64_t)w->job.streams;
        w->busy = 0;
        if (e->observer) {
            e->observer->ended(e->observer->context, number, now);
        }
        if (e->outcome->steps >= e->next_told) {
            tell_progress(e);
        }
        if (e->source->between > 0) {
            schedule(e, number, now + e->source->between);
            return 1;
        }
        return begin_job(e, number, now);
    }
    if (e->stages == 0) { /* nothing ahead: ask, wait, compute */
        const double there = request(e, w, w->done, now);
        if (watched) {
            tell_step(e, number, now);
        }
        e->outcome->steps++;
        w->done++;
        schedule(e, number, there + seconds_of_step(e, w));
        return 1;
    }
    const int64_t place = w->done % e->stages;
    const double end = now + w->seconds;
    if (w->done + e->stages < w->job.steps) {
        w->ready[place] = request(e, w, w->done + e->stages, now);
    }
    if (watched) {
        tell_step(e, number, now);
    }
    e->outcome->steps++;
    w->done++;
    const double data = w->done < w->job.steps ? w->ready[place + 1 == e->stages ? 0 : place + 1] : end;
    schedule(e, number, data > end ? data : end);
    return 1;
}

/* Lets every worker whose time has come go on; the others of the bucket belong to a later round. */
static inline __attribute__((always_inline)) void run_bucket(engine *e, int64_t *active, int watched) {
    wheel *wh = &e->wheel;
    int32_t worker = wh->first[wh->tick % BUCKETS];
    wh->first[wh->tick % BUCKETS] = -1;
    wh->again = 0;
    while (worker >= 0) {
        const int32_t next = e->workers[worker].next;
        if ((uint64_t)(e->workers[worker].time * wh->per_second) > wh->tick) {
            schedule(e, worker, e->workers[worker].time);
        } else if (!advance(e, worker, watched)) {
            (*active)--;
        }
        worker = next;
    }
}

static void run_wheel(engine *e, int64_t active) {
    for (e->wheel.tick = 0; active > 0; e->wheel.tick++) {
        do {
            run_bucket(e, &active, 0);
        } while (e->wheel.again);
    }
}

static void run_wheel_watched(engine *e, int64_t active) {
    for (e->wheel.tick = 0; active > 0; e->wheel.tick++) {
        do {
            run_bucket(e, &active, 1);
        } while (e->wheel.again);
    }
}

/* Where a worker sits: domains take turns, `run` workers each. Real chips have parts of unequal size, so that no pattern of
 * tiles keeps meeting the same domain; here each round begins with another one. */
static int64_t domain_of(const weft_sim_source *source, int64_t worker, int64_t domains) {
    const int64_t seat = worker % source->seats, turn = seat / source->run, round = turn / domains;
    const int64_t shift = source->run > 1 ? (int64_t)((uint32_t)round * UINT32_C(2654435769) >> 16) : 0;
    return (turn + shift) % domains;
}

weft_status weft_sim_run(weft_memory *memory, const weft_sim_source *source, const weft_sim_settings *settings,
                         weft_sim_outcome *outcome, weft_message *message) {
    engine *e = calloc(1, sizeof *e);
    sim_worker *workers = calloc((size_t)source->workers, sizeof *workers);
    weft_status status = WEFT_OK;
    if (!e || !workers) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers", (long long)source->workers);
        goto done;
    }
    e->memory = memory;
    e->source = source;
    e->workers = workers;
    e->stages = settings->profile.stages;
    e->spread_step = settings->profile.spread_step;
    e->spread_tile = settings->profile.spread_tile;
    e->limit = settings->limit;
    e->random = settings->seed;
    e->outcome = outcome;
    e->observer = source->observer;
    e->settings = settings;
    e->next_told = settings->progress && source->steps > 0 ? STEPS_BETWEEN : UINT64_MAX;
    outcome->seconds = 0;
    outcome->steps = 0;
    outcome->pieces = 0;
    for (int i = 0; i < BUCKETS; i++) {
        e->wheel.first[i] = -1;
    }
    for (int64_t i = 0; i < source->workers; i++) {
        workers[i].domain = domain_of(source, i, memory->domains);
        schedule(e, (int32_t)i, 0.0);
    }
    if (e->observer) {
        run_wheel_watched(e, source->workers);
    } else {
        run_wheel(e, source->workers);
    }
    outcome->seconds += source->edges;
    if (memory->failed) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the caches");
    }
done:
    free(workers);
    free(e);
    return status;
}
