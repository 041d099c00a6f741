#include <weft/stream.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/engine.h"

typedef struct stream_walk {
    const weft_stream *stream;
    const weft_machine *machine;
    int64_t blocks;  /* in a buffer */
    int64_t *passes; /* (workers) done */
} stream_walk;

static int64_t steps_in_pass(const weft_stream *s) {
    return s->buffer_bytes / s->block_bytes * (s->sharing == WEFT_STREAM_SHARED ? s->buffers : 1);
}

/* A pass over what the worker reads is one job; two shared buffers lie one behind the other. */
static int next_pass(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    stream_walk *w = context;
    const weft_stream *s = w->stream;
    if (w->passes[worker] == s->passes) {
        return 0;
    }
    const int down = s->sawtooth && w->passes[worker]++ % 2 != 0;
    w->passes[worker] += !s->sawtooth;
    const int64_t buffer = s->sharing == WEFT_STREAM_BY_DOMAIN ? domain % s->buffers
                           : s->sharing == WEFT_STREAM_BY_PAIR ? worker / 2 % s->buffers
                                                               : 0;
    const int64_t steps = steps_in_pass(s);
    memset(job, 0, sizeof *job);
    job->streams = 1;
    job->stream[0].base = (uint32_t)(buffer * w->blocks);
    job->stream[0].weight = job->stream[0].last_weight = (uint32_t)(s->block_bytes / w->machine->l2_sector);
    job->first = down ? steps - 1 : 0;
    job->steps = steps;
    job->last_step = steps - 1;
    job->direction = down ? -1 : 1;
    job->spread = 1.0;
    job->step_seconds =
        fmax(s->step_seconds, (double)s->block_bytes * (double)w->machine->workers / w->machine->l2_bandwidth);
    return 1;
}

uint64_t weft_stream_steps(const weft_machine *machine, const weft_stream *stream) {
    return (uint64_t)machine->workers * (uint64_t)stream->passes * (uint64_t)steps_in_pass(stream);
}

weft_status weft_simulate_stream(const weft_machine *machine, const weft_stream *stream,
                                 const weft_simulate_options *options, weft_traffic *traffic, uint64_t *distinct,
                                 weft_message *message) {
    const weft_traffic none = WEFT_TRAFFIC_INIT;
    stream_walk walk = {stream, machine, stream->buffer_bytes / stream->block_bytes, NULL};
    weft_memory memory;
    weft_sim_settings o;
    memset(&memory, 0, sizeof memory);
    *traffic = none;
    weft_status status = weft_sim_settings_read(&o, options, "generic", message);
    if (status) {
        return status;
    }
    walk.passes = calloc((size_t)machine->workers, sizeof *walk.passes);
    const uint32_t pieces = (uint32_t)(walk.blocks * stream->buffers);
    if (!walk.passes || !weft_memory_init(&memory, machine, &o.profile, pieces, o.seed)) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for a stream of %u blocks", pieces);
        goto done;
    }
    const weft_sim_source source = {.workers = machine->workers,
                                    .seats = machine->workers,
                                    .run = 1,
                                    .pieces = pieces,
                                    .steps = weft_stream_steps(machine, stream),
                                    .next = next_pass,
                                    .context = &walk};
    weft_sim_outcome outcome;
    status = weft_sim_run(&memory, &source, &o, &outcome, message);
    for (int64_t d = 0; d < machine->domains; d++) {
        const weft_traffic t = weft_memory_traffic(&memory, d);
        weft_traffic_add(traffic, &t);
    }
    *distinct = (uint64_t)pieces * (uint64_t)(stream->block_bytes / machine->l2_sector);
done:
    weft_memory_release(&memory);
    free(walk.passes);
    return status;
}
