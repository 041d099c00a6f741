/* The streaming experiment: one CTA per worker reads buffers from end to end, again and again. It shows what an L2 holds.
 */
#ifndef WEFT_SIM_STREAM_H
#define WEFT_SIM_STREAM_H

#include <weft/sim.h>

typedef enum weft_stream_sharing {
    WEFT_STREAM_SHARED,    /* every worker reads every buffer */
    WEFT_STREAM_BY_DOMAIN, /* each domain reads its own buffer */
    WEFT_STREAM_BY_PAIR    /* half of the workers each, pairs of neighbours together, ignoring domains */
} weft_stream_sharing;

typedef struct weft_stream {
    int64_t buffers;      /* 1 or 2 */
    int64_t buffer_bytes; /* of each */
    int64_t block_bytes;  /* read in one step */
    int64_t passes;       /* over what a worker reads */
    weft_stream_sharing sharing;
    int sawtooth;        /* every other pass comes down */
    double step_seconds; /* at least, for a step; 0: as fast as the L2 goes */
} weft_stream;

/* Steps of all workers. */
uint64_t weft_stream_steps(const weft_machine *machine, const weft_stream *stream);

/* Fills *traffic and *distinct, the sectors of all buffers. */
weft_status weft_simulate_stream(const weft_machine *machine, const weft_stream *stream,
                                 const weft_simulate_options *options, weft_traffic *traffic, uint64_t *distinct,
                                 weft_message *message);

#endif
