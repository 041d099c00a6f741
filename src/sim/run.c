/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/spread.h"
#include "sim/worker.h"

enum { STEPS_BETWEEN = 1 << 16 }; /* two tellings of progress: about a millisecond */

static void tell_progress(weft_sim_engine *e) {
    const uint64_t all = e->limit != 0 && e->limit < e->source->steps ? e->limit : e->source->steps;
    e->next_told = e->outcome->steps + STEPS_BETWEEN;
    e->settings->progress(e->settings->progress_user, (int64_t)(e->outcome->steps < all ? e->outcome->steps : all),
                          (int64_t)all);
}

/* No worker takes another step. */
static void end_here(weft_sim_engine *e) {
    e->limit = 1;
    for (int64_t i = 0; i < e->source->workers; i++) {
        e->workers[i].asking = e->workers[i].plain = 0;
        e->workers[i].job.steps = e->workers[i].done;
    }
}

static uint64_t next_stop(const weft_sim_engine *e) {
    const weft_sim_watch *watch = e->settings->watch;
    return watch && watch->next < e->next_told ? watch->next : e->next_told;
}

/* Does what is due after so many steps. */
static void stop(weft_sim_engine *e, double now) {
    weft_sim_watch *watch = e->settings->watch;
    const uint64_t steps = e->outcome->steps;
    if (steps >= e->next_told) {
        tell_progress(e);
    }
    if (watch && steps >= watch->next && !watch->look(watch, e->memory, steps, now)) {
        watch->next = UINT64_MAX;
        end_here(e);
    }
    e->next_stop = next_stop(e);
}

/* Asks for the pieces of the job's i-th step. */
static inline double request_streams(weft_sim_engine *e, weft_sim_worker *w, int64_t i, double now) {
    const weft_sim_job *job = &w->job;
    const int64_t step = weft_sim_step(job, i);
    double ready = now;
    for (int s = 0; s < job->streams; s++) {
        const weft_sim_stream *stream = &job->stream[s];
        const uint32_t weight = weft_sim_weight(job, stream, step);
        const double there = weft_memory_read(e->memory, w->domain, weft_sim_piece(stream, step), weight, now);
        ready = there > ready ? there : ready;
    }
    return ready;
}

/* The same of any source: some list what each step reads. */
static double request(weft_sim_engine *e, weft_sim_worker *w, int64_t i, double now) {
    const weft_sim_listed *listed = e->source->listed;
    return listed ? listed->read(e->source->context, e->memory, w - e->workers, w->domain, i, now)
                  : request_streams(e, w, i, now);
}

/* Adds what the step that ended has computed to the sums. Nobody waits for the add itself; but where adds take turns, the
 * worker waits for its own. Whoever is next may add when this one has arrived and has told of it: as long as its sectors
 * take at the worker's share of the L2's bandwidth, there and back, or as long as the kernel is known to take. Returns 0
 * when the worker has to wait. */
static int add_sums(weft_sim_engine *e, int32_t number, double now) {
    const weft_sim_worker *w = &e->workers[number];
    const weft_sim_job *job = &w->job;
    const int64_t step = weft_sim_step(job, w->done - 1);
    const uint32_t piece = weft_sim_piece(&job->sums, step), weight = weft_sim_weight(job, &job->sums, step);
    if (e->source->turn) {
        const int64_t turn = e->source->turn(e->source->context, number, step);
        const double then = weft_sim_turns_take(&e->turns, piece, number, turn, now);
        if (then > now) {
            if (then < INFINITY) {
                weft_wheel_put(&e->wheel, (uint32_t)number, then);
            }
            return 0;
        }
        const double arrives = weight * e->source->add_seconds + 2 * e->memory->near;
        const double passed = now + fmax(arrives, e->source->told * job->step_seconds);
        const int32_t next = weft_sim_turns_pass(&e->turns, piece, passed);
        if (next >= 0) {
            weft_wheel_put(&e->wheel, (uint32_t)next, passed);
        }
        if (turn == 0 && e->source->stores_first) {
            weft_memory_write(e->memory, w->domain, piece, weight, now);
            return 1;
        }
    }
    weft_memory_add(e->memory, w->domain, piece, weight, now);
    return 1;
}

