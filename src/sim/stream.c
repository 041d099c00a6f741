/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming experiment as a source. */
#include <weft/stream.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "problem/problem.h"

#define MOST_BYTES (INT64_C(1) << 60) /* of a buffer */

typedef struct stream_walk {
    const weft_stream *stream;
    int64_t blocks;  /* in a buffer */
    int64_t *passes; /* (workers) done */
    weft_access access;
} stream_walk;

static int64_t steps_in_pass(const weft_stream *s) {
    return s->buffer_bytes / s->block_bytes * (s->sharing == WEFT_STREAM_SHARED ? s->buffers : 1);
}

/* A pass over what the worker reads is one job; two shared buffers lie one behind the other. */
static int next_pass(void *user, int64_t worker, int64_t domain, weft_job *job) {
    stream_walk *w = user;
    const weft_stream *s = w->stream;
    if (w->passes[worker] == s->passes) {
        return 0;
    }
    const int64_t pass = w->passes[worker]++;
    const int64_t buffer = s->sharing == WEFT_STREAM_BY_DOMAIN ? domain % s->buffers
                           : s->sharing == WEFT_STREAM_BY_PAIR ? worker / 2 % s->buffers
                                                               : 0;
    job->tile = job->number = worker * s->passes + pass;
    job->steps = steps_in_pass(s);
    job->user = buffer * w->blocks;
    job->load = -1;
    return 1;
}

static void step_of_pass(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) {
    stream_walk *w = user;
    const weft_stream *s = w->stream;
    const int down = s->sawtooth && job->number % s->passes % 2 != 0;
    (void)worker;
    if (step >= 0) {
        w->access.block = job->user + (down ? job->steps - 1 - step : step);
        *out = (weft_step){&w->access, 1, s->step_seconds};
    }
}

/* The stream of a caller's, whose struct may be shorter. */
static weft_status read_stream(weft_stream *s, const weft_stream *given, weft_message *message) {
    const weft_stream init = WEFT_STREAM_INIT;
    *s = init;
    const weft_status status = given ? weft_struct_take(s, sizeof *s, sizeof(size_t), given, "WEFT_STREAM_INIT", message)
                                     : weft_fail(message, WEFT_INVALID, "stream is null");
    if (status) {
        return status;
    }
    if (s->buffers < 1 || s->buffers > 2 || s->block_bytes < 1 || s->buffer_bytes < s->block_bytes ||
        s->buffer_bytes > MOST_BYTES) {
        return weft_fail(message, WEFT_INVALID,
                         "a stream has 1 or 2 buffers of at least a block, not %" PRId64 " of %" PRId64
                         " bytes and blocks of %" PRId64,
                         s->buffers, s->buffer_bytes, s->block_bytes);
    }
    if (s->passes < 1 || s->passes > WEFT_MAX_DIMENSION || s->sharing < WEFT_STREAM_SHARED ||
        s->sharing > WEFT_STREAM_BY_PAIR || !(s->step_seconds >= 0 && isfinite(s->step_seconds))) {
        return weft_fail(message, WEFT_INVALID,
                         "a stream has a pass or more, a sharing, and a time of a step, not %" PRId64 ", %d and %g",
                         s->passes, (int)s->sharing, s->step_seconds);
    }
    return WEFT_OK;
}

static uint64_t steps_of(const weft_machine *machine, const weft_stream *s) {
    int64_t steps;
    const int fits = weft_multiply(machine->workers, s->passes, &steps) && weft_multiply(steps, steps_in_pass(s), &steps);
    return fits ? (uint64_t)steps : UINT64_MAX;
}

uint64_t weft_stream_steps(const weft_machine *machine, const weft_stream *stream) {
    weft_machine m;
    weft_stream s;
    const int is_right =
        machine && weft_machine_copy(&m, machine, NULL) == WEFT_OK && read_stream(&s, stream, NULL) == WEFT_OK;
    return is_right ? steps_of(&m, &s) : 0;
}

weft_status weft_simulate_stream(const weft_machine *machine, const weft_stream *stream,
                                 const weft_simulate_options *options, weft_traffic *traffic, uint64_t *distinct,
                                 weft_message *message) {
    const weft_traffic none = WEFT_TRAFFIC_INIT;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_source source = WEFT_SOURCE_INIT;
    weft_stream s;
    weft_machine even; /* whoever has a wider path waits for misses first: an H200's SMs read in step */
    if (!machine || !traffic || !distinct) {
        return weft_fail(message, WEFT_INVALID, "%s is null", !machine ? "machine" : !traffic ? "traffic" : "distinct");
    }
    weft_status status = weft_machine_copy(&even, machine, message);
    if (status || (status = read_stream(&s, stream, message))) {
        return status;
    }
    stream_walk walk = {&s, s.buffer_bytes / s.block_bytes, NULL, {0, WEFT_READ, 0, s.block_bytes}};
    const weft_source_tensor buffers = {"buffers", walk.blocks * s.buffers, s.block_bytes, 0};
    even.gpcs = even.gpc_workers = 0;
    source.name = "stream";
    source.tensors = &buffers;
    source.tensor_count = 1;
    source.workers = even.workers;
    source.run = 1;
    source.steps = steps_of(&even, &s);
    source.user = &walk;
    source.next = next_pass;
    source.step = step_of_pass;
    *traffic = none;
    walk.passes = calloc((size_t)even.workers, sizeof *walk.passes);
    status = walk.passes ? weft_simulate_source(&source, &even, options, &simulation, NULL, message)
                         : weft_fail(message, WEFT_NO_MEMORY, "no memory for a stream");
    if (status == WEFT_OK) {
        *traffic = simulation.total;
        *distinct = simulation.compulsory_misses;
    }
    free(walk.passes);
    return status;
}
