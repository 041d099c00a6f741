/* Timing on a GPU: memory, and events around runs on a stream of its own. */
#include <stdint.h>

#include "bench/bench.h"
#include "cuda/plan/backend.h"

weft_status weft_bench_cuda_open(weft_bench *b, const weft_plan *plan, weft_message *message) {
    const weft_cuda_plan *placed = plan->placed;
    const weft_cuda_driver *d = placed->driver;
    int pushed;
    b->driver = d;
    b->mode = weft_cuda_relax(d); /* until the bench is closed, by the same thread */
    b->settle = 0.15;
    weft_status status = weft_cuda_enter(d, placed->context, &pushed, message);
    if (status) {
        return status;
    }
    b->context = placed->context; /* which the plan holds, and outlives the bench */
    weft_cu_result result = d->stream_new(&b->stream, WEFT_CU_STREAM_NON_BLOCKING);
    result = result ? result : d->event_new(&b->start, 0);
    result = result ? result : d->event_new(&b->end, 0);
    weft_cuda_leave(d, pushed);
    return result ? weft_cuda_fail(d, result, "the GPU has no stream or events", message) : WEFT_OK;
}

weft_status weft_bench_cuda_copy(const weft_bench *b, void **to, const void *host, size_t bytes, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    uint64_t memory = 0;
    int pushed;
    const weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status) {
        return status;
    }
    weft_cu_result result = d->memory_new(&memory, bytes);
    if (result == 0) {
        *to = (void *)(uintptr_t)memory;
        result = weft_cuda_copy_in(d, memory, host, bytes);
    }
    weft_cuda_leave(d, pushed);
    return result ? weft_cuda_fail(d, result, "the problem cannot be copied to the GPU", message) : WEFT_OK;
}

weft_status weft_bench_cuda_time(const weft_bench *b, const weft_plan *plan, int64_t repeats, double *seconds,
                                 weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    float milliseconds = 0;
    int pushed;
    weft_status status = weft_cuda_enter(d, b->context, &pushed, message);
    if (status) {
        return status;
    }
    weft_cu_result result = d->event_record(b->start, b->stream);
    for (int64_t i = 0; i < repeats && !result && status == WEFT_OK; i++) {
        status = weft_bench_run(b, plan, message);
    }
    if (!result && status == WEFT_OK) {
        result = d->event_record(b->end, b->stream);
        result = result ? result : d->event_synchronize(b->end);
        result = result ? result : d->event_elapsed(&milliseconds, b->start, b->end);
    }
    weft_cuda_leave(d, pushed);
    *seconds = 1e-3 * (double)milliseconds / (double)repeats;
    return status ? status : result ? weft_cuda_fail(d, result, "the kernel failed", message) : WEFT_OK;
}

static void free_all(weft_bench *b) {
    const weft_cuda_driver *d = b->driver;
    for (size_t i = 0; i < b->count; i++) {
        if (*weft_bench_at(b, i)) {
            d->memory_free((uint64_t)(uintptr_t)*weft_bench_at(b, i));
        }
    }
    if (b->start) {
        d->event_free(b->start);
    }
    if (b->end) {
        d->event_free(b->end);
    }
    if (b->stream) {
        d->stream_free(b->stream);
    }
}

void weft_bench_cuda_close(weft_bench *b) {
    const weft_cuda_driver *d = b->driver;
    int pushed;
    if (b->context && weft_cuda_enter(d, b->context, &pushed, NULL) == WEFT_OK) {
        free_all(b);
        weft_cuda_leave(d, pushed);
    }
    weft_cuda_restore(d, b->mode);
}
