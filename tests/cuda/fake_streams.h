/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the fake driver. Work is done when it is put on a stream; or, where FAKE_CUDA says "lazy=1", as late as a GPU
 * may do it: one piece of work of any stream each time somebody asks or waits, in an order that is drawn at random. Whoever
 * forgets to wait then finds memory as it was before. */
#ifndef WEFT_TESTS_CUDA_FAKE_STREAMS_H
#define WEFT_TESTS_CUDA_FAKE_STREAMS_H

#include <stddef.h>

/* Work: returns 1 when it is done, 0 when it is to be asked again. `self` was copied. */
typedef int (*fake_work)(void *self);

/* Streams; the null one is no stream of ours: its work is done at once. */
void *fake_stream_new(void);
void fake_stream_free(void *stream);

/* Puts work on a stream; `bytes` at `self` are copied. Other fake libraries do so, too: it is exported. */
void fake_stream_add(void *stream, fake_work work, const void *self, size_t bytes);

/* Whether all of a stream is done, after some work has been; and waiting for it. */
int fake_stream_done(void *stream);
void fake_stream_wait(void *stream);

typedef struct fake_event fake_event;
fake_event *fake_event_new(void);
void fake_event_free(fake_event *event);
void fake_event_record(fake_event *event, void *stream);
void fake_event_await(const fake_event *event, void *stream); /* what follows on the stream does */
int fake_event_done(fake_event *event);
double fake_event_at(const fake_event *event); /* ms: one from each record to the next */

#endif
