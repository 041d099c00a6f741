#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "ref/ref.h"

/* A buffer of random normal numbers. Times do not depend on which, so a few million are drawn and repeated, by a number
 * that no row divides. */
static void *make_input(weft_dtype dtype, size_t count, uint64_t *random) {
    const size_t bytes = weft_dtype_bytes(dtype), period = 1048583, drawn = count < period ? count : period;
    char *data = malloc(count * bytes);
    for (size_t i = 0; data && i < drawn; i++) {
        const double u = weft_random_real(random), v = weft_random_real(random);
        weft_ref_store(dtype, data, i, sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
    for (size_t i = drawn; data && i < count; i += drawn) {
        memcpy(data + i * bytes, data, (count - i < drawn ? count - i : drawn) * bytes);
    }
    return data;
}

void **weft_bench_at(weft_bench *b, size_t buffer) {
    return (void **)(void *)((char *)&b->data + b->buffers[buffer].offset);
}

static size_t bytes_of(const weft_buffer *buffer) {
    return buffer->elements * weft_dtype_bytes(buffer->dtype);
}

/* Optional inputs are left out: they would have to agree with the others. */
static int is_taken(const weft_buffer *buffer) {
    return !buffer->optional || !buffer->is_read;
}

weft_status weft_bench_open(weft_bench *b, const weft_plan *plan, weft_message *message) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double need = 0;
    uint64_t random = 1;
    b->count = plan->operation->buffers(&plan->problem, b->buffers);
    b->data.struct_size = plan->operation->info.data_size;
    b->data.operation = plan->operation->info.operation;
    for (size_t i = 0; i < b->count; i++) {
        need += is_taken(&b->buffers[i]) ? (double)bytes_of(&b->buffers[i]) : 0;
    }
    if (need > 0.8 * have) {
        return weft_fail(message, WEFT_NO_MEMORY, "the problem needs %.1f GiB and this host has %.1f", need / 0x1p30,
                         have / 0x1p30);
    }
    weft_status status = plan->placed ? weft_bench_cuda_open(b, plan, message) : WEFT_OK;
    for (size_t i = 0; i < b->count && status == WEFT_OK; i++) {
        if (!is_taken(&b->buffers[i])) {
            continue;
        }
        void *data = make_input(b->buffers[i].dtype, b->buffers[i].elements, &random);
        if (!data) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for the problem's inputs");
        }
        if (b->driver) {
            status = weft_bench_cuda_copy(b, weft_bench_at(b, i), data, bytes_of(&b->buffers[i]), message);
            free(data);
        } else {
            *weft_bench_at(b, i) = data;
        }
    }
    return status;
}

weft_status weft_bench_run(const weft_bench *b, const weft_plan *plan, weft_message *message) {
    return weft_plan_enqueue(plan, &b->data, b->stream, message);
}

void weft_bench_close(weft_bench *b) {
    if (b->driver) {
        weft_bench_cuda_close(b);
    }
    for (size_t i = 0; i < b->count && !b->driver; i++) {
        free(*weft_bench_at(b, i));
    }
    memset(b, 0, sizeof *b);
}
