/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The streaming experiment, simulated: one CTA per worker reads buffers from end to end, again and again. It shows what an
 * L2 holds. It is a weft_source, and an example of one: src/sim/stream.c.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_stream_sharing {
    WEFT_STREAM_SHARED,    /**< every worker reads every buffer */
    WEFT_STREAM_BY_DOMAIN, /**< each domain reads its own buffer */
    WEFT_STREAM_BY_PAIR    /**< half of the workers each, pairs of neighbours together, ignoring domains */
} weft_stream_sharing;

typedef struct weft_stream {
    size_t struct_size;   /**< set by WEFT_STREAM_INIT */
    int64_t buffers;      /**< 1 or 2 */
    int64_t buffer_bytes; /**< of each */
    int64_t block_bytes;  /**< read in one step */
    int64_t passes;       /**< over what a worker reads */
    weft_stream_sharing sharing;
    int32_t sawtooth;    /**< 1: every other pass comes down */
    double step_seconds; /**< at least, for a step; 0: as fast as the L2 goes */
} weft_stream;

/** One buffer that every worker reads once. Set buffer_bytes. */
#define WEFT_STREAM_INIT                                                                                                   \
    { sizeof(weft_stream), 1, 0, 32768, 1, WEFT_STREAM_SHARED, 0, 0.0 }

/** Steps of all workers; 0 for a stream that cannot be simulated. */
WEFT_API uint64_t weft_stream_steps(const weft_machine *machine, const weft_stream *stream);

/** Simulates a stream. Fills *traffic and *distinct, the sectors of all buffers. WEFT_INVALID when a number of the stream
 * is not one that it can have, as no block in a buffer. */
WEFT_API weft_status weft_simulate_stream(const weft_machine *machine, const weft_stream *stream,
                                          const weft_simulate_options *options, weft_traffic *traffic, uint64_t *distinct,
                                          weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
