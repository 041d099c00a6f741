/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory, and times between events on a stream of the bench's own. */
#include <stdint.h>

#include "bench/bench.h"
#include "cuda/plan/backend.h"

static uint64_t address(const void *memory) {
    return (uint64_t)(uintptr_t)memory;
}

static weft_status finish(const weft_bench *b, int pushed, weft_cu_result result, const char *what, weft_message *message) {
    weft_cuda_leave(b->driver, pushed);
    return result ? weft_cuda_fail(b->driver, result, what, message) : WEFT_OK;
}

weft_status weft_bench_cuda_open(weft_bench *b, const weft_plan *plan, weft_message *message) {
    const weft_cuda_plan *placed = plan->placed;
    const weft_cuda_driver *d = placed->driver;
    int pushed;
    b->driver = d;
    b->mode = weft_cuda_relax(d); /* until the bench is closed, by the same thread */
    b->warm_up = 0.15;
    const weft_status status = weft_cuda_enter(d, placed->context, &pushed, message);
    if (status) {
        return status;
    }
    b->context = placed->context; /* which the plan holds, and outlives the bench */
    weft_cu_result result = d->stream_new(&b->stream, WEFT_CU_STREAM_NON_BLOCKING);
    result = result ? result : d->event_new(&b->start, 0);
    result = result ? result : d->event_new(&b->end, 0);
    return finish(b, pushed, result, "the GPU has no stream or events", message);
}

weft_status weft_bench_cuda_wait(const weft_bench *b, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    const weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    return status ? status : finish(b, pushed, d->stream_synchronize(b->stream), "the kernel failed", message);
}

static weft_status allocate(const weft_bench *b, void **memory, size_t bytes, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    uint64_t at = 0;
    int pushed;
    const weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status) {
        return status;
    }
    const weft_cu_result result = d->memory_new(&at, (bytes + 3) / 4 * 4); /* it is set in words */
    *memory = (void *)(uintptr_t)at;
    return finish(b, pushed, result, "the problem does not fit the GPU's memory", message);
}

static void release(const weft_bench *b, void *memory) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    if (b->context && weft_cuda_enter(d, b->context, &pushed, NULL) == WEFT_OK) {
        d->memory_free(address(memory));
        weft_cuda_leave(d, pushed);
    }
}

static weft_status write_in(const weft_bench *b, void *to, const void *from, size_t bytes, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status == WEFT_OK) {
        const weft_cu_result result = d->copy_in_async(address(to), from, bytes, b->stream);
        status = finish(b, pushed, result, "the problem cannot be copied to the GPU", message);
    }
    return status ? status : weft_bench_cuda_wait(b, message);
}

static weft_status read_out(const weft_bench *b, void *to, const void *from, size_t bytes, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status == WEFT_OK) {
        const weft_cu_result result = d->copy_out_async(to, address(from), bytes, b->stream);
        status = finish(b, pushed, result, "the result cannot be copied back", message);
    }
    return status ? status : weft_bench_cuda_wait(b, message);
}

static weft_status poison(const weft_bench *b, void *to, size_t bytes, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status == WEFT_OK) {
        const weft_cu_result result = d->set_words(address(to), UINT32_MAX, (bytes + 3) / 4, b->stream);
        status = finish(b, pushed, result, "the GPU's memory cannot be set", message);
    }
    return status ? status : weft_bench_cuda_wait(b, message);
}

const weft_bench_memory weft_bench_memory_cuda = {allocate, release, write_in, read_out, poison};

weft_status weft_bench_cuda_begin(weft_bench *b, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    const weft_status status = weft_cuda_enter(d, b->context, &b->pushed, message);
    const weft_cu_result result = status ? 0 : d->event_record(b->start, b->stream);
    return result ? finish(b, b->pushed, result, "the kernel failed", message) : status;
}

weft_status weft_bench_cuda_end(weft_bench *b, double *seconds, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    float milliseconds = 0;
    weft_cu_result result = seconds ? d->event_record(b->end, b->stream) : 0;
    result = result || !seconds ? result : d->event_synchronize(b->end);
    result = result || !seconds ? result : d->event_elapsed(&milliseconds, b->start, b->end);
    if (seconds) {
        *seconds = 1e-3 * (double)milliseconds;
    }
    return finish(b, b->pushed, result, "the kernel failed", message);
}

void weft_bench_cuda_close(weft_bench *b) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    if (b->context && weft_cuda_enter(d, b->context, &pushed, NULL) == WEFT_OK) {
        if (b->start) {
            d->event_free(b->start);
        }
        if (b->end) {
            d->event_free(b->end);
        }
        if (b->stream) {
            d->stream_free(b->stream);
        }
        weft_cuda_leave(d, pushed);
    }
    weft_cuda_restore(d, b->mode);
}