/* How much longer than usual the steps of a tile take. They vary independently, so over n steps their mean varies by
 * spread_step / sqrt(n); what the tile varies by as a whole, spread_tile, does not average out.
 *
 * With nothing requested ahead each step draws for itself: who comes first waits for the miss, and the others, who come
 * later, find the piece. One draw for all steps would have the same worker wait at every step. */
static double spread_of_tile(weft_sim_engine *e, weft_sim_worker *w) {
    const weft_sim_job *job = &w->job;
    const double steps = e->spread_step * job->spread + job->jitter;
    const double mean = e->ahead && job->steps > 0 ? steps / sqrt((double)job->steps) : 0.0;
    w->spread = e->ahead ? 0.0 : steps;
    double factor = 1.0 + mean * weft_spread_draw(&e->random);
    if (e->spread_tile > 0) {
        factor += e->spread_tile * weft_spread_draw(&e->random);
    }
    return weft_spread_at_least(factor);
}

/* How long the step at hand takes, which has been asked for. */
static inline double seconds_of(const weft_sim_engine *e, const weft_sim_worker *w) {
    const weft_sim_listed *listed = e->source->listed;
    return listed ? listed->seconds(e->source->context, w - e->workers, w->done) * w->factor : w->seconds;
}

/* Plain steps are in the middle of a tile, one behind the other, and ask for one piece: all but the first, whose time is
 * another, and the last, whose piece may be smaller. */
static void find_plain(const weft_sim_engine *e, weft_sim_worker *w) {
    const weft_sim_job *job = &w->job;
    const int in_line = job->streams == 1 && !job->stream[0].places && !job->blocks && job->ring_end == 0;
    w->plain = in_line && job->sums.weight == 0 && w->asking > 2 ? w->asking - 2 : 0;
    w->piece = job->stream[0].base + (uint32_t)(job->first + e->stages * job->direction);
    w->weight = job->stream[0].weight;
    w->direction = job->direction;
}

/* Takes the next job: asks for its lead piece and for the first steps. Returns 0 when there is none. */
static int begin_job(weft_sim_engine *e, int32_t number, double now) {
    weft_sim_worker *w = &e->workers[number];
    if ((e->limit != 0 && e->outcome->steps >= e->limit) ||
        !e->source->next(e->source->context, number, w->domain, &w->job)) {
        return 0;
    }
    if (e->wheel.per_second == 0.0) { /* fine enough for an L2 hit, but no finer than a step needs */
        e->wheel.per_second = fmin(16.0 / e->memory->near, 256.0 / w->job.step_seconds);
    }
    w->busy = 1;
    w->done = 0;
    w->asking = w->job.steps - e->stages;
    w->stage = 0;
    w->factor = spread_of_tile(e, w);
    w->seconds = w->job.step_seconds * w->factor;
    find_plain(e, w);
    double start = now;
    if (e->source->listed) {
        start = request(e, w, -1, now);
    } else if (w->job.lead_weight > 0) {
        start = weft_memory_read(e->memory, w->domain, w->job.lead, w->job.lead_weight, now);
    }
    for (int64_t i = 0; i < e->stages && i < w->job.steps; i++) {
        w->ready[i] = request(e, w, i, now);
    }
    if (e->observer) {
        e->observer->began(e->observer->context, number, w->domain, &w->job, now);
    }
    weft_wheel_put(&e->wheel, (uint32_t)number,
                   e->stages > 0 && w->job.steps > 0 && w->ready[0] > start ? w->ready[0] : start);
    return 1;
}

static void tell_step(const weft_sim_engine *e, int32_t number, double now) {
    const weft_sim_worker *w = &e->workers[number];
    e->observer->stepped(e->observer->context, number, weft_sim_step(&w->job, w->done), now);
}

/* Ends the job and begins the next. Returns 0 when the worker has nothing left to do. */
static int end_job(weft_sim_engine *e, int32_t number, double now) {
    weft_sim_worker *w = &e->workers[number];
    if (w->job.out_weight > 0) {
        weft_memory_write(e->memory, w->domain, w->job.out, w->job.out_weight, now);
    }
    e->outcome->seconds = now > e->outcome->seconds ? now : e->outcome->seconds;
    e->outcome->pieces += (uint64_t)w->job.steps * (uint64_t)w->job.streams;
    w->busy = 0;
    w->asking = w->plain = w->done = 0;
    if (e->observer) {
        e->observer->ended(e->observer->context, number, now);
    }
    if (e->outcome->steps >= e->next_stop) {
        stop(e, now);
    }
    if (e->source->between > 0 && w->job.steps > 0) {
        weft_wheel_put(&e->wheel, (uint32_t)number, now + e->source->between);
        return 1;
    }
    return begin_job(e, number, now);
}

