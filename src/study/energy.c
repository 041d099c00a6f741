/* SPDX-License-Identifier: Apache-2.0 */
/* What runs of a plan take out of the wall.
 *
 * The counter moves in steps, tens of milliseconds apart. So a measurement lasts from one such step to another, and is
 * wrong by the time between two looks at the counter, at most, at either end. The GPU never waits: while runs are waited
 * for, the next ones are in the queue. */
#include <math.h>

#include "base/status.h"
#include "base/struct.h"
#include "bench/bench.h"
#include "counters/nvml.h"
#include "study/study.h"

/* Seconds of work between two looks: longer than NVML should need for an answer, which work hides. */
static const double look = 0.01;

/* Clocks have settled where two spans in a row take the same; after so many seconds they are taken as they are. */
static const double settle_span = 0.5, settle_same = 0.005, settle_most = 10;

/* How long a measurement lasts at least, and what it may be wrong by. */
static const double usual_seconds = 2, allowed_error = 0.02;

/* Seconds after which a counter that has not moved stands still: it should every 0.1 s. */
static const double still_seconds = 5;

enum { MOST_RUNS = 10000 }; /* between two looks */

/* Runs without a pause. */
typedef struct stream_of_runs {
    const weft_nvml *nvml;
    weft_bench *bench;
    const weft_plan *plan;
    int64_t each;         /* runs of a lot, between two looks */
    int64_t queued, done; /* lots that were put on the stream, and those of them that are over */
    double began, ends;   /* when it did, and when it will as far as one knows: for who is told of progress */
} stream_of_runs;

/* What was seen at a look. */
typedef struct sight {
    double seconds, joules;
    int64_t runs; /* done */
} sight;

/* Events take turns: one ends the lot that is waited for, the other that behind it. */
static void *event_of(const stream_of_runs *r, int64_t lot) {
    return lot % 2 ? r->bench->end : r->bench->start;
}

static weft_status put_lot(stream_of_runs *r, weft_message *message) {
    const weft_cuda_driver *d = r->bench->driver;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < r->each && status == WEFT_OK; i++) {
        status = weft_bench_enqueue(r->bench, r->plan, message);
    }
    const weft_cu_result result = status ? 0 : d->event_record(event_of(r, r->queued++), r->bench->stream);
    return result ? weft_cuda_fail(d, result, "the kernel failed", message) : status;
}

/* Tells how far it is, in milliseconds. */
static void tell(const stream_of_runs *r) {
    const weft_bench_options *o = &r->bench->options;
    if (o->progress) {
        const double now = weft_bench_now();
        o->progress(o->progress_user, (int64_t)(1e3 * (now - r->began)),
                    (int64_t)ceil(1e3 * (fmax(r->ends, now) - r->began)));
    }
}

/* Waits for a lot, with another one behind it. */
static weft_status next_lot(stream_of_runs *r, weft_message *message) {
    tell(r);
    const weft_cuda_driver *d = r->bench->driver;
    weft_status status = WEFT_OK;
    while (r->queued < r->done + 2 && status == WEFT_OK) {
        status = put_lot(r, message);
    }
    const weft_cu_result result = status ? 0 : d->event_synchronize(event_of(r, r->done++));
    return result ? weft_cuda_fail(d, result, "the kernel failed", message) : status;
}

static weft_status take_look(stream_of_runs *r, sight *s, weft_message *message) {
    const weft_status status = weft_nvml_energy(r->nvml, &s->joules, message);
    s->seconds = weft_bench_now();
    s->runs = r->done * r->each;
    return status;
}

static weft_status run_for(stream_of_runs *r, double seconds, sight *after, weft_message *message) {
    const double begin = weft_bench_now();
    weft_status status = next_lot(r, message);
    while (status == WEFT_OK && weft_bench_now() - begin < seconds) {
        status = next_lot(r, message);
    }
    return status ? status : take_look(r, after, message);
}

/* Runs on until the counter moves. */
static weft_status next_step(stream_of_runs *r, sight *after, weft_message *message) {
    sight before;
    weft_status status = take_look(r, &before, message);
    for (*after = before; status == WEFT_OK && after->joules == before.joules;) {
        if (after->seconds - before.seconds > still_seconds) {
            return weft_fail(message, WEFT_FAILED, "the GPU's energy counter stands still");
        }
        status = next_lot(r, message);
        status = status ? status : take_look(r, after, message);
    }
    return status;
}

/* Runs until the clock is what the power allows, and the counter was seen to move. *settled says whether it came to that.
 * `seconds` are measured afterwards. */
