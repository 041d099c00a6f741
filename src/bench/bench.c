/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "base/struct.h"
#include "bench/bench_forward.h"

weft_status weft_bench_fill(const weft_bench *b, const weft_bench_memory *memory, size_t number, void *to,
                            weft_message *message) {
    const weft_buffer *buffer = &b->buffers[number];
    const size_t bytes = weft_bench_bytes(buffer);
    if (!buffer->is_read) {
        return memory->poison(b, to, bytes, message);
    }
    uint64_t state = b->options.seed, seed = 0;
    for (size_t i = 0; i <= number; i++) { /* every input has a seed of its own */
        seed = b->buffers[i].is_read ? weft_random(&state) : seed;
    }
    void *numbers;
    const size_t drawn = weft_bench_draw(&b->problem, buffer, seed, &numbers) * weft_dtype_bytes(buffer->dtype);
    weft_status status = numbers ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    for (size_t at = 0; at < bytes && status == WEFT_OK; at += drawn) {
        status = memory->write(b, (char *)to + at, numbers, bytes - at < drawn ? bytes - at : drawn, message);
    }
    free(numbers);
    return status;
}

/* Optional inputs are left out, and optional outputs where nobody wants them. */
static int is_used(const weft_bench *b, const weft_buffer *buffer) {
    return !buffer->optional ||
           (buffer->is_written && buffer->optional != WEFT_BUFFER_ON_REQUEST && !b->options.required_only);
}

static weft_status check_memory(const weft_bench *b, weft_message *message) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double need = 0;
    for (size_t i = 0; i < b->count; i++) {
        need +=
            is_used(b, &b->buffers[i]) ? (double)b->buffers[i].elements * (double)weft_dtype_bytes(b->buffers[i].dtype) : 0;
    }
    return need > 0.9 * have ? weft_fail(message, WEFT_UNSUPPORTED, "the problem needs %.1f GiB and this host has %.1f",
                                         need / 0x1p30, have / 0x1p30)
                             : WEFT_OK;
}

static weft_status make_buffers(weft_bench *b, weft_message *message) {
    weft_status status = WEFT_OK;
    b->data.struct_size = b->operation->info.data_size;
    b->data.operation = b->operation->info.operation;
    for (size_t i = 0; i < b->count && status == WEFT_OK; i++) {
        void **at = weft_bench_pointer(&b->data, &b->buffers[i]);
        if (is_used(b, &b->buffers[i])) {
            status = b->memory->allocate(b, at, weft_bench_bytes(&b->buffers[i]), message);
            status = status ? status : weft_bench_fill(b, b->memory, i, *at, message);
        }
        if (b->options.progress) {
            b->options.progress(b->options.progress_user, (int64_t)i + 1, (int64_t)b->count);
        }
    }
    return status;
}

weft_status weft_bench_open(weft_bench **bench, const weft_plan *plan, const weft_bench_options *options,
                            weft_message *message) {
    const weft_bench_options init = WEFT_BENCH_INIT;
    if (!bench || !plan) {
        return weft_fail(message, WEFT_INVALID, "bench or plan is null");
    }
    weft_bench *b = *bench = calloc(1, sizeof *b);
    if (!b) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    b->options = init;
    b->operation = plan->operation;
    b->problem = plan->problem;
    b->count = plan->operation->buffers(&plan->problem, b->buffers);
    b->memory = plan->placed ? &weft_bench_memory_cuda : &weft_bench_memory_host;
    weft_status status =
        options ? weft_struct_take(&b->options, sizeof b->options, sizeof b->options, options, "WEFT_BENCH_INIT", message)
                : WEFT_OK;
    status = status || !plan->operation->keep ? status : plan->operation->keep(&b->problem, &b->kept, message);
    b->options.seed = b->options.seed ? b->options.seed : 1;
    status = status ? status : check_memory(b, message);
    status = status || !plan->placed ? status : weft_bench_cuda_open(b, plan, message);
    status = status ? status : make_buffers(b, message);
    if (status == WEFT_OK && plan->placed && b->operation->after) {
        status = weft_bench_forward(b, plan, message);
    }
    if (status) {
        weft_bench_close(b);
        *bench = NULL;
    }
    return status;
}

void weft_bench_close(weft_bench *b) {
    for (size_t i = 0; b && i < b->count; i++) {
        void *here = *weft_bench_pointer(&b->data, &b->buffers[i]), *there = *weft_bench_pointer(&b->host, &b->buffers[i]);
        free(*weft_bench_pointer(&b->first, &b->buffers[i]));
        if (there != here) {
            free(there);
        }
        if (here) {
            b->memory->release(b, here);
        }
    }
    if (b && b->driver) {
        weft_bench_cuda_close(b);
    }
    free(b ? b->kept : NULL);
    free(b);
}

weft_status weft_bench_reset(weft_bench *b, weft_message *message) {
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < b->count && status == WEFT_OK; i++) {
        if (b->buffers[i].is_written && is_used(b, &b->buffers[i])) {
            status = weft_bench_fill(b, b->memory, i, *weft_bench_pointer(&b->data, &b->buffers[i]), message);
        }
    }
    return status;
}

/* A copy of a buffer in the host's memory: what the device has now, or for an input what it was made of. */
static weft_status fetch(weft_bench *b, size_t i, weft_message *message) {
    const weft_buffer *buffer = &b->buffers[i];
    const void *from = *weft_bench_pointer(&b->data, buffer);
    void **to = weft_bench_pointer(&b->host, buffer);
    const int is_new = !*to;
    if (is_new && !(*to = malloc(weft_bench_bytes(buffer)))) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    return buffer->is_written || buffer->optional ? b->memory->read(b, *to, from, weft_bench_bytes(buffer), message)
           : is_new                               ? weft_bench_fill(b, &weft_bench_memory_host, i, *to, message)
                                                  : WEFT_OK;
}

weft_status weft_bench_data(weft_bench *b, const void **data, weft_message *message) {
    weft_status status = WEFT_OK;
    if (!b->driver) {
        b->host = b->data;
    }
    b->host.struct_size = b->data.struct_size;
    b->host.operation = b->data.operation;
    for (size_t i = 0; i < b->count && b->driver && status == WEFT_OK; i++) {
        const int is_there = *weft_bench_pointer(&b->data, &b->buffers[i]) != NULL; /* also what a forward pass left */
        status = is_there ? fetch(b, i, message) : WEFT_OK;
    }
    *data = &b->host;
    return status;
}