/* Begins a step, or ends the job. Returns 0 when the worker has nothing left to do.
 *
 * `watched` is a constant in each of the two loops below, so that a run that nobody watches pays nothing. */
static inline __attribute__((always_inline)) int advance(weft_sim_engine *e, int32_t number, int watched) {
    weft_sim_worker *w = &e->workers[number];
    const double now = e->wheel.time[number];
    double ready = now;
    if (watched && w->busy && e->source->listed) { /* the step before is over */
        e->source->listed->write(e->source->context, e->memory, number, w->domain, w->done - 1, now);
    }
    if (w->job.sums.weight > 0 && w->done > 0 && !add_sums(e, number, now)) {
        return 1;
    }
    if (w->done < w->asking) {
        ready = watched ? request(e, w, w->done + e->stages, now) : request_streams(e, w, w->done + e->stages, now);
    } else if (!w->busy) {
        return begin_job(e, number, now);
    } else if (w->done == w->job.steps) {
        return end_job(e, number, now);
    }
    double seconds = watched ? seconds_of(e, w) : w->seconds;
    if (w->spread > 0) {
        seconds *= weft_spread_of_step(&e->random, w->spread);
    }
    if (watched && e->observer) {
        tell_step(e, number, now);
    }
    e->outcome->steps++;
    w->done++;
    weft_wheel_put(&e->wheel, (uint32_t)number,
                   weft_sim_end_of_step(e, w, now, ready, seconds, w->done == 1, w->done == w->job.steps));
    return 1;
}

static void run(weft_sim_engine *e, int64_t active) {
    while (active > e->turns.count) {
        weft_sim_run_plain(e);
        active -= !advance(e, (int32_t)weft_wheel_take(&e->wheel), 0);
    }
}

static void run_watched(weft_sim_engine *e, int64_t active) {
    while (active > e->turns.count) {
        active -= !advance(e, (int32_t)weft_wheel_take(&e->wheel), 1);
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
    weft_sim_engine *e = calloc(1, sizeof *e);
    weft_sim_worker *workers = calloc((size_t)source->workers, sizeof *workers);
    weft_status status = WEFT_OK;
    if (!e || !workers || !weft_wheel_init(&e->wheel, (uint32_t)source->workers) ||
        (source->turn && !weft_sim_turns_init(&e->turns, source->pieces, source->workers))) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers", (long long)source->workers);
        goto done;
    }
    e->memory = memory;
    e->source = source;
    e->workers = workers;
    e->stages = settings->profile.stages;
    e->early = settings->profile.early;
    e->ahead = e->stages > 0 || e->early > 0;
    e->spread_step = settings->profile.spread_step;
    e->spread_tile = settings->profile.spread_tile;
    e->limit = settings->limit;
    e->random = settings->seed;
    e->outcome = outcome;
    e->observer = source->observer;
    e->settings = settings;
    e->next_told = settings->progress && source->steps > 0 ? STEPS_BETWEEN : UINT64_MAX;
    e->next_stop = next_stop(e);
    memory->room = source->room > 0 ? source->room : 1;
    memory->fetched = source->fetched > 0 ? source->fetched : 1;
    outcome->seconds = 0;
    outcome->steps = 0;
    outcome->pieces = 0;
    outcome->waited = 0;
    for (int64_t i = 0; i < source->workers; i++) {
        workers[i].domain = domain_of(source, i, memory->domains);
        workers[i].at = &memory->domain[workers[i].domain];
        weft_wheel_put(&e->wheel, (uint32_t)i, 0.0);
    }
    if (e->observer || source->listed) {
        run_watched(e, source->workers);
    } else {
        run(e, source->workers);
    }
    outcome->waited = e->turns.seconds / (double)source->workers;
    outcome->seconds = fmax(outcome->seconds + source->edges, source->least);
    if (e->turns.count > 0 && (e->limit == 0 || outcome->steps < e->limit)) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "%lld workers wait for turns to add that never come",
                           (long long)e->turns.count);
    }
    if (memory->failed) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the caches");
    }
done:
    if (e) {
        weft_wheel_release(&e->wheel);
        weft_sim_turns_release(&e->turns);
    }
    free(workers);
    free(e);
    return status;
}
