/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming experiment as a source. */
#include <weft/stream.h>

#include <stdlib.h>

#include "base/status.h"

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

uint64_t weft_stream_steps(const weft_machine *machine, const weft_stream *stream) {
    return (uint64_t)machine->workers * (uint64_t)stream->passes * (uint64_t)steps_in_pass(stream);
}

weft_status weft_simulate_stream(const weft_machine *machine, const weft_stream *stream,
                                 const weft_simulate_options *options, weft_traffic *traffic, uint64_t *distinct,
                                 weft_message *message) {
    const weft_traffic none = WEFT_TRAFFIC_INIT;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_source source = WEFT_SOURCE_INIT;
    stream_walk walk = {stream, stream->buffer_bytes / stream->block_bytes, NULL, {0, WEFT_READ, 0, stream->block_bytes}};
    const weft_source_tensor buffers = {"buffers", walk.blocks * stream->buffers, stream->block_bytes, 0};
    weft_machine even = *machine; /* whoever has a wider path waits for misses first: an H200's SMs read in step */
    even.gpcs = even.gpc_workers = 0;
    source.name = "stream";
    source.tensors = &buffers;
    source.tensor_count = 1;
    source.workers = machine->workers;
    source.run = 1;
    source.steps = weft_stream_steps(machine, stream);
    source.user = &walk;
    source.next = next_pass;
    source.step = step_of_pass;
    *traffic = none;
    walk.passes = calloc((size_t)machine->workers, sizeof *walk.passes);
    const weft_status status = walk.passes ? weft_simulate_source(&source, &even, options, &simulation, NULL, message)
                                           : weft_fail(message, WEFT_NO_MEMORY, "no memory for a stream");
    if (status == WEFT_OK) {
        *traffic = simulation.total;
        *distinct = simulation.compulsory_misses;
    }
    free(walk.passes);
    return status;
}