static weft_status settle(stream_of_runs *r, double seconds, int32_t *settled, weft_message *message) {
    sight first, before, after;
    double pace = 0;
    weft_status status = take_look(r, &first, message);
    *settled = 0;
    for (before = first; status == WEFT_OK && !*settled && before.seconds - first.seconds < settle_most; before = after) {
        status = run_for(r, settle_span, &after, message);
        if (status) {
            return status;
        }
        const double last = pace;
        pace = (after.seconds - before.seconds) / (double)(after.runs - before.runs);
        *settled = last > 0 && fabs(pace / last - 1) < settle_same;
        r->ends = fmax(r->ends, after.seconds + (*settled ? 0 : settle_span) + seconds);
        if (last > 0 && after.joules == first.joules) {
            return weft_fail(message, WEFT_FAILED,
                             "the GPU's energy counter stands still: %.3f J before and after %.1f s of work", first.joules,
                             after.seconds - first.seconds);
        }
    }
    return status;
}

static weft_status measure(stream_of_runs *r, double seconds, weft_energy *energy, weft_message *message) {
    sight begin, end;
    weft_status status;
    r->began = weft_bench_now();
    r->ends = r->began + 3 * settle_span + seconds;
    if ((status = settle(r, seconds, &energy->settled, message)) || (status = next_step(r, &begin, message)) ||
        (status = run_for(r, look, &end, message))) {
        return status;
    }
    /* A lot may take longer than a look should: long runs are measured for longer. */
    const double lot = (end.seconds - begin.seconds) * (double)r->each / (double)(end.runs - begin.runs);
    r->ends = end.seconds + fmax(seconds, 2 * lot / allowed_error);
    if ((status = run_for(r, fmax(seconds, 2 * lot / allowed_error), &end, message)) ||
        (status = next_step(r, &end, message))) {
        return status;
    }
    if (end.joules <= begin.joules) {
        return weft_fail(message, WEFT_FAILED, "the GPU's energy counter went back, from %.3f J to %.3f J", begin.joules,
                         end.joules);
    }
    energy->runs = end.runs - begin.runs;
    energy->joules = (end.joules - begin.joules) / (double)energy->runs;
    energy->seconds = (end.seconds - begin.seconds) / (double)energy->runs;
    energy->watts = energy->joules / energy->seconds;
    return WEFT_OK;
}

weft_status weft_study_check_energy(weft_study *study, weft_message *message) {
    char bus[32] = "";
    if (study->nvml.library) {
        return WEFT_OK;
    }
    const weft_cu_result result =
        study->driver->device_bus ? study->driver->device_bus(bus, (int)sizeof bus, study->device.handle) : 0;
    return result || !bus[0] ? weft_fail(message, WEFT_UNSUPPORTED,
                                         "the CUDA driver does not tell the PCI bus id, by which NVML finds the GPU")
                             : weft_nvml_open(&study->nvml, study->device.name, bus, message);
}

weft_status weft_study_energy(weft_study *study, weft_bench *bench, const weft_plan *plan, double seconds,
                              weft_energy *energy, weft_message *message) {
    weft_energy found = WEFT_ENERGY_INIT;
    double once = 0;
    weft_status status;
    if (!bench->driver) {
        return weft_fail(message, WEFT_INVALID, "energy is of a GPU, and the plan is for the CPU");
    }
    if ((status = weft_struct_give(energy, &found, sizeof found, sizeof(size_t), "WEFT_ENERGY_INIT", message)) ||
        (status = weft_study_check_energy(study, message)) ||
        (status = weft_bench_time(bench, plan, 1, &once, message)) || /* the first run of a plan is longer */
        (status = weft_bench_time(bench, plan, 1, &once, message))) {
        return status;
    }
    const double lot = once > 0 ? ceil(look / once) : MOST_RUNS;
    weft_study_end_session(study); /* a profiler that is on would be measured, too */
    stream_of_runs runs = {&study->nvml, bench, plan, lot < MOST_RUNS ? (int64_t)lot : MOST_RUNS, 0, 0, 0, 0};
    int pushed;
    if ((status = weft_cuda_enter(bench->driver, bench->context, &pushed, message))) {
        return status;
    }
    status = measure(&runs, seconds > 0 ? seconds : usual_seconds, &found, message);
    weft_cuda_leave(bench->driver, pushed);
    const weft_status over = weft_bench_cuda_wait(bench, status ? NULL : message);
    status = status ? status : over;
    return status ? status : weft_struct_give(energy, &found, sizeof found, sizeof(size_t), "WEFT_ENERGY_INIT", message);
}
